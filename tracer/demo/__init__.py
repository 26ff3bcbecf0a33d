"""The demo: KV pages move between two processes through NIXL, are damaged on purpose, and are found out."""
