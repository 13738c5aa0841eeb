"""The GPU's checks: expectations against what the probe found (``gpu.py``, as ``host/facts.py`` has it). Pure.

Expectations: ``gpu`` (``count``, ``driver``, ``exclusive``, ``devices``), ``policy`` by field, ``cuda``. Observations:
``gpu`` (the probe's dict), ``environment`` and ``scope``. On a host the question is whether its GPUs suffice, since a
run is handed those it needs; in a container, what the program will see: after NVIDIA_VISIBLE_DEVICES, which decides
what is in the container, and CUDA_VISIBLE_DEVICES, which NVML does not know.
"""

from __future__ import annotations

from . import gpu_devices as devices
from . import gpu_words as words
from .check import Check, once, policy

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

    Facts = Mapping[str, Any]

_HIDES = "CUDA_VISIBLE_DEVICES"
_HANDS = "NVIDIA_VISIBLE_DEVICES"
_NVML_ONLY = ("gpu.mig", "gpu.ecc", "gpu.vbios", "gpu.board")
_NO_DEVICE = 100
"""``CUDA_ERROR_NO_DEVICE``: also what CUDA answers if its variable hides every GPU."""


def gpu(expect: Facts, seen: Facts) -> list[Check]:
    """Make every check of a lock with GPUs."""
    facts = seen["gpu"]
    problem = facts.get("problem") or {}
    if not facts.get("driver") and not facts.get("devices"):
        return [_no_driver(expect, problem)]
    nvml, driver, libcuda = _nvml(expect, seen, problem), _driver(expect, facts), _libcuda(expect, seen)
    if not nvml.ok and not facts.get("devices"):
        libcuda.because = "" if libcuda.ok else "gpu.nvml"
        return [nvml, driver, libcuda]
    found = _visible_devices(seen)
    shown = len(found)
    found = _free(expect, found) if seen["scope"] == "host" else found
    compared = devices.compare(expect, found, all_of_them=seen["scope"] != "host")
    for check in compared:
        if not nvml.ok and (check.found.startswith("unknown") or check.field in _NVML_ONLY):
            check.because = "gpu.nvml"
        elif not libcuda.ok and check.found.startswith("unknown"):  # the SM count comes from libcuda
            check.because = "gpu.libcuda"
    return [nvml, *_count(expect, seen, shown), *compared, driver, libcuda, *_exclusive(expect, found)]


def unlocked(expect: Facts, seen: Facts) -> list[Check]:
    """Judge a lock without GPU: GPUs that are there anyway are noted, or warned of if CUDA's libraries are locked."""
    facts = seen.get("gpu") or {}
    if not facts.get("devices"):
        return []
    shown = f"{len(facts['devices'])} × {facts['devices'][0].get('name') or 'GPU'}"
    if seen["scope"] == "host" or not expect.get("cuda"):
        return [Check("gpu", "none", shown, ok=False, severity="info", meaning="no GPU is handed to the run")]
    meaning = "the framework would compute on a GPU that the lock does not have: other bits"
    return [Check("gpu", "none", shown, ok=False, severity="soft", meaning=meaning, fix="give the container no GPU")]


def _no_driver(expect: Facts, problem: Facts) -> Check:
    """Nothing of NVIDIA's is here."""
    meaning = "without it nothing can run on a GPU"
    lines = [f"run on a host with {devices.describe(expect)}", _install(expect)]
    lines.append("lock without GPU: hardware.gpu: none in spec.yaml, then: " + words.RELOCK)
    found = "no NVIDIA driver" + (f", {_said('NVML', problem)}" if problem.get("message") else "")
    fix = "\n".join([*lines, once("gpu")])
    return Check("gpu", devices.describe(expect), found, ok=False, meaning=meaning, fix=fix)


def _nvml(expect: Facts, seen: Facts, problem: Facts) -> Check:
    """NVML, the driver's management library, answers."""
    if not problem:
        return Check("gpu.nvml", "answers", seen["gpu"].get("nvml") or "answers", ok=True)
    meaning, fix = words.nvml(problem)
    variables = seen["environment"]
    capabilities = variables.get("NVIDIA_DRIVER_CAPABILITIES", "")
    if problem.get("code") == 12 and capabilities and not {"utility", "all"} & set(capabilities.split(",")):
        meaning = f"NVIDIA_DRIVER_CAPABILITIES={capabilities} lacks utility: the container was given no NVML"
    elif problem.get("code") in (9, 12) and variables.get(_HANDS) in ("", "none", "void"):
        meaning = f"{_HANDS}={variables[_HANDS]}: the container was started without GPUs"
    lines = [fix, f"run on a host with {devices.describe(expect)}", once("gpu.nvml")]
    found = _said("NVML", problem)
    return Check("gpu.nvml", "answers", found, ok=False, meaning=meaning, fix="\n".join(lines))


