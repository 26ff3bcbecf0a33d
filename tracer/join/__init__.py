"""The join: what was observed of a room goes in, a verdict comes out. Pure functions only.

:func:`judge` is the front door; :mod:`tracer.join.model` has the words it uses.
"""

from __future__ import annotations

from tracer.join.room import judge

__all__ = ["judge"]
