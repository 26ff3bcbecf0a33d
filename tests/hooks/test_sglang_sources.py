"""Reading functions and fingerprints from source text, without importing it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from pd_tracer_hooks.sglang.fingerprints import Fit, Recorded, examine, record
from pd_tracer_hooks.sglang.sources import SourceTree
from pd_tracer_hooks.sglang.targets import rows

BASE = """
class Common:
    def init(self, count, aux=None):
        # a remark
        self.count = count

    def overridden(self):
        return 1
"""
CHILD = """
from pkg.base import Common
try:
    from pkg.other import thing
except ImportError:
    thing = None

class Child(Common):
    def overridden(self, *pages, last, **more):
        return 2

def plain(a, /, b, *, c):
    return a
"""


@pytest.fixture
def tree(tmp_path: Path) -> SourceTree:
    package = tmp_path / "pkg"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "base.py").write_text(BASE)
    (package / "child.py").write_text(CHILD)
    (tmp_path / "pkg-1.2.3.dist-info").mkdir()
    return SourceTree(tmp_path)


@pytest.mark.parametrize(
    ("path", "home", "parameters"),
    [
        ("pkg.child.plain", "pkg.child.plain", ("a", "b", "c")),
        ("pkg.child.Child.overridden", "pkg.child.Child.overridden", ("self", "pages", "last", "more")),
        ("pkg.child.Child.init", "pkg.base.Common.init", ("self", "count", "aux")),
        ("pkg.child.Common.init", "pkg.base.Common.init", ("self", "count", "aux")),
    ],
)
def test_found(tree: SourceTree, path: str, home: str, parameters: tuple[str, ...]) -> None:
    function = tree.function(path)
    assert function is not None
    assert (function.defined_in, function.parameters) == (home, parameters)


@pytest.mark.parametrize(
    "path", ["pkg.child.gone", "pkg.child.Child.gone", "other.module.f", "pkg.child", "pkg"]
)
def test_not_found(tree: SourceTree, path: str) -> None:
    assert tree.function(path) is None


def test_modules_and_version(tree: SourceTree) -> None:
    assert tree.has_module("pkg.base")
    assert not tree.has_module("pkg.gone")
    assert tree.version("pkg") == "1.2.3"
    assert tree.version("gone") == ""


@pytest.mark.parametrize(
    ("text", "same"),
    [
        (BASE, True),
        ("# moved down\n\n" + BASE, True),
        (BASE.replace("# a remark", "# another remark"), True),
        (BASE.replace("self.count = count", "self.count = count + 1"), False),
        (BASE.replace("aux=None", "aux=0"), False),
    ],
)
def test_a_fingerprint_follows_the_code(tmp_path: Path, tree: SourceTree, text: str, same: bool) -> None:
    before = tree.function("pkg.base.Common.init")
    (tmp_path / "pkg" / "base.py").write_text(text)
    after = SourceTree(tmp_path).function("pkg.base.Common.init")
    assert before is not None
    assert after is not None
    assert (before.fingerprint == after.fingerprint) is same


def fake_engine(root: Path, version: str = "0.5.23") -> SourceTree:
    """An engine that has every function of the table with the parameters that it needs, and nothing else."""
    classes: dict[str, dict[str, list[str]]] = {}
    for target in rows(version):
        from pd_tracer_hooks.sglang.targets import concrete

        for backend in ("mooncake", "nixl"):
            *module, owner, name = concrete(target, backend).split(".")
            method = f"    def {name}({', '.join(dict.fromkeys(('self', *target.needs)))}): pass"
            if owner[0].islower():  # a function of a module
                module, owner, method = [*module, owner], "", f"def {name}({', '.join(target.needs)}): pass"
            classes.setdefault(".".join(module), {}).setdefault(owner, []).append(method)
    for module_name, owners in classes.items():
        path = root.joinpath(*module_name.split(".")).with_suffix(".py")
        path.parent.mkdir(parents=True, exist_ok=True)
        lines = [
            line for owner, body in owners.items() for line in ([f"class {owner}:"] if owner else []) + body
        ]
        path.write_text("\n".join(lines) + "\n")
    (root / f"sglang-{version}.dist-info").mkdir()
    return SourceTree(root)


def test_examine_known_changed_and_unfit(tmp_path: Path) -> None:
    tree = fake_engine(tmp_path / "engine")
    recorded = Recorded([record(tree, "0.5.23")])
    fits = {finding.fit for finding in examine(tree, "0.5.23", recorded, ["mooncake"])}
    assert fits == {Fit.known}
    assert {finding.fit for finding in examine(tree, "0.5.23", Recorded([]), ["mooncake"])} == {Fit.changed}
    conn = tmp_path / "engine/sglang/srt/disaggregation/mooncake/conn.py"
    conn.write_text(conn.read_text().replace("kv_indices", "page_list", 1))
    bad = [
        f
        for f in examine(SourceTree(tmp_path / "engine"), "0.5.23", recorded, ["mooncake"])
        if f.fit is Fit.unfit
    ]
    assert len(bad) == 1
    assert "has no parameter kv_indices" in bad[0].reason


def test_a_recorded_fork_is_known_by_its_file(tmp_path: Path) -> None:
    tree = fake_engine(tmp_path / "engine")
    extra = tmp_path / "extra"
    extra.mkdir()
    (extra / "fork.json").write_text(json.dumps(record(tree, "0.5.23+fork")))
    recorded = Recorded.load(str(extra))
    assert "0.5.23+fork" in recorded.versions
    assert all(finding.fit is Fit.known for finding in examine(tree, "0.5.23", recorded, ["nixl"]))


@pytest.mark.parametrize("text", ["no json", "[]", '{"version": "1"}', '{"targets": [], "version": "1"}'])
def test_a_file_that_is_no_record_is_named(tmp_path: Path, text: str) -> None:
    path = tmp_path / "bad.json"
    path.write_text(text)
    with pytest.raises(ValueError, match=r"bad\.json"):
        Recorded.load(str(path))
