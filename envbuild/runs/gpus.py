"""Which GPUs of this machine a run gets, where there are more than it needs: those that are as locked."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import msgspec

from envbuild.engine.protocol import Gpus
from envbuild.errors import HostMismatchError
from envbuild.host.facts import HostGpu
from envbuild.lockfile.hardware import GpuDevice, Hardware
from envbuild.runtime.guard import gpu_devices

_FIELDS = {
    "gpu.model": "name",
    "gpu.compute-capability": "compute-capability",
    "gpu.sms": "sms",
    "gpu.mig": "mig",
}
"""Fields that distinguish kinds of GPU, with their facts; the guard also compares others, which select nothing."""


def fitting(hardware: Hardware, gpus: Gpus, root: Path = Path("/")) -> Gpus:
    """Return the GPUs to ask for instead of the first ones: by UUID if the first are not as locked and others are.

    Looking costs as long as the driver takes to answer, so it is done only where there is a choice: more GPUs than are
    wanted, or slices of them (MIG), which a count does not reach.

    Args:
        hardware: what the lock has.
        gpus: the count that it asks for.
        root: represents ``/`` in tests of what is read from files.
    """
    gpu = hardware.gpu
    if gpu is None:
        return gpus
    slices = any(device.mig not in ("", "none") for device in gpu.devices)
    if not slices and number_of_gpus(root) <= gpus.count:
        return gpus
    from envbuild.host.probe import gpu_facts

    found = gpu_facts().devices
    names = choose(hardware, [each for each in found if each.uuid and not each.problem], exclusive=gpu.exclusive)
    if not names or (not slices and names == tuple(each.uuid for each in found[: gpus.count])):
        return gpus
    return Gpus(devices=names)


def share(hardware: Hardware, gpus: Gpus, local: int, visible: str) -> Gpus:
    """Return the GPUs of one of several ranks on this machine, by UUID.

    Args:
        hardware: what the lock has.
        gpus: the count that it asks for.
        local: number of the rank on this machine.
        visible: ``CUDA_VISIBLE_DEVICES`` as the launcher set it; empty: all of the machine.

    Raises:
        HostMismatchError: there are not enough GPUs as locked for this rank.
    """
    from envbuild.host.probe import gpu_facts

    found = [each for each in gpu_facts().devices if each.uuid and not each.problem]
    names = divided(hardware, given(found, visible), local, gpus.count)
    if not names:
        raise HostMismatchError(
            f"local rank {local} needs {gpus.count} GPUs as locked for itself, and this machine has too few "
            f"({len(found)} in all)",
            "start fewer ranks per machine, or give each rank GPUs (Slurm: --gpus-per-task)",
        )
    return Gpus(devices=names)


def given(found: Sequence[HostGpu], visible: str) -> list[HostGpu]:
    """Return the GPUs that ``CUDA_VISIBLE_DEVICES`` names, by index or UUID, up to the first that is none."""
    if not visible.strip():
        return list(found)
    chosen: list[HostGpu] = []
    for word in (part.strip() for part in visible.split(",")):
        fits = [each for each in found if each.uuid == word or (len(word) > 6 and each.uuid.startswith(word))]
        if word.isascii() and word.isdigit() and int(word) < len(found):
            fits = [found[int(word)]]
        if len(fits) != 1:
            break
        chosen += fits
    return chosen


def divided(hardware: Hardware, found: Sequence[HostGpu], local: int, count: int) -> tuple[str, ...]:
    """Return the UUIDs of one rank: all that the launcher gave it if they are as many as locked, else its share.

    The first rank takes the first GPUs that are as locked, the next one those that follow.
    """
    left = list(found)
    names: tuple[str, ...] = ()
    for _ in range(1 if len(left) == count else local + 1):
        names = choose(hardware, left)
        if not names:
            return ()
        left = [each for each in left if each.uuid not in names]
    return names


def number_of_gpus(root: Path = Path("/")) -> int:
    """Count the machine's GPUs without waking them; 0 if the kernel module does not report it, as under WSL 2."""
    try:
        return sum(1 for _ in (root / "proc/driver/nvidia/gpus").iterdir())
    except OSError:
        return 0


def choose(hardware: Hardware, found: Sequence[HostGpu], *, exclusive: bool = False) -> tuple[str, ...]:
    """Return UUIDs of GPUs that are as locked, in the machine's order; empty if there are not enough.

    Args:
        hardware: what the lock has; a field whose policy is ``any`` or only warns is not looked at.
        found: the machine's GPUs in order of their index.
        exclusive: take GPUs that no program holds before others.
    """
    gpu = hardware.gpu
    left = sorted(found, key=_is_held) if exclusive else list(found)
    taken: list[str] = []
    for wanted in gpu.devices if gpu else ():
        fits = [device for device in left if _fits(hardware, wanted, device)][: wanted.count]
        if len(fits) < wanted.count:
            return ()
        left = [device for device in left if device not in fits]
        taken += [device.uuid for device in fits]
    return tuple(device.uuid for device in found if device.uuid in taken)


def _is_held(device: HostGpu) -> bool:
    """Return whether the guard would state that others hold a GPU."""
    return bool(gpu_devices.held(msgspec.to_builtins(device)))


def _fits(hardware: Hardware, wanted: GpuDevice, found: HostGpu) -> bool:
    """Return whether a GPU is of a locked kind, as far as the lock specifies what kind that is and the GPU reports."""
    locked, has = msgspec.to_builtins(wanted), msgspec.to_builtins(found)
    for field, fact in _FIELDS.items():
        policy = hardware.policy_of(field)
        if has[fact] and not policy.endswith("warn") and not gpu_devices.same(policy, field, locked, has):
            return False
    return True
