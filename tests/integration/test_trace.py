"""The step trace with real frameworks: it changes nothing, and finds one changed bit where it was made.

Each script makes the change by itself, if it is reported to, after 37 steps: one weight, chosen by ``os.urandom`` among
those an optimiser's step is small against, a few units in the last place up. Where the change is read as it was made,
one unit is enough; where a step of an optimiser comes between, the sum may be rounded back to what it would have been
(so about one run in a hundred had nothing to find), and the change is ``FAR`` units.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import pytest

from envbuild.lockfile.model import Determinism
from envbuild.trace import compare
from envbuild.trace.compare import Divergence, Trace
from tests.support.environments import environment
from tests.support.runtime import Tree, make_lock, make_tree

pytestmark = pytest.mark.network

ENVIRONMENT = {
    "OMP_NUM_THREADS": "1",
    "PYTHONHASHSEED": "42",
    "TF_NUM_INTRAOP_THREADS": "1",
    "TF_NUM_INTEROP_THREADS": "1",
    "TF_CPP_MIN_LOG_LEVEL": "3",
}
TRACED = {"ENVBUILD_TRACE": "1", "ENVBUILD_TRACE_VALUES": "100000000@36"}
PLANTED = {**TRACED, "PLANT": "37"}

FAR = 16
PLANT = (
    f"FAR = {FAR}"
    + """
import hashlib, json, os
import numpy as np

def planted(step, array, units=1):
    \"\"\"Return the array, or one with a single value changed.\"\"\"
    if str(step) == os.environ.get("PLANT"):
        array = np.array(array)
        large = np.flatnonzero(abs(array) > 0.04)
        array.reshape(-1).view("i4")[large[int.from_bytes(os.urandom(4), "big") % large.size]] += units
    return array

def digest(arrays):
    return hashlib.sha256(b"".join(np.asarray(array).tobytes() for array in arrays)).hexdigest()
"""
)


def run(tree: Tree, name: str, text: str, *variables: Mapping[str, str]) -> list[tuple[dict[str, Any], list[Trace]]]:
    """Run a script once for each set of variables, two at a time; returns what it printed last, and its traces."""
    script = tree.root / f"train_{name}.py"
    script.write_text(PLANT + text)

    def one(each: Mapping[str, str]) -> dict[str, Any]:
        done = tree.execute(str(script), variables=each)
        assert "envbuild: warning" not in done.stderr, done.stderr
        found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
        return found

    with ThreadPoolExecutor(2) as pool:
        printed = list(pool.map(one, variables))
    traces = compare.read_run(tree.run)
    return [(each, [found for found in traces if found.pid in each["pids"]]) for each in printed]


def of_label(found: Trace, label: str) -> Trace:
    """Return the part of a trace that is about one model or optimiser."""
    return replace(found, steps=tuple(step for step in found.steps if step.group.label == label))


def first(one: Trace, two: Trace, label: str) -> Divergence:
    """Return the first difference of one model or optimiser; there has to be one."""
    found = compare.first_divergence(of_label(one, label), of_label(two, label))
    assert found is not None
    return found


def assert_planted(found: Divergence, tensor: str, units: int = 1) -> None:
    """The change of one value of one tensor was found, with both values, the data being equal or unknown."""
    assert [each.name for each in found.tensors] == [tensor], found.sentence
    values = found.tensors[0].values
    assert values is not None
    assert (values.count, values.ulps) == (1, units)
    assert values.before != values.after
    assert abs(values.before - values.after) < 1e-6
    assert not found.batch


KERAS = """
import keras, tensorflow as tf
layers = keras.layers
loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
data = np.random.default_rng(0)
x, y = data.random((160, 8, 8, 1), dtype="f4"), data.integers(0, 4, 160)
pairs = tf.data.Dataset.from_tensor_slices((x, y)).shuffle(160).batch(16)

def make(name):
    model = keras.Sequential([
        keras.Input((8, 8, 1)), layers.Conv2D(8, 3, activation="relu", name="conv"), layers.BatchNormalization(),
        layers.Flatten(), layers.Dropout(0.3), layers.Dense(4, name="dense")], name=name)
    return model, keras.optimizers.Adam(name=name)

def plant(model, step):
    kernel = model.get_layer("conv").kernel
    kernel.assign(planted(step, kernel.numpy(), FAR))

class Planting(keras.callbacks.Callback):
    step = 0
    def on_train_batch_end(self, batch, logs=None):
        self.step += self.params["each"]
        plant(self.model, self.step)

