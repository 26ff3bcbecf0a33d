"""Arguments by name: engines call one function both ways, and signatures drift between releases."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any

#: Names that mean the same parameter in some release of the engine.
ALIASES: Mapping[str, tuple[str, ...]] = {
    "is_last_chunk": ("is_last",),
    "bootstrap_room": ("room",),
}


class Call(Mapping[str, Any]):
    """One call's arguments by the names this package uses; a name the release lacks is absent."""

    __slots__ = ("_values",)

    def __init__(self, values: Mapping[str, Any]) -> None:
        self._values = values

    def __getitem__(self, name: str) -> Any:
        return self._values[name]

    def __iter__(self) -> Any:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)


class Binder:
    """Binds calls of one function.

    ``needs`` are the parameters without which the hook cannot work; :attr:`missing` lists those that
    neither the signature nor an alias offers. Raises ``ValueError`` or ``TypeError`` for a callable
    whose signature cannot be read.
    """

    def __init__(self, function: Callable[..., Any], needs: Sequence[str] = ()) -> None:
        self._signature = inspect.signature(function)
        self._names = tuple(self._signature.parameters)
        self._rename = _renames(self._names)
        offered = {self._rename.get(name, name) for name in self._names}
        self.missing = tuple(name for name in needs if name not in offered)
        self._simple = all(
            parameter.kind is inspect.Parameter.POSITIONAL_OR_KEYWORD
            or parameter.kind is inspect.Parameter.KEYWORD_ONLY
            for parameter in self._signature.parameters.values()
        )

    @property
    def parameters(self) -> tuple[str, ...]:
        """The function's own parameter names, in order."""
        return self._names

    def bind(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Call:
        """Bind one call. Raises ``TypeError`` where the call does not fit, as the function itself would."""
        if self._simple and len(args) <= len(self._names):
            values: dict[str, Any] = dict(zip(self._names, args))  # noqa: B905 - 3.10, fewer args are fine
            values.update(kwargs)
        else:
            values = dict(self._signature.bind(*args, **kwargs).arguments)
        for theirs, ours in self._rename.items():
            if theirs in values:
                values[ours] = values.pop(theirs)
        return Call(values)


def offered(parameters: Sequence[str]) -> set[str]:
    """The names, as this package uses them, that a function with ``parameters`` offers."""
    rename = _renames(parameters)
    return {rename.get(name, name) for name in parameters}


def _renames(names: Sequence[str]) -> dict[str, str]:
    return {
        alias: ours
        for ours, aliases in ALIASES.items()
        if ours not in names
        for alias in aliases
        if alias in names
    }
