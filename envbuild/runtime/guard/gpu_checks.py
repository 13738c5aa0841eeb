"""The GPU's checks: expectations against what the probe found (``gpu.py``; the shape of ``envbuild/host.py``). Pure.

Expectations: ``gpu`` (``count``, ``driver``, ``exclusive``, ``devices``), ``policy`` by field, ``cuda``. Observations:
``gpu`` (the probe's dict), ``environment`` and ``scope``. On a host the question is whether its GPUs suffice, since a
run is handed those it needs; in a container, what the program will see: after NVIDIA_VISIBLE_DEVICES, which decides
what is in the container, and CUDA_VISIBLE_DEVICES, which NVML does not know.
"""

from __future__ import annotations

from . import gpu_devices as devices
from . import gpu_words as words
from .check import Check, policy

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
    compared = devices.compare(expect, found, all_of_them=seen["scope"] != "host")
    for check in compared:
        if not nvml.ok and (check.found.startswith("unknown") or check.field in _NVML_ONLY):
            check.because = "gpu.nvml"
        elif not libcuda.ok and check.found.startswith("unknown"):  # the SM count comes from libcuda
            check.because = "gpu.libcuda"
    return [nvml, *_count(expect, seen, len(found)), *compared, driver, libcuda, *_exclusive(expect, found)]


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
    driver = expect["gpu"].get("driver", "")
    install = f"install NVIDIA driver {driver}{'' if _driver_policy(expect)[0] == 'exact' else ' or newer'}"
    lines = [f"run on a host with {devices.describe(expect)}", install if driver else "install NVIDIA's driver"]
    lines.append("lock without GPU: hardware.gpu: none in spec.yaml, then: " + words.RELOCK)
    found = "no NVIDIA driver" + (f", {_said('NVML', problem)}" if problem.get("message") else "")
    fix = "\n".join([*lines, words.once("gpu")])
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
    lines = [fix, f"run on a host with {devices.describe(expect)}", words.once("gpu.nvml")]
    found = _said("NVML", problem)
    return Check("gpu.nvml", "answers", found, ok=False, meaning=meaning, fix="\n".join(lines))


def _said(who: str, problem: Facts) -> str:
    code = f" ({problem['code']})" if problem.get("code") else ""
    return f"{who}: {problem.get('message') or problem.get('name') or 'failed'}{code}"


def _driver_policy(expect: Facts) -> tuple[str, str]:
    return policy(expect, "gpu.driver")


def _driver(expect: Facts, facts: Facts) -> Check:
    """The kernel module's version satisfies the policy, and CUDA's floor in any case."""
    locked, found = expect["gpu"].get("driver", ""), facts.get("driver", "")
    word, severity = _driver_policy(expect)
    cuda = expect.get("cuda") or {}
    floor = cuda.get("driver", "")
    shown = " ".join(filter(None, (locked, f"({word})" if locked and word != "exact" else ""))) or "any"
    if floor and found and devices.numbers(found) < devices.numbers(floor):
        lines = [f"install NVIDIA driver {locked or floor} or newer" if word != "exact" else f"install driver {locked}"]
        lines.append(f"lock an older CUDA: cuda in spec.yaml, then: {words.RELOCK}")
        meaning = f"CUDA {cuda['version']} does not load below {floor}"
        fix = "\n".join([*lines, words.once("gpu.driver")])
        return Check("gpu.driver", shown if locked else f"≥ {floor}", found, ok=False, meaning=meaning, fix=fix)
    if not locked or devices.agrees(word, locked, found):
        return Check("gpu.driver", shown, found or "unknown", ok=True, severity=severity)
    meaning = words.DRIVER if found else "not told: the driver compiles kernels (PTX), so its version decides bits"
    wanted = {"same branch": f"{locked.partition('.')[0]}.*", "at least": f"{locked} or newer"}.get(word, locked)
    looser = {"exact": "same branch, at least, any", "same branch": "at least, any"}.get(word, "any")
    lines = [f"install NVIDIA driver {wanted} or run on a host that has it", words.relax("gpu.driver", looser)]
    fix = "\n".join([*lines, words.DETECT, words.once("gpu.driver")]) if severity == "hard" else ""
    return Check("gpu.driver", shown, found or "unknown", ok=False, severity=severity, meaning=meaning, fix=fix)


