from __future__ import annotations

import io
import sys

import pytest
import structlog

from tracer.logs import configure_logging
from tracer.settings import Settings


def test_events_go_where_stderr_is_now(monkeypatch: pytest.MonkeyPatch) -> None:
    """A stream that was there at the start, and is closed since, must not stop the collector."""
    structlog.reset_defaults()
    first, second = io.StringIO(), io.StringIO()
    monkeypatch.setattr(sys, "stderr", first)
    configure_logging(Settings())
    log = structlog.get_logger("test")
    log.info("one")
    first_text = first.getvalue()
    first.close()
    monkeypatch.setattr(sys, "stderr", second)
    log.info("two")
    assert "one" in first_text
    assert "two" in second.getvalue()
    assert "one" not in second.getvalue()
    structlog.reset_defaults()
