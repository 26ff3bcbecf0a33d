"""What the exit status says. ``pd-tracer --help`` lists them."""

from __future__ import annotations

OK = 0
#: The room is not there; `room --check` found something else than a match; `explain` found something; the
#: demo missed a fault.
FINDING = 1
#: The command line or a value in it is wrong, or the collector needs to be told more.
USAGE = 2
#: The collector, or the database, does not answer or cannot now.
UNREACHABLE = 3
#: Ended by Ctrl-C, as shells say it.
INTERRUPTED = 130

EPILOG = (
    "Exit status: 0 done; 1 no such room, a finding (explain, room --check), or a demo that missed a fault; "
    "2 wrong usage; 3 the collector or the database cannot be reached."
)
