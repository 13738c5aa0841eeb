"""A lock for this machine, as the guard reads it, made of the probe's facts with the standard library alone."""

from __future__ import annotations

import copy
from typing import Any

from envbuild.runtime.guard import probe

POLICY = {
    "cpu": "at least",
    "cpu.flags": "exact",
    "gpu.count": "exact",
    "gpu.model": "exact",
    "gpu.compute-capability": "exact",
    "gpu.sms": "exact",
    "gpu.mig": "exact",
    "gpu.driver": "exact",
    "gpu.memory": "exact, warn",
    "gpu.ecc": "exact, warn",
    "gpu.vbios": "exact, warn",
    "gpu.board": "exact, warn",
}
"""The defaults of ``envbuild.hardware``, which needs more than the standard library."""
_FIELDS = ("compute-capability", "sms", "mig", "memory", "ecc", "vbios", "board")


def locked(facts: dict[str, Any]) -> dict[str, Any]:
    """Return the expectations of a lock made for exactly this machine."""
    kinds: list[dict[str, Any]] = []
    for device in facts["devices"]:
        kind = {"model": device["name"], **{name: device[name] for name in _FIELDS}}
        kind = {name: value for name, value in kind.items() if value not in ("", 0, None)}
        same = next((known for known in kinds if {**known, "count": 0} == {**kind, "count": 0}), None)
        if same is None:
            kinds.append({"count": 1, **kind})
        else:
            same["count"] += 1
    gpu = {"count": len(facts["devices"]), "driver": facts["driver"], "exclusive": False, "devices": kinds}
    return {
        "lock": "pylock.gpu.toml",
        "kernel": "",
        "cpu": probe.cpu_level(),
        "cpu-flags": probe.code_flags(),
        "threads": 1,
        "gpu": gpu,
        "cuda": None,
        "policy": dict(POLICY),
    }


def altered(expect: dict[str, Any], field: str) -> dict[str, Any]:
    """Return the lock of a machine that differs in one field."""
    other = copy.deepcopy(expect)
    gpu, first = other["gpu"], other["gpu"]["devices"][0]
    if field == "kernel":
        other["kernel"] = ">=999"
    elif field == "cpus":
        other["threads"] = 1_000_000
    elif field == "cpu.flags":
        other["cpu-flags"] = [*other["cpu-flags"], "amx_of_tomorrow"]
    elif field == "gpu.count":
        first["count"] += 1
        gpu["count"] += 1
    elif field == "gpu.driver":
        gpu["driver"] = "999.99.99"
    else:
        name = field.removeprefix("gpu.")
        values = {"model": "NVIDIA Z900", "compute-capability": "1.0", "mig": "9g.999gb", "ecc": not first.get("ecc")}
        first[name] = values.get(name, first.get(name, 1) + 1 if name in ("sms", "memory") else "other")
    return other


HARD = (
    "kernel",
    "cpus",
    "cpu.flags",
    "gpu.model",
    "gpu.compute-capability",
    "gpu.sms",
    "gpu.mig",
    "gpu.driver",
    "gpu.count",
)
SOFT = ("gpu.memory", "gpu.ecc", "gpu.vbios", "gpu.board")
