"""One request through a service, and whether both of its sides report the room: ``pd-tracer verify``."""