def _said(who: str, problem: Facts) -> str:
    code = f" ({problem['code']})" if problem.get("code") else ""
    return f"{who}: {problem.get('message') or problem.get('name') or 'failed'}{code}"


def _driver_policy(expect: Facts) -> tuple[str, str]:
    return policy(expect, "gpu.driver")


def _install(expect: Facts) -> str:
    """Say which driver to install: one that the policy accepts and that loads CUDA."""
    locked, word = expect["gpu"].get("driver", ""), _driver_policy(expect)[0]
    floor = (expect.get("cuda") or {}).get("driver", "")
    if locked and word == "exact":
        return f"install NVIDIA driver {locked}"
    if locked and word == "same branch":
        return f"install NVIDIA driver {locked.partition('.')[0]}.*"
    least = locked if word == "at least" else floor
    return f"install NVIDIA driver {least} or newer" if least else "install NVIDIA's driver"


def _driver(expect: Facts, facts: Facts) -> Check:
    """The kernel module's version satisfies the policy, and CUDA's floor in any case."""
    locked, found = expect["gpu"].get("driver", ""), facts.get("driver", "")
    word, severity = _driver_policy(expect)
    cuda = expect.get("cuda") or {}
    floor = cuda.get("driver", "")
    shown = " ".join(filter(None, (locked, f"({word})" if locked and word != "exact" else ""))) or "any"
    if floor and found and devices.numbers(found) < devices.numbers(floor):
        lock = f"lock an older CUDA: cuda in spec.yaml, then: {words.RELOCK}"
        meaning = f"CUDA {cuda['version']} does not load below {floor}"
        fix = "\n".join([_install(expect), lock, once("gpu.driver")])
        return Check("gpu.driver", shown if locked else f"≥ {floor}", found, ok=False, meaning=meaning, fix=fix)
    if not locked or devices.agrees(word, locked, found):
        return Check("gpu.driver", shown, found or "unknown", ok=True, severity=severity)
    meaning = words.DRIVER if found else "unknown: the driver compiles kernels (PTX), so its version decides bits"
    relax = words.relax("gpu.driver", devices.looser("gpu.driver", [(locked, found)]))
    lines = [f"{_install(expect)}, or run on a host that has it", relax, words.DETECT, once("gpu.driver")]
    fix = "\n".join(lines) if severity == "hard" else ""
    return Check("gpu.driver", shown, found or "unknown", ok=False, severity=severity, meaning=meaning, fix=fix)


def _libcuda(expect: Facts, seen: Facts) -> Check:
    """The CUDA library that programs load is the one of the loaded kernel module."""
    library, driver = seen["gpu"].get("libcuda") or {}, seen["gpu"].get("driver", "")
    path, version = library.get("path", ""), library.get("version", "")
    problem = library.get("problem") or {}
    severity = "soft" if _driver_policy(expect)[0] == "any" else "hard"
    wanted = f"libcuda {driver}".rstrip()
    field, allow = "gpu.libcuda", once("gpu.libcuda")
    if (problem and problem.get("code") != _NO_DEVICE) or not path:
        meaning = "no CUDA program can start"
        fix = "give the container GPUs with the compute capability (NVIDIA_DRIVER_CAPABILITIES=compute,utility)"
        if seen["scope"] == "host":
            fix = "install the driver's compute libraries, of the kernel module's version"
        if path:
            fix = "make a CUDA program run on this host: nvidia-smi, dmesg, and the driver's own libcuda"
        found = _said(path or "libcuda", problem or {"message": "not found"})
        return Check(field, wanted, found, ok=False, meaning=meaning, fix=f"{fix}\n{allow}")
    shown = f"libcuda {version} ({path})" if version else path
    if "compat" in path.split("/")[:-1]:
        fix = "take the compatibility folder (…/compat) off LD_LIBRARY_PATH and out of /etc/ld.so.conf.d\n"
        fix += f"install a driver as new as that package\n{allow}"
        return Check(field, wanted, shown, ok=False, severity=severity, meaning=words.COMPAT, fix=fix)
    # WSL's library is called libcuda.so.1.1: no driver's version, which has three digits before the dot.
    if driver and len(version.partition(".")[0]) >= 3 and version != driver:
        fix = "remove the libcuda that is not the driver's, or take it off LD_LIBRARY_PATH\n"
        fix += f"reboot the host if its driver was just upgraded\n{allow}"
        return Check(field, wanted, shown, ok=False, severity=severity, meaning=words.LIBCUDA, fix=fix)
    return Check(field, wanted, shown, ok=True, severity=severity)


def _usable(facts: Facts) -> list[tuple[int, Facts]]:
    return [(index, device) for index, device in enumerate(facts.get("devices", ())) if not device.get("problem")]


