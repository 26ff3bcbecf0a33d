"""Which layers of a room are traced, decided alike on every rank of both sides.

Which *rooms* are traced is :func:`pd_tracer_hooks.keys.sampled`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from functools import lru_cache

from pd_tracer_hooks.keys import hash64


class Choice(str, Enum):
    """The kinds of layer policy."""

    #: Every layer.
    all = "all"
    #: The first, the middle and the last.
    ends = "ends"
    #: A few evenly spaced ones, others for other rooms.
    rotate = "rotate"


@dataclass(frozen=True)
class LayerPolicy:
    """A parsed layer policy. Its text is what a signature's ``layer_choice`` holds."""

    choice: Choice
    #: Layers a room; only for ``rotate``.
    layers: int = 0

    def __str__(self) -> str:
        return f"{self.choice.value}:{self.layers}" if self.choice is Choice.rotate else self.choice.value


@lru_cache(maxsize=64)
def parse_policy(text: str) -> LayerPolicy:
    """Read ``all``, ``ends`` or ``rotate:N``. Raises ``ValueError`` that names the choices."""
    name, colon, number = text.strip().partition(":")
    if name == Choice.rotate.value and number.isascii() and number.isdigit() and int(number) > 0:
        return LayerPolicy(Choice.rotate, int(number))
    if not colon and name in (Choice.all.value, Choice.ends.value):
        return LayerPolicy(Choice(name))
    raise ValueError(
        f"layer policy {text!r}: use all, ends or rotate:N with N layers a room, such as rotate:4"
    )


def choose_layers(policy: str, owning_layers: Sequence[int], model_layers: int, room: str) -> tuple[int, ...]:
    """Global ids of the layers to trace for ``room``, ascending.

    ``owning_layers`` are the layers that own a buffer of the component *in the whole model*, not in one
    rank: so all ranks choose the same, and each then keeps those it holds. Where a rank cannot know
    them, all ranks must pass ``range(model_layers)``.
    Raises ``ValueError`` for an unknown policy and for layers outside the model.
    """
    parsed = parse_policy(policy)
    layers = sorted(set(owning_layers))
    if layers and not (layers[0] >= 0 and layers[-1] < model_layers):
        raise ValueError(f"owning_layers {layers[0]} to {layers[-1]}: the model has {model_layers} layers")
    if parsed.choice is Choice.all or not layers:
        return tuple(layers)
    size = len(layers)
    if parsed.choice is Choice.ends:
        return tuple(layers[at] for at in sorted({0, (size - 1) // 2, size - 1}))
    wanted = min(parsed.layers, size)
    first = hash64("layers.1", room)
    return tuple(sorted(layers[(first + step * size // wanted) % size] for step in range(wanted)))
