"""The collector's settings as the command line overrides them."""

from __future__ import annotations

from typing import Any

from pydantic import ValidationError

from tracer.cli import exits
from tracer.cli.output import fail
from tracer.settings import PREFIX, Settings


def load_settings(**options: Any) -> Settings:
    """Settings from the environment; options that were given (not None) win.

    A value that cannot be used becomes one line that names it, and an exit status.
    """
    given = {name: value for name, value in options.items() if value is not None}
    try:
        return Settings(**given)
    except ValidationError as error:
        first = error.errors()[0]
        name = str(first["loc"][0])
        place = f"--{name.replace('_', '-')}" if name in given else f"{PREFIX}{name.upper()}"
        fail(f"{place}: {first['msg'].removeprefix('Value error, ')}", code=exits.USAGE)
