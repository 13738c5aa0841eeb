"""A host, described: what ``envbuild probe`` finds, as a value and as a file (``host.toml``).

The same description is locked against (``envbuild lock --host host.toml``), shown to people, and kept in run records.
Absent facts are empty values, never errors. The ``gpu`` table has the shape that ``runtime/guard/gpu.py`` prints.
"""

import msgspec

FORMAT = 1


class _Value(msgspec.Struct, frozen=True, kw_only=True, rename="kebab"):
    """Base of a description's parts. Unknown keys are ignored, so that an older envbuild reads newer files."""


class Problem(_Value, frozen=True, kw_only=True):
    """What an interface answered instead of a value: NVML's or CUDA's code (0: none), its name, a sentence."""

    code: int = 0
    name: str = ""
    message: str = ""


class GpuProcess(_Value, frozen=True, kw_only=True):
    """A program that holds a GPU; memory in MiB, 0 for unknown. Other containers' programs have no name."""

    pid: int
    name: str = ""
    memory: int = 0


class HostGpu(_Value, frozen=True, kw_only=True):
    """One GPU, or one MIG slice.

    Attributes:
        uuid: ``GPU-…`` or ``MIG-…``; empty if NVML does not report it.
        sms: streaming multiprocessors; 0 for unknown.
        memory, free: MiB.
        mig: profile of a slice, ``none`` for a whole GPU, empty for unknown.
        ecc, persistence: None where the GPU has no such mode.
        visible: a CUDA program of this process would see it (``CUDA_VISIBLE_DEVICES``); None if libcuda was not asked.
        problem: why the GPU is counted but cannot be opened.
    """

    name: str = ""
    uuid: str = ""
    compute_capability: str = ""
    sms: int = 0
    memory: int = 0
    free: int = 0
    mig: str = ""
    ecc: bool | None = None
    vbios: str = ""
    board: str = ""
    persistence: bool | None = None
    processes: tuple[GpuProcess, ...] = ()
    visible: bool | None = None
    problem: Problem | None = None


class Libcuda(_Value, frozen=True, kw_only=True):
    """The CUDA driver library that was really loaded.

    Attributes:
        path: as the kernel maps it; empty if none was loaded.
        version: from its file name, such as ``580.159.04``.
        compat: it is a forward-compatibility package's instead of the driver's.
        api: CUDA version that it implements, such as ``13.0``.
    """

    path: str = ""
    version: str = ""
    compat: bool = False
    api: str = ""
    problem: Problem | None = None


class GpuFacts(_Value, frozen=True, kw_only=True):
    """Everything about GPUs.

    Attributes:
        driver: version of the kernel module; ``driver_source`` is where it was read.
        nvml: version of the user-space driver as NVML reports it.
        problem: why NVML could not be asked; None if it could. No driver at all is no problem: ``driver`` is empty.
    """

    driver: str = ""
    driver_source: str = ""
    nvml: str = ""
    libcuda: Libcuda = Libcuda()
    problem: Problem | None = None
    devices: tuple[HostGpu, ...] = ()


class Cpu(_Value, frozen=True, kw_only=True):
    """The CPU.

    Attributes:
        level: x86-64 psABI level, ``any`` elsewhere.
        flags: those of ``/proc/cpuinfo`` that make numerical libraries choose other code, sorted.
        visible: CPUs that this process may use; ``total``: CPUs of the machine.
    """

    model: str = ""
    level: str = ""
    flags: tuple[str, ...] = ()
    visible: int = 0
    total: int = 0


class Containers(_Value, frozen=True, kw_only=True):
    """How containers get GPUs here: ``nvidia`` is ``cdi``, ``legacy`` or empty; ``toolkit`` its version."""

    engine: str = ""
    version: str = ""
    nvidia: str = ""
    toolkit: str = ""


class HostFacts(_Value, frozen=True, kw_only=True):
    """One machine; memory in bytes."""

    format: int = FORMAT
    kernel: str
    machine: str
    libc: str = ""
    memory: int = 0
    cpu: Cpu = Cpu()
    gpu: GpuFacts = GpuFacts()
    containers: Containers = Containers()
