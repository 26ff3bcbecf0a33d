"""Hooks on a stand-in engine: the engine's calls come out as if nothing were there, whatever ours do."""

from __future__ import annotations

import sys
import types
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from pd_tracer_hooks.guard import Guard
from pd_tracer_hooks.sglang.attach import Attachment, DirectInstaller, RegistryInstaller, attach, method_owner
from pd_tracer_hooks.sglang.binding import Call
from pd_tracer_hooks.sglang.hub import Hub
from pd_tracer_hooks.sglang.targets import Target, When


class Base:
    def inherited(self, pages: list[int]) -> int:
        return len(pages)


class Manager(Base):
    def send(self, room: int, pages: list[int], *, last: bool = False) -> str:
        if not pages:
            raise LookupError("no pages")
        return f"{room}:{sum(pages)}:{last}"

    @classmethod
    def named(cls, room: int) -> str:
        return f"{cls.__name__}{room}"

    @staticmethod
    def still(room: int) -> int:
        return room + 1


def free(pages: list[int]) -> int:
    return len(pages)


@pytest.fixture
def engine() -> Iterator[types.ModuleType]:
    """A module ``sglang_standin.core``, and another that imported a function of it by name."""
    core = types.ModuleType("sglang_standin.core")
    core.Manager = type("Manager", (Manager,), dict(vars(Manager)))  # type: ignore[attr-defined]
    core.free = types.FunctionType(free.__code__, globals(), "free")  # type: ignore[attr-defined]
    user = types.ModuleType("sglang_standin.user")
    user.free = core.free  # type: ignore[attr-defined]
    names = {"sglang_standin": types.ModuleType("sglang_standin"), core.__name__: core, user.__name__: user}
    names["sglang_standin"].__path__ = []
    names["sglang_standin"].core = core  # type: ignore[attr-defined]
    sys.modules.update(names)
    yield core
    for name in names:
        del sys.modules[name]


SEND = "sglang_standin.core.Manager.send"


def hooked(
    handler: Callable[..., Any], when: When = When.before, path: str = SEND, needs: Any = ("bootstrap_room",)
) -> Any:
    guard = Guard(3)
    target = Target(path, when, "handler", needs)
    [done] = attach([(target, path)], DirectInstaller(), Hub({"handler": handler}, guard))
    return done, guard


def test_before_sees_arguments_by_name(engine: Any) -> None:
    seen: list[dict[str, Any]] = []
    done, _ = hooked(lambda call: seen.append(dict(call)))
    assert done == Attachment(SEND, True)
    manager = engine.Manager()
    assert manager.send(1, [2, 3]) == "1:5:False"
    assert manager.send(room=1, pages=[2], last=True) == "1:2:True"
    assert [(call["bootstrap_room"], call["pages"], call.get("last")) for call in seen] == [
        (1, [2, 3], None),
        (1, [2], True),
    ]


def test_after_sees_the_result_and_cannot_change_it(engine: Any) -> None:
    seen: list[Any] = []

    def handler(call: Call) -> str:
        seen.append(call["result"])
        return "something else"

    hooked(handler, When.after)
    assert engine.Manager().send(1, [2]) == "1:2:False"
    assert seen == ["1:2:False"]


@pytest.mark.parametrize("when", list(When))
def test_a_fault_of_ours_never_gets_out(engine: Any, when: When) -> None:
    def handler(*_: Any) -> None:
        raise RuntimeError("ours")

    _, guard = hooked(handler, when)
    manager = engine.Manager()
    for _ in range(5):
        assert manager.send(1, [2]) == "1:2:False"
    assert guard.faults == 3  # then the hooks take themselves out
    assert guard.detached


@pytest.mark.parametrize("when", list(When))
def test_the_engines_own_exception_passes_once(engine: Any, when: When) -> None:
    calls: list[int] = []

    def handler(call: Call, original: Callable[[], Any] | None = None) -> Any:
        calls.append(1)
        return original() if original is not None else None

    _, guard = hooked(handler, when)
    with pytest.raises(LookupError, match="no pages"):
        engine.Manager().send(1, [])
    assert len(calls) == (0 if when is When.after else 1)
    assert guard.faults == 0


