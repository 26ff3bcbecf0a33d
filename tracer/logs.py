"""Logging: structured events, for people or for machines."""

from __future__ import annotations

import logging
import sys

import structlog

from tracer.settings import Settings


def configure_logging(settings: Settings) -> None:
    """Set the level and the format. Does nothing when the host program has configured structlog itself."""
    if structlog.is_configured():
        return
    shared: list[structlog.typing.Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="iso"),
    ]
    if settings.log_format == "json":
        shared += [structlog.processors.dict_tracebacks, structlog.processors.JSONRenderer()]
    else:
        # Plain tracebacks: the pretty ones print local variables, and took seconds for one.
        renderer = structlog.dev.ConsoleRenderer(
            colors=sys.stderr.isatty(), exception_formatter=structlog.dev.plain_traceback
        )
        shared.append(renderer)
    structlog.configure(
        processors=shared,
        wrapper_class=structlog.make_filtering_bound_logger(
            logging.getLevelNamesMapping()[settings.log_level.upper()]
        ),
        logger_factory=_to_stderr,
    )


def _to_stderr(*_: object) -> structlog.WriteLogger:
    """Asked for each event: ``sys.stderr`` may have been exchanged meanwhile, and the old one closed."""
    return structlog.WriteLogger(sys.stderr)
