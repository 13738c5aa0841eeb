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
from tests.support.cli import Project
from tests.support.emulator import emulator
from tests.support.environments import environment
from tests.support.oslocks import shared_store
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


SUMS = """\
import math, subprocess, sys
values = [math.exp(n / 7) + math.sin(n) + math.pow(n + 0.1, 1.7) for n in range(200)]
subprocess.run([sys.executable, "-c", "import math; print(math.tan(1.5))"], check=True)
open("sums.txt", "w").write(repr(values))
"""
PLATFORM = """\
import struct, subprocess, sys
READ = "import sys; sys.stdout.buffer.write(open('/proc/self/auxv', 'rb').read())"
def features(data):
    return next(value for kind, value in struct.iter_unpack("<QQ", data) if kind == 16)
with open("/proc/self/auxv", "rb") as own:
    mine = features(own.read())
child = features(subprocess.run([sys.executable, "-c", READ], capture_output=True, check=True).stdout)
open("features.txt", "w").write(f"{mine == child} {mine:x}")
"""
"""What the kernel, or the emulator, says of the CPU to a program: elf/auxv, ``AT_HWCAP``."""


@pytest.fixture(scope="module", name="portable")
def _portable(tmp_path_factory: pytest.TempPathFactory) -> Project:
    """A project whose lock has an emulator, which only the local engine takes."""
    home = {**os.environ, "ENVBUILD_ENGINE": "local"}
    project = Project(folder=tmp_path_factory.mktemp("cpus") / "project", store=shared_store().root, environ=home)
    project.write("spec.yaml", "name: cpus\nos: debian-12\ndeterminism: {threads: 1, level: portable}\n")
    project.write("sums.py", SUMS)
    project.write("platform_of.py", PLATFORM)
    project.must("lock")
    return project


def test_verify_on_other_cpus(portable: Project) -> None:
    """The same bits on CPUs that lack what this one has: stated with the names of the CPUs, in the proof too."""
    done = portable.must("verify", "-n", "2", "--cpu-models", "Nehalem,Haswell", "sums.py")
    assert "bit-identical 4/4: 1 file, 1 line of standard output" in done.out
    assert "the same bits on 3 CPUs" in done.out
    statement = json.loads((portable.folder / "pylock.cpus.verified.json").read_text())
    assert "CPU (Nehalem, Haswell: emulated)" in statement["predicate"]["varied"]
    record = portable.must("runs", "--json").json[0]
    assert ", CPU Haswell sha256:" in record["emulator"]


def test_what_depends_on_the_cpu_is_said_to(portable: Project) -> None:
    """A result that follows the CPU, also of a child process: no proof is written, and the CPU is the cause."""
    (portable.folder / "pylock.cpus.verified.json").unlink(missing_ok=True)
    done = portable("verify", "--json", "--cpu-models", "Nehalem", "platform_of.py")
    assert done.code == 16
    assert done.json["cpu_decides"] == "depends"
    assert [row["results"] for row in done.json["cpus"]] == [[0, 0, 0], [1, 1, 1, 1]]
    assert done.json["causes"][0]["what"].startswith("the bits depend on the CPU")
    outputs = (portable.folder / ".envbuild" / "runs").glob("*/outputs/features.txt")
    assert {path.read_text().split()[0] for path in outputs} == {"True"}
    assert not (portable.folder / "pylock.cpus.verified.json").exists()


@pytest.mark.parametrize(
    ("models", "engine", "code", "words"),
    [
        ("Nehalme", "local", 2, "QEMU knows no such CPU — perhaps you meant Nehalem"),
        ("486", "local", 2, "programs of this machine do not start on it"),
        ("Nehalem,+avx", "local", 2, "not the name of a CPU model"),
        (" , ", "local", 2, "no CPU model is named"),
        ("Nehalem", "docker", 15, "needs the local engine"),
    ],
)
def test_what_cannot_be_emulated_is_refused(portable: Project, models: str, engine: str, code: int, words: str) -> None:
    """Before anything is built or run."""
    other = Project(folder=portable.folder, store=portable.store, environ={**os.environ, "ENVBUILD_ENGINE": engine})
    done = other("verify", "--cpu-models", models, "sums.py")
    assert (done.code, words in done.err) == (code, True), done.err


def test_a_lock_of_another_level_has_no_emulator(tmp_path: Path) -> None:
    """The message names the line to add to the spec."""
    home = {**os.environ, "ENVBUILD_ENGINE": "local"}
    project = Project(folder=tmp_path / "project", store=shared_store().root, environ=home)
    project.write("spec.yaml", "name: ops\nos: debian-12\n")
    project.write("sums.py", SUMS)
    project.must("lock")
    done = project("verify", "--cpu-models", "Nehalem", "sums.py")
    assert done.code == 14
    assert "determinism: {level: portable}" in done.err
