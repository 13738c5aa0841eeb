"""Saved models of the real libraries: names, types and digests as the libraries themselves report them."""

from __future__ import annotations

import json
import subprocess
import sys
from array import array
from pathlib import Path
from typing import Any

import pytest

from envbuild.lockfile.model import Determinism
from envbuild.record.model import Output
from envbuild.runs.results import metrics
from tests.support.environments import environment
from tests.support.runtime import Tree, make_lock, make_tree

pytestmark = pytest.mark.network

ROOT = Path(__file__).parents[2]
PROGRAM = (
    f"import sys; sys.path.insert(0, {str(ROOT)!r}); "
    "from envbuild.runtime.tensors.__main__ import main; sys.exit(main(sys.argv[1:]))"
)
START = """\
import hashlib, json, sys, warnings
sys.path.insert(0, sys.argv[1])
warnings.simplefilter("ignore")
import numpy as np
said = {}
def say(file, name, array, dtype=None):
    array = np.asarray(array)
    digest = hashlib.sha256(np.ascontiguousarray(array).tobytes()).hexdigest()[:32]
    said.setdefault(file, {})[name] = [dtype or array.dtype.name, list(array.shape), digest]
"""

NUMPY = (
    START
    + """
a = np.random.default_rng(1).standard_normal((5, 7, 3)).astype("f4")
for name, array in {
    "c": a, "f": np.asfortranarray(a), "cut": a[::2, 1:, :], "half": a.astype("f2"), "one": np.float64(3),
    "none": a[:0], "big": np.arange(300_000, dtype="i8").reshape(600, 500).T,
}.items():
    np.save(f"{name}.npy", array)
    say(f"{name}.npy", "array", array)
np.savez("z.npz", a, named=a.T)
np.savez_compressed("zc.npz", a, named=np.asfortranarray(a.T))
for file in ("z.npz", "zc.npz"):
    say(file, "arr_0", a); say(file, "named", a.T)
low = {"low": float(a.min()), "high": float(a.max()), "norm": float(np.linalg.norm(a.astype("f8")))}
print(json.dumps([said, low]))
"""
)

TORCH = (
    START
    + """
import torch, safetensors.torch
torch.manual_seed(0)
def bits(tensor):
    tensor = tensor.detach().contiguous()
    return tensor.view(ODD[tensor.dtype]).numpy() if tensor.dtype in ODD else tensor.numpy()
ODD = {torch.bfloat16: torch.int16, torch.float8_e4m3fn: torch.uint8}
def told(file, name, tensor):
    say(file, name, bits(tensor), str(tensor.dtype).rpartition(".")[2] if tensor.dtype in ODD else None)
net = torch.nn.Sequential(
    torch.nn.Conv2d(2, 3, 3), torch.nn.BatchNorm2d(3), torch.nn.Flatten(), torch.nn.Linear(12, 4))
net = net.to(memory_format=torch.channels_last)
net[3].weight.data = torch.randn(12, 4).t()
optimiser = torch.optim.AdamW(net.parameters())
net(torch.randn(5, 2, 4, 4)).square().sum().backward(); optimiser.step()
state = net.state_dict()
torch.save(state, "state.pt")
for name, tensor in state.items(): told("state.pt", name, tensor)
base = torch.randn(8, 9)
whole = {"epoch": 3, "net": state, "optimiser": optimiser.state_dict(), "list": [base, base[2:5, ::3]],
         "bf": base.bfloat16().t(), "f8": base.to(torch.float8_e4m3fn), "tied": base, "wide": base[0].expand(3, 9),
         "c": torch.randn(3, dtype=torch.complex64), "flag": torch.tensor(True),
         "u": torch.tensor([1, 2], dtype=torch.uint16)}
torch.save(whole, "whole.ckpt")
def walk(prefix, value):
    if isinstance(value, torch.Tensor): told("whole.ckpt", prefix, value)
    elif isinstance(value, (dict, list)):
        for key, part in value.items() if isinstance(value, dict) else enumerate(value):
            walk(f"{prefix}.{key}" if prefix else str(key), part)
walk("", whole)
torch.save(net, "module.pt")
for index, module in net._modules.items():
    for kind in ("_parameters", "_buffers"):
        for name, tensor in getattr(module, kind).items():
            told("module.pt", f"_modules.{index}.{kind}.{name}", tensor)
torch.jit.script(net).save("script.pt")
for name, tensor in state.items(): told("script.pt", name, tensor)
safetensors.torch.save_file({**{n: t.contiguous() for n, t in state.items()}, "bf": base.bfloat16()}, "s.safetensors")
for name, tensor in {**state, "bf": base.bfloat16()}.items(): told("s.safetensors", name, tensor)
torch.save(state, "old.pth", _use_new_zipfile_serialization=False)
print(json.dumps([said, {}]))
"""
)

