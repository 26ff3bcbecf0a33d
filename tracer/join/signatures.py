"""Are the digests of both sides comparable at all, and if not, which field of the signature says so."""

from __future__ import annotations

from collections.abc import Mapping

from tracer.join.finding import Finding
from tracer.join.model import Verdict
from tracer.join.parts import SideSum
from tracer.join.scene import Scene
from tracer.join.wording import join_words


def signature_difference(
    name: str, prefill: SideSum | None, decode: SideSum | None, scene: Scene
) -> Finding | None:
    """``incomparable`` if more than one signature was reported, else None.

    Two signatures on one side (each rank of an unequal tensor parallelism holds other heads, for one) make
    the component incomparable as well, whatever the other side says.
    """
    ours = prefill.signatures if prefill is not None else ()
    theirs = decode.signatures if decode is not None else ()
    different = sorted({*ours, *theirs})
    if len(different) < 2:
        return None
    labels, values = ("one part", "another"), (different[0], different[1])
    if len(ours) == 1 and len(theirs) == 1:
        labels, values = ("prefill", "decode"), (ours[0], theirs[0])
    left, right = (_fields(name, value, scene) for value in values)
    if not left or not right:
        told = [f"{label} {value}" for label, value in zip(labels, values, strict=True)]
        return Finding(
            Verdict.incomparable, f"signatures differ ({', '.join(told)}); no manifest says in which field"
        )
    fields = [
        f"{field} ({labels[0]} {left.get(field, '')!r}, {labels[1]} {right.get(field, '')!r})"
        for field in sorted({*left, *right})
        if left.get(field) != right.get(field)
    ]
    return Finding(Verdict.incomparable, f"signatures differ in {join_words(fields)}")


def _fields(name: str, signature: str, scene: Scene) -> Mapping[str, str]:
    for manifest in (scene.prefill_manifest, scene.decode_manifest):
        fields = manifest.fields(name, signature)
        if fields:
            return fields
    return {}
