"""The numeric fingerprint at the entry point: computed in processes of their own, compared, left for the record.

``envbuild run`` puts ``expected-fingerprint.json`` (as recorded next to the lock) into the run's folder before the
start and finds ``fingerprint.json`` there afterwards. Without expectations the fingerprint is only computed and left.
The programs run under the environment's own interpreter with the locked variables, without the hook's seeds.
"""

from __future__ import annotations

import os

from .check import Check, once

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import Any

    Parts = Mapping[str, Mapping[str, Any]]

FORMAT = 1
EXPECTED = "expected-fingerprint.json"
FOUND = "fingerprint.json"
GROUPS = {"numbers": "", "tensorflow": "tensorflow", "torch": "torch", "jax": "jax"}
"""Group to the package whose folder in site-packages shows that it is worth starting a process for."""
_IN_IMAGE = "_envbuild"
PATIENCE = 300.0
"""Seconds that one group may take: the first kernels of a GPU may have to be compiled."""

_PROGRAM = (
    "import sys; sys.path.insert(0, {library!r}); {start}"
    "from {package}.fingerprint.__main__ import main; sys.exit(main(sys.argv[1:]))"
)
# The start-up files are read as ever, but the hook among them, which would seed and record, believes it has started.
_WITHOUT_HOOK = "from {package}.hook import startup; startup._started = True; import site; site.main(); "
_WHAT = {
    "convolution": "computes other convolutions",
    "functions": "computes other bits in functions and sums",
    "linalg": "solves equations with other bits",
    "matmul": "computes other matrix products",
    "random": "draws other numbers from one seed",
    "scatter": "adds into few places in another order",
}
_LIBM = "glibc's maths library computes other bits here (CPU dispatch or GLIBC_TUNABLES)"


def check(
    expect: Mapping[str, Any],
    *,
    prefix: str,
    folder: str,
    write: Callable[[str, str], object],
) -> list[Check]:
    """Compute the fingerprint, leave it in the run's folder, and compare it with the expected one if there is one.

    Args:
        expect: the guard's expectations; ``fingerprint`` is true.
        prefix: folder of the runtime.
        folder: the run's folder.
        write: writes a text to a path, whole or not at all.
    """
    from time import perf_counter

    from ..fastjson import dumps

    parts: dict[str, Any] = {}
    seconds: dict[str, float] = {}
    for group, package in GROUPS.items():
        if package and not os.path.isdir(os.path.join(expect["site"], package)):
            continue
        start = perf_counter()
        try:
            parts.update(compute(expect["interpreter"], [group], os.environ, library=os.path.join(prefix, "lib")))
        except RuntimeError as error:
            fix = "read the library's message, or set hardware.fingerprint: false in spec.yaml"
            field = f"fingerprint.{group}"
            return [Check(field, "computed", "failed", ok=False, meaning=str(error), fix=fix)]
        seconds[group] = round(perf_counter() - start, 3)
    document = {"format": FORMAT, "identity": expect["identity"], "parts": parts, "seconds": seconds}
    write(os.path.join(folder, FOUND), dumps(document) + "\n")
    try:
        wanted = expected(os.path.join(folder, EXPECTED))
    except ValueError as error:
        fix = "start with envbuild run, which writes this file"
        return [Check("fingerprint", "readable", "damaged", ok=False, meaning=str(error), fix=fix)]
    return compare(wanted, parts, expect["lock"])