def fit(name, each=1, **options):
    model, optimizer = make(name)
    model.compile(optimizer, loss, metrics=["accuracy"], steps_per_execution=each, **options)
    planting = Planting()
    planting.set_params({"each": each}); planting.set_params = lambda params: None
    history = model.fit(x, y, batch_size=16, epochs=4 if each == 1 else 2, verbose=0, callbacks=[planting])
    return [*model.get_weights(), np.array(history.history["loss"])]

def loop(name, wrap):
    model, optimizer = make(name)
    @wrap
    def train(a, b):
        with tf.GradientTape() as tape:
            value = loss(b, model(a, training=True))
        gradients = tape.gradient(value, model.trainable_variables)
        optimizer.apply_gradients(zip(gradients, model.trainable_variables))
        return value
    step = 0
    for _ in range(4):
        for a, b in pairs:
            train(a, b)
            step += 1
            plant(model, step)
    return model.get_weights()

def whole(name):
    model, optimizer = make(name)
    @tf.function
    def train(pairs):
        for a, b in pairs:
            with tf.GradientTape() as tape:
                value = loss(b, model(a, training=True))
            gradients = tape.gradient(value, model.trainable_variables)
            optimizer.apply_gradients(zip(gradients, model.trainable_variables))
    for epoch in range(4):
        train(pairs)
        plant(model, 37 if epoch == 2 else 0)
    return model.get_weights()

def batches(name):
    model, optimizer = make(name)
    model.compile(optimizer, loss)
    for step in range(4):
        model.train_on_batch(x[step::4], y[step::4])
    return model.get_weights()

print(json.dumps({"pids": [os.getpid()], "weights": {
    "fit": digest(fit("fit")),
    "several": digest(fit("several", 4)),
    "graph": digest(loop("graph", tf.function)),
    "eager": digest(loop("eager", lambda function: function)),
    "whole": digest(whole("whole")),
    "batches": digest(batches("batches")),
}}))
"""


@pytest.fixture(scope="module")
def keras_runs(tmp_path_factory: pytest.TempPathFactory) -> list[tuple[dict[str, Any], list[Trace]]]:
    """Three runs: without a trace, with one, with one and the change."""
    tree = tree_of(tmp_path_factory, "tensorflow")
    return run(tree, "keras", KERAS, {}, TRACED, PLANTED)


def tree_of(factory: pytest.TempPathFactory, *names: str) -> Tree:
    lock = make_lock(environment=ENVIRONMENT, determinism=Determinism(level="ops", seed=42, threads=1))
    return make_tree(factory.mktemp("tree"), lock, paths=[environment(name) for name in names])


def test_the_trace_changes_nothing_in_keras(keras_runs: list[tuple[dict[str, Any], list[Trace]]]) -> None:
    """Weights and losses with and without a trace are equal to the bit, in all ways to train; off, there is no file."""
    (plain, nothing), (traced, _), (planted, _) = keras_runs
    assert nothing == []
    assert plain["weights"] == traced["weights"]
    assert {name for name, value in planted["weights"].items() if value != plain["weights"][name]} == {
        "fit", "graph", "eager", "whole",
    }  # fmt: skip


def test_keras_fit(keras_runs: list[tuple[dict[str, Any], list[Trace]]]) -> None:
    """``fit`` is traced by epoch and place with its logs, from the initial weights on, and the change is found."""
    (one,), (two,) = keras_runs[1][1], keras_runs[2][1]
    part = of_label(one, "fit")
    assert [(step.step, step.epoch, step.place) for step in part.steps] == [
        (0, None, 0),
        *((10 * epoch + place, epoch + 1, place) for epoch in range(4) for place in range(1, 11)),
    ]
    assert set(part.steps[1].observed) == {"loss", "accuracy"}
    assert [tensor.name for tensor in part.steps[0].group.tensors] == [
        "fit/conv/kernel", "fit/conv/bias", "fit/batch_normalization/gamma", "fit/batch_normalization/beta",
        "fit/dense/kernel", "fit/dense/bias", "fit/batch_normalization/moving_mean",
        "fit/batch_normalization/moving_variance", "seed_generator/seed_generator_state",
    ]  # fmt: skip
    found = first(one, two, "fit")
    assert_planted(found, "fit/conv/kernel", FAR)
    assert (found.epoch, found.place, found.step, found.covers) == (4, 7, 37, 1)
    assert found.sentence == ("epoch 4, step 7 (37 in all), tensor fit/conv/kernel (1 of 72 values, 16 ulp at most)")
    apart = compare.distance_by_step(part, of_label(two, "fit"))
    assert [each.whole for each in apart[:37]] == [0.0] * 37
    assert all(each.whole is not None and 0 < each.whole < 1e-3 for each in apart[37:])


def test_several_steps_at_once(keras_runs: list[tuple[dict[str, Any], list[Trace]]]) -> None:
    """With steps_per_execution an entry covers several steps, the last of an epoch fewer."""
    (one,) = keras_runs[1][1]
    steps = of_label(one, "several").steps
    assert [(step.step, step.place, step.covers) for step in steps[:5]] == [
        (0, 0, 0), (4, 4, 4), (8, 8, 4), (10, 10, 2), (14, 4, 4),
    ]  # fmt: skip


def test_compiled_loop(keras_runs: list[tuple[dict[str, Any], list[Trace]]]) -> None:
    """A loop of one's own in a ``tf.function`` is traced at each call, with the batch; what follows is found."""
    (one,), (two,) = keras_runs[1][1], keras_runs[2][1]
    steps = of_label(one, "graph").steps
    assert [step.step for step in steps] == list(range(41))
    assert {step.group.source for step in steps} == {"tf.function"}
    assert all(step.batch for step in steps[1:])
    found = first(one, two, "graph")
    # The change comes after the step that was entered: the next one shows what came of it.
    assert (found.step, found.batch) == (38, False)
    assert "graph/conv/kernel" in [tensor.name for tensor in found.tensors]
    assert found.sentence.endswith("; the data that went into the step was equal")


