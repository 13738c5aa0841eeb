"""GPUs by Dynamic Resource Allocation: the selectors of a claim, which state what the lock does. Pure.

Sources: https://kubernetes.io/docs/reference/using-api/cel/ (``semver``, ``compareTo``, ``major``), and the attributes
that NVIDIA's driver publishes for GPUs and MIG devices (NVIDIA/k8s-dra-driver-gpu, cmd/gpu-kubelet-plugin). The number
of SMs is not among them: the guard compares it.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from envbuild.errors import UsageError

NAME = "gpus"
"""Of the claim within a pod."""
_ATTRIBUTES = "device.attributes['gpu.nvidia.com']"
_MODEL = re.compile(r"[A-Za-z0-9][A-Za-z0-9 ._()/+-]{0,99}")


@dataclass(frozen=True, kw_only=True, slots=True)
class Device:
    """One kind of GPU that a pod gets; an empty text is not asked for.

    Attributes:
        count: how many of them.
        model: as NVML names it, such as ``NVIDIA H200``.
        mig: profile of a slice, such as ``3g.40gb``; empty for a whole GPU.
        capability, driver: version and how it is meant, a policy of the lock such as ``same branch``.
    """

    count: int = 1
    model: str = ""
    mig: str = ""
    capability: tuple[str, str] = ("", "any")
    driver: tuple[str, str] = ("", "any")


@dataclass(frozen=True, kw_only=True, slots=True)
class Request:
    """What a pod's claim asks of the driver for one kind of GPU.

    Attributes:
        name: within the claim.
        device_class: of NVIDIA's driver: whole GPUs or slices.
        count: how many.
        expression: condition in CEL that each has to fulfil; empty: none.
    """

    name: str
    device_class: str
    count: int
    expression: str


def requests(devices: Sequence[Device]) -> tuple[Request, ...]:
    """Return the requests of each pod's claim, one for each kind of GPU.

    Raises:
        UsageError: a model has letters that no selector may have.
    """
    return tuple(
        Request(
            name=f"gpu-{place}" if len(devices) > 1 else "gpu",
            device_class="mig.nvidia.com" if device.mig else "gpu.nvidia.com",
            count=device.count,
            expression=" && ".join(_conditions(device)),
        )
        for place, device in enumerate(devices)
    )


def _conditions(device: Device) -> list[str]:
    conditions = []
    if device.model:
        if not _MODEL.fullmatch(device.model):
            raise UsageError(
                f"the lock's gpu.model {device.model!r} fits no selector", "lock on a node: --host host.toml"
            )
        conditions.append(f"{_ATTRIBUTES}.productName == '{device.model}'")
    if device.mig:
        conditions.append(f"{_ATTRIBUTES}.profile == '{device.mig}'")
    conditions += _compared("cudaComputeCapability", *device.capability)
    return conditions + _compared("driverVersion", *device.driver)


def _compared(attribute: str, version: str, policy: str) -> list[str]:
    """Return the condition of a policy; none if a difference is allowed or only warned of."""
    if not version:
        return []
    semantic, attribute = _semantic(version), f"{_ATTRIBUTES}.{attribute}"
    return {
        "exact": [f"{attribute}.compareTo(semver('{semantic}')) == 0"],
        "at least": [f"{attribute}.compareTo(semver('{semantic}')) >= 0"],
        "same branch": [f"{attribute}.major() == {semantic.partition('.')[0]}"],
    }.get(policy, [])


def _semantic(version: str) -> str:
    """Return a version as the driver publishes it: three numbers without leading zeros (``580.159.04``: 580.159.4)."""
    numbers = [str(int(part)) for part in version.split(".")[:3]]
    return ".".join([*numbers, *["0"] * (3 - len(numbers))])
