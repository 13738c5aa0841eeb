"""Machines with GPUs that are not there: C libraries standing in for NVML and libcuda, and descriptions of machines.

``build_standin`` compiles both once; ``install`` lays them out for one machine, as a driver package does: libraries by
version with links to them, the scenario next to them, and the kernel module's version file. A process gets them by
``Standin.environment``. A container gets them by ``Standin.mounts``, without any variable: glibc looks into the
``glibc-hwcaps`` folder of its default search path first, and ``/sys/module`` (unlike anything below ``/proc``) may be
mounted over.
"""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

SOURCES = Path(__file__).parent / "standin"
SONAMES = {"nvml": "libnvidia-ml.so", "cuda": "libcuda.so"}
HWCAPS = "/usr/lib/x86_64-linux-gnu/glibc-hwcaps/x86-64-v2"
COMPAT = "/usr/local/cuda/compat"
NOT_SUPPORTED, NO_PERMISSION, FUNCTION_NOT_FOUND, GPU_IS_LOST = 3, 4, 13, 15
HANG, CRASH, CHATTER = -1, -2, -3
"""Codes of the stand-in's own (scenario.h): the call never returns, crashes, prints before it answers."""
DRIVER = "580.159.04"


@dataclass(frozen=True, kw_only=True)
class Slice:
    """A MIG slice; memory and free in MiB."""

    name: str
    uuid: str
    sms: int
    memory: int
    free: int
    slice_size: int = 1
    compute_size: int = 1
    processes: tuple[tuple[int, int, str], ...] = ()
    returns: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Device:
    """A GPU; memory and free in MiB, processes as (pid, MiB, name), ``returns`` the codes that calls on it answer."""

    name: str
    uuid: str
    compute_capability: str
    sms: int
    memory: int
    free: int
    vbios: str = "96.00.99.00.01"
    board: str = "692-2G520-0000-000"
    cores: int = 0
    mig: int = 0
    ecc: int = 1
    persistence: int = 1
    lost_after: int = -1
    processes: tuple[tuple[int, int, str], ...] = ()
    slices: tuple[Slice, ...] = ()
    returns: Mapping[str, int] = field(default_factory=dict)

    def but(self, **changes: Any) -> Device:
        """Return the device with other fields."""
        return replace(self, **changes)

    def unsupported(self, *functions: str, code: int = NOT_SUPPORTED) -> Device:
        """Return the device with calls such as ``EccMode`` answering NotSupported."""
        return replace(self, returns={**self.returns, **{f"nvmlDeviceGet{name}": code for name in functions}})


@dataclass(frozen=True, kw_only=True)
class Scenario:
    """A machine: its GPUs, versions, codes that calls answer; delays in microseconds, ``cuda`` as 13000 for 13.0."""

    devices: tuple[Device, ...] = ()
    driver: str = DRIVER
    cuda: int = 13000
    delay: int = 0
    init_delay: int = 0
    all_slices: bool = False
    returns: Mapping[str, int] = field(default_factory=dict)

    def but(self, **changes: Any) -> Scenario:
        """Return the machine with other fields."""
        return replace(self, **changes)

    def text(self) -> str:
        """Return the scenario file (tests/support/standin/scenario.h)."""
        top = {"driver": self.driver, "cuda": self.cuda, "delay": self.delay, "init-delay": self.init_delay}
        lines = _lines({**top, "all-slices": int(self.all_slices)}, self.returns)
        for device in self.devices:
            lines += _part("gpu", device)
            for piece in device.slices:
                lines += _part("slice", piece)
        return "\n".join(lines) + "\n"


def _part(heading: str, part: Device | Slice) -> list[str]:
    values = {
        name.replace("_", "-"): value for name, value in vars(part).items() if not isinstance(value, tuple | dict)
    }
    lines = ["", f"[{heading}]", *_lines(values, part.returns)]
    return lines + [f"process = {pid} {memory} {name}".rstrip() for pid, memory, name in part.processes]


def _lines(values: Mapping[str, object], returns: Mapping[str, int]) -> list[str]:
    return [f"{key} = {value}" for key, value in values.items()] + [
        f"return.{key} = {value}" for key, value in returns.items()
    ]