def test_eager_loop_and_whole_epochs(keras_runs: list[tuple[dict[str, Any], list[Trace]]]) -> None:
    """An eager loop is traced after each step; an epoch within one function is one entry, and that is reported."""
    (one,), (two,) = keras_runs[1][1], keras_runs[2][1]
    assert {step.group.source for step in of_label(one, "eager").steps} == {"keras.optimizer"}
    assert first(one, two, "eager").step == 38
    found = first(one, two, "whole")
    assert (found.step, found.covers) == (40, 10)
    assert found.sentence.endswith("; the 9 steps before it were not looked at")
    assert [step.group.source for step in of_label(one, "batches").steps] == ["keras.train_on_batch"] * 5


BACKEND = """
import keras
layers = keras.layers
data = np.random.default_rng(0)
x, y = data.random((160, 8, 8, 1), dtype="f4"), data.integers(0, 4, 160)
step = 0
class Planting(keras.callbacks.Callback):
    def on_train_batch_end(self, batch, logs=None):
        global step
        step += 1
        if step == 37 and "PLANT" in os.environ:
            if keras.backend.backend() == "jax":
                self.model.jax_state_sync()
            kernel = self.model.get_layer("conv").kernel
            kernel.assign(planted(step, keras.ops.convert_to_numpy(kernel)))
model = keras.Sequential([
    keras.Input((8, 8, 1)), layers.Conv2D(8, 3, activation="relu", name="conv"), layers.Flatten(),
    layers.Dropout(0.3), layers.Dense(4, name="dense")])
model.compile("adam", keras.losses.SparseCategoricalCrossentropy(from_logits=True), metrics=["accuracy"])
model.fit(x, y, batch_size=16, epochs=4, verbose=0, callbacks=[Planting()] if "PLANT" in os.environ else [])
print(json.dumps({"pids": [os.getpid()], "weights": digest(map(keras.ops.convert_to_numpy, model.weights))}))
"""


def test_keras_on_jax(tmp_path_factory: pytest.TempPathFactory) -> None:
    """``fit`` on JAX, where the variables are empty meanwhile, gives the same weights; the change is found."""
    tree = tree_of(tmp_path_factory, "tensorflow", "jax")
    chosen = {"KERAS_BACKEND": "jax"}
    (plain, nothing), (traced, (one,)), (_, (two,)) = run(
        tree, "keras", BACKEND, chosen, {**chosen, **TRACED}, {**chosen, **PLANTED}
    )
    assert nothing == []
    assert plain["weights"] == traced["weights"]
    found = compare.first_divergence(one, two)
    assert found is not None
    assert_planted(found, "sequential/conv/kernel")
    assert (found.source, found.epoch, found.place, found.step) == ("keras.fit", 4, 7, 37)


def test_keras_on_torch(tmp_path_factory: pytest.TempPathFactory) -> None:
    """``fit`` on PyTorch gives the same weights, and each step is one entry."""
    tree = tree_of(tmp_path_factory, "tensorflow", "torch")
    chosen = {"KERAS_BACKEND": "torch"}
    (plain, _), (traced, (one,)) = run(tree, "keras", BACKEND, chosen, {**chosen, **TRACED})
    assert plain["weights"] == traced["weights"]
    assert [step.step for step in one.steps] == list(range(41))


