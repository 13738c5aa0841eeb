"""The numeric fingerprint: its programs in real interpreters, its comparison, and which library it names."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from envbuild.lockfile.hardware import Hardware
from envbuild.runtime.fingerprint import __main__ as program
from envbuild.runtime.guard import fingerprint_check as check
from tests.support.runtime import Tree, make_lock, make_tree

ROOT = str(Path(__file__).parents[3])
PACKAGE = "envbuild.runtime"
LOCK = "pylock.digits.toml"
LIBM = "glibc's maths library computes other bits here (CPU dispatch or GLIBC_TUNABLES)"
GPU = {"library": "cuDNN", "version": "92000", "digest": "a" * 64}


def compute(*groups: str, **variables: str) -> dict[str, Any]:
    environment = {"PATH": os.environ["PATH"], **variables}
    return check.compute(sys.executable, groups, environment, library=ROOT, package=PACKAGE)


@pytest.mark.subprocess
def test_equal_in_every_process() -> None:
    """Twenty processes with other environments, and so other addresses, compute the same bits."""
    found = [compute("numbers", PADDING="x" * 41 * number) for number in range(20)]
    digests = [{part: facts["digest"] for part, facts in parts.items()} for parts in found]
    assert digests == [digests[0]] * 20
    assert {"libm", "python.random"} <= set(digests[0])
    for part in found[0]:  # a busy machine only adds to it
        assert min(parts[part]["seconds"] for parts in found) < 0.5


@pytest.mark.subprocess
@pytest.mark.parametrize("tunable", ["-FMA", "-AVX2", "-FMA,-AVX2,-FMA4"])
def test_another_libm_is_named(tunable: str) -> None:
    """What another CPU would choose of the maths library moves ``libm``, and Python's random numbers do not move."""
    other = compute("numbers", GLIBC_TUNABLES=f"glibc.cpu.hwcaps={tunable}")
    moved = {each.field: each.meaning for each in check.compare(compute("numbers"), other, LOCK)}
    assert moved.pop("fingerprint.libm") == LIBM
    assert set(moved) <= {"fingerprint.numpy.functions"}


@pytest.mark.subprocess
def test_a_process_that_fails() -> None:
    """The error is the last line of the process; an absent framework has no parts."""
    assert compute("jax") == {}
    with pytest.raises(RuntimeError, match=r"^KeyError: 'nonsense'$"):
        compute("nonsense")
    with pytest.raises(RuntimeError, match=r"^/nowhere/python cannot be started: No such file or directory$"):
        check.compute("/nowhere/python", ["numbers"], {}, library=ROOT, package=PACKAGE)
    with pytest.raises(RuntimeError, match=r"^not done after 0.001 s$"):
        check.compute(sys.executable, ["numbers"], {}, library=ROOT, package=PACKAGE, timeout=0.001)


def test_parts_are_collected() -> None:
    """A part has the digest of its bytes, whose they are, and its time."""
    fingerprint = program.Fingerprint()
    fingerprint.add("x.y", "X", "1.0", lambda: b"abc")
    (facts,) = fingerprint.parts.values()
    assert facts.pop("seconds") >= 0
    assert facts == {
        "digest": "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad",
        "library": "X",
        "version": "1.0",
    }


@pytest.mark.parametrize(
    ("part", "old", "new", "meaning"),
    [
        ("libm", {"library": "glibc", "version": "2.36"}, {}, LIBM),
        ("libm", {"library": "glibc", "version": "2.31"}, {"version": "2.36"}, "another glibc: 2.31 then, 2.36 here"),
        ("numpy.matmul", {"library": "NumPy"}, {}, "NumPy computes other matrix products on this CPU"),
        ("python.random", {"library": "Python"}, {}, "Python draws other numbers from one seed on this CPU"),
        (
            "torch.cpu.convolution",
            {"library": "oneDNN"},
            {},
            "PyTorch (oneDNN) computes other convolutions on this CPU",
        ),
        ("torch.gpu0.convolution", {"library": "cuDNN"}, {}, "PyTorch (cuDNN) computes other convolutions on GPU 0"),
        (
            "tensorflow.gpu11.matmul",
            {"library": "cuBLAS"},
            {},
            "TensorFlow (cuBLAS) computes other matrix products on GPU 11",
        ),
        (
            "jax.cpu.functions",
            {"library": "XLA"},
            {},
            "JAX (XLA) computes other bits in functions and sums on this CPU",
        ),
    ],
)
def test_the_library_is_named(part: str, old: dict[str, str], new: dict[str, str], meaning: str) -> None:
    """A part that moved is refused with whose bits they are, and where."""
    first = {"digest": "1" * 64, "version": "2.36", **old}
    second = {**first, "digest": "2" * 64, **new}
    (found,) = check.compare({part: first}, {part: second}, LOCK)
    assert (found.field, found.locked, found.found) == (f"fingerprint.{part}", "1" * 12, "2" * 12)
    assert (found.ok, found.severity, found.meaning) == (False, "hard", meaning)
    assert found.fix.splitlines() == [
        "run on a machine that computes as the recorded one did, or accept these numbers: "
        "delete pylock.digits.fingerprint.json and run again",
        f"once, knowingly (recorded as overridden): envbuild run --allow fingerprint.{part}",
    ]


def test_parts_that_come_and_go() -> None:
    """A part on one side only is a difference too: a GPU that is not seen any more, or was not then."""
    gone, come = check.compare({"torch.gpu1.x": GPU}, {"torch.gpu2.x": GPU}, LOCK)
    assert (gone.field, gone.found) == ("fingerprint.torch.gpu1.x", "(none)")
    assert gone.meaning == "cuDNN gave no such numbers here: the device or the library is not there"
    assert (come.locked, come.meaning) == ("(none)", "cuDNN gave no such numbers on the recorded machine")
    (same,) = check.compare({"a": GPU}, {"a": {**GPU, "seconds": 3}}, LOCK)
    assert (same.ok, same.locked, same.found) == (True, "1 part", "as recorded")


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Tree:
    lock = make_lock(hardware=Hardware(kernel=">=3.10", fingerprint=True))
    tree = make_tree(tmp_path_factory.mktemp("tree"), lock)
    (tree.site / "torch").mkdir()
    (tree.site / "torch" / "__init__.py").write_text(
        "import os; raise OSError(os.environ.get('SAYS', 'libcudart: no'))"
    )
    return tree


def gate(tree: Tree, *command: str) -> subprocess.CompletedProcess[str]:
    """Run the tree's guard as its entry point."""
    main = f"import sys; sys.path.insert(0, {str(tree.root)!r} + '/opt/envbuild/lib'); "
    main += "from _envbuild.guard.__main__ import main; sys.exit(main(sys.argv[1:]))"
    environment = {**tree.lock.environment, "PATH": f"{Path(tree.python).parent}:/usr/bin:/bin"}
    arguments = [sys.executable, "-I", "-S", "-B", "-c", main, *command]
    return subprocess.run(arguments, env=environment, capture_output=True, text=True, timeout=60)


@pytest.mark.subprocess
def test_a_framework_that_does_not_load(tree: Tree) -> None:
    """A framework whose import fails is refused before the program, with what it reported."""
    done = gate(tree, "echo", "ran")
    assert (done.returncode, done.stdout) == (78, "")
    assert "  fingerprint.torch   computed   failed   OSError: libcudart: no\n" in done.stderr
    verdict = json.loads((tree.run / "verdict.json").read_text())
    assert [each["field"] for each in verdict["checks"] if not each["ok"]] == ["fingerprint.torch"]
