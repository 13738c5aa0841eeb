"""What a spec wants of a host: values, policies and what is left to the host description, before any host is known.

The keys that these values come from are read in spec_hardware_keys.py; locked_hardware.py joins them with a host.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from envbuild.core.types import Value

GPU_FIELDS = ("model", "count", "compute-capability", "sms", "mig", "memory", "ecc", "vbios", "board")
"""Keys of one kind of GPU. ``driver`` and ``exclusive`` concern all GPUs of a host."""


class Requirement(Value, frozen=True, kw_only=True, omit_defaults=True):
    """What is reported about one field.

    Attributes:
        value: what a host must have; None: what the host description has.
        policy: how strictly; empty: the field's default of ``hardware.POLICIES``.
    """

    value: str | int | bool | tuple[str, ...] | None = None
    policy: str = ""


class HardwareRequirements(Value, frozen=True, kw_only=True, omit_defaults=True):
    """The ``hardware`` section of a spec.

    Attributes:
        detect: everything is as the host description specifies, GPUs included.
        kernel: version range, ``any``, or empty: from the host description, if there is one.
        fingerprint: compare the numeric fingerprint at start.
        gpu: ``none``: no GPU; ``optional``: any, or none; ``detect``: as the host description specifies; ``some``: see
            ``fields``, ``devices``; empty: not given.
        exclusive: refuse when other programs hold the GPU.
        fields: what is reported, by names of ``hardware.POLICIES`` such as ``gpu.model``.
        devices: kinds of GPU by hand, each by names such as ``gpu.model``; then ``fields`` has none of those.
    """

    detect: bool = False
    kernel: str = ""
    fingerprint: bool = False
    gpu: str = ""
    exclusive: bool = False
    fields: dict[str, Requirement] = msgspec.field(default_factory=dict)
    devices: tuple[dict[str, Requirement], ...] = ()


def hardware_requirements(values: Any) -> HardwareRequirements:
    """Return the value of a ``hardware`` section.

    Args:
        values: what ``spec_hardware_keys.hardware_table`` read: ``detect``, or a mapping of the keys given.
    """
    if values == "detect":
        return HardwareRequirements(detect=True)
    gpu = values.get("gpu", "")
    keys: Mapping[str, Any] = gpu if isinstance(gpu, dict) else {}
    fields = {name: values[key] for name, key in (("cpu", "cpu"), ("cpu.flags", "cpu-flags")) if key in values}
    fields |= _named({key: requirement for key, requirement in keys.items() if isinstance(requirement, Requirement)})
    return HardwareRequirements(
        kernel=values.get("kernel", ""),
        fingerprint=values.get("fingerprint", False),
        gpu="some" if isinstance(gpu, dict) else gpu,
        exclusive=keys.get("exclusive", False),
        fields=fields,
        devices=tuple(_named(device) for device in keys.get("devices", ())),
    )


def _named(keys: Mapping[str, Requirement]) -> dict[str, Requirement]:
    return {f"gpu.{key}": requirement for key, requirement in keys.items()}
