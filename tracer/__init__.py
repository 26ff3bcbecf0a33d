"""pd-tracer: the collector of PD-transfer checksums, and its command line."""

__version__ = "0.1.0"