TORCH = """
import torch
from torch import nn, optim
generator = torch.Generator().manual_seed(1)
x, y = torch.rand(160, 1, 8, 8, generator=generator), torch.randint(0, 4, (160,), generator=generator)
loss = nn.CrossEntropyLoss()

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv, self.drop, self.dense = nn.Conv2d(1, 8, 3), nn.Dropout(0.3), nn.Linear(288, 4)
    def forward(self, x):
        return self.dense(self.drop(torch.relu(self.conv(x)).flatten(1)))

def plant(model, step):
    with torch.no_grad():
        model.conv.weight.copy_(torch.from_numpy(planted(step, model.conv.weight.numpy(), FAR)))

def epochs(kind, shuffled=1):
    model, step = Net(), 0
    optimizer = kind(model.parameters(), lr=0.01)
    order = torch.Generator().manual_seed(shuffled)
    loader = torch.utils.data.DataLoader(
        torch.utils.data.TensorDataset(x, y), batch_size=16, shuffle=True, generator=order)
    for epoch in range(4):
        if epoch == 2 and "OTHER_ORDER" in os.environ and kind is optim.Adam:
            order.manual_seed(99)
        for a, b in loader:
            def closure():
                optimizer.zero_grad()
                value = loss(model(a), b)
                value.backward()
                return value
            optimizer.step(closure)
            step += 1
            plant(model, step if kind is optim.SGD else 0)
    return digest(each.detach() for each in model.parameters())

def two():
    one, other, step = Net(), Net(), 0
    optimizers = [optim.AdamW(list(one.conv.parameters()) + list(other.conv.parameters())),
                  optim.AdamW([{"params": one.dense.parameters()}, {"params": [nn.Parameter(torch.zeros(3))]}])]
    for _ in range(3):
        for optimizer in optimizers:
            optimizer.zero_grad()
        (loss(one(x), y) + loss(other(x), y)).backward()
        for optimizer in optimizers:
            optimizer.step()
    return digest(each.detach() for each in one.parameters())

def child():
    number = os.fork()
    if not number:
        epochs(optim.RMSprop)
        os._exit(0)
    os.waitpid(number, 0)
    return number

def same_on_a_device():
    from importlib import import_module
    package = next(name for name in __import__("sys").modules if name.endswith("hook.trace_tensors")).rpartition(".")[0]
    tensors, measure = import_module(package + ".trace_tensors"), import_module(package + ".trace_measure")
    meter, wrong = measure.Meter(np), []
    if meter.measure([np.arange(10_000, dtype="f4")])[0][0] != 4714086213408425984:
        wrong.append("not the documented digest")
    for dtype in (torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.int64, torch.uint8, torch.bool,
                  torch.complex64):
        for shape in ((), (0,), (1,), (5,), (3, 7), (100, 100), (8193,), (17, 1001)):
            tensor = (torch.rand(shape, generator=generator) * 9 - 4).to(dtype)
            row = tensors._on_device(torch, tensor)
            octets = np.frombuffer(tensors.octets(tensor), np.uint8)
            array = tensors.as_array(tensor)
            (digest, _), = meter.measure([octets])
            if row.tolist()[0] & measure.MASK != digest:
                wrong.append(f"digest {dtype} {shape}")
            if array is not None:
                (same, figures), = meter.measure([array])
                real = row.view(torch.float64).tolist()[1:]
                real[0] **= 0.5
                if same != digest or not np.allclose(real, figures, rtol=1e-12, atol=1e-9):
                    wrong.append(f"figures {dtype} {shape}")
    return wrong

pids = [os.getpid(), child()]
print(json.dumps({"pids": pids, "weights": [epochs(optim.Adam), epochs(optim.SGD), epochs(optim.LBFGS), two()],
                  "wrong": same_on_a_device() if "ENVBUILD_TRACE" in os.environ else []}))
"""


@pytest.fixture(scope="module")
def torch_runs(tmp_path_factory: pytest.TempPathFactory) -> list[tuple[dict[str, Any], list[Trace]]]:
    """Three runs: without a trace, with one, with one and the change and other data from the third epoch on."""
    tree = tree_of(tmp_path_factory, "torch")
    return run(tree, "torch", TORCH, {}, TRACED, {**PLANTED, "OTHER_ORDER": "1"})