KERAS = (
    START
    + """
import os
os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
import h5py, keras, tensorflow as tf
keras.utils.set_random_seed(1)
rows, marks = np.random.rand(32, 4), np.random.rand(32, 2)
policy = keras.DTypePolicy("float32")
net = keras.Sequential([keras.Input((4,)), keras.layers.Dense(3, dtype=policy), keras.layers.Dense(2)])
net.compile("adam", "mse")
net.fit(rows, marks, epochs=1, verbose=0)
net.save("m.keras"); net.save("m.h5"); net.save_weights("m.weights.h5")
for index, layer in enumerate(net.layers):
    for number, variable in enumerate(layer.trainable_variables):
        for file in ("m.keras", "m.weights.h5"):
            say(file, f"layers/{layer.name}/vars/{number}", variable)
        say("m.h5", f"model_weights/{layer.name}/{variable.path if '/' in variable.path else variable.name}", variable)
for number, variable in enumerate(net.optimizer.variables):
    for file in ("m.keras", "m.weights.h5"):
        say(file, f"optimizer/vars/{number}", variable)
    say("m.h5", f"optimizer_weights/{net.optimizer.name}/{variable.path.partition('/')[2].replace('/', '_')}", variable)
with h5py.File("other.hdf5", "w") as file:
    big = np.random.rand(3000, 1000).astype("f4")
    file.create_dataset("a/big", data=big, compression="gzip", compression_opts=1, chunks=(100, 100))
    file.create_dataset("turned", data=np.arange(6, dtype=">i4").reshape(2, 3))
    file["same"] = file["turned"]
    file["loop"] = file
    file["soft"] = h5py.SoftLink("/nowhere")
    file["far"] = h5py.ExternalLink("elsewhere.h5", "/x")
    file["text"] = ["a", "b"]
    file.create_dataset("empty", data=h5py.Empty("f"))
    file.attrs["note"] = "x"
say("other.hdf5", "a/big", big); say("other.hdf5", "same", np.arange(6, dtype=">i4").reshape(2, 3), ">int32")
with h5py.File("outside.h5", "w") as file: file.create_dataset("x", (6,), "f4", external=[("raw", 0, 24)])
with h5py.File("bomb.h5", "w") as file:
    file.create_dataset("x", (1 << 43,), "f4", chunks=(1 << 20,), compression="gzip")
layout = h5py.VirtualLayout((6,), "f4"); layout[:] = h5py.VirtualSource("outside.h5", "x", (6,))
with h5py.File("virtual.h5", "w") as file: file.create_virtual_dataset("x", layout)
open("cut.h5", "wb").write(open("m.h5", "rb").read()[:3000])
with tf.summary.create_file_writer("logs").as_default() as writer:
    for step in range(3): tf.summary.write("loss", tf.constant(0.1 * step), step=step)
    writer.close()
with tf.Graph().as_default():
    writer = tf.compat.v1.summary.FileWriter("logs", filename_suffix=".old", graph=tf.Graph())
    value = tf.compat.v1.Summary.Value(tag="acc", simple_value=0.75)
    writer.add_summary(tf.compat.v1.Summary(value=[value]), 7); writer.close()
print(json.dumps([said, {}]))
"""
)


def saved(folder: Path, name: str, script: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """Run a script that saves files and states what is in them; return that, and one more thing it states."""
    command = [sys.executable, "-c", script, str(environment(name))]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=900)
    assert done.returncode == 0, done.stderr[-3000:]
    sentence, more = json.loads(done.stdout.splitlines()[-1])
    return sentence, more