def compute(
    python: str,
    groups: Sequence[str],
    variables: Mapping[str, str],
    *,
    library: str,
    package: str = "",
    timeout: float = PATIENCE,
) -> dict[str, Any]:
    """Run the programs of some groups in one new process and return their parts.

    Args:
        python: the interpreter.
        groups: names of ``fingerprint.__main__.GROUPS``.
        variables: the whole environment of the process.
        library: folder that holds ``package``, the runtime; empty for the one of an image, which has the hook.
        timeout: in seconds.

    Raises:
        RuntimeError: the process failed or took too long; the message is the last line that it printed.
    """
    import subprocess

    from ..fastjson import loads

    start = "" if package else _WITHOUT_HOOK.format(package=_IN_IMAGE)
    program = _PROGRAM.format(library=library, package=package or _IN_IMAGE, start=start)
    command = [python, *(() if package else ("-I", "-S")), "-B", "-c", program, *groups]
    try:
        done = subprocess.run(
            command, env=dict(variables), stdin=subprocess.DEVNULL, capture_output=True, timeout=timeout, check=False
        )
    except subprocess.TimeoutExpired:
        raise RuntimeError(f"not done after {timeout:g} s") from None
    except OSError as error:
        raise RuntimeError(f"{python} cannot be started: {error.strerror}") from None
    if done.returncode:
        printed = done.stderr.decode("utf-8", "replace").strip().split("\n")[-1]
        raise RuntimeError(printed or f"ended by {-done.returncode if done.returncode < 0 else done.returncode}")
    return dict(loads(done.stdout.decode()))


def expected(path: str) -> dict[str, Any] | None:
    """Read the expected parts; None if there is no such file; raises ``ValueError`` if it is damaged."""
    from ..fastjson import loads

    try:
        with open(path, encoding="utf-8") as stream:
            document = loads(stream.read())
        return {str(part): {**facts, "digest": str(facts["digest"])} for part, facts in document["parts"].items()}
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"{path} cannot be read: {error}") from None


def compare(wanted: Parts | None, found: Parts, lock: str) -> list[Check]:
    """Judge each part; the field is ``fingerprint.PART``. Pure.

    Args:
        wanted: what was recorded; None if nothing was.
        found: what was computed here.
        lock: the lock's file name.
    """
    if wanted is None:
        meaning = "nothing recorded to compare with: the first accepted envbuild run records it next to the lock"
        shown = _count(len(found))
        return [Check("fingerprint", "(not recorded)", shown, ok=False, severity="info", meaning=meaning)]
    file = f"{lock.removesuffix('.toml')}.fingerprint.json"
    fix = (
        f"run on a machine that computes as the recorded one did, or accept these numbers: delete {file} and run again"
    )
    checks = []
    for part in sorted({*wanted, *found}):
        old, new = wanted.get(part, {}), found.get(part, {})
        if old.get("digest") == new.get("digest"):
            continue
        locked, shown = (str(side.get("digest", "(none)"))[:12] for side in (old, new))
        field = f"fingerprint.{part}"
        ways = f"{fix}\n{once(field)}"
        checks.append(Check(field, locked, shown, ok=False, meaning=_meaning(part, old, new), fix=ways))
    return checks or [Check("fingerprint", _count(len(wanted)), "as recorded", ok=True)]


def _meaning(part: str, old: Mapping[str, Any], new: Mapping[str, Any]) -> str:
    """Say which library moved, and what that touches."""
    if not new:
        return f"{old.get('library', part)} gave no such numbers here: the device or the library is not there"
    if not old:
        return f"{new.get('library', part)} gave no such numbers on the recorded machine"
    if old.get("version") != new.get("version"):
        return f"another {new['library']}: {old.get('version')} then, {new['version']} here"
    if part == "libm":
        return _LIBM
    owner, _, rest = part.partition(".")
    device, _, what = rest.rpartition(".")
    place = f" on GPU {device[3:]}" if device.startswith("gpu") else " on this CPU"
    by = "" if owner == str(new["library"]).lower() else f" ({new['library']})"
    return f"{_NAMES.get(owner, owner)}{by} {_WHAT.get(what, 'computes other bits')}{place}"


_NAMES = {"python": "Python", "numpy": "NumPy", "tensorflow": "TensorFlow", "torch": "PyTorch", "jax": "JAX"}


def _count(number: int) -> str:
    return f"{number} part{'' if number == 1 else 's'}"