def _visible_devices(seen: Facts) -> list[tuple[int, Facts]]:
    """Return the GPUs that count: on a host those that work, in a container those that a program sees.

    CUDA shows a process one MIG slice, whatever there is ("Only single MIG instance enumeration is supported", CUDA
    Programming Guide, CUDA_VISIBLE_DEVICES): slices are hidden by the variable alone.
    """
    usable = _usable(seen["gpu"])
    slices = all(device.get("mig", "none") not in ("", "none") for _, device in usable)
    if seen["scope"] == "host" or (slices and _HIDES not in seen["environment"]):
        return usable
    return [(index, device) for index, device in usable if device.get("visible") is not False]


def _count(expect: Facts, seen: Facts, shown: int) -> list[Check]:
    """The program sees as many GPUs as are locked; names the variable that hides the others."""
    wanted, total, variables = expect["gpu"]["count"], len(_usable(seen["gpu"])), seen["environment"]
    word, severity = policy(expect, "gpu.count")
    word = "at least" if seen["scope"] == "host" and word == "exact" else word
    severity = severity if shown else "hard"
    locked = f"{wanted}" + ("" if word == "exact" or seen["scope"] == "host" else f" ({word})")

    def enough(number: int) -> bool:
        return number >= 1 and devices.agrees(word, wanted, number)

    hider = f"{_HIDES}={variables[_HIDES]}" if _HIDES in variables else "CUDA"
    view = Check("gpu.visible", locked, f"{shown} of {total}", ok=True, severity=severity)
    if shown < total and not enough(shown) and (enough(total) or shown < wanted):
        view.ok, view.meaning = False, f"{hider} hides {total - shown} of {total} GPUs: {_consequence(shown)}"
        again = "start the container again: a CUDA program and nvidia-smi -L must show the same GPUs"
        lines = [f"unset {_HIDES}, or let it name {wanted} of them" if _HIDES in variables else again]
        view.fix = "\n".join([*lines, once("gpu.visible")])
    number = total if not view.ok else shown
    check = Check("gpu.count", locked, str(number), ok=enough(number), severity=severity)
    if not check.ok:
        check.meaning = _missing(seen, number, wanted) + _consequence(number)
        check.fix = "\n".join([*_count_fix(expect, seen, number), once("gpu.count")])
    return [check, view] if shown != total else [check]


def _consequence(number: int) -> str:
    """Say what another number of GPUs means."""
    return words.COUNT if number else words.NONE


def _missing(seen: Facts, number: int, wanted: int) -> str:
    """Say where GPUs are that were expected, if it is known."""
    broken = [
        f"{devices.place(index, device, 0)} cannot be opened ({_said('NVML', device['problem'])}): "
        for index, device in enumerate(seen["gpu"].get("devices", ()))
        if device.get("problem")
    ]
    if number < wanted and not broken and seen["environment"].get(_HANDS, "all") not in ("all", "void"):
        return f"{_HANDS}={seen['environment'][_HANDS]} passes no others: "
    return "".join(broken) if number < wanted else ""


def _count_fix(expect: Facts, seen: Facts, number: int) -> list[str]:
    wanted = expect["gpu"]["count"]
    lines = []
    if seen["scope"] != "host":
        gpus = f"{wanted} GPU{'' if wanted == 1 else 's'}"
        lines.append(f"give the container {gpus}: envbuild run does, docker run --gpus {wanted}")
    if number < wanted:
        lines.append(f"run on a host with {devices.describe(expect)}")
    if number:  # without any GPU no policy helps, and there is nothing to lock
        lines += [words.relax("gpu.count", devices.looser("gpu.count", [(wanted, number)])), words.DETECT]
    return lines


def _free(expect: Facts, found: list[tuple[int, Facts]]) -> list[tuple[int, Facts]]:
    """Leave out a host's GPUs that others hold, where the free ones are as locked: a run is handed those."""
    if not expect["gpu"].get("exclusive"):
        return found
    free = [(index, device) for index, device in found if not devices.held(device)]
    compared = devices.compare(expect, free, all_of_them=False)
    enough = len(free) >= expect["gpu"]["count"] and not any(check.refuses for check in compared)
    return free if enough else found


def _exclusive(expect: Facts, found: Sequence[tuple[int, Facts]]) -> list[Check]:
    """Nobody else computes on the GPUs: no process, and hardly less memory free than there is."""
    asked = bool(expect["gpu"].get("exclusive"))
    others = []
    for index, device in found:
        if held := devices.held(device):
            where = devices.place(index, device, len(found))
            others.append(f"{held} on {where}" if where else held)
    locked = "no other program" if asked else "not asked"
    if not others:
        return [Check("gpu.exclusive", locked, "no other program", ok=True)] if asked else []
    fix = "\n".join(("stop the other program, or choose a free GPU (nvidia-smi)", once("gpu.exclusive")))
    severity = "hard" if asked else "info"
    shown = "; ".join(others)
    fix = fix if asked else ""
    return [
        Check("gpu.exclusive", locked, shown, ok=False, severity=severity, meaning=words.EXCLUSIVE, fix=fix),
    ]
