"""The integration with SGLang: a plugin that watches prefill and decode hand over the KV cache.

Nothing in here is imported by the rest of the hooks, and nothing is imported before ``PD_TRACER_URL`` is
seen to be set (:mod:`pd_tracer_hooks.sglang.plugin`). No source of SGLang is edited.
"""
