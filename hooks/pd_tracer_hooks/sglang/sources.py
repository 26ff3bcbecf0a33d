"""Functions of an installed engine, read from its source text: nothing of the engine is imported.

That is what lets the doctor run in an image build without a GPU, and what makes a fingerprint of a
release that is not installed, only unpacked.
"""

from __future__ import annotations

import ast
import hashlib
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

_Function = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True)
class FunctionSource:
    """One function: where it is defined, its parameters and the fingerprint of its text."""

    path: str
    defined_in: str
    parameters: tuple[str, ...]
    fingerprint: str


class SourceTree:
    """The packages below ``root`` (a ``site-packages`` or an unpacked wheel)."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._module = lru_cache(maxsize=256)(self._read_module)

    def function(self, path: str) -> FunctionSource | None:
        """The function at dotted ``path``, following base classes; None where there is none."""
        module, names = self._split(path)
        if module is None or not names:
            return None
        found = self._find(module, names)
        if found is None:
            return None
        home, node, lines = found
        return FunctionSource(path, home, _parameters(node), fingerprint(lines, node))

    def has_module(self, name: str) -> bool:
        """Whether a module or package of that dotted name is there."""
        return self._module(name) is not None

    def version(self, package: str) -> str:
        """The version of an installed distribution by its metadata folder, or an empty string."""
        for folder in sorted(self._root.glob(f"{package}-*.dist-info")):
            return folder.name[len(package) + 1 : -len(".dist-info")]
        return ""

    def _split(self, path: str) -> tuple[str | None, list[str]]:
        parts = path.split(".")
        for cut in range(len(parts), 0, -1):
            name = ".".join(parts[:cut])
            if self._module(name) is not None:
                return name, parts[cut:]
        return None, []

    def _read_module(self, name: str) -> _Module | None:
        base = self._root.joinpath(*name.split("."))
        for candidate in (base.with_suffix(".py"), base / "__init__.py"):
            if candidate.is_file():
                return _Module(candidate.read_text(encoding="utf-8"))
        return None

    def _find(self, module: str, names: list[str], depth: int = 0) -> tuple[str, _Function, list[str]] | None:
        loaded = self._module(module)
        if loaded is None or depth > 8:
            return None
        top = loaded.defined.get(names[0])
        if top is None:
            return self._imported(loaded, module, names, depth)
        if not isinstance(top, ast.ClassDef):
            return (f"{module}.{top.name}", top, loaded.lines) if len(names) == 1 else None
        if len(names) != 2:
            return None
        for node in top.body:
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name == names[1]:
                return f"{module}.{top.name}.{node.name}", node, loaded.lines
        for base in top.bases:
            if isinstance(base, ast.Name):
                found = self._find(module, [base.id, names[1]], depth + 1)
                if found is not None:
                    return found
        return None

    def _imported(
        self, loaded: _Module, module: str, names: list[str], depth: int
    ) -> tuple[str, _Function, list[str]] | None:
        found = loaded.imported.get(names[0])
        if found is None:
            return None
        node, name = found
        home = (node.module or "") if not node.level else self._relative(module, node)
        return self._find(home, [name, *names[1:]], depth + 1)

    @staticmethod
    def _relative(module: str, node: ast.ImportFrom) -> str:
        package = module.split(".")[: -node.level]
        return ".".join([*package, node.module or ""])


class _Module:
    """A module's text, and what its top level defines or imports (under ``if`` and ``try`` too)."""

    def __init__(self, text: str) -> None:
        self.lines = text.splitlines()
        self.defined: dict[str, ast.ClassDef | _Function] = {}
        self.imported: dict[str, tuple[ast.ImportFrom, str]] = {}
        self._take(ast.parse(text).body)

    def _take(self, body: list[ast.stmt]) -> None:
        for node in body:
            if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
                self.defined.setdefault(node.name, node)
            elif isinstance(node, ast.ImportFrom):
                for alias in node.names:
                    self.imported.setdefault(alias.asname or alias.name, (node, alias.name))
            elif isinstance(node, ast.If | ast.Try):
                self._take([*node.body, *node.orelse])


def fingerprint(lines: list[str], node: _Function) -> str:
    """16 hex digits that change with the function's code, not with its comments, blanks or place."""
    segment = (line.strip() for line in lines[node.lineno - 1 : node.end_lineno])
    code = [line for line in segment if line and not line.startswith("#")]
    return hashlib.sha256("\n".join(code).encode()).hexdigest()[:16]


def _parameters(node: _Function) -> tuple[str, ...]:
    spec = node.args
    names = [arg.arg for arg in (*spec.posonlyargs, *spec.args)]
    if spec.vararg:
        names.append(spec.vararg.arg)
    names.extend(arg.arg for arg in spec.kwonlyargs)
    if spec.kwarg:
        names.append(spec.kwarg.arg)
    return tuple(names)


def engine_tree() -> tuple[SourceTree, str]:
    """The installed engine's sources and its version. Raises ``ImportError`` where there is none."""
    from importlib.metadata import version  # noqa: PLC0415 - costs a little, and is needed once
    from importlib.util import find_spec  # noqa: PLC0415

    spec = find_spec("sglang")
    if spec is None or not spec.submodule_search_locations:
        raise ImportError("sglang is not installed here")
    return SourceTree(Path(next(iter(spec.submodule_search_locations))).parent), version("sglang")