def read(folder: Path, name: str, files: list[str]) -> dict[str, Any]:
    """Read files as a run does: by the program, with the environment's packages."""
    command = [sys.executable, "-I", "-S", "-B", "-c", PROGRAM, str(folder / "answer"), str(folder)]
    done = subprocess.run([*command, str(environment(name)), *files], capture_output=True, timeout=900)
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")
    return dict(json.loads((folder / "answer").read_text()))


def tensors(found: dict[str, Any]) -> dict[str, Any]:
    assert "unread" not in found, found
    return {name: [each["dtype"], each["shape"], each["digest"]] for name, each in found["tensors"].items()}


def test_numpy(tmp_path: Path) -> None:
    """Arrays in any order, whole, cut, empty and compressed, with NumPy in the reader."""
    sentence, low = saved(tmp_path, "torch", NUMPY)
    found = read(tmp_path, "torch", list(sentence))
    assert {file: tensors(each) for file, each in found.items()} == sentence
    first = found["c.npy"]["tensors"]["array"]
    assert {key: first[key] for key in ("low", "high")} == {key: low[key] for key in ("low", "high")}
    assert first["norm"] == pytest.approx(low["norm"], rel=1e-12)


def test_pytorch_and_safetensors(tmp_path: Path) -> None:
    """State dictionaries, nested checkpoints, whole modules and TorchScript; views, shared storages, all types."""
    sentence, _ = saved(tmp_path, "torch", TORCH)
    found = read(tmp_path, "torch", [*sentence, "old.pth"])
    old = found.pop("old.pth")
    assert old == {"unread": "PyTorch's format from before 1.6 is not read: save it without the old format"}
    assert {file: tensors(each) for file, each in found.items()} == sentence
    assert found["state.pt"]["tensors"]["0.weight"]["norm"] > 0
    without = read(tmp_path, "arguments", list(sentence))  # an environment without NumPy
    assert {file: tensors(each) for file, each in without.items()} == sentence
    assert {file: each["content"] for file, each in without.items()} == {
        file: each["content"] for file, each in found.items()
    }


NOTES = """
import json, sys
sys.path.append(sys.argv[1])
import h5py, numpy as np
files = {"a": (1.5e9, 0.25, 3), "b": (1.6e9, 0.25, 3), "c": (1.5e9, 0.5, 3), "d": (1.5e9, 0.25, 4)}
for name, (stamp, loss, rows) in files.items():
    with h5py.File(f"{name}.h5", "w") as file:
        file["w"] = np.arange(rows, dtype="f8")
        file["w"].attrs.update({"created_at": stamp, "saved": f"at {stamp}", "loss": loss, "scale": np.ones(3)})
        file.attrs["names"] = np.array([b"x", b"y"])
print(json.dumps([{}, {}]))
"""


def test_attributes_of_hdf5_are_notes(tmp_path: Path) -> None:
    """Texts and single numbers are returned by name and are part of the content; an array may be weights."""
    saved(tmp_path, "tables", NOTES)
    a, b, c, d = (read(tmp_path, "tables", [f"{name}.h5"])[f"{name}.h5"] for name in "abcd")
    assert a["notes"] == {
        **{"w@created_at": "1500000000.0", "w@saved": "at 1500000000.0", "w@loss": "0.25"},
        **{"@names[0]": "x", "@names[1]": "y"},
    }
    assert len({each["content"] for each in (a, b, c, d)}) == 4
    assert a["bare"] == b["bare"] == c["bare"] != d["bare"]


LISTS = """
import json, sys
sys.path.append(sys.argv[1])
import h5py, numpy as np
files = {"a": ([0.5, 0.25], 3), "b": ([0.75, 0.25], 3), "c": ([0.5, 0.25, 1.0], 3), "d": ([0.5, 0.25], 4)}
for name, (times, rows) in files.items():
    with h5py.File(f"{name}.h5", "w") as file:
        file["w"] = np.arange(rows, dtype="f8")
        file["log/epoch_time"] = np.array(times, "f4")
        file["log/fit_seconds"] = times[0]
        file["log/step_ms"] = np.array([0.5, np.nan])
        file["log/times_of_all"] = np.arange(1000.0)
print(json.dumps([{}, {}]))
"""


