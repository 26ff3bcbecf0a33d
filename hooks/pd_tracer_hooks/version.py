"""The release of the hooks, and the wire version that follows from it."""

from __future__ import annotations

__version__ = "0.1.0"

#: Version of the wire contract: the release's ``major.minor``. It is what a report's ``wire`` says.
WIRE_VERSION = ".".join(__version__.split(".")[:2])