@pytest.mark.parametrize("behaviour", ["forgets", "raises before", "raises after", "swallows"])
def test_around_always_runs_the_engine_once(engine: Any, behaviour: str) -> None:
    runs: list[int] = []
    plain = engine.Manager.send

    def counted(self: Any, room: int, pages: list[int], *, last: bool = False) -> Any:
        runs.append(1)
        return plain(self, room, pages, last=last)

    engine.Manager.send = counted

    def handler(call: Call, original: Callable[[], Any]) -> Any:
        if behaviour == "forgets":
            return "ours"
        if behaviour == "raises before":
            raise RuntimeError("ours")
        result = original()
        if behaviour == "raises after":
            raise RuntimeError("ours")
        return None if behaviour == "swallows" else result

    hooked(handler, When.around)
    assert engine.Manager().send(1, [2]) == "1:2:False"
    assert runs == [1]


def test_a_renamed_argument_is_told_and_not_hooked(engine: Any) -> None:
    plain = engine.Manager.send
    done, _ = hooked(lambda call: None, needs=("bootstrap_room", "kv_indices"))
    assert not done.attached
    assert "has no parameter kv_indices (it has self, room, pages, last)" in done.reason
    assert engine.Manager.send is plain


@pytest.mark.parametrize(
    "path", ["sglang_standin.core.Gone.send", "sglang_standin.gone.f", "sglang_standin.core.gone"]
)
def test_a_target_that_is_gone_is_told(engine: Any, path: str) -> None:
    done, _ = hooked(lambda call: None, path=path)
    assert not done.attached
    assert done.reason


def test_a_call_that_does_not_bind_still_reaches_the_engine(engine: Any) -> None:
    _, guard = hooked(lambda call: call["bootstrap_room"])
    with pytest.raises(TypeError):
        engine.Manager().send()
    assert guard.faults == 1


def test_a_function_is_rebound_where_it_was_imported(engine: Any) -> None:
    seen: list[Any] = []
    hooked(lambda call: seen.append(call["pages"]), path="sglang_standin.core.free", needs=("pages",))
    assert sys.modules["sglang_standin.user"].free([1, 2]) == 2  # type: ignore[attr-defined]
    assert seen == [[1, 2]]


@pytest.mark.parametrize(("name", "result"), [("named", "Manager7"), ("still", 8)])
def test_class_and_static_methods_stay_what_they_are(engine: Any, name: str, result: Any) -> None:
    seen: list[int] = []
    hooked(lambda call: seen.append(call["bootstrap_room"]), path=f"sglang_standin.core.Manager.{name}")
    assert getattr(engine.Manager, name)(7) == result
    assert getattr(engine.Manager(), name)(7) == result
    assert seen == [7, 7]


def test_method_owner_follows_bases() -> None:
    assert method_owner(Manager, "inherited") is Base
    assert method_owner(Manager, "send") is Manager
    assert method_owner(Manager, "gone") is None


def test_registry_installer_notes_what_the_engine_did_not_patch(engine: Any) -> None:
    class Registry:
        _patched: set[str] = set()  # noqa: RUF012 - as the engine has it

        @classmethod
        def register(cls, path: str, hook: Any, kind: Any) -> None:
            pass

        @classmethod
        def apply_hooks(cls) -> None:
            pass

    target = Target(SEND, When.before, "handler", ("bootstrap_room",))
    installer = RegistryInstaller(Registry, "around")
    [done] = attach([(target, SEND)], installer, Hub({"handler": lambda call: None}, Guard(3)))
    assert not done.attached
    assert "did not patch" in done.reason


def test_another_plugins_hook_on_the_same_function_is_kept(engine: Any) -> None:
    """The engine's registry applies a path once: what comes later goes on top."""
    plain, order = engine.Manager.send, []

    def theirs(self: Any, room: int, pages: list[int], *, last: bool = False) -> Any:
        order.append("theirs")
        return plain(self, room, pages, last=last)

    engine.Manager.send = theirs

    class Registry:
        _patched = frozenset({SEND})

    target = Target(SEND, When.before, "handler", ("bootstrap_room",))
    hub = Hub({"handler": lambda call: order.append("ours")}, Guard(3))
    [done] = attach([(target, SEND)], RegistryInstaller(Registry, "around"), hub)
    assert done.attached
    assert engine.Manager().send(1, [2]) == "1:2:False"
    assert order == ["ours", "theirs"]
