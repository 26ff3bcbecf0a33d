"""Prometheus metrics: counters kept in the process, gauges asked of the store."""