def test_short_lists_of_hdf5_that_may_be_times_are_notes(tmp_path: Path) -> None:
    """Their values are returned as tensors too; without the values the content has their types and lengths."""
    saved(tmp_path, "tables", LISTS)
    a, b, c, d = (read(tmp_path, "tables", [f"{name}.h5"])[f"{name}.h5"] for name in "abcd")
    assert a["notes"] == {"log/epoch_time[0]": "0.5", "log/epoch_time[1]": "0.25", "log/fit_seconds": "0.5"}
    assert len({each["content"] for each in (a, b, c, d)}) == 4
    assert a["tensors"]["log/epoch_time"]["digest"] != b["tensors"]["log/epoch_time"]["digest"]
    assert len({each["bare"] for each in (a, c, d)}) == 3
    assert a["bare"] == b["bare"]


HDF5_PAIRS = (
    START
    + """
import h5py, numpy as np
text = h5py.string_dtype()
def links(file, k): file["s"] = h5py.SoftLink(f"/x{k}")
def outer(file, k): file["e"] = h5py.ExternalLink(f"f{k}.h5", "/x")
def second_name(file, k): file["c"] = file["ab"[k]]
def group(file, k): file.create_group(f"g{k}")
def kind(file, k): file.create_dataset("x", data=1) if k else file.create_group("x")
def named_type(file, k): file["T"] = np.dtype(("f4", "f8")[k])
def enum(file, k): file.create_dataset("d", data=[1], dtype=h5py.enum_dtype({f"A{k}": 1}))
def reference(file, k): file.create_dataset("d", data=file["ab"[k]].ref, dtype=h5py.ref_dtype)
def growth(file, k): file.create_dataset("d", data=[1], maxshape=(2 + k,))
def vector(file, k):
    values = np.zeros(5000); values[2500] = k
    file.create_dataset("d", (1,), h5py.vlen_dtype("f8"))[0] = values
def exact(file, k): file.create_dataset("d", (1,), h5py.vlen_dtype("f8"))[0] = [0.5 + k * 2**-50]
def record(file, k): file.create_dataset("d", data=np.array([("x", 0.5 + k * 2**-50)], [("s", text), ("v", "f8")]))
def field(file, k): file.create_dataset("d", data=np.array([("x", 1.0)], [("s", text), (f"v{k}", "f8")]))
def empty(file, k): file.create_dataset("d", data=h5py.Empty(("f4", "f8")[k]))
def of_vectors(file, k):
    values = np.empty(2, object); values[0], values[1] = np.zeros(3), np.array([float(k)])
    file["a"].attrs.create("v", values, dtype=h5py.vlen_dtype("f8"))
def of_reference(file, k): file["a"].attrs["r"] = file["ab"[k]].ref
def of_size(file, k): file["a"].attrs["x"] = np.ones((), ("f4", "f8")[k])
def of_names(file, k): file["a"].attrs.create("e", np.array([1, 2]), dtype=h5py.enum_dtype({f"A{k}": 1, "B": 2}))
def of_empty(file, k): file["a"].attrs["e"] = h5py.Empty(("f4", "f8")[k])
pairs = [links, outer, second_name, group, kind, named_type, enum, reference, growth, vector, exact, record, field]
pairs += [empty, of_vectors, of_reference, of_size, of_names, of_empty]
for make in pairs:
    for name, k in (("0", 0), ("1", 1), ("again", 0)):
        with h5py.File(f"{make.__name__}-{name}.h5", "w") as file:
            if name == "again":
                file.create_dataset("gone", data=np.ones(1000)); del file["gone"]  # other bytes
            file["a"] = 1; file["b"] = 1
            make(file, k)
for name in ("0", "1", "again"):
    with h5py.File(f"behind-{name}.h5", "w") as file:
        if name == "again":
            file.create_dataset("gone", data=np.ones(1000)); del file["gone"]
        file["a"] = 1
    if name == "1": open("behind-1.h5", "ab").write(b"more")
with h5py.File("region.h5", "w") as file:
    file["a"] = np.arange(9)
    file.create_dataset("d", data=file["a"].regionref[2:4], dtype=h5py.regionref_dtype)
print(json.dumps([{}, [each.__name__ for each in pairs] + ["behind"]]))
"""
)


