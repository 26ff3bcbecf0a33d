"""The example in docs/wire.md works with curl as it is printed, and its vectors are right."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from support.serving import Server

from pd_tracer_hooks import WIRE_VERSION, keys, layout, wire

DOCUMENT = Path(__file__).resolve().parents[2] / "docs/wire.md"
TEXT = DOCUMENT.read_text()
PRINTED_URL = "http://127.0.0.1:8400"
#: A command, and the answer printed below it, if one is.
EXAMPLES = re.findall(r"```bash\n(.*?)```(?:\s*```json\n(.*?)```)?", TEXT, re.DOTALL)


def run(command: str, server: Server) -> dict[str, Any]:
    done = subprocess.run(
        ["bash", "-c", command.replace(PRINTED_URL, server.url)],
        capture_output=True,
        text=True,
        timeout=30,
        check=True,
    )
    answer: dict[str, Any] = json.loads(done.stdout)
    return answer


def steady(answer: dict[str, Any]) -> dict[str, Any]:
    """An answer without the times in it."""
    for want in answer["wanted"]:
        del want["until"], want["for_s"]
    return answer


@pytest.mark.skipif(shutil.which("curl") is None, reason="curl is not installed")
def test_the_example_as_printed(server: Server) -> None:
    assert len(EXAMPLES) == 3
    for command, printed in EXAMPLES[:2]:
        assert steady(run(command, server)) == steady(json.loads(printed))
    room = run(EXAMPLES[2][0], server)
    assert room["verdict"] == "mismatch"
    (component,) = room["components"]
    assert component["component"] == "index_k"
    assert component["where"]["regions"] == ["head", "tail", "body"]
    assert component["where"]["page_runs"] == [[0, 1]]
    again = run(EXAMPLES[0][0], server)
    assert (again["accepted"], again["duplicate"]) == (0, 1)


def test_the_printed_version_is_today_s() -> None:
    assert set(re.findall(r'"wire": ?"([0-9.]+)"', TEXT)) == {WIRE_VERSION}


def test_the_vectors() -> None:
    assert keys.transfer_key(session="decode-0", pages=[17, 18], nonce=1) in TEXT
    fields = layout.signature_fields(component="index_k", layout=layout.DSA_INDEX_K, k=4)
    assert layout.signature(fields) in TEXT
    for vector in re.findall(r"\| `canonical\((.*?)\)` \| `([0-9a-f]+)` \|", TEXT):
        arguments = json.loads(f"[{vector[0]}]")
        assert keys.canonical(*arguments).hex() == vector[1]


@pytest.mark.parametrize(
    "struct", [wire.Report, wire.Worker, wire.Observation, wire.ComponentDigest, wire.Event, wire.Manifest]
)
def test_every_field_is_explained(struct: type) -> None:
    for field in struct.__struct_fields__:  # type: ignore[attr-defined]
        assert f"`{field}`" in TEXT, f"{struct.__name__}.{field} is not in docs/wire.md"


@pytest.mark.parametrize("kind", [wire.Stage, wire.EventKind, wire.Owned, wire.HooksState, wire.Coverage])
def test_every_value_is_explained(kind: type[wire.Stage]) -> None:
    for value in kind:
        assert f"`{value.value}`" in TEXT, f"{kind.__name__}.{value.value} is not in docs/wire.md"
