"""Which environment variables a spec may set: not those that envbuild sets itself, and none that breaks a run.

Facts: each switch below was measured or read at the source; see docs/determinism.md.
"""

from __future__ import annotations

import re

from envbuild.suggest import quote

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")

_KEYS = {
    "determinism.seed": ("PYTHONHASHSEED",),
    "determinism.threads": (
        "OMP_NUM_THREADS",
        "MKL_NUM_THREADS",
        "OPENBLAS_NUM_THREADS",
        "BLIS_NUM_THREADS",
        "NUMEXPR_NUM_THREADS",
        "VECLIB_MAXIMUM_THREADS",
        "TF_NUM_INTRAOP_THREADS",
        "TF_NUM_INTEROP_THREADS",
        "NPROC",
        "PJRT_NPROC",
    ),
    "determinism.level": (
        "TF_DETERMINISTIC_OPS",
        "TF_CUDNN_DETERMINISTIC",
        "TF_DETERMINISTIC_ORDER",
        "CUBLAS_WORKSPACE_CONFIG",
        "TORCHINDUCTOR_DETERMINISTIC",
    ),
}
_BY_NAME = {name: key for key, names in _KEYS.items() for name in names}

_OWN = frozenset({"PATH", "VIRTUAL_ENV", "PYTHONHOME", "PYTHONPLATLIBDIR", "PYTHONDONTWRITEBYTECODE", "LD_PRELOAD"})
"""Part of the image's layout: another value breaks the interpreter, or gets in before the guard."""

_HARMFUL = {
    "TF_DISABLE_SEGMENT_REDUCTION_OP_DETERMINISM_EXCEPTIONS": "turns an error about a nondeterministic op into silence",
    "TF_DISABLE_SCATTER_OP_DETERMINISM": "makes scatter ops nondeterministic",
    "TF_USE_CUDNN_AUTOTUNE": "is read by no TensorFlow; perhaps you meant TF_CUDNN_USE_AUTOTUNE",
}
_HARMFUL_VALUES = {
    ("NVTE_ALLOW_NONDETERMINISTIC_ALGO", "1"): "allows nondeterministic kernels — write 0",
    ("NCCL_NVLS_ENABLE", "1"): "is not deterministic between calls — write 0",
}


def refuse(name: str, value: str) -> str:
    """Return why a variable may not be set so, as the rest of a sentence, or an empty string if it may."""
    if not _NAME.fullmatch(name):
        return f"{quote(name)} is not a variable name: letters, digits and _"
    if key := _BY_NAME.get(name):
        return f"is set by envbuild itself — use {key}"
    if name in _OWN or name.startswith("ENVBUILD_"):
        return "is envbuild's own and cannot be set"
    return _HARMFUL.get(name, "") or _HARMFUL_VALUES.get((name, value), "")
