"""The table of targets against itself and against the recorded fingerprints of six releases."""

from __future__ import annotations

import json

import pytest

from pd_tracer_hooks.sglang import fingerprints
from pd_tracer_hooks.sglang.binding import offered
from pd_tracer_hooks.sglang.process import Process
from pd_tracer_hooks.sglang.targets import BACKENDS, TARGETS, concrete, module_of, rows, version_key

RELEASES = ("0.5.9", "0.5.11", "0.5.13.post1", "0.5.18", "0.5.21", "0.5.23")


@pytest.mark.parametrize(
    ("older", "newer"),
    [("0.5.9", "0.5.11"), ("0.5.13", "0.5.13.post1"), ("0.5.13.post1", "0.5.18"), ("0.5.23", "0.6.0rc1")],
)
def test_versions_compare_as_numbers(older: str, newer: str) -> None:
    assert version_key(older) < version_key(newer)


def test_an_unreadable_version_gets_every_row() -> None:
    assert rows("main") == TARGETS


@pytest.mark.parametrize("release", RELEASES)
def test_each_release_has_what_is_essential_on_both_sides(release: str) -> None:
    essential = {target.handler for target in rows(release) if target.essential}
    assert essential == {"prefill_ready", "decode_ready", "send", "opened", "received"}


@pytest.mark.parametrize("release", RELEASES)
def test_each_row_is_recorded_with_the_parameters_that_it_needs(release: str) -> None:
    content = json.loads((fingerprints.HERE / f"{release}.json").read_text())
    assert content["version"] == release
    for target in rows(release):
        for backend in BACKENDS:
            entry = content["targets"][concrete(target, backend)]
            assert set(target.needs) <= offered(entry["parameters"]), target.path
            assert len(entry["fingerprint"]) == 16


@pytest.mark.parametrize(
    ("path", "module"),
    [("a.b.Class.method", "a.b"), ("a.b.function", "a.b"), ("a.conn.MooncakeKVManager.x", "a.conn")],
)
def test_module_of(path: str, module: str) -> None:
    assert module_of(path) == module


def test_no_path_is_hooked_twice_in_one_release() -> None:
    for release in RELEASES:
        paths = [(target.path, target.of, target.side) for target in rows(release)]
        assert len(paths) == len(set(paths))


def test_every_handler_of_the_table_exists() -> None:
    from pd_tracer_hooks.guard import Guard
    from pd_tracer_hooks.sglang.attach import DirectInstaller
    from pd_tracer_hooks.sglang.decode import Decode
    from pd_tracer_hooks.sglang.prefill import Prefill

    process = Process("0.5.23", DirectInstaller(), Guard(5), lambda *_: None)  # type: ignore[arg-type, return-value]
    assert {target.handler for target in TARGETS} == set(process._handlers())
    for target in TARGETS:
        if (target.side and not target.handler.endswith("_ready")) or target.handler == "sender_ready":
            assert hasattr(Prefill if target.side == "prefill" else Decode, target.handler), target.handler
