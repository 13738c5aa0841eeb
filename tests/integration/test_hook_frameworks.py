"""The hook with the real NumPy, TensorFlow and Keras: what a script without any seed gets from it.

The frameworks are installed once, with uv, into the user's cache directory, and used from there by every later run.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from envbuild.lockfile.model import Determinism
from tests.support.environments import environment
from tests.support.runtime import Tree, make_lock, make_tree

pytestmark = pytest.mark.network

ENVIRONMENT = {
    "OMP_NUM_THREADS": "2",
    "PYTHONHASHSEED": "42",
    "TF_NUM_INTRAOP_THREADS": "2",
    "TF_NUM_INTEROP_THREADS": "2",
    "TF_CPP_MIN_LOG_LEVEL": "3",
}

# Nothing in it seeds or asks for determinism: initial weights, shuffling, dropout, unseeded generators, a set.
TRAIN = """
import hashlib, json, random
import numpy as np
import keras
import tensorflow as tf

data = np.random.default_rng(0)
x = data.random((96, 8, 8, 1), dtype="float32")
y = data.integers(0, 4, 96)
model = keras.Sequential([
    keras.Input((8, 8, 1)), keras.layers.Conv2D(8, 3, activation="relu"), keras.layers.Flatten(),
    keras.layers.Dropout(0.3), keras.layers.Dense(4)])
