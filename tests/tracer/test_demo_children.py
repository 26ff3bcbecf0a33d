"""Processes of the demo: what they say is heard, how they fail is shown, and none is left behind."""

import os
import time
from pathlib import Path

import pytest

from tracer.demo.children import Child, ChildError, Children, messages
from tracer.demo.messages import Closed, Finished, Peers

SAYS_BOTH_AT_ONCE = """
import sys
print('{"type":"Closed","index":3}\\n{"type":"Finished","pid":1,"peer_pids":[2]}', flush=True)
"""
ECHOES_ITS_LINE = """
import json, sys
port = json.loads(sys.stdin.readline())["ports"]["prefill-a"]
print(json.dumps({"type": "Closed", "index": port}), flush=True)
print('{"type":"Finished","pid":1,"peer_pids":[]}', flush=True)
"""
DIES = "import sys; sys.exit('no memory')"
IN_TROUBLE = """print('{"type":"Trouble","text":"ValueError: x"}', flush=True)"""
HANGS = """
import signal, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
print('{"type":"Closed","index":0}', flush=True)
time.sleep(60)
"""


def soon() -> float:
    return time.monotonic() + 20


def gone(child: Child) -> bool:
    return child.process.returncode is not None and not os.path.exists(f"/proc/{child.process.pid}")


def test_hears_until_all_have_finished(tmp_path: Path) -> None:
    with Children(tmp_path) as children:
        both = [children.start(name, ["-c", SAYS_BOTH_AT_ONCE]) for name in ("a", "b")]
        heard = [(child.name, message) for child, message in messages(both, soon())]
    done = Finished(pid=1, peer_pids=(2,))
    assert sorted(heard, key=str) == sorted(
        [("a", Closed(index=3)), ("a", done), ("b", Closed(index=3)), ("b", done)], key=str
    )


def test_tells(tmp_path: Path) -> None:
    with Children(tmp_path) as children:
        child = children.start("a", ["-c", ECHOES_ITS_LINE])
        child.tell(Peers(ports={"prefill-a": 4711}))
        assert next(message for _, message in messages([child], soon())) == Closed(index=4711)


@pytest.mark.parametrize(
    ("code", "message"),
    [(DIES, r"closed its pipe \(exit status 1\).*no memory"), (IN_TROUBLE, "in trouble: ValueError: x")],
)
def test_a_child_that_fails_is_explained(tmp_path: Path, code: str, message: str) -> None:
    with Children(tmp_path) as children:
        child = children.start("a", ["-c", code])
        with pytest.raises(ChildError, match=f"(?s){message}"):
            list(messages([child], soon()))
    assert gone(child)


def test_a_stubborn_child_is_killed(tmp_path: Path) -> None:
    children = Children(tmp_path)
    child = children.start("a", ["-c", HANGS])
    next(messages([child], soon()))
    children.end([child], patience_s=0.2)
    assert child.process.returncode == -9
    assert gone(child)


def test_time_is_bounded_and_leaves_nobody(tmp_path: Path) -> None:
    with pytest.raises(TimeoutError, match="a have not finished"), Children(tmp_path) as children:  # noqa: PT012
        child = children.start("a", ["-c", "input()"])
        list(messages([child], time.monotonic() + 0.2))
    assert gone(child)
