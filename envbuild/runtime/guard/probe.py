"""Observations: what this machine, this container and this process really are. Nothing here judges.

Each function reads small files below ``/proc`` and ``/sys`` or lists a folder; ``root`` replaces ``/`` in tests.
"""

from __future__ import annotations

import os

from ..digest import sha256

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

# What each level adds, in the words of /proc/cpuinfo (System V psABI for x86-64, section 3.1.1, table 3.1):
# sse3 is "pni", lzcnt is "abm", osxsave shows as "xsave".
LEVELS = (
    ("x86-64-v2", frozenset(("cx16", "lahf_lm", "popcnt", "pni", "sse4_1", "sse4_2", "ssse3"))),
    ("x86-64-v3", frozenset(("avx", "avx2", "bmi1", "bmi2", "f16c", "fma", "abm", "movbe", "xsave"))),
    ("x86-64-v4", frozenset(("avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl"))),
)

# By these flags of /proc/cpuinfo numerical libraries choose other code, whose sums may be rounded otherwise:
# glibc's libm (sysdeps/x86_64/fpu/multiarch: sse4_1, fma with avx2, fma4), oneDNN (its CPU dispatcher control: sse4_1
# to amx_fp16), OpenBLAS (driver/others/dynamic.c: avx2, avx512*), NumPy (its CPU build options: f16c, fma, avx512*),
# ATen (cpu_capability: avx2 with fma, avx512*), and what XLA, LLVM and Triton compile for the CPU that is there.
# By prefix, since each generation of CPUs brings new ones. Left out: what only moves, hashes or encrypts (erms, aes).
_CODE_FLAGS = frozenset(("f16c", "sse4_1", "sse4_2", "ssse3", "xop"))
_CODE_PREFIXES = ("amx_", "avx", "fma")


def kernel() -> str:
    """Return the kernel's release, as ``uname -r`` prints it."""
    return os.uname().release


def cpu_level(root: str = "/", machine: str = "") -> str:
    """Return the level of the CPU: of the x86-64 psABI or of the Arm architecture.

    ``any`` on other architectures, empty if it cannot be read.
    """
    machine = machine or os.uname().machine
    if machine == "aarch64":
        from . import arm  # late: other machines do without it

        return arm.level(_arm_features(root))
    if machine != "x86_64":
        return "any"
    flags = _cpu_flags(root)
    if not flags:
        return ""
    level = "x86-64"
    for name, needed in LEVELS:
        if not needed <= flags:
            break
        level = name
    return level


def emulated(root: str = "/", machine: str = "") -> bool:
    """Return whether an emulator starts this machine's programs: ``/proc/cpuinfo`` describes another CPU than they see.

    QEMU shows the file of the real machine, newer versions one of a CPU that nobody makes: implementer 0.
    """
    maker = _cpu_line(root, "CPU implementer")
    if (machine or os.uname().machine) != "aarch64":
        return bool(maker)
    return maker.strip("0x") == "" and os.path.exists(os.path.join(root, "proc/cpuinfo"))


def _arm_features(root: str) -> frozenset[str]:
    """Return what the kernel shows of the CPU; under an emulator that shows nothing, what the program is told."""
    from . import arm

    return frozenset(_cpu_line(root, "Features").split()) or arm.vector_features(root)


def _cpu_flags(root: str) -> frozenset[str]:
    return frozenset(_cpu_line(root, "flags").split())


def _cpu_line(root: str, key: str) -> str:
    """Read one line of the first CPU only: the whole file takes milliseconds on a machine with many cores."""
    text = ""
    try:
        with open(os.path.join(root, "proc/cpuinfo"), "rb", buffering=0) as stream:
            while True:
                chunk = stream.read(4096).decode("ascii", "replace")
                text += chunk
                start = text.find(f"\n{key}\t")
                end = text.find("\n", start + 1)
                second = text.find("\n\n")
                if start >= 0 and end >= 0 and not 0 <= second < start:
                    return text[start:end].partition(":")[2].strip()
                if not chunk or second >= 0:
                    return ""
    except OSError:
        return ""


def code_flags(root: str = "/", machine: str = "") -> list[str]:
    """Return those flags of the first CPU that make numerical libraries choose other code, sorted."""
    if (machine or os.uname().machine) == "aarch64":
        from . import arm

        return arm.code_flags(_arm_features(root), _cpu_line(root, "CPU implementer"), _cpu_line(root, "CPU part"))
    return sorted(flag for flag in _cpu_flags(root) if flag in _CODE_FLAGS or flag.startswith(_CODE_PREFIXES))


def gpu_files(root: str = "/") -> list[dict[str, str]]:
    """Return an empty description per device file of a GPU: all that is known without asking the driver."""
    try:
        names = os.listdir(os.path.join(root, "dev"))
    except OSError:
        return []
    return [{} for name in names if name.startswith("nvidia") and name[6:].isdigit()]


def gpus(site: str = "", python: str = "") -> dict[str, Any]:
    """Return what is known of the GPUs, asked by a process of its own (``gpu_ask``, whose arguments these are)."""
    from . import gpu_ask  # late: a lock without GPU does without it

    return gpu_ask.gpus(site, python)


def host_gpus() -> dict[str, Any]:
    """Return what is known of a host's GPUs, hidden ones too: a run is not handed this process's variable.

    libcuda does not show a GPU that ``CUDA_VISIBLE_DEVICES`` hides, nor its SMs.
    """
    from . import gpu_ask

    variables = {name: value for name, value in os.environ.items() if name != "CUDA_VISIBLE_DEVICES"}
    return gpu_ask.gpus(environment=variables)


