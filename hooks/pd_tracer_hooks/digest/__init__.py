"""The digest SM64: its definition, its paths, and the fold from page digests to sums."""