model.compile("adam", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
pairs = tf.data.Dataset.from_tensor_slices((x, y)).shuffle(96).batch(16)
history = model.fit(pairs, epochs=2, verbose=0)
model.fit(x, y, epochs=1, batch_size=16, verbose=0)
print(json.dumps({
    "weights": hashlib.sha256(b"".join(w.tobytes() for w in model.get_weights())).hexdigest(),
    "loss": history.history["loss"],
    "python": random.random(),
    "numpy": np.random.permutation(50).tolist(),
    "generator": np.random.default_rng().random(),
    "state": np.random.RandomState().rand(),
    "tensorflow": tf.random.uniform([]).numpy().item(),
    "keras": float(keras.random.uniform([])),
    "set": list({"one", "two", "three", "four"}),
}))
"""


@pytest.fixture(scope="module")
def packages() -> Path:
    """The cached folder of real frameworks."""
    return environment("tensorflow")


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory, packages: Path) -> Tree:
    lock = make_lock(environment=ENVIRONMENT, determinism=Determinism(level="ops", seed=42, threads=2))
    return make_tree(tmp_path_factory.mktemp("tree"), lock, paths=[packages])


def twice(tree: Tree, script: Path) -> list[dict[str, Any]]:
    """Run a script in two processes at the same time."""
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(2) as pool:
        runs = [pool.submit(tree.execute, str(script)) for _ in range(2)]
        return [json.loads(run.result().stdout.splitlines()[-1]) for run in runs]


def test_training_repeats_to_the_bit(tree: Tree, tmp_path: Path) -> None:
    """With the hook two runs of an unseeded script are equal in everything; without it, in nothing but the set."""
    script = tmp_path / "train.py"
    script.write_text(TRAIN)
    first, second = twice(tree, script)
    assert first == second
    startup = tree.site / "00-envbuild.pth"
    disabled = startup.rename(tree.root / "disabled")
    try:
        plain, again = twice(tree, script)
    finally:
        disabled.rename(startup)
    assert {name for name in plain if plain[name] == again[name]} == {"set"}
    assert first["set"] == plain["set"]
    for record in tree.records():
        assert record["warnings"] == []
        assert record["frameworks"] == {"keras": "3.15.1", "numpy": "2.4.6", "tensorflow": "2.21.0"}
        assert {entry["name"]: entry["found"] for entry in record["switches"]} == {
            "random.seed": 42,
            "numpy.random.seed": 42,
            "numpy.random.bit_generator.randbits": 42,
            "tf.random.set_seed": 42,
            "tf.config.threading.set_intra_op_parallelism_threads": 2,
            "tf.config.threading.set_inter_op_parallelism_threads": 2,
            "tf.config.experimental.enable_op_determinism": True,
            "tf.config.experimental.enable_tensor_float_32_execution": False,
            "keras.utils.set_random_seed": 42,
        }
        assert all(entry["ok"] and "at_exit" not in entry for entry in record["switches"])


def test_lines_that_take_unwritten_arrays(tree: Tree, tmp_path: Path) -> None:
    """With memory filled they are the same in each process, but for a line that gets other numbers; all are noted."""
    script = tmp_path / "empty.py"
    script.write_text(
        "import json, sys\nimport numpy as np\n"
        "def one(kind, shape=5, like=None):\n"
        "    return np.empty(shape, dtype=kind) if like is None else np.empty_like(like)\n"
        "like = np.empty_like(np.zeros((3, 2), order='F'))\n"
        "found = {kind: one(kind).tolist() for kind in ('f8', 'f4', 'i4', '?')}\n"
        "found |= {'c8': one('c8').view('f4').tolist()}\n"
        "found |= {'like': like.tolist(), 'long': float(one('f8', 100_000).sum()), 'none': one('f8', 0).tolist()}\n"
        "matrix = one('', like=np.matrix(np.ones((300, 300))))\n"
        "found |= {'matrix': float(matrix.sum()), 'objects': one(object, 2).tolist()}\n"
        "found |= {'text': len(one('U3', 2)), 'masked': np.ma.empty(3).shape[0]}\n"
        "print(json.dumps(found))\n"
    )
    for path in tree.run.iterdir():
        path.unlink()
    fix = {"MALLOC_PERTURB_": "192", "ENVBUILD_FIX": "memory"}
    found = [
        json.loads(tree.execute(str(script), variables=fix | more).stdout)
        for more in ({}, {}, *({"ENVBUILD_FIX": f"memory!{script}:4"},) * 2)
    ]
    assert found[0] == found[1]
    real, other = found[2:]
    same = {name for name in found[0] if real[name] == found[0][name]}
    assert same == {"like", "none", "objects", "text", "masked"}
    assert {name for name in real if real[name] != other[name]} >= {"f8", "f4", "c8", "long", "matrix"}
    assert all(0 <= each < 1 for each in real["f8"])
    assert {*real["i4"]} <= {0, 1}
    records = [json.loads(path.read_text()) for path in tree.run.glob("process-*.json")]
    asked = {(each["call"], each["line"]) for record in records for each in record.get("asked", [])}
    assert {("numpy.empty", 4), ("numpy.empty_like", 5)} <= asked


def test_every_way_to_import_and_own_settings(tree: Tree) -> None:
    """`import tensorflow.keras` sets the same switches; what a script sets by itself stays, and is recorded."""
    text = """
import random, numpy
random.seed(1); numpy.random.seed(2)
a, b = random.random(), numpy.random.random()
random.seed(1); numpy.random.seed(2)
import tensorflow.keras as keras
import tensorflow as tf
assert tf.config.experimental.tensor_float_32_execution_enabled() is False
assert numpy.random.random() == b
import inspect, pkgutil, importlib.resources
assert type(tf.__loader__).__name__ == "SourceFileLoader" and inspect.getsource(tf)
assert importlib.resources.files("keras").joinpath("__init__.py").is_file()
tf.random.set_seed(7)
tf.config.threading.set_inter_op_parallelism_threads(1)
layer = keras.layers.Dense(2); layer.build((None, 2))
print("done")
"""
    for path in tree.run.iterdir():
        path.unlink()
    done = tree.execute("-I", "-c", text)
    assert done.stdout == "done\n"
    (record,) = tree.records()
    assert {entry["name"]: entry["at_exit"] for entry in record["switches"] if "at_exit" in entry} == {
        "random.seed": 1,
        "numpy.random.seed": 2,
        "tf.random.set_seed": 7,
        "tf.config.threading.set_inter_op_parallelism_threads": 1,
    }


def test_numpy_children(tree: Tree, tmp_path: Path) -> None:
    """Pool workers draw other NumPy numbers than their parent and each other, the same in every run."""
    script = tmp_path / "pool.py"
    script.write_text("""
import json, multiprocessing, numpy as np
def draw(_):
    return [np.random.random(), np.random.default_rng().random()]
if __name__ == "__main__":
    found = [draw(0)]
    for method in ("fork", "spawn"):
        for _ in range(2):
            with multiprocessing.get_context(method).Pool(1) as pool:
                found += pool.map(draw, [0])
    print(json.dumps([number for pair in found for number in pair]))
""")
    first, second = twice(tree, script)
    assert first == second
    assert len(set(map(str, first))) == 10


SQL = """
import json, sys
def drawn():
    import sqlite3
    return sqlite3.connect(":memory:").execute("select sqlite_version(), random(), hex(randomblob(8))").fetchone()
first = drawn() if sys.argv[1:] else None
import tensorflow
print(json.dumps([first, drawn(), drawn()]))
"""


@pytest.mark.parametrize("arguments", [(), ("sqlite first",)])
def test_sqlite_beside_the_copy_that_tensorflow_has(tree: Tree, tmp_path: Path, arguments: tuple[str, ...]) -> None:
    """Its functions are called instead of the shared library's if it is loaded first; what is called is seeded."""
    script = tmp_path / "sql.py"
    script.write_text(SQL)
    runs = [json.loads(tree.execute(str(script), *arguments).stdout.splitlines()[-1]) for _ in range(2)]
    assert runs[0] == runs[1]
    assert (runs[0][0] is None) is (not arguments)
    assert tree.records()[-1]["warnings"] == []
