"""`pd-tracer digest`: what hooks compute, for a file."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import Result
from typer.testing import CliRunner

from pd_tracer_hooks.digest.definition import hex64, page_digest
from pd_tracer_hooks.layout import DSA_INDEX_K, PageLayout
from tracer.cli import exits
from tracer.cli.main import app

PAGE = bytes(i * 7 % 251 for i in range(DSA_INDEX_K.page_bytes))
DSA = ["--segment", "0:128", "--segment", "8192:4"]


def run(*arguments: str, code: int = exits.OK, stdin: bytes | None = None) -> Result:
    result = CliRunner().invoke(app, ["digest", *arguments], input=stdin)
    assert result.exit_code == code, result.output
    return result


@pytest.fixture
def page(tmp_path: Path) -> str:
    path = tmp_path / "page.bin"
    path.write_bytes(PAGE)
    return str(path)


def test_a_whole_file(page: str) -> None:
    assert run(page).stdout == hex64(page_digest(PAGE)) + "\n"


@pytest.mark.parametrize("data", [b"", b"a", bytes(8), PAGE * 3])
def test_standard_input(data: bytes) -> None:
    assert run("-", stdin=data).stdout == hex64(page_digest(data)) + "\n"


@pytest.mark.parametrize("rows", [None, 0, 1, 63, 64])
def test_the_valid_rows_of_a_page(page: str, rows: int | None) -> None:
    wanted = hex64(page_digest(*DSA_INDEX_K.valid_parts(PAGE, rows)))
    given = [] if rows is None else ["--rows", str(rows)]
    assert run(page, *DSA, *given).stdout == wanted + "\n"


def test_rows_that_fit_are_found_whatever_the_order_of_segments(page: str) -> None:
    backwards = PageLayout(DSA_INDEX_K.page_bytes, 64, tuple(reversed(DSA_INDEX_K.segments)))
    wanted = hex64(page_digest(*backwards.valid_parts(PAGE)))
    assert run(page, "--segment", "8192:4", "--segment", "0:128").stdout == wanted + "\n"


def test_json(page: str) -> None:
    result = run(page, *DSA, "--rows", "3", "--json")
    wanted = hex64(page_digest(*DSA_INDEX_K.valid_parts(PAGE, 3)))
    assert json.loads(result.stdout) == {"digest": wanted, "version": "sm64.1", "bytes": 3 * 132}


WRONG = [
    (["--rows", "3"], "--rows needs --segment: say how long a row is, as in --segment 0:128"),
    (["--segment", "0"], "--segment 0: write OFFSET:ROW_BYTES, as in 0:128"),
    (["--segment", "0:0"], "--segment 0:0: write OFFSET:ROW_BYTES, as in 0:128"),
    (["--segment=-1:8"], "--segment -1:8: write OFFSET:ROW_BYTES, as in 0:128"),
    (["--segment", "9000:8"], "no row of 9000:8 fits into 8448 bytes"),
    (["--segment", "0:8", "--segment", "0:8"], "segments 0:8, 0:8 begin at the same byte"),
    ([*DSA, "--rows", "65"], "rows=65: a page of this layout has 0 to 64"),
]


@pytest.mark.parametrize(("arguments", "line"), WRONG)
def test_wrong_usage_in_one_line(page: str, arguments: list[str], line: str) -> None:
    result = run(page, *arguments, code=exits.USAGE)
    assert result.stdout == ""
    assert result.stderr == f"pd-tracer: {line}\n"


def test_no_such_file(tmp_path: Path) -> None:
    result = run(str(tmp_path / "none"), code=exits.USAGE)
    assert result.stderr == f"pd-tracer: {tmp_path}/none: No such file or directory\n"