def test_what_differs_in_hdf5_is_seen(tmp_path: Path) -> None:
    """Links, further names, types, vectors to their last bit, references and bytes behind the end are content."""
    _, kinds = saved(tmp_path, "tables", HDF5_PAIRS)
    files = [f"{kind}-{name}.h5" for kind in kinds for name in ("0", "1", "again")]
    found = read(tmp_path, "tables", [*files, "region.h5"])
    assert "references to regions" in found["region.h5"]["unread"]
    assert [file for file in files if "unread" in found[file]] == []
    content = {file: found[file]["content"] for file in files}
    assert [kind for kind in kinds if content[f"{kind}-0.h5"] == content[f"{kind}-1.h5"]] == []
    assert [kind for kind in kinds if content[f"{kind}-0.h5"] != content[f"{kind}-again.h5"]] == []
    same = [
        kind
        for kind in kinds
        if (tmp_path / f"{kind}-0.h5").read_bytes() == (tmp_path / f"{kind}-again.h5").read_bytes()
    ]
    assert same == []


def test_keras_and_hdf5(tmp_path: Path) -> None:
    """Weights and optimiser by the library's paths; links, other files, bombs and damage; TensorFlow's event files."""
    sentence, _ = saved(tmp_path, "tensorflow", KERAS)
    hostile = ["outside.h5", "virtual.h5", "bomb.h5", "cut.h5"]
    found = read(tmp_path, "tensorflow", [*sentence, *hostile])
    assert {file: tensors(found[file]) for file in sentence} == sentence
    why = {file: found[file]["unread"] for file in hostile}
    assert why.pop("cut.h5").startswith("h5py cannot read it: ")
    assert why == {
        "outside.h5": "x keeps its values in other files",
        "virtual.h5": "x keeps its values in other files",
        "bomb.h5": why["bomb.h5"],
    }
    assert why["bomb.h5"].endswith(" bytes of values are left to read")
    paths = [path.relative_to(tmp_path).as_posix() for path in (tmp_path / "logs").iterdir()]
    outputs = [Output(path=path, change="created", size=1, sha256="0" * 64) for path in paths]
    scalars = {name: points for name, _, points in metrics.of_events(tmp_path, outputs)}
    values = tuple((step, array("f", [0.1 * step])[0]) for step in range(3))
    assert scalars == {"loss": values, "acc": ((7, 0.75),)}


TRAIN = """
import keras, numpy as np
net = keras.Sequential([keras.Input((4,)), keras.layers.Dense(3), keras.layers.Dropout(0.5)])
net.compile("adam", "mse", metrics=["mae"])
rows, marks = np.random.rand(32, 4), np.random.rand(32, 3)
history = net.fit(rows, marks, epochs=2, verbose=0, validation_split=0.25)
more = net.fit(rows, marks, epochs=3, initial_epoch=2, verbose=0)
net.fit(rows, marks, epochs=1, verbose=0)
net.save("m.keras")
import json
print(json.dumps([history.history, more.history]))
"""


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Tree:
    lock = make_lock(
        environment={"PYTHONHASHSEED": "42", "TF_CPP_MIN_LOG_LEVEL": "3"},
        determinism=Determinism(level="ops", seed=42, threads=2),
    )
    return make_tree(tmp_path_factory.mktemp("tree"), lock, paths=[environment("tensorflow")])


def test_equal_trainings_have_equal_tensors_and_metrics(tree: Tree) -> None:
    """Two runs of a training: the archives differ in bytes and agree in content; each epoch's values are exact."""
    script = tree.root / "train.py"
    script.write_text(TRAIN)
    contents, archives, found = [], [], []
    for _ in range(2):
        printed = json.loads(tree.execute(str(script)).stdout.splitlines()[-1])
        archives.append((tree.root / "m.keras").read_bytes())
        contents.append(read(tree.root, "tensorflow", ["m.keras"])["m.keras"])
        found.append(metrics.of_keras(tree.run))
        for path in tree.run.glob("metrics-*.jsonl"):
            path.unlink()
    assert archives[0] != archives[1]
    assert contents[0] == contents[1]
    assert contents[0]["count"] == 8
    assert found[0] == found[1]
    first, more = printed
    values = {name: [value for _, value in points] for name, _, points in found[0]}
    assert {name: values[name] for name in first} == {name: first[name] + more.get(name, []) for name in first}
    assert set(values) - set(first) == {"loss (fit 2)", "mae (fit 2)"}
    steps = {name: [step for step, _ in points] for name, _, points in found[0]}
    assert steps["loss"] == [0, 1, 2]