def _libcuda(expect: Facts, seen: Facts) -> Check:
    """The CUDA library that programs load is the one of the loaded kernel module."""
    library, driver = seen["gpu"].get("libcuda") or {}, seen["gpu"].get("driver", "")
    path, version = library.get("path", ""), library.get("version", "")
    problem = library.get("problem") or {}
    severity = "soft" if _driver_policy(expect)[0] == "any" else "hard"
    wanted = f"libcuda {driver}".rstrip()
    field, once = "gpu.libcuda", words.once("gpu.libcuda")
    if (problem and problem.get("code") != _NO_DEVICE) or not path:
        meaning = "no CUDA program can start"
        fix = "give the container GPUs with the compute capability (NVIDIA_DRIVER_CAPABILITIES=compute,utility)"
        if path:
            fix = "make a CUDA program run on this host: nvidia-smi, dmesg, and the driver's own libcuda"
        found = _said(path or "libcuda", problem or {"message": "not found"})
        return Check(field, wanted, found, ok=False, meaning=meaning, fix=f"{fix}\n{once}")
    shown = f"{path} ({version})" if version else path
    if library.get("compat"):
        fix = "take the compatibility folder (…/compat) off LD_LIBRARY_PATH and out of /etc/ld.so.conf.d\n"
        fix += f"or install the driver that the program needs\n{once}"
        return Check(field, wanted, shown, ok=False, severity=severity, meaning=words.COMPAT, fix=fix)
    # WSL's library is called libcuda.so.1.1: no driver's version, which has three digits before the dot.
    if driver and len(version.partition(".")[0]) >= 3 and version != driver:
        fix = f"remove the other libcuda, or take it off LD_LIBRARY_PATH; start the container again\n{once}"
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
    """The program sees as many GPUs as are locked; says which variable hides the others."""
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
        view.ok, view.meaning = False, f"{hider} hides {total - shown} of {total} GPUs: {words.COUNT}"
        again = "start the container again: a CUDA program and nvidia-smi -L must show the same GPUs"
        lines = [f"unset {_HIDES}, or let it name {wanted} of them" if _HIDES in variables else again]
        view.fix = "\n".join([*lines, words.once("gpu.visible")])
    number = total if not view.ok else shown
    check = Check("gpu.count", locked, str(number), ok=enough(number), severity=severity)
    if not check.ok:
        check.meaning = _missing(seen, number, wanted) + words.COUNT
        check.fix = "\n".join([*_count_fix(expect, number), words.once("gpu.count")])
    return [check, view] if shown != total else [check]


def _missing(seen: Facts, number: int, wanted: int) -> str:
    """Say where GPUs are that were expected, if it is known."""
    broken = [
        f"{devices.place(index, device, 0)} cannot be opened ({_said('NVML', device['problem'])}): "
        for index, device in enumerate(seen["gpu"].get("devices", ()))
        if device.get("problem")
    ]
    if number < wanted and not broken and seen["environment"].get(_HANDS, "all") not in ("all", "void"):
        return f"{_HANDS}={seen['environment'][_HANDS]} hands on no more: "
    return "".join(broken) if number < wanted else ""


def _count_fix(expect: Facts, number: int) -> Sequence[str]:
    wanted = expect["gpu"]["count"]
    hand = f"give the container {wanted} GPU{'' if wanted == 1 else 's'}: envbuild run does, docker run --gpus {wanted}"
    first = hand if number > wanted else f"{hand}; or run on a host with {devices.describe(expect)}"
    return [first, words.relax("gpu.count", "at least, any"), words.DETECT]


def _exclusive(expect: Facts, found: Sequence[tuple[int, Facts]]) -> list[Check]:
    """Nobody else computes on the GPUs: no process, and hardly less memory free than there is.

    A container does not see other containers' processes; the free memory tells. The driver itself keeps some hundred
    MiB of a large GPU.
    """
    asked = bool(expect["gpu"].get("exclusive"))
    others = []
    for index, device in found:
        where = devices.place(index, device, len(found))
        where = f" on {where}" if where else ""
        total, free, programs = device.get("memory", 0), device.get("free", 0), device.get("processes") or ()
        names = ", ".join(f"{each.get('name') or 'a program'} (pid {each['pid']})" for each in programs)
        if names:
            others.append(f"{names}{where}")
        elif total and free and total - free > 512 + total // 20:
            others.append(f"{free} of {total} MiB free{where}")
    locked = "no other program" if asked else "not asked"
    if not others:
        return [Check("gpu.exclusive", locked, "no other program", ok=True)] if asked else []
    fix = "\n".join(("stop the other program, or choose a free GPU (nvidia-smi)", words.once("gpu.exclusive")))
    severity = "hard" if asked else "info"
    shown = "; ".join(others)
    fix = fix if asked else ""
    return [
        Check("gpu.exclusive", locked, shown, ok=False, severity=severity, meaning=words.EXCLUSIVE, fix=fix),
    ]
