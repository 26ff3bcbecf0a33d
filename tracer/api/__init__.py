"""The HTTP face of the collector: one module a group of routes, each with a ``router``."""
