"""``manifest``: a job for Kubernetes from a lock, as YAML."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from envbuild.cluster import kubernetes
from envbuild.cluster.kubernetes import Kind as Kind
from envbuild.cluster.kubernetes import Pods as Pods
from envbuild.cluster.kubernetes_claims import Device
from envbuild.core.digest import sha256_bytes
from envbuild.errors import UsageError
from envbuild.lockfile.hardware import GpuDevice, Hardware
from envbuild.lockfile.model import Lock, read
from envbuild.operations.load_lock import load_lock
from envbuild.registry.reference import parse_reference
from envbuild.runs.container import DATE, HOME, USER


def kubernetes_manifest(command: Sequence[str], pods: Pods, lock: Path | None, *, config_map: bool = False) -> str:
    """Return the YAML of a job that runs a program in a lock's image.

    Args:
        command: a script with its arguments, ``-m MODULE …``, or a command line.
        pods: what to ask for; an empty name: the lock's.
        lock: the lock's file; None: search upward from the working directory.
        config_map: put the lock into a ConfigMap, which pods see.

    Raises:
        UsageError: a value does not fit, there is no program, or the image is not named by its digest.
        LockError: there is no lock, it is invalid, or it is stale.
    """
    if not command:
        raise UsageError("manifest: there is no program", "envbuild manifest kubernetes --image REF@sha256:… train.py")
    if not parse_reference(pods.image).digest:
        raise UsageError(
            f"--image: expected a reference by digest, found {pods.image!r}", "envbuild push prints it: REF@sha256:…"
        )
    found = load_lock(lock, option=True)
    loaded = found.lock
    if not pods.name:
        pods = kubernetes.named(pods, loaded.name)
    if config_map:
        data = read(found.path)
        text = kubernetes.LockText(file=loaded.file_name, text=data.decode(), sha256=sha256_bytes(data))
        pods = replace(pods, lock=text)
    words = ("python", *command) if command[0].endswith(".py") or command[0] in ("-m", "-c") else tuple(command)
    environment = {"HOME": HOME, "USER": USER, "LOGNAME": USER}
    if DATE not in loaded.environment:
        environment[DATE] = "315532800"
    head = f"# Written by envbuild manifest from {loaded.file_name}.\n"
    return head + kubernetes.manifest(pods, _needs(loaded), words, environment)


def _needs(lock: Lock) -> kubernetes.Needs:
    """Return what a lock asks of a node, as far as a node's labels and resources have it."""
    gpu = lock.hardware.gpu
    architecture = "arm64" if "aarch64" in lock.python.platform else "amd64"
    if gpu is None:
        return kubernetes.Needs(architecture=architecture, cpus=lock.determinism.threads)
    models = {device.model for device in gpu.devices}
    slices = {device.mig for device in gpu.devices if device.mig not in ("", "none")}
    exact = lock.hardware.policy_of("gpu.model") == "exact"
    return kubernetes.Needs(
        architecture=architecture,
        cpus=lock.determinism.threads,
        gpus=gpu.count,
        mig=slices.pop() if len(slices) == 1 else "",
        model=models.pop() if exact and len(models) == 1 else "",
        devices=tuple(_device(device, gpu.driver, lock.hardware) for device in gpu.devices),
    )


def _device(device: GpuDevice, driver: str, hardware: Hardware) -> Device:
    """Return what a ResourceClaim states of one kind of GPU: what the guard would refuse, not what it only warns of."""
    return Device(
        count=device.count,
        model=device.model if hardware.policy_of("gpu.model") == "exact" else "",
        mig=device.mig if device.mig != "none" and hardware.policy_of("gpu.mig") == "exact" else "",
        capability=(device.compute_capability, hardware.policy_of("gpu.compute-capability")),
        driver=(driver, hardware.policy_of("gpu.driver")),
    )
