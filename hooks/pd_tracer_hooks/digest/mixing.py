"""The digest's arithmetic on numpy arrays. numpy is imported when it is first asked for.

numpy's unsigned 64-bit arrays wrap around silently, which is just the arithmetic of the definition.
(Its *scalars* warn when they wrap, so no arithmetic here is done on single values.)
"""

from __future__ import annotations

import sys
from functools import cache
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Words = NDArray[np.uint64]


@cache
def load_numpy() -> Any | None:
    """The numpy module, or None where the array paths cannot run: then the scalar definition has to do."""
    if sys.byteorder != "little":
        return None  # the arrays are views of memory, and the digest's words are little-endian
    try:
        import numpy as np  # noqa: PLC0415 - an optional dependency, loaded at first use
    except ImportError:
        return None
    return np


@cache
def _constants() -> tuple[np.uint64, ...]:
    import numpy as np  # noqa: PLC0415

    values = 30, 0xBF58476D1CE4E5B9, 27, 0x94D049BB133111EB, 31
    return tuple(np.uint64(value) for value in values)


def mix(x: Words, spare: Words) -> None:
    """``fin64`` of every element of ``x``, in place. ``spare``: an array of the same shape to write on."""
    import numpy as np  # noqa: PLC0415

    shift_1, factor_1, shift_2, factor_2, shift_3 = _constants()
    np.right_shift(x, shift_1, out=spare)
    np.bitwise_xor(x, spare, out=x)
    np.multiply(x, factor_1, out=x)
    np.right_shift(x, shift_2, out=spare)
    np.bitwise_xor(x, spare, out=x)
    np.multiply(x, factor_2, out=x)
    np.right_shift(x, shift_3, out=spare)
    np.bitwise_xor(x, spare, out=x)