def gpu_uuid(number: int, kind: str = "GPU") -> str:
    """Return an UUID as NVML writes it, another one for each number."""
    return f"{kind}-{number:08x}-0000-4000-8000-{number * 7919:012x}"


def h100(number: int = 0, **changes: Any) -> Device:
    """NVIDIA H100 SXM5 80 GB: 132 SMs, compute capability 9.0."""
    values: dict[str, Any] = {
        "name": "NVIDIA H100 80GB HBM3",
        "compute_capability": "9.0",
        "sms": 132,
        "memory": 81559,
        "free": 81079,
        "vbios": "96.00.74.00.01",
        "board": "692-2G520-0200-000",
    }
    return Device(**{"uuid": gpu_uuid(0x100 + number), **values, **changes})


def h200(number: int = 0, **changes: Any) -> Device:
    """NVIDIA H200: 132 SMs like the H100, other memory."""
    values = {"name": "NVIDIA H200", "uuid": gpu_uuid(0x200 + number), "memory": 143771, "free": 143156}
    return h100(**{**values, "vbios": "96.00.D0.00.03", "board": "692-2G520-0280-501", **changes})


def a100(number: int = 0, **changes: Any) -> Device:
    """NVIDIA A100 SXM4 40 GB, whole: 108 SMs, compute capability 8.0."""
    values: dict[str, Any] = {
        "name": "NVIDIA A100-SXM4-40GB",
        "compute_capability": "8.0",
        "sms": 108,
        "memory": 40960,
        "free": 40441,
        "vbios": "92.00.45.00.03",
        "board": "692-2G506-0200-002",
    }
    return Device(**{"uuid": gpu_uuid(0xA100 + number), **values, **changes})


A100_SLICES = {
    "1g.5gb": (14, 4864, 1, 1),
    "1g.5gb+me": (14, 4864, 1, 1),
    "2g.10gb": (28, 9856, 2, 2),
    "3g.20gb": (42, 19968, 3, 3),
    "4g.20gb": (56, 19968, 4, 4),
    "7g.40gb": (98, 40192, 7, 7),
}
"""SMs, MiB, GPU slices and compute slices of a profile
(https://docs.nvidia.com/datacenter/tesla/mig-user-guide/supported-mig-profiles.html)."""


def a100_mig(*profiles: str, number: int = 0, **changes: Any) -> Device:
    """An A100 cut into slices of these profiles."""
    slices = []
    for index, profile in enumerate(profiles):
        sms, memory, size, compute = A100_SLICES[profile]
        uuid = gpu_uuid(0xA1000 + 16 * number + index, "MIG")
        slices.append(
            Slice(
                name=profile, uuid=uuid, sms=sms, memory=memory, free=memory - 12, slice_size=size, compute_size=compute
            )
        )
    return a100(number, **{"mig": 1, "slices": tuple(slices), **changes})


def t4(number: int = 0, **changes: Any) -> Device:
    """Tesla T4: 40 SMs, compute capability 7.5, no MIG."""
    values: dict[str, Any] = {
        "name": "Tesla T4",
        "compute_capability": "7.5",
        "sms": 40,
        "memory": 15360,
        "free": 14917,
        "vbios": "90.04.38.00.03",
        "board": "900-2G183-0000-001",
        "persistence": 0,
        "returns": {"nvmlDeviceGetMigMode": NOT_SUPPORTED},
    }
    return Device(**{"uuid": gpu_uuid(0x400 + number), **values, **changes})


def laptop(number: int = 0, **changes: Any) -> Device:
    """A laptop's RTX 4060: no ECC, no MIG, no board part, processes without memory."""
    values: dict[str, Any] = {
        "name": "NVIDIA GeForce RTX 4060 Laptop GPU",
        "compute_capability": "8.9",
        "sms": 24,
        "memory": 8188,
        "free": 7805,
        "vbios": "95.07.0B.00.2C",
        "persistence": 0,
        "processes": ((4242, 0, "/usr/bin/blender"),),
    }
    device = Device(**{"uuid": gpu_uuid(0x4060 + number), **values, **changes})
    return device.unsupported("EccMode", "MigMode", "BoardPartNumber", "Serial")


def machine(*devices: Device, **changes: Any) -> Scenario:
    """A machine with these GPUs."""
    return Scenario(devices=devices, **changes)


