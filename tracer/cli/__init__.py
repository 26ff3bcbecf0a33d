"""The command line, ``pd-tracer``. A command imports what it needs when it runs, so that --help is quick."""
