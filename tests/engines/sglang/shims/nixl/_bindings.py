"""The wheel's bindings under the name that the engine imports."""

from nixl_cu12._bindings import *  # noqa: F403
from nixl_cu12._bindings import __dict__ as _names

globals().update({name: value for name, value in _names.items() if not name.startswith("__")})
