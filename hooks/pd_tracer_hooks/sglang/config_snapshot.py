"""What this worker was started with, so that two workers or two days can be compared. Secrets stay out."""

from __future__ import annotations

import dataclasses
import hashlib
import os
import re
from collections.abc import Mapping
from typing import Any

#: Environment variables that change how KV is computed or moved.
PREFIXES = ("SGLANG_", "UCX_", "MC_", "MOONCAKE_", "NIXL_", "NCCL_", "PD_TRACER_")
#: Names whose value is never taken.
SECRET = re.compile(r"(api_?key|token(?!iz|s?_|s$)|secret|passw|credential|private|auth)", re.IGNORECASE)
#: Settings in which workers of one deployment differ by nature: shown, and left out of the hash.
OWN = re.compile(
    r"^(args\.(host|port|random_seed|nccl_port|dist_init_addr|node_rank|base_gpu_id|served_model_name|"
    r"disaggregation_bootstrap_port|log_.*|crash_dump_folder|tokenizer_worker_num|.*_dir)|"
    r"env\.(PD_TRACER_.*|.*_PORT|.*_RANK|.*_DIR|.*_HOST))$"
)
MAX_VALUE = 512
HIDDEN = "(left out)"


def take_snapshot(server_args: Any, environ: Mapping[str, str] | None = None) -> dict[str, str]:
    """Settings by name, ``args.…`` and ``env.…``, each as text."""
    env = os.environ if environ is None else environ
    taken = {f"args.{name}": value for name, value in _fields(server_args).items()}
    taken.update({f"env.{name}": value for name, value in env.items() if name.startswith(PREFIXES)})
    return {name: HIDDEN if SECRET.search(name) else _text(value) for name, value in sorted(taken.items())}


def hash_of(snapshot: Mapping[str, str]) -> str:
    """16 hex digits over all that workers of one deployment should share."""
    lines = [f"{name}={value}" for name, value in sorted(snapshot.items()) if not OWN.match(name)]
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()[:16]


def _fields(server_args: Any) -> Mapping[str, Any]:
    """The arguments as the engine resolved them: a dataclass to 0.5.18, a record of its own after."""
    resolved = getattr(server_args, "resolved_dict", None)
    if callable(resolved):
        return dict(resolved())
    names = getattr(type(server_args), "__struct_fields__", None)
    if names is None and dataclasses.is_dataclass(server_args):
        names = tuple(field.name for field in dataclasses.fields(server_args))
    if names is None:
        names = tuple(name for name in vars(server_args) if not name.startswith("_"))
    return {name: getattr(server_args, name, None) for name in names}


def _text(value: Any) -> str:
    text = value if isinstance(value, str) else repr(value)
    # An address in memory would make every process differ.
    text = re.sub(r" at 0x[0-9a-f]+", "", text)
    text = re.sub(r"://[^/@\s]+@", "://", text)
    return text if len(text) <= MAX_VALUE else f"{text[: MAX_VALUE - 1]}…"
