"""Where the training of two runs first differs, as text or JSON values; for ``diff`` and ``verify``."""

from __future__ import annotations

from typing import Any

from envbuild.trace.divergence import Divergence

_DIGITS = {"float16": 5, "bfloat16": 4, "float32": 9}


def sentence(found: Divergence) -> str:
    """Describe where and how much, with the process if it is not the main one."""
    return f"{found.process}: {found.sentence}" if found.process else found.sentence


def values(found: Divergence) -> str:
    """Write both values that differ most, with the digits that their type has; empty if they are not known."""
    tensor = found.leading
    if tensor is None or tensor.values is None:
        return ""
    digits = _DIGITS.get(tensor.dtype, 17)
    return f"{tensor.values.before:.{digits}g} → {tensor.values.after:.{digits}g}"


def as_json(found: Divergence | None) -> dict[str, Any] | None:
    """Return a divergence as JSON values: its place, and the first tensor that differs."""
    if found is None:
        return None
    tensor = found.leading
    known = tensor.values if tensor is not None else None
    return {
        "kind": found.kind,
        "sentence": found.sentence,
        "process": found.process,
        "epoch": found.epoch,
        "place": found.place,
        "step": found.step,
        "tensor": tensor.name if tensor is not None else "",
        "dtype": tensor.dtype if tensor is not None else "",
        "others": max(len(found.tensors) - 1, 0),
        "count": known.count if known is not None else 0,
        "size": tensor.size if tensor is not None else 0,
        "before": known.before if known is not None else None,
        "after": known.after if known is not None else None,
        "ulps": known.ulps if known is not None else None,
        "distance": tensor.distance if tensor is not None else None,
        "batch": found.batch,
    }