def cpu_model(root: str = "/") -> str:
    """Return the first CPU's model name; on arm64, where most kernels print none, the name of its core."""
    if name := _cpu_line(root, "model name"):
        return name
    maker = _cpu_line(root, "CPU implementer")
    if not maker:
        return ""
    from . import arm

    return arm.core(maker, _cpu_line(root, "CPU part"))


def visible_cpus() -> int:
    """Return how many CPUs the scheduler lets this process use."""
    return len(os.sched_getaffinity(0))


def cpu_quota(root: str = "/") -> float | None:
    """Return the CPU time limit of the control group in CPUs, or None: the tightest on the way up, v1 or v2."""
    limits = []
    for line in _read(os.path.join(root, "proc/self/cgroup")).splitlines():
        _, controllers, path = [*line.split(":", 2), "", ""][:3]
        if controllers == "":
            limits += [_quota_v2(folder) for folder in _upward(os.path.join(root, "sys/fs/cgroup"), path)]
        elif "cpu" in controllers.split(","):
            mounts = [os.path.join(root, "sys/fs/cgroup", name) for name in dict.fromkeys(("cpu", controllers))]
            limits += [_quota_v1(folder) for mount in mounts for folder in _upward(mount, path)]
    known = [limit for limit in limits if limit is not None]
    return min(known) if known else None


def _upward(mount: str, path: str) -> list[str]:
    """List a control group's folder and its parents' up to the mount: inside a container only the mount exists."""
    folders = [mount]
    for part in path.split("/"):
        if part and part != "..":
            folders.append(os.path.join(folders[-1], part))
    return folders


def _quota_v2(folder: str) -> float | None:
    words = _read(os.path.join(folder, "cpu.max")).split()
    return int(words[0]) / int(words[1]) if len(words) == 2 and words[0].isdigit() and words[1].isdigit() else None


def _quota_v1(folder: str) -> float | None:
    quota = _read(os.path.join(folder, "cpu.cfs_quota_us")).strip()
    period = _read(os.path.join(folder, "cpu.cfs_period_us")).strip()
    return int(quota) / int(period) if quota.isdigit() and period.isdigit() and int(period) else None


def environment() -> dict[str, str]:
    """Return the process environment."""
    return dict(os.environ)


def nccl_files(home: str, root: str = "/") -> list[str]:
    """Return the files from which NCCL takes variables, where there are any (NCCL's misc/param.cc).

    NCCL looks into the home folder that the user database has; ``home`` is the one of the environment.
    """
    homes = [home]
    try:
        import pwd

        homes.append(pwd.getpwuid(os.getuid()).pw_dir)
    except (ImportError, KeyError):  # a user without an entry: NCCL finds no home either
        pass
    paths = [f"{folder.rstrip('/')}/.nccl.conf" for folder in dict.fromkeys(homes) if folder.startswith("/")]
    return [path for path in (*paths, "/etc/nccl.conf") if os.path.isfile(f"{root.rstrip('/')}{path}")]


def command_path(name: str, search: str) -> str:
    """Return the path that ``name`` leads to along a ``PATH`` value, or an empty string."""
    for folder in search.split(":"):
        path = os.path.join(folder or ".", name)
        if os.access(path, os.X_OK) and not os.path.isdir(path):
            return path
    return ""


def distributions(site: str, ours: str = "") -> dict[str, str]:
    """Return what is installed in a site-packages folder: ``name==version`` to its fault, empty if it has none.

    A distribution is a ``NAME-VERSION.dist-info`` folder with METADATA and RECORD (PyPA "Recording installed
    projects"); the older ``.egg-info`` and ``.egg-link`` are reported too, as are ``.pth`` files that no RECORD
    lists, since each of them runs code at every start of the interpreter. ``ours`` is the one that starts the hook.
    """
    found: dict[str, str] = {}
    loose = []
    records = []
    for entry in sorted(os.listdir(site) if os.path.isdir(site) else ()):
        stem, dot, kind = entry.rpartition(".")
        if kind == "dist-info" and dot:
            name, _, version = stem.partition("-")
            folder = os.path.join(site, entry)
            missing = [part for part in ("METADATA", "RECORD") if not os.path.isfile(os.path.join(folder, part))]
            found[f"{name}=={version}"] = f"{' and '.join(missing)} missing" if missing else ""
            records.append(os.path.join(folder, "RECORD"))
        elif kind in ("egg-info", "egg-link", "egg"):
            found[f"{stem.partition('-')[0]}=={entry}"] = f"not installed from a wheel: {entry}"
        elif kind == "pth" and entry != ours:
            loose.append(entry)
    for entry in _unrecorded(loose, records):
        found[f"{entry}=="] = "start-up file of no locked distribution"
    return found


def _unrecorded(names: list[str], records: list[str]) -> list[str]:
    """Return the files of the site folder itself that no RECORD lists; reads no RECORD if there are none."""
    left = list(names)
    for path in records:
        if not left:
            break
        text = "\n" + _read(path)
        left = [name for name in left if f"\n{name}," not in text and f'\n"{name}",' not in text]
    return left


def digests(paths: Iterable[str]) -> dict[str, str]:
    """Return the SHA-256 of each file, or an empty string where it cannot be read."""
    found = {}
    for path in paths:
        try:
            with open(path, "rb", buffering=0) as stream:
                found[path] = sha256(stream.read())
        except OSError:
            found[path] = ""
    return found


def _read(path: str) -> str:
    """Return a small text file, or an empty string if it cannot be read."""
    try:
        with open(path, encoding="utf-8", errors="replace") as stream:
            return stream.read()
    except OSError:
        return ""
