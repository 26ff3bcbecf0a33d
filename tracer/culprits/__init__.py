"""Which single factor explains most of a window's mismatches: pure statistics over compared rooms."""
