"""pd-tracer's hooks: what runs inside a prefill or decode worker."""

from pd_tracer_hooks.version import WIRE_VERSION, __version__

__all__ = ["WIRE_VERSION", "__version__"]
