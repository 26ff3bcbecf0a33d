"""schemathesis against the app's own OpenAPI: it answers as described, whatever it is asked."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
import schemathesis
from hypothesis import HealthCheck, given, settings
from schemathesis.core.result import Ok
from schemathesis.specs.openapi.checks import positive_data_acceptance
from support.serving import Server, serve

from tracer.app import create_app
from tracer.settings import Settings

#: Bounded: some seconds for all operations together.
BOUNDED = settings(max_examples=25, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))

SCHEMA = schemathesis.openapi.from_dict(create_app(Settings(database_url="sqlite:///unused.db")).openapi())
OPERATIONS = {
    result.ok().label: result.ok() for result in SCHEMA.get_all_operations() if isinstance(result, Ok)
}


@pytest.fixture(scope="module")
def collector(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    database: Path = tmp_path_factory.mktemp("openapi") / "openapi.db"
    with serve(Settings(database_url=f"sqlite:///{database}", port=0)) as running:
        yield running


@pytest.mark.parametrize("label", sorted(OPERATIONS))
def test_an_operation_answers_as_it_is_described(collector: Server, label: str) -> None:
    @BOUNDED
    @given(case=OPERATIONS[label].as_strategy())
    def ask(case: schemathesis.Case) -> None:
        # Times, durations and cursors have grammars that a schema does not express: 422 is right for them.
        case.call_and_validate(base_url=collector.url, excluded_checks=[positive_data_acceptance])

    ask()


def test_every_public_route_is_described() -> None:
    described = {label.split()[1] for label in OPERATIONS}
    assert {"/v1/reports", "/rooms", "/rooms/{room}", "/summary", "/workers", "/metrics"} <= described
    assert {"/healthz", "/readyz"} <= described


@pytest.mark.parametrize("page", ["/docs", "/redoc"])
def test_the_pages_ask_no_other_host(collector: Server, page: str) -> None:
    text = collector.http.get(page).text
    assert "openapi.json" in text
    sources = re.findall(r"""(?:src|href)=["']([^"']+)["']""", text)
    scripts = [source for source in sources if not source.startswith("data:")]
    assert scripts
    for source in scripts:
        assert not source.startswith(("http:", "https:", "//")), source
        assert collector.http.get(source).status_code == 200
