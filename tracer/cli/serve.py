"""``pd-tracer serve``."""

from __future__ import annotations

import errno
import socket
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tracer.cli import exits
from tracer.cli.output import fail

if TYPE_CHECKING:
    from tracer.settings import Settings
    from tracer.store.database import Database

#: Workers that are idle send a heartbeat now and then; the connection should be there for it.
KEEP_ALIVE_S = 75
#: After a signal to stop, a client that has not finished its request by then is cut off, so that what is
#: queued is still written before an orchestrator loses its patience (10 s with Docker).
SHUTDOWN_S = 5
#: Connections that may wait to be accepted.
BACKLOG = 2048


def serve(
    *,
    host: Annotated[str | None, typer.Option(help="Address to listen on.")] = None,
    port: Annotated[int | None, typer.Option(min=0, max=65535, help="Port; 0 takes a free one.")] = None,
    database_url: Annotated[str | None, typer.Option(help="sqlite:///FILE or postgresql://...")] = None,
    auto_migrate: Annotated[
        bool | None, typer.Option(help="Bring PostgreSQL's schema up to date at start.")
    ] = None,
    external_url: Annotated[str | None, typer.Option(help="URL under which people reach it.")] = None,
    replica: Annotated[str | None, typer.Option(help="Name among collectors that share a database.")] = None,
    send_deadline_s: Annotated[
        float | None, typer.Option(help="Seconds from the last send until decode is missing.")
    ] = None,
    open_deadline_s: Annotated[
        float | None, typer.Option(help="Seconds from opened until prefill is missing.")
    ] = None,
    ratio_window_s: Annotated[
        float | None, typer.Option(help="Seconds that the ratio gauges look back.")
    ] = None,
    log_level: Annotated[str | None, typer.Option(help="debug, info, warning or error.")] = None,
    log_format: Annotated[str | None, typer.Option(help="text or json.")] = None,
) -> None:
    """Run a collector. What is not given comes from PD_TRACER_* in the environment."""
    from tracer.cli.settings import load_settings  # noqa: PLC0415

    settings = load_settings(
        host=host,
        port=port,
        database_url=database_url,
        auto_migrate=auto_migrate,
        external_url=external_url,
        replica=replica,
        send_deadline_s=send_deadline_s,
        open_deadline_s=open_deadline_s,
        ratio_window_s=ratio_window_s,
        log_level=log_level,
        log_format=log_format,
    )
    run(settings)


def run(settings: Settings) -> None:
    """Serve until a signal says stop. Exits with a line on stderr when it cannot begin."""
    import uvicorn  # noqa: PLC0415
    from sqlalchemy.engine import make_url  # noqa: PLC0415

    from tracer.app import create_app  # noqa: PLC0415

    shown = make_url(settings.database_url).render_as_string(hide_password=True)
    try:
        app = create_app(settings)
    except ValueError as error:
        fail(str(error), code=exits.USAGE)
    _prepare_sqlite(app.state.collector.database, shown)
    listener = listen(settings.host, settings.port)
    typer.echo(f"pd-tracer at {address(listener)} (what it answers: /docs), database {shown}", err=True)
    config = uvicorn.Config(
        app,
        log_config=log_config(settings),
        access_log=False,
        timeout_keep_alive=KEEP_ALIVE_S,
        timeout_graceful_shutdown=SHUTDOWN_S,
        backlog=BACKLOG,
    )
    server = uvicorn.Server(config)
    try:
        server.run(sockets=[listener])
    except KeyboardInterrupt:
        # It has stopped as it should; this is how uvicorn hands the signal on.
        raise typer.Exit(exits.INTERRUPTED) from None
    if not server.started:
        raise typer.Exit(exits.UNREACHABLE)


def _prepare_sqlite(database: Database, shown: str) -> None:
    """Find out before anything listens whether a SQLite file can be used, and bring its schema up to date.

    A PostgreSQL that is away may come, so it is no reason not to begin.
    """
    if not database.is_sqlite:
        return
    from alembic.util import CommandError  # noqa: PLC0415
    from sqlalchemy.exc import SQLAlchemyError  # noqa: PLC0415

    from tracer.store.migrate import upgrade  # noqa: PLC0415

    try:
        upgrade(database)
    except SQLAlchemyError as error:
        fail(f"{shown}: {getattr(error, 'orig', None) or error}", code=exits.UNREACHABLE)
    except CommandError as error:
        fail(f"{shown}: {error}", "it was made by a newer pd-tracer", code=exits.UNREACHABLE)


def log_config(settings: Settings) -> dict[str, Any]:
    """The server's own lines in the format of all others. Only what went wrong, or everything at debug."""
    import structlog  # noqa: PLC0415

    before: list[Any] = [structlog.stdlib.add_log_level, structlog.processors.TimeStamper(fmt="iso")]
    if settings.log_format == "json":
        last = [structlog.processors.dict_tracebacks, structlog.processors.JSONRenderer()]
    else:
        last = [
            structlog.dev.ConsoleRenderer(colors=False, exception_formatter=structlog.dev.plain_traceback)
        ]
    return {
        "version": 1,
        "disable_existing_loggers": False,
        "formatters": {
            "all": {
                "()": structlog.stdlib.ProcessorFormatter,
                "processors": [structlog.stdlib.ProcessorFormatter.remove_processors_meta, *last],
                "foreign_pre_chain": before,
            }
        },
        "handlers": {"stderr": {"class": "logging.StreamHandler", "formatter": "all"}},
        "loggers": {
            "uvicorn": {
                "handlers": ["stderr"],
                "level": "DEBUG" if settings.log_level == "debug" else "WARNING",
                "propagate": False,
            }
        },
    }


def listen(host: str, port: int) -> socket.socket:
    """A socket that listens there. Exits with a line on stderr when the port is taken or the host wrong."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # asyncio sends at once (TCP_NODELAY) only on sockets that say they are TCP. Without it an answer on a
    # kept connection waits for the peer's delayed acknowledgement: 40 ms each.
    listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((host, port))
        listener.listen(BACKLOG)
    except OSError as error:
        listener.close()
        if error.errno == errno.EADDRINUSE:
            fail(
                f"port {port} on {host} is taken",
                "stop what listens there, or take another with --port",
                code=exits.USAGE,
            )
        fail(f"cannot listen on {host} port {port}", str(error.strerror or error), code=exits.USAGE)
    return listener


def address(listener: socket.socket) -> str:
    """The URL of a listening socket."""
    host, port = listener.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
