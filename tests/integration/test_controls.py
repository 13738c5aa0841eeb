"""The causes that a CPU can show, with real frameworks: without the controls the bits differ, with them they do not.

One script per framework makes all of its cases at once, since the import costs more than they do. It prints digests by
the name of the case, ``CAUSE what``, with the numbers of the table of causes (docs/reference/determinism.md).
"""

from __future__ import annotations

import json
import subprocess
import textwrap
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from envbuild.determinism import policy
from envbuild.image.runtime import files
from envbuild.lockfile.model import Determinism
from envbuild.runtime.guard import gate
from envbuild.runtime.guard.variables import HARD
from tests.support.environments import environment
from tests.support.runtime import Tree, make_lock, make_tree

pytestmark = pytest.mark.network

RUNS = 5
VERSIONS = {
    "tensorflow": {"tensorflow": "2.21.0", "keras": "3.15.1", "numpy": "2.4.6"},
    "torch": {"torch": "2.13.0", "numpy": "2.4.6"},
    "jax": {"jax": "0.10.2", "numpy": "2.4.6"},
}
_COMMON = """
import hashlib, json, random, sys
import numpy as np

def digest(*arrays):
    return hashlib.sha256(b"".join(np.asarray(array).tobytes() for array in arrays)).hexdigest()[:16]

found = {"4 set": list({f"name {number}" for number in range(64)}), "2 shuffled": random.sample(range(99), 9)}
found["2 generator"] = np.random.default_rng().integers(1 << 30, size=4).tolist()
"""
TENSORFLOW = """
import keras, tensorflow as tf

data = np.random.default_rng(0)
images = tf.constant(data.random((32, 24, 24, 3), dtype="float32"))
kernel = tf.constant(data.random((3, 3, 3, 16), dtype="float32"))
with tf.GradientTape() as tape:
    tape.watch(kernel)
    loss = tf.reduce_sum(tf.nn.conv2d(images, kernel, 1, "SAME") ** 2)
found["5 convolution"] = digest(tape.gradient(loss, kernel))
if sys.argv[1:] != ["threads"]:
    layer = keras.layers.Dense(4)
    layer.build((None, 4))
    found["1 weights"] = digest(*layer.get_weights())
    found["3 dropout"] = digest(keras.layers.Dropout(0.5)(images, training=True))
    found["3 flipped"] = digest(keras.layers.RandomFlip()(images, training=True))
    numbers = tf.data.Dataset.range(64)
    found["2 dataset"] = digest(*numbers.shuffle(64))
    noisy = lambda number: tf.random.uniform([]) + tf.cast(number, tf.float32)
    found["2 parallel draws"] = digest(*numbers.map(noisy, num_parallel_calls=4))
    system = random.SystemRandom()
    def slow(number):
        import time
        time.sleep(system.random() / 200)
        return number
    late = lambda number: tf.py_function(slow, [number], tf.int64)
    found["2 parallel order"] = digest(*numbers.map(late, num_parallel_calls=4, deterministic=False))
"""
TORCH = """
import torch

class Noisy(torch.utils.data.Dataset):
    def __len__(self):
        return 24
    def __getitem__(self, index):
        return torch.tensor([index, random.random(), np.random.random(), torch.rand(()).item()], dtype=torch.float64)

def batches(workers, method=None):
    loader = torch.utils.data.DataLoader(
        Noisy(), batch_size=4, shuffle=True, num_workers=workers, multiprocessing_context=method)
    return torch.cat(list(loader))

def main():
    fixed = torch.Generator().manual_seed(0)
    images = torch.randn(16, 3, 32, 32, generator=fixed)
    kernel = torch.randn(16, 3, 3, 3, generator=fixed, requires_grad=True)
    torch.nn.functional.conv2d(images, kernel).square().sum().backward()
    found["5 convolution"] = digest(kernel.grad)
    found["5 sum"] = digest(torch.randn(400_000, generator=fixed).sum())
    if sys.argv[1:] == ["threads"]:
        return
    found["1 weights"] = digest(torch.nn.Linear(4, 4).weight.detach())
    found["3 dropout"] = digest(torch.nn.functional.dropout(torch.ones(99)))
    found["2 loader"] = digest(batches(0))
    rows = batches(2, "fork")
    found["2 loader fork"] = digest(rows)
    if sys.argv[1:] == ["spawn"]:
        found["2 loader spawn"] = digest(batches(2, "spawn"))
    found["distinct"] = len(set(rows[:, 1].tolist())) == len(set(rows[:, 2].tolist())) == 24
    found["distinct"] = found["distinct"] and len(set(rows[:, 3].tolist())) == 24

if __name__ == "__main__":
    main()
"""
JAX = """
import jax, jax.numpy as jnp

key = jax.random.key(int(np.random.default_rng().integers(1 << 30)))
fixed = jax.random.key(1)
images, kernel = jax.random.normal(fixed, (16, 32, 32, 3)), jax.random.normal(fixed, (3, 3, 3, 16))

def loss(kernel):
    maps = jax.lax.conv_general_dilated(images, kernel, (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"))
    return (maps**2).sum()

found["5 convolution"] = digest(jax.jit(jax.grad(loss))(kernel))
found["drawn"] = digest(images)
if sys.argv[1:] != ["threads"]:
    found["1 weights"] = digest(jax.nn.initializers.glorot_normal()(key, (8, 8)))
    found["3 dropout"] = digest(jax.random.bernoulli(key, 0.5, (99,)))
    found["2 permutation"] = digest(jax.random.permutation(key, 99))
"""
SCRIPTS = {"tensorflow": TENSORFLOW, "torch": TORCH, "jax": JAX}
PRINT = """
if __name__ == "__main__":
    print(json.dumps(found))
"""


