"""``python -m pd_tracer_hooks``: the doctor, run in a worker's environment before it is restarted."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from pd_tracer_hooks.version import __version__


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a subcommand and return its exit code."""
    parser = argparse.ArgumentParser(prog="python -m pd_tracer_hooks", description=__doc__)
    parser.add_argument("--version", action="version", version=__version__)
    commands = parser.add_subparsers(dest="command", required=True)
    doctor = commands.add_parser(
        "doctor",
        help="say whether the hooks fit the engine that is installed here, and whether the collector answers",
        description="Exit code 0: ready. 1: something will not work, and it is named.",
    )
    doctor.add_argument("--json", action="store_true", help="print one JSON object")
    doctor.add_argument("--offline", action="store_true", help="leave the network out, as in an image build")
    doctor.add_argument(
        "--record", metavar="DIR", type=Path, help="write the engine's fingerprints into DIR and end"
    )
    options = parser.parse_args(arguments)

    from pd_tracer_hooks.sglang import doctor as sglang_doctor  # noqa: PLC0415 - only for this subcommand

    if options.record is not None:
        try:
            path = sglang_doctor.record(options.record)
        except (ImportError, OSError) as fault:
            print(f"nothing recorded: {fault}", file=sys.stderr)
            return 1
        print(f"recorded {path}: name it in PD_TRACER_FINGERPRINTS")
        return 0
    found = sglang_doctor.diagnose(offline=options.offline)
    print(found.as_json() if options.json else found.as_text())
    return found.exit_code


if __name__ == "__main__":
    raise SystemExit(main())
