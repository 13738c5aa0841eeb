"""This machine, described: what ``envbuild probe`` shows, what ``hardware: detect`` locks, what a record keeps.

The guard's own probes are used, so that what is locked here is what a container will be compared with. Nothing found is
an empty value. Takes well under a second, unless the driver has to wake GPUs that nobody keeps awake.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from envbuild.core.driver_gpus import FOLDER, driver_gpus
from envbuild.core.patterns import lazy
from envbuild.host.facts import Containers, Cpu, GpuFacts, HostFacts, HostGpu
from envbuild.runtime.guard import driver, gpu_ask, probe

if TYPE_CHECKING:
    import subprocess

CDI_FOLDERS = ("etc/cdi", "var/run/cdi")
"""Where engines look for devices described for containers
(https://github.com/cncf-tags/container-device-interface/blob/main/SPEC.md)."""
_CDI_KIND = lazy(r"""["']?kind["']?\s*:\s*["']?nvidia\.com/gpu["']?\s*(?:,|}|$)""", re.M)
_LEGACY = ("nvidia-container-runtime", "nvidia-container-runtime-hook", "nvidia-container-toolkit")
_ENGINES = ("docker", "podman")
_FIRST_WITH_CDI = {"docker": 25, "podman": 4}
"""Docker 25 learned CDI (https://docs.docker.com/build/building/cdi/), podman 4 earlier."""
_PATIENCE = 1.0
"""Seconds that an engine or a command gets to report its version."""
_SOCKETS = (("docker", "run/docker.sock"), ("docker", "var/run/docker.sock"), ("podman", "run/podman/podman.sock"))
_HIDES = "CUDA_VISIBLE_DEVICES"


def probe_host(root: Path = Path("/")) -> HostFacts:
    """Describe this machine; ``root`` represents ``/`` in tests of what is read from files."""
    system = os.uname()
    engines = engine_versions(root)
    started = [_Version(*command) for command in _version_commands(toolkit_only=bool(engines))]
    gpu = gpu_facts()
    versions = engines | {version.name: version.text() for version in started}
    return HostFacts(
        kernel=system.release,
        machine=system.machine,
        libc=libc(),
        memory=os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"),
        cpu=cpu_facts(root),
        gpu=gpu,
        containers=containers(root, versions),
    )


def host_facts(root: Path = Path("/"), *, gpus: bool = True) -> HostFacts:
    """Describe this machine but for its container engine, which describes itself.

    Without a driver no GPU is looked for; with one it is asked in a separate process: 0.3 s with an H100, and seconds
    where the driver has to wake GPUs.

    Args:
        root: represents ``/`` in tests.
        gpus: whether they are asked; else what the driver's files name is all: for a run that gets none.
    """
    system = os.uname()
    return HostFacts(
        kernel=system.release,
        machine=system.machine,
        libc=libc(),
        memory=os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"),
        cpu=cpu_facts(root),
        gpu=GpuFacts() if lacks_gpu_driver(root) else gpu_facts() if gpus else gpus_by_name(root),
    )


def lacks_gpu_driver(root: Path = Path("/")) -> bool:
    """Whether this machine plainly has no driver for NVIDIA's GPUs; costs a few looks at files."""
    return not driver.traces(str(root), os.environ.get("LD_LIBRARY_PATH", ""))


def gpu_facts() -> GpuFacts:
    """Ask NVML and libcuda, in a separate process, through the nvidia-ml-py that this environment has."""
    import importlib.util  # what follows is imported where it is used: a run asks for none of it

    spec = importlib.util.find_spec("pynvml")
    site = str(Path(spec.origin).parent) if spec is not None and spec.origin else ""
    found = gpu_ask.gpus(site)
    if os.environ.get(_HIDES) is not None and any(device["sms"] == 0 for device in found["devices"]):
        # libcuda reports no SM count of a GPU that the variable hides, and the machine has it all the same.
        everything = {name: value for name, value in os.environ.items() if name != _HIDES}
        counts = {device["uuid"]: device["sms"] for device in gpu_ask.gpus(site, environment=everything)["devices"]}
        for device in found["devices"]:
            device["sms"] = device["sms"] or counts.get(device["uuid"], 0)
    return msgspec.convert(found, GpuFacts)


def gpus_by_name(root: Path = Path("/")) -> GpuFacts:
    """Return driver, and names and identities of GPUs, as the driver's files have them; no GPU is woken."""
    version, source = driver.module(str(root))
    devices = tuple(HostGpu(name=gpu.name, uuid=gpu.uuid) for gpu in driver_gpus(root / FOLDER))
    return GpuFacts(driver=version, driver_source=source, devices=devices)


def cpu_facts(root: Path = Path("/")) -> Cpu:
    """Describe the CPU."""
    return Cpu(
        model=probe.cpu_model(str(root)),
        level=probe.cpu_level(str(root)),
        flags=tuple(probe.code_flags(str(root))),
        visible=probe.visible_cpus(),
        total=os.cpu_count() or 1,
    )


def libc() -> str:
    """Return the C library with its version, such as ``glibc 2.36``; empty for another one than glibc."""
    try:
        return os.confstr("CS_GNU_LIBC_VERSION") or ""
    except (OSError, ValueError):
        return ""


def containers(root: Path, versions: dict[str, str]) -> Containers:
    """Return how containers get GPUs here, as far as files and commands show; the engine itself is not asked.

    Args:
        root: represents ``/`` in tests.
        versions: of the engines and commands that answered: ``docker``, ``podman``, ``nvidia-ctk``.
    """
    engine = next((name for name in _ENGINES if name in versions), "")
    version = versions.get(engine, "")
    cdi = any(_CDI_KIND.search(text) for text in _specifications(root))
    legacy = any(_on_path(root, name) for name in _LEGACY)
    major = version.partition(".")[0]
    too_old = major.isdigit() and int(major) < _FIRST_WITH_CDI.get(engine, 0)
    nvidia = "cdi" if cdi and not (too_old and legacy) else "legacy" if legacy else ""
    return Containers(engine=engine, version=version, nvidia=nvidia, toolkit=versions.get("nvidia-ctk", ""))


def _specifications(root: Path) -> Iterator[str]:
    """Yield the text of each CDI specification that can be read."""
    for folder in CDI_FOLDERS:
        for path in sorted((root / folder).glob("*")):
            if path.suffix in (".json", ".yaml", ".yml"):
                try:
                    yield path.read_text(encoding="utf-8", errors="replace")
                except OSError:
                    continue


def _on_path(root: Path, name: str) -> bool:
    import shutil

    folders = os.environ.get("PATH", "").split(":") if root == Path("/") else []
    return shutil.which(name, path=":".join([*folders, str(root / "usr/bin"), str(root / "usr/local/bin")])) is not None


def engine_versions(root: Path) -> dict[str, str]:
    """Ask the first engine that listens on this machine for its version; a command may be of another version."""
    for name, socket_path in _SOCKETS:
        if (version := _engine_version(root / socket_path)) is not None:
            return {name: version}
    return {}


def _engine_version(path: Path) -> str | None:
    """Return what an engine's ``GET /version`` states; None if nothing that is an engine answers."""
    import socket

    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(_PATIENCE)
        try:
            connection.connect(str(path))
            connection.sendall(b"GET /version HTTP/1.0\r\nHost: localhost\r\n\r\n")
            with connection.makefile("rb") as stream:
                _, _, body = stream.read(1 << 16).partition(b"\r\n\r\n")
            return str(msgspec.json.decode(body)["Version"])
        except (OSError, ValueError, RecursionError, KeyError, TypeError):
            return None


def _version_commands(*, toolkit_only: bool) -> list[tuple[str, str]]:
    """Return the commands to ask, by name and path: NVIDIA's toolkit, and an engine if none listens."""
    import shutil

    engines = [] if toolkit_only else [(name, path) for name in _ENGINES if (path := shutil.which(name))]
    toolkit = [(name, path) for name in ("nvidia-ctk",) if (path := shutil.which(name))]
    return engines[:1] + toolkit


class _Version:
    """A command that prints its version while other things are done."""

    def __init__(self, name: str, path: str) -> None:
        import subprocess

        self.name = name
        try:
            self._process: subprocess.Popen[str] | None = subprocess.Popen(
                [path, "--version"],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                text=True,
                errors="replace",
                env={**os.environ, "LC_ALL": "C"},
            )
        except OSError:
            self._process = None

    def text(self) -> str:
        """Return the first version number that it states; empty if it reports none in time."""
        import subprocess

        if self._process is None:
            return ""
        try:
            sentence, _ = self._process.communicate(timeout=_PATIENCE)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.communicate()
            return ""
        found = re.search(r"\b\d+(?:\.\d+)+", sentence)
        return found[0] if found else ""
