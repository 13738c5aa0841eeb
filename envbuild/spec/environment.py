"""Which environment variables a spec may name: not those that other keys decide, and none of the image's own.

Values that undo determinism or break a framework are another matter: they depend on facts about frameworks, which
resolve/policy.py has; ``load_spec`` takes its check as an argument.
"""

from __future__ import annotations

import re

from envbuild.core.text import quote
from envbuild.lockfile.pylock import BEFORE_THE_GUARD, LIBRARY_PATH

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")

_KEYS = {
    "determinism.seed": ("PYTHONHASHSEED",),
    "determinism.threads": (
        "OMP_NUM_THREADS",
        "MKL_NUM_THREADS",
        "OPENBLAS_NUM_THREADS",
        "BLIS_NUM_THREADS",
        "NUMEXPR_NUM_THREADS",
        "NUMBA_NUM_THREADS",
        "LOKY_MAX_CPU_COUNT",
        "POLARS_MAX_THREADS",
        "TF_NUM_INTRAOP_THREADS",
        "TF_NUM_INTEROP_THREADS",
        "NPROC",
        "PJRT_NPROC",
    ),
    "determinism.level": (
        "TF_DETERMINISTIC_OPS",
        "TF_CUDNN_DETERMINISTIC",
        "TORCHINDUCTOR_DETERMINISTIC",
        "FLASH_ATTENTION_DETERMINISTIC",
    ),
}
DECIDED = {name: key for key, names in _KEYS.items() for name in names}
"""Variables that another key of the spec decides, with that key."""

_OWN = frozenset({"PATH", "VIRTUAL_ENV", "PYTHONHOME", "PYTHONPLATLIBDIR", "PYTHONDONTWRITEBYTECODE", LIBRARY_PATH})
_OWN |= BEFORE_THE_GUARD
"""Part of the image's layout: another value breaks the interpreter, or gets in before the guard."""


_OF_BUILDS = frozenset(
    {"CFLAGS", "CXXFLAGS", "LDFLAGS", "CUDA_HOME", "CUDA_PATH", "HOME", "LC_ALL", "LD_LIBRARY_PATH", "LD_PRELOAD"}
    | {"PATH", "PYTHONDONTWRITEBYTECODE", "PYTHONHASHSEED", "SOURCE_DATE_EPOCH", "TMPDIR", "TZ", "ZERO_AR_DATE"}
    | {"NVCC_APPEND_FLAGS"}
)
"""Set for every build of sources, so that it is equal each time."""


def refuse_in_builds(name: str, value: str) -> str:
    """Return why a variable may not be set for builds of sources, as ``refuse`` does."""
    if not _NAME.fullmatch(name):
        return f"{quote(name)} is not a variable name: letters, digits and _"
    return "is set by envbuild for every build" if name in _OF_BUILDS or name.startswith("SETUPTOOLS_SCM_") else ""


def refuse(name: str, value: str) -> str:
    """Return why a variable may not be set, as the rest of a sentence, or an empty string if it may."""
    if not _NAME.fullmatch(name):
        return f"{quote(name)} is not a variable name: letters, digits and _"
    if key := DECIDED.get(name):
        return f"is set by envbuild itself — use {key}"
    if name in _OWN or name.startswith("ENVBUILD_"):
        return "is envbuild's own and cannot be set"
    if name == "NVIDIA_VISIBLE_DEVICES":
        return "specifies what a run is given, and engines set it — use hardware.gpu, or envbuild run --gpus"
    return ""
