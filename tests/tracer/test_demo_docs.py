"""docs/demo.md has every fault, cause and option of the demo."""

import inspect
from pathlib import Path

import pytest

from tracer.cli.demo import demo
from tracer.demo.names import NUMBERS
from tracer.demo.plan import Fault
from tracer.demo.told import CAUSES
from tracer.join.model import Cause

TEXT = (Path(__file__).parents[2] / "docs" / "demo.md").read_text()
ROWS = [line for line in TEXT.splitlines() if line.startswith("|")]


@pytest.mark.parametrize("fault", [fault for fault in Fault if fault is not Fault.wire_bit_flip])
def test_every_fault_is_explained(fault: Fault) -> None:
    numbers = [number for number, faults in NUMBERS.items() if fault in faults]
    if fault is Fault.aborted_in_flight:  # it comes with the one that it does harm to
        assert any("`late_write`" in row and f"`{fault.value}`" in row for row in ROWS)
        return
    (row,) = [row for row in ROWS if f"| `{fault.value}` |" in row]
    assert row.startswith(f"| {numbers[0]} |" if numbers else "| |")
    cause = CAUSES.get(fault)
    if fault is Fault.tail_unwritten_fresh:
        cause = Cause.stale
    assert row.split("|")[-2].split(",")[0].strip() == (f"`{cause.value}`" if cause else "")


@pytest.mark.parametrize("name", [name for name in inspect.signature(demo).parameters if name != "as_json"])
def test_every_option_is_explained(name: str) -> None:
    option = f"`--{name.replace('_', '-')}"
    assert any(option in row for row in ROWS)
