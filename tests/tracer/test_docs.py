"""What the documents say is so: links lead somewhere, code runs, tables are today's."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path

import pytest
from support.serving import Server

from pd_tracer_hooks.drops import Drop

ROOT = Path(__file__).resolve().parents[2]
DOCUMENTS = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/*.md"), *ROOT.glob("hooks/*.md")])


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_links_lead_somewhere(document: Path) -> None:
    for target in re.findall(r"\]\(([^)#]+?)(?:#[^)]*)?\)", document.read_text()):
        if not target.startswith(("http://", "https://", "mailto:")):
            assert (document.parent / target).exists(), f"{document.name} links to {target}"


def test_every_document_is_reachable_from_the_readme() -> None:
    text = (ROOT / "README.md").read_text()
    reachable = {"README.md", *re.findall(r"\]\((?:docs/)?([\w.-]+\.md)\)", text)}
    for name in list(reachable):
        page = ROOT / "docs" / name
        if page.exists():
            reachable |= set(re.findall(r"\]\((?:docs/)?([\w.-]+\.md)\)", page.read_text()))
    missing = {path.name for path in (ROOT / "docs").glob("*.md")} - reachable
    assert not missing, f"nothing leads to {missing}"


def test_the_readme_has_today_s_settings() -> None:
    spec = importlib.util.spec_from_file_location("readme_tables", ROOT / "tools/readme_tables.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    text = (ROOT / "README.md").read_text()
    assert module.with_tables(text) == text, "run python tools/readme_tables.py"


def test_every_reason_for_a_loss_is_explained() -> None:
    text = (ROOT / "docs/hooks.md").read_text()
    for reason in Drop:
        assert f"`{reason.value}`" in text


def test_the_hooks_example_runs(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    (code,) = re.findall(r"```python\n(.*?)```", (ROOT / "docs/hooks.md").read_text(), re.DOTALL)
    monkeypatch.setenv("PD_TRACER_URL", server.url)
    monkeypatch.setenv("PD_TRACER_DEPLOYMENT", "docs")
    exec(compile(code, "docs/hooks.md", "exec"), {})
    room = server.http.get("/rooms/4711", params={"deployment": "docs"}).json()
    assert room["verdict"] == "pending"
    assert [record["stage"] for record in room["timeline"]] == ["opened", "receive"]
