"""What NVML reports, by nvidia-ml-py: all GPUs and MIG slices of this machine or container. Runs in its own process.

Sources: https://docs.nvidia.com/deploy/nvml-api/ for functions and codes; for MIG
https://docs.nvidia.com/datacenter/tesla/mig-user-guide/. An older or smaller GPU answers many questions with
NotSupported, an older driver has no such function: the fact is then absent, which is no problem.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_ABSENT = frozenset((2, 3, 4, 6, 13, 21, 25, 26))
"""InvalidArgument (asked of a slice), NotSupported, NoPermission, NotFound, FunctionNotFound, NoData, versions."""
_MAX_SLICES = 8


class Nvml:
    """The binding, started."""

    def __init__(self, binding: Any) -> None:
        self.binding = binding
        binding.nvmlInit()

    def problem(self, error: Any) -> dict[str, Any]:
        """Return an answer that is no value: ``Problem`` of ``envbuild/host/facts.py``."""
        return problem(self.binding, error)

    def version(self) -> str:
        """Return the version of the user-space driver, or an empty string."""
        return self._ask({}, "nvmlSystemGetDriverVersion", default="") or ""

    def devices(self) -> list[dict[str, Any]]:
        """Return every GPU in NVML's order, a GPU in MIG mode as its slices; raises the binding's error."""
        found = []
        for index in range(int(self.binding.nvmlDeviceGetCount())):
            facts = blank()
            try:
                handle = self.binding.nvmlDeviceGetHandleByIndex(index)
            except self.binding.NVMLError as error:
                found.append({**facts, "problem": self.problem(error)})
                continue
            self._fill(facts, handle)
            mode = self._ask(facts, "nvmlDeviceGetMigMode", handle, default=None)
            if mode is None or not int(mode[0]):  # a GPU or driver without MIG is a whole GPU for sure
                found.append({**facts, "mig": "none" if facts["problem"] is None else ""})
            else:
                found += self._slices(facts, handle)
        return found

    def _ask(self, facts: dict[str, Any], function: str, *arguments: Any, default: Any) -> Any:
        """Call a function of NVML; what is no mere absence is kept as the GPU's problem, the first of them only."""
        try:
            return getattr(self.binding, function)(*arguments)
        except self.binding.NVMLError as error:
            if int(error.value) not in _ABSENT and "problem" in facts and facts["problem"] is None:
                facts["problem"] = self.problem(error)
        except (AttributeError, UnicodeDecodeError):  # a binding older than the function; memory that is no text
            pass
        return default

    def _fill(self, facts: dict[str, Any], handle: Any) -> None:
        """Ask everything about a whole GPU."""

        def ask(function: str, default: Any = None) -> Any:
            return self._ask(facts, f"nvmlDeviceGet{function}", handle, default=default)

        facts["name"] = str(ask("Name", ""))
        facts["uuid"] = str(ask("UUID", ""))
        capability = ask("CudaComputeCapability")
        facts["compute-capability"] = f"{capability[0]}.{capability[1]}" if capability else ""
        ecc, persistence = ask("CurrentEccMode"), ask("PersistenceMode")
        facts["ecc"] = None if ecc is None else bool(ecc)
        facts["persistence"] = None if persistence is None else bool(persistence)
        facts["vbios"] = str(ask("VbiosVersion", ""))
        facts["board"] = str(ask("BoardPartNumber", "")).strip()
        self._fill_use(facts, handle)

    def _fill_use(self, facts: dict[str, Any], handle: Any) -> None:
        """Ask for memory and programs, which a slice has of its own."""
        memory = self._ask(facts, "nvmlDeviceGetMemoryInfo", handle, default=None)
        if memory is not None:
            facts["memory"], facts["free"] = int(memory.total) >> 20, int(memory.free) >> 20
        facts["processes"] = [
            {"pid": int(process.pid), "name": self._program(process.pid), "memory": (process.usedGpuMemory or 0) >> 20}
            for process in self._running(facts, handle)
        ]

    def _running(self, facts: dict[str, Any], handle: Any) -> list[Any]:
        """Return the programs that compute on a GPU; drivers before 510 know only the second form of the call."""
        for version in ("_v3", "_v2"):
            found = self._ask(facts, f"nvmlDeviceGetComputeRunningProcesses{version}", handle, default=None)
            if found is not None:
                return list(found)
        return []

    def _program(self, pid: int) -> str:
        """Return a program's path; empty for one of another container, whose process number means nothing here."""
        return str(self._ask({}, "nvmlSystemGetProcessName", pid, default=""))

    def _slices(self, whole: dict[str, Any], handle: Any) -> list[dict[str, Any]]:
        """Return the MIG slices of a GPU that can be opened here; without one, the GPU with a problem."""
        found = []
        total = int(self._ask(whole, "nvmlDeviceGetMaxMigDeviceCount", handle, default=_MAX_SLICES))
        for index in range(total):
            try:
                piece = self.binding.nvmlDeviceGetMigDeviceHandleByIndex(handle, index)
            except self.binding.NVMLError as error:
                if int(error.value) not in _ABSENT:
                    found.append({**whole, "problem": self.problem(error)})
                continue
            facts = {**whole, "memory": 0, "free": 0, "processes": []}
            self._fill_use(facts, piece)
            facts["uuid"] = str(self._ask(facts, "nvmlDeviceGetUUID", piece, default=""))
            attributes = self._ask(facts, "nvmlDeviceGetAttributes_v2", piece, default=None)
            facts["sms"] = int(attributes.multiprocessorCount) if attributes else 0
            name = str(self._ask(facts, "nvmlDeviceGetName", piece, default=""))
            facts["mig"] = profile(name, attributes, whole["memory"])
            found.append(facts)
        message = "MIG mode is on and no slice can be opened here: no program can use this GPU"
        return found or [{**whole, "problem": {"code": 0, "name": "NO_SLICE", "message": message}}]


def blank() -> dict[str, Any]:
    """Return ``HostGpu`` of ``envbuild/host/facts.py`` with nothing known."""
    return {
        "name": "",
        "uuid": "",
        "compute-capability": "",
        "sms": 0,
        "memory": 0,
        "free": 0,
        "mig": "",
        "ecc": None,
        "vbios": "",
        "board": "",
        "persistence": None,
        "processes": [],
        "visible": None,
        "problem": None,
    }


def profile(name: str, attributes: Any, memory: int) -> str:
    """Return a slice's profile, such as ``3g.20gb``: NVML's name for it ends so, else it follows from its size.

    Args:
        name: ``NVIDIA A100-SXM4-40GB MIG 3g.20gb``.
        attributes: NVML's attributes of the slice, or None.
        memory: MiB of the whole GPU.
    """
    known = name.rpartition(" MIG ")[2] if " MIG " in name else ""
    if known or not attributes or not memory:
        return known
    eighths = -(-int(attributes.memorySizeMB) * 8 // memory)  # slices have eighths of the memory, less a reserve
    size = int(eighths * -(-memory // 1024) / 8 + 0.5)
    compute, whole = int(attributes.computeInstanceSliceCount), int(attributes.gpuInstanceSliceCount)
    return (f"{compute}c." if compute != whole else "") + f"{whole}g.{size}gb"


def problem(binding: Any, error: Any) -> dict[str, Any]:
    """Return NVML's code with its name in ``nvml.h`` and its own sentence."""
    code = int(error.value)
    names = (name for name in vars(binding) if name.startswith("NVML_ERROR_") and getattr(binding, name) == code)
    return {"code": code, "name": next(names, "NVML_ERROR"), "message": str(error)}
