"""The engine's environment and a real collector, for every test in this folder."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from engines.sglang.engine_env import MISSING, PYTHON
from support.serving import Server, serve

from tracer.settings import Settings


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    here = Path(__file__).parent
    for item in items:
        if item.path.is_relative_to(here):
            item.add_marker(pytest.mark.engine)


@pytest.fixture(scope="session", autouse=True)
def _engine_is_installed() -> None:
    if not PYTHON.exists():
        pytest.fail(MISSING)


@pytest.fixture
def collector(tmp_path: Path) -> Iterator[Server]:
    """A collector on SQLite that calls a side missing after a few seconds."""
    settings = Settings(
        host="127.0.0.1",
        port=0,
        database_url=f"sqlite:///{tmp_path}/rooms.db",
        send_deadline_s=5,
        open_deadline_s=5,
    )
    with serve(settings) as server:
        yield server