def tree_of(root: Path, name: str, *, level: str = "ops", threads: int = 2, **changes: str) -> Tree:
    """Lay out the runtime of a lock for one framework, with all the variables that the policy gives it."""
    determinism = Determinism(level=level, seed=42, threads=threads)
    variables = {**policy.environment(VERSIONS[name], determinism), "TF_CPP_MIN_LOG_LEVEL": "3", **changes}
    lock = make_lock(environment=variables, determinism=determinism)
    tree = make_tree(root / "tree", lock, paths=[environment(name)])
    (tree.root / "script.py").write_text(_COMMON + SCRIPTS[name] + PRINT)
    return tree


def runs(tree: Tree, arguments: list[list[str]], *, controls: bool = True) -> list[dict[str, Any]]:
    """Run the script once for each list of arguments, two at a time.

    Without controls as the entry point's gate starts it then: what it drops is not in the environment any more.
    """
    variables = {name: value for name, value in tree.lock.environment.items() if controls or name not in HARD} | {
        "PATH": "/usr/bin:/bin",
        gate.MARKER: gate.marker(files.expectations(tree.lock)["identity"]),
    }
    variables |= {} if controls else {gate.CONTROLS: "off"}

    def run(words: list[str]) -> dict[str, Any]:
        command = [tree.python, "script.py", *words]
        done = subprocess.run(command, env=variables, cwd=tree.root, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        return dict(json.loads(done.stdout.splitlines()[-1]))

    with ThreadPoolExecutor(2) as pool:
        return list(pool.map(run, arguments))


EQUAL_WITHOUT = {
    "tensorflow": {"5 convolution"},
    "torch": {"5 convolution", "5 sum", "distinct"},
    "jax": {"5 convolution", "drawn"},
}
"""What has no randomness of its own: with the same number of threads it is equal without the controls too."""


@pytest.fixture(scope="module")
def trees(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Tree]:
    return {name: tree_of(tmp_path_factory.mktemp(name), name) for name in SCRIPTS}


@pytest.fixture(scope="module")
def pinned(trees: dict[str, Tree]) -> Callable[[str], list[dict[str, Any]]]:
    """Return the results of the runs with controls, made once for each framework; the first two have more cases."""

    @cache
    def made(name: str) -> list[dict[str, Any]]:
        return runs(trees[name], [["spawn"]] * 2 + [["all"]] * (RUNS - 2))

    return made


@pytest.mark.parametrize("name", SCRIPTS)
def test_off_the_bits_differ_on_they_are_equal(
    trees: dict[str, Tree], pinned: Callable[[str], list[dict[str, Any]]], name: str
) -> None:
    """Causes 1 to 4: two runs without the controls agree on nothing that is drawn, five with them on everything.

    No two samples of a DataLoader's workers have a number in common, whichever library it was drawn with.
    """
    tree = trees[name]
    first, second = runs(tree, [["all"]] * 2, controls=False)
    assert {case for case in first if first[case] == second[case]} <= EQUAL_WITHOUT[name]
    for path in tree.run.iterdir():
        path.unlink()
    one, two, *others = pinned(name)
    assert one == two
    for other in others:
        assert other == {case: one[case] for case in first}
    assert one.get("distinct", True)
    for record in tree.records():
        assert record["warnings"] == []
        assert all(entry["ok"] for entry in record["switches"])
        if not record["path"]:  # a DataLoader gives its workers seeds and a number of threads itself
            assert not any("at_exit" in entry for entry in record["switches"])


@pytest.mark.parametrize("name", SCRIPTS)
def test_the_number_of_threads_decides_bits(
    pinned: Callable[[str], list[dict[str, Any]]], tmp_path: Path, name: str
) -> None:
    """Cause 5: 2 and 4 threads give two results; the locked number gives the same one each time."""
    locked = {run["5 convolution"] for run in pinned(name)}
    # OpenBLAS takes no more threads than there are CPUs, which a strict run would not accept: the guard refuses such a
    # host before.
    tree = tree_of(tmp_path, name, threads=4, OPENBLAS_NUM_THREADS="1")
    (other,) = runs(tree, [["threads"]])
    assert len(locked) == 1, "the locked number gives one result"
    assert other["5 convolution"] not in locked


def test_what_jax_draws_does_not_follow_its_version(
    pinned: Callable[[str], list[dict[str, Any]]], tmp_path: Path
) -> None:
    """jax_threefry_partitionable is pinned: the other value draws other numbers from the same key."""
    (other,) = runs(tree_of(tmp_path, "jax", JAX_THREEFRY_PARTITIONABLE="0"), [["threads"]])
    assert {run["drawn"] for run in pinned("jax")}.isdisjoint({other["drawn"]})


def test_a_flag_that_would_end_the_process_is_named(tmp_path: Path) -> None:
    """A switch that did not take stops a strict run: here a flag that this jaxlib does not know."""
    tree = tree_of(tmp_path, "jax", XLA_FLAGS="--xla_cpu_max_isa=AVX2 --xla_no_such_flag=1")
    done = tree.execute("-c", "import jax; print('trained')", check=False)
    assert (done.returncode, done.stdout) == (78, "")
    assert done.stderr == (
        "envbuild: a deterministic switch did not take effect — the program was stopped\n"
        "  XLA_FLAGS: wanted '--xla_cpu_max_isa=AVX2 --xla_no_such_flag=1', found 'unknown to this jaxlib: "
        "--xla_no_such_flag'\n"
        "what to do:\n"
        "  set determinism.strict: false in spec.yaml to be warned only, then: "
        "envbuild lock spec.yaml && envbuild build\n"
    )


REFUSED = {
    "torch": (
        """
        import torch
        torch.manual_seed(7)
        torch.set_num_interop_threads(torch.get_num_interop_threads())
        print(torch.rand(()).item(), torch.empty(1000).isnan().all().item())
        def scatter(target):
            target.put_(torch.tensor([0, 0]), torch.tensor([1.0, 2.0]))
        scatter(torch.zeros(4))
        """,
        ("torch.Tensor.put_", 7, "target.put_(torch.tensor([0, 0]), torch.tensor([1.0, 2.0]))"),
        {"torch.manual_seed": 7},
    ),
    "tensorflow": (
        """
        import tensorflow as tf
        tf.random.set_seed(7)
        @tf.function
        def step():
            return tf.timestamp()
        step()
        """,
        ("tf.timestamp", 7, "step()"),
        {"tf.random.set_seed": 7},
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_a_refused_operation_is_named_and_an_own_seed_kept(trees: dict[str, Tree], name: str) -> None:
    """The framework's refusal gets name, line and ways out; the record has them, and the script's own seed."""
    text, (op, line, code), ends = REFUSED[name]
    tree = trees[name]
    for path in tree.run.iterdir():
        path.unlink()
    path = tree.root / "refused.py"
    path.write_text(textwrap.dedent(text))
    done = tree.execute(str(path), variables={"ENVBUILD_DIAGNOSE": "1"}, check=False)
    assert done.returncode == 1
    own, _, ours = done.stderr.partition("envbuild: ")
    assert "Traceback (most recent call last):" in own
    lines = ours.splitlines()
    assert lines[0] == f"{op} is not deterministic and was refused"
    assert lines[1] == f"  at    {path}:{line}   {code}"
    assert lines[2].startswith("  why   ")
    assert lines[3].startswith("  try   ")
    (record,) = tree.records()
    (refused,) = record["refused_ops"]
    assert (refused["op"], refused["file"], refused["line"], refused["framework"]) == (op, str(path), line, name)
    assert {entry["name"]: entry["at_exit"] for entry in record["switches"] if "at_exit" in entry} == ends
    if name == "torch":
        assert done.stdout.split()[1] == "True", "memory that nothing wrote is NaN while diagnosing"
