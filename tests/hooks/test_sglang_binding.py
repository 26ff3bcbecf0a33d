"""Arguments by name, whichever way the engine passes them."""

from __future__ import annotations

from typing import Any

import pytest

from pd_tracer_hooks.sglang.binding import Binder, offered


def modern(self: Any, room: int, pages: Any, is_last_chunk: bool, *, tokens: int = 0) -> None: ...
def older(self: Any, room: int, pages: Any, is_last: bool) -> None: ...
def many(self: Any, *page_ids: Any) -> None: ...
def open_ended(self: Any, **more: Any) -> None: ...


@pytest.mark.parametrize(
    ("function", "args", "kwargs", "expected"),
    [
        (modern, ("s", 1, [2], True), {}, {"bootstrap_room": 1, "pages": [2], "is_last_chunk": True}),
        (modern, ("s",), {"room": 1, "pages": [2], "is_last_chunk": False}, {"is_last_chunk": False}),
        (modern, ("s", 1), {"pages": [2], "is_last_chunk": True, "tokens": 9}, {"tokens": 9}),
        (older, ("s", 1, [2], True), {}, {"is_last_chunk": True}),
        (older, ("s", 1), {"pages": [2], "is_last": True}, {"is_last_chunk": True}),
        (many, ("s", [1], [2]), {}, {"page_ids": ([1], [2])}),
        (open_ended, ("s",), {"a": 1}, {"more": {"a": 1}}),
    ],
)
def test_bind(function: Any, args: Any, kwargs: Any, expected: dict[str, Any]) -> None:
    call = Binder(function).bind(args, kwargs)
    assert {name: call[name] for name in expected} == expected
    assert call["self"] == "s"


def test_missing_names_what_the_hook_needs_and_the_function_lacks() -> None:
    assert Binder(modern, ("self", "bootstrap_room", "is_last_chunk")).missing == ()
    assert Binder(older, ("is_last_chunk", "tokens")).missing == ("tokens",)


def test_an_argument_that_was_not_passed_is_absent() -> None:
    assert Binder(modern).bind(("s", 1, [], True), {}).get("tokens") is None


def test_a_call_that_does_not_fit_raises_as_the_function_would() -> None:
    with pytest.raises(TypeError):
        Binder(many).bind((), {})


def test_an_alias_never_hides_the_name_itself() -> None:
    assert offered(("is_last", "is_last_chunk")) == {"is_last", "is_last_chunk"}
    assert offered(("is_last",)) == {"is_last_chunk"}