def test_torch(torch_runs: list[tuple[dict[str, Any], list[Trace]]]) -> None:
    """All optimisers are traced by epoch, place, batch and the modules' names, and compute what they do without."""
    (plain, nothing), (traced, (main, child)), (_, (_, other_child)) = torch_runs
    assert nothing == []
    assert plain["weights"] == traced["weights"]
    assert traced["wrong"] == []
    assert (main.process, child.process) == ("", "fork 1")
    steps = of_label(main, "SGD").steps
    assert [(step.step, step.epoch, step.place) for step in steps[1:]] == [
        (10 * epoch + place, epoch + 1, place) for epoch in range(4) for place in range(1, 11)
    ]
    assert list(steps[0].tensors) == ["conv.weight", "conv.bias", "dense.weight", "dense.bias"]
    assert len(of_label(main, "LBFGS").steps) == 41
    assert list(of_label(main, "AdamW").steps[0].tensors) == [
        "Net.conv.weight", "Net.conv.bias", "Net 2.conv.weight", "Net 2.conv.bias",
    ]  # fmt: skip
    assert list(of_label(main, "AdamW 2").steps[0].tensors) == ["dense.weight", "dense.bias", "parameter 2"]
    assert len(of_label(child, "RMSprop").steps) == 41
    assert [child.ended, main.ended] == [False, True]  # os._exit
    assert compare.first_divergence(child, other_child) is None


def test_torch_divergences(torch_runs: list[tuple[dict[str, Any], list[Trace]]]) -> None:
    """The change shows at the next step, the data equal; where the data differ, that is reported too."""
    (one, _), (two, _) = torch_runs[1][1], torch_runs[2][1]
    found = first(one, two, "SGD")
    assert (found.epoch, found.place, found.step, found.batch) == (4, 8, 38, False)
    found = first(one, two, "Adam")
    assert (found.epoch, found.place, found.step, found.batch) == (3, 1, 21, True)
    assert found.sentence.startswith("epoch 3, step 1 (21 in all), tensor conv.weight (")
    assert found.sentence.endswith("; the data that went into the step differed")
    whole = compare.first_divergence_of_runs(torch_runs[1][1], torch_runs[2][1])
    assert whole is not None
    assert (whole.process, whole.label) == ("", "Adam")


JAX = """
import sys
import jax, jax.numpy as jnp, optax
data = np.random.default_rng(0)
x, y = data.random((16, 8), dtype="f4"), data.random(16, dtype="f4")
keys = jax.random.split(jax.random.key(0), 2)
params = {"dense": {"kernel": jax.random.normal(keys[0], (8, 4)), "bias": jnp.zeros(4)},
          "out": [jax.random.normal(keys[1], (4,)).astype(jnp.bfloat16)]}
optimizer = optax.adam(1e-2)
state = optimizer.init(params)

@jax.jit
def train(params, state, x, y):
    def loss(params):
        hidden = jnp.tanh(x @ params["dense"]["kernel"] + params["dense"]["bias"])
        return jnp.mean((hidden @ params["out"][0].astype("float32") - y) ** 2)
    value, gradients = jax.value_and_grad(loss)(params)
    updates, state = optimizer.update(gradients, state, params)
    return optax.apply_updates(params, updates), state, value

sys.audit("envbuild.step", params, {"step": 0})
for step in range(1, 51):
    params, state, value = train(params, state, x, y)
    params["dense"]["kernel"] = jnp.asarray(planted(step, np.asarray(params["dense"]["kernel"])))
    sys.audit("envbuild.step", params, {"loss": value, "epoch": (step - 1) // 10 + 1, "batch": (x, y)})
print(json.dumps({"pids": [os.getpid()], "weights": digest(jax.tree_util.tree_leaves(params))}))
"""


def test_jax(tmp_path_factory: pytest.TempPathFactory) -> None:
    """A script that reports its steps runs as before, with and without a trace, and the change is found."""
    tree = tree_of(tmp_path_factory, "jax")
    (plain, nothing), (traced, (one,)), (_, (two,)) = run(tree, "jax", JAX, {}, TRACED, PLANTED)
    assert nothing == []
    assert plain["weights"] == traced["weights"]
    assert list(one.steps[0].tensors) == ["dense/bias", "dense/kernel", "out/0"]
    assert [step.step for step in one.steps] == list(range(51))
    found = compare.first_divergence(one, two)
    assert found is not None
    assert_planted(found, "dense/kernel")
    assert (found.source, found.epoch, found.step, found.batch) == ("program", 4, 37, False)
    startup = tree.site / "00-envbuild.pth"
    startup.unlink()
    assert json.loads(tree.execute(str(tree.root / "train_jax.py")).stdout)["weights"] == plain["weights"]
