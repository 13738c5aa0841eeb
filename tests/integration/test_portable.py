"""Level ``portable`` on other CPUs: the C library and NumPy on emulated ones, with the hook, as a lock sets them up."""

from __future__ import annotations

import json
import os
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from envbuild.determinism import policy
from envbuild.image.runtime import files
from envbuild.lockfile.model import Determinism
from envbuild.runtime.guard import gate
from tests.support.emulator import emulator
from tests.support.environments import environment
from tests.support.runtime import Tree, make_lock, make_tree

pytestmark = pytest.mark.network

NATIVE = "native"
SCRIPT = """
import hashlib, json, math, struct
import numpy as np

def digest(*values):
    return hashlib.sha256(b"".join(values)).hexdigest()[:16]

generator = np.random.default_rng(1)
wide = generator.random(1000) * 20 - 10
narrow = wide.astype("f4")
names = ("exp", "sin", "cos", "tan", "atan", "sinh", "tanh", "expm1")
libm = [getattr(math, name)(value) for name in names for value in wide[:200].tolist()]
libm += [math.pow(abs(value) + 0.1, 1.7) for value in wide[:200].tolist()]
matrix = generator.random((192, 192))
print(json.dumps({
    "libm": digest(struct.pack(f"{len(libm)}d", *libm)),
    "functions": digest(*(f(abs(a)).tobytes() for f in (np.exp, np.sin, np.tanh) for a in (wide, narrow))),
    "product": digest((matrix @ matrix).tobytes(), (matrix.astype("f4") @ matrix.astype("f4")).tobytes()),
    "inverse": digest(np.linalg.inv(matrix).tobytes()),
    "normal": digest(generator.standard_normal(500).tobytes()),
}))
"""
CPU_DEPENDENT = {"libm", "functions", "product", "inverse"}


@pytest.fixture(scope="module")
def trees(tmp_path_factory: pytest.TempPathFactory) -> dict[tuple[str, str], Tree]:
    """A runtime for each level and locked CPU."""
    made = {}
    for level, cpu in (("ops", "any"), ("portable", "any"), ("portable", "x86-64-v3")):
        determinism = Determinism(level=level, seed=42, threads=1)
        variables = policy.environment({"numpy": "2.4.6"}, determinism, "amd64", cpu)
        lock = make_lock(environment=variables, determinism=determinism)
        root = tmp_path_factory.mktemp(f"{level}-{cpu}") / "tree"
        made[level, cpu] = make_tree(root, lock, paths=[environment("torch")])
        (root / "script.py").write_text(SCRIPT)
    return made


def results(tree: Tree, cpus: list[str]) -> dict[str, dict[str, str]]:
    """Run the script on each CPU, two at a time; no program may print anything."""
    program = emulator()

    def run(cpu: str) -> dict[str, str]:
        variables = {
            **tree.lock.environment,
            gate.MARKER: gate.marker(files.expectations(tree.lock)["identity"]),
            "PATH": os.defpath,
        }
        before = [] if cpu == NATIVE else [program, "-cpu", cpu]
        command = [*before, tree.python, tree.root / "script.py"]
        done = subprocess.run(command, env=variables, capture_output=True, text=True, timeout=900, check=False)
        reported = [line for line in done.stderr.splitlines() if "TCG doesn't support requested feature" not in line]
        assert (done.returncode, reported) == (0, []), done.stderr
        return dict(json.loads(done.stdout))

    with ThreadPoolExecutor(2) as pool:
        return dict(zip(cpus, pool.map(run, cpus), strict=True))


def test_without_it_another_cpu_gives_other_bits(trees: dict[tuple[str, str], Tree]) -> None:
    """Level ops: two CPUs agree on random numbers, and on nothing that a library has several kernels for."""
    nehalem, haswell = results(trees["ops", "any"], ["Nehalem", "Haswell"]).values()
    assert {name for name in nehalem if nehalem[name] != haswell[name]} == CPU_DEPENDENT


@pytest.mark.parametrize(
    ("cpu", "cpus"), [("any", ["Nehalem", "Haswell", NATIVE]), ("x86-64-v3", ["Haswell", "EPYC", NATIVE])]
)
def test_cpus_that_the_lock_admits_give_equal_bits(
    trees: dict[tuple[str, str], Tree], cpu: str, cpus: list[str]
) -> None:
    """Level portable: every CPU from the locked level on, and the one under this test, agree to the bit."""
    tree = trees["portable", cpu]
    first, *others = results(tree, cpus).values()
    assert all(other == first for other in others)
    for record in tree.records():
        switches = {entry["name"]: entry["ok"] for entry in record["switches"]}
        assert {"openblas_get_corename", "numpy.__cpu_features__"} <= set(switches)
        assert ("cpu_features.active" in switches) == (cpu == "any")
        assert all(switches.values())
        assert record["warnings"] == []


@pytest.mark.parametrize(
    ("value", "still"),
    [
        ("glibc.cpu.hwcaps=-AVX2,-FMA,-FMA4", ""),
        ("glibc.cpu.hwcaps=-AVX2_Usable,-FMA", "AVX2"),
        ("glibc.tune.hwcaps=-AVX2,-FMA", "AVX2 FMA"),
    ],
)
def test_old_names_do_nothing(tmp_path: Path, value: str, still: str) -> None:
    """The C library ignores the names that it dropped; the read-back sees that, and a strict run stops."""
    environment = {"GLIBC_TUNABLES": value, "PYTHONHASHSEED": "42"}
    lock = make_lock(environment=environment, determinism=Determinism(level="portable", seed=42, threads=1))
    done = make_tree(tmp_path / "tree", lock).execute("-c", "print(1)", check=False)
    if not still:
        assert (done.returncode, done.stdout, done.stderr) == (0, "1\n", "")
        return
    assert (done.returncode, done.stdout) == (78, "")
    assert f"  cpu_features.active: wanted '{value}', found 'still on: {still}'\n" in done.stderr