def eight_h200(**changes: Any) -> Scenario:
    """A node with eight H200."""
    return machine(*(h200(number) for number in range(8)), **changes)


SCENARIOS: Mapping[str, Scenario] = {
    "h100": machine(h100()),
    "h200": machine(h200()),
    "a100": machine(a100()),
    "a100-mig-1g": machine(a100_mig("1g.5gb")),
    "a100-mig-mixed": machine(a100_mig("3g.20gb", "2g.10gb", "1g.5gb")),
    "8xh200": eight_h200(),
    "mixed": machine(h200(), h100(), t4()),
    "t4": machine(t4()),
    "laptop": machine(laptop(), driver="550.144.03", cuda=12040),
    "none": machine(),
}
"""Machines by name."""


@dataclass(frozen=True)
class Standin:
    """A machine laid out in a folder: ``lib`` has the libraries and the scenario, ``module`` is for /sys/module."""

    folder: Path

    @property
    def environment(self) -> dict[str, str]:
        """Return the variables that give a process on this host the machine's libraries."""
        return {"LD_LIBRARY_PATH": str(self.folder / "lib")}

    @property
    def mounts(self) -> dict[str, str]:
        """Return what to mount read-only into a container: folder on this host to path inside."""
        mounts = {str(self.folder / "lib"): HWCAPS, str(self.folder / "module"): "/sys/module"}
        if (self.folder / "compat").is_dir():
            mounts[str(self.folder / "compat")] = COMPAT
        return mounts

    def change(self, scenario: Scenario) -> None:
        """Make it another machine for the processes that start from now on; the library files keep their names."""
        (self.folder / "lib" / "standin.conf").write_bytes(scenario.text().encode("utf-8", "surrogateescape"))


def build_standin(folder: Path) -> Path:
    """Compile both libraries into a folder and return it; a library that is there stays.

    Raises:
        RuntimeError: no C compiler, or it failed.
    """
    folder.mkdir(parents=True, exist_ok=True)
    compiler = shutil.which("cc")
    if compiler is None:
        raise RuntimeError("no C compiler (cc), which the GPU stand-in needs: scripts/ensure-compiler.sh")
    for source, name in SONAMES.items():
        target = folder / f"{name}.1"
        if target.exists():
            continue
        command = [
            compiler,
            "-std=gnu11",
            "-O1",
            "-Wall",
            "-Wextra",
            "-Wno-unused-function",
            "-Werror",
            "-shared",
            "-fPIC",
        ]
        command += [f"-Wl,-soname,{name}.1", "-o", str(target), str(SOURCES / f"{source}.c"), "-ldl"]
        done = subprocess.run(command, capture_output=True, text=True, timeout=120)
        if done.returncode:
            raise RuntimeError(f"the GPU stand-in does not compile:\n{done.stderr}")
    return folder


def install(
    libraries: Path, folder: Path, scenario: Scenario, *, kernel: str = "", libcuda: str = "", compat: bool = False
) -> Standin:
    """Lay a machine out in a new folder.

    Args:
        libraries: what ``build_standin`` returned.
        kernel: version of the kernel module; as the scenario's driver if empty, ``none`` for no module.
        libcuda: version of libcuda's file; as the scenario's driver if empty, ``none`` for no libcuda.
        compat: libcuda is in the image's forward-compatibility folder (in containers only).
    """
    lib = folder / "lib"
    lib.mkdir(parents=True)
    (folder / "module").mkdir()
    versions = {"nvml": scenario.driver, "cuda": libcuda or scenario.driver}
    for source, name in SONAMES.items():
        if versions[source] == "none":
            continue
        home = folder / "compat" if compat and source == "cuda" else lib
        home.mkdir(exist_ok=True)
        shutil.copyfile(libraries / f"{name}.1", home / f"{name}.{versions[source]}")
        shown = Path(COMPAT) if home.name == "compat" else Path()
        (lib / f"{name}.1").symlink_to(shown / f"{name}.{versions[source]}")
    standin = Standin(folder)
    standin.change(scenario)
    if compat:
        (folder / "compat" / "standin.conf").write_text(scenario.text())
    if kernel != "none":
        (folder / "module" / "nvidia").mkdir()
        (folder / "module" / "nvidia" / "version").write_text(f"{kernel or scenario.driver}\n")
    return standin
