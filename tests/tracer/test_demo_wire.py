"""A wire that is slow and flips bits: each flip is found at its page and layer, through both engines."""

import json
import random
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tracer.demo.engine import what_is_missing
from tracer.demo.netns import why_not
from tracer.demo.plan import Engine, Mix, WireTraits
from tracer.demo.run import DemoOptions, run_demo
from tracer.demo.wire import Flipper, WireConfig, flip_in_frame


def tcp_sum(frame: bytes) -> int:
    """TCP's checksum over pseudo-header, header and payload, folded: 0xffff if it is right."""
    header = (frame[14] & 0xF) * 4
    segment = frame[14 + header :]
    data = frame[26:34] + bytes([0, 6]) + len(segment).to_bytes(2, "big") + segment
    data += bytes(len(data) % 2)
    total = sum(int.from_bytes(data[i : i + 2], "big") for i in range(0, len(data), 2))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return total


def frame(payload: bytes, options: int = 0) -> bytes:
    """An Ethernet frame with IPv4 and TCP, whose checksum is right."""
    ip = bytearray([0x45 + options, *bytes(8), 6, 0, 0, 10, 77, 0, 1, 10, 77, 0, 2, *bytes(4 * options)])
    built = bytearray(bytes(12) + b"\x08\x00" + ip + bytes([0x12, 0x34, *bytes(10), 0x50, 0x10, *bytes(6)]))
    built += payload
    at = 14 + len(ip) + 16
    checksum = ~tcp_sum(bytes(built)) & 0xFFFF
    built[at : at + 2] = checksum.to_bytes(2, "big")
    assert tcp_sum(bytes(built)) == 0xFFFF
    return bytes(built)


@pytest.mark.parametrize("length", [1, 2, 33, 1400, 1401])
@pytest.mark.parametrize("options", [0, 3])
def test_a_flip_keeps_the_checksum_right(length: int, options: int) -> None:
    rng = random.Random(length)
    sent = frame(rng.randbytes(length), options)
    for _ in range(20):
        place, bit = rng.randrange(len(sent) - length, len(sent)), rng.randrange(8)
        got = flip_in_frame(sent, place, bit)
        differing = [i for i, (a, b) in enumerate(zip(sent, got, strict=True)) if a != b]
        assert set(differing) - {place} <= {14 + (5 + options) * 4 + 16, 14 + (5 + options) * 4 + 17}
        assert got[place] == sent[place] ^ 1 << bit
        assert tcp_sum(got) == 0xFFFF


def test_only_words_of_known_cells_are_hit(tmp_path: Path) -> None:
    config = WireConfig(
        prefill="p",
        decode="d",
        collector_port=1,
        delay_ms=0,
        flip_mib=0.001,
        seed=1,
        intact=[1],
        log=str(tmp_path / "log"),
    )
    flipper = Flipper(config)
    for payload in (random.Random(1).randbytes(4000), bytes(4000), b"\xc3\xa5" * 2000):
        assert flipper.pass_on(frame(payload)) == frame(payload)
    assert not (tmp_path / "log").exists()


def run_over_wire(engine: Engine, traits: WireTraits, capfd: pytest.CaptureFixture[str]) -> dict[str, Any]:
    pytest.importorskip("torch", reason="the demo's buffers are torch tensors: pip install torch==2.13.0")
    if missing := what_is_missing(engine) or why_not():
        pytest.skip(missing)
    mix = Mix(rooms=14, faults=(), max_tokens=1500, seed=5, engine=engine, wire=traits)
    status = run_demo(DemoOptions(mix=mix, layers=4, as_json=True, timeout_s=80))
    printed = capfd.readouterr()
    assert status == 0, printed.err
    document: dict[str, Any] = json.loads(printed.out)
    listed = subprocess.run(["ip", "netns"], capture_output=True, text=True, check=True).stdout
    assert "pdt" not in listed
    return document


@pytest.mark.slow
@pytest.mark.parametrize(("engine", "delay_ms"), [("nixl", 20.0), ("mooncake", 1.0)])
def test_flipped_bits_are_found_where_they_are(
    engine: Engine, delay_ms: float, capfd: pytest.CaptureFixture[str]
) -> None:
    """One bit in 8 MiB: neither kernel nor engine notices, and the collector names page and layer."""
    document = run_over_wire(engine, WireTraits(delay_ms=delay_ms, flip_mib=8.0), capfd)
    rows = {row["kind"]: row for row in document["rows"]}
    assert rows["wire_bit_flip"]["rooms"] >= 2
    assert rows["intact"]["rooms"] >= 2
    for row in rows.values():
        assert row["rooms"] == row["found"] == row["located"]
    for outcome in document["outcomes"]:
        if outcome["aim"] is not None:
            assert len(outcome["aim"]["layers"]) == len(outcome["aim"]["pages"]) == 1
