"""Small trainings on a GPU under the hook, each in a separate process: equal bits, with and without a step trace.

The hook is laid out as an image has it (tests/support/runtime.py), over the frameworks that this Python has.
"""

from __future__ import annotations

import importlib.util
import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Figure = Callable[[str, Any], None]
DEVICE = os.environ.get("ENVBUILD_GPU_DEVICE", "cuda")
"""``cpu`` runs the programs on the CPU, to see that the programs themselves work."""
RUNS = 5

HEAD = """
import hashlib, json, os, sys
import numpy as np
device = sys.argv[1]
data = np.random.default_rng(0)
x, y = data.random((512, 16, 16, 3), dtype="f4"), data.integers(0, 8, 512)
def finish(arrays):
    print(json.dumps(hashlib.sha256(b"".join(np.asarray(a).tobytes() for a in arrays)).hexdigest()))
"""
TORCH = """
import torch
from torch import nn
net = nn.Sequential(nn.Conv2d(3, 32, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Dropout(0.2), nn.Flatten(), nn.Linear(1568, 8))
net.to(device)
optimizer = torch.optim.Adam(net.parameters())
pairs = torch.utils.data.TensorDataset(torch.from_numpy(x).permute(0, 3, 1, 2), torch.from_numpy(y))
for _ in range(2):
    for a, b in torch.utils.data.DataLoader(pairs, batch_size=64, shuffle=True):
        optimizer.zero_grad()
        values = net(a.to(device))
        scattered = torch.zeros(97, device=device).index_add(0, torch.arange(values.numel(), device=device) % 97,
                                                             values.flatten())
        (nn.functional.cross_entropy(values, b.to(device)) + scattered.square().mean()).backward()
        optimizer.step()
finish(each.detach().cpu() for each in net.parameters())
"""
JAX = """
import jax, jax.numpy as jnp
key = jax.random.key(int(np.random.randint(1 << 30)))
params = {"kernel": jax.random.normal(key, (3, 3, 3, 32)) / 5, "out": jax.random.normal(key, (32, 8)) / 6}
def loss(params, a, b):
    order = ("NHWC", "HWIO", "NHWC")
    maps = jax.lax.conv_general_dilated(a, params["kernel"], (1, 1), "VALID", dimension_numbers=order)
    logits = jax.nn.relu(maps).mean((1, 2)) @ params["out"]
    scattered = jnp.zeros(97).at[jnp.arange(logits.size) % 97].add(logits.reshape(-1))
    return -jnp.take_along_axis(jax.nn.log_softmax(logits), b[:, None], 1).mean() + (scattered**2).mean()
@jax.jit
def update(params, a, b):
    return jax.tree.map(lambda p, g: p - 0.1 * g, params, jax.grad(loss)(params, a, b))
sys.audit("envbuild.step", params, {"step": 0})
for step in range(16):
    rows = np.random.permutation(512)[:64]
    params = update(params, x[rows], y[rows])
    sys.audit("envbuild.step", params)
finish(params.values())
"""
KERAS = """
import keras
layers = keras.layers
model = keras.Sequential([
    keras.Input((16, 16, 3)), layers.Conv2D(32, 3, activation="relu"), layers.MaxPooling2D(), layers.Dropout(0.2),
    layers.Flatten(), layers.Dense(8)])
model.compile("adam", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
model.fit(x, y, batch_size=64, epochs=2, verbose=0)
finish(model.get_weights())
"""
SCRIPTS = {"torch": TORCH, "jax": JAX, "tensorflow": KERAS}
VARIABLES = {
    "PYTHONHASHSEED": "42",
    "OMP_NUM_THREADS": "1",
    "CUBLAS_WORKSPACE_CONFIG": ":4096:8",
    "XLA_FLAGS": "--xla_gpu_deterministic_ops=true",
    "XLA_PYTHON_CLIENT_PREALLOCATE": "false",
    "TF_CPP_MIN_LOG_LEVEL": "3",
}
STEPS = 16


@pytest.mark.parametrize("name", SCRIPTS)
def test_runs_are_equal(facts: dict[str, Any], figure: Figure, tmp_path: Path, name: str) -> None:
    """Five runs give equal weights, as does one with a step trace, which has every step; without controls: reported."""
    spec = importlib.util.find_spec(name)
    if spec is None or spec.origin is None:
        pytest.skip(f"{name} is not installed")
    assert_equal_runs(figure, tmp_path, name, Path(spec.origin).parents[1])


def assert_equal_runs(figure: Figure, root: Path, name: str, packages: Path) -> None:
    """Run one training several times over a folder of packages."""
    pytest.importorskip("msgspec", reason="envbuild's own requirements are not installed")
    from envbuild.lockfile.model import Determinism
    from envbuild.runtime.guard import gate
    from envbuild.trace import compare
    from tests.support.runtime import make_lock, make_tree

    lock = make_lock(environment=VARIABLES, determinism=Determinism(level="ops", seed=42, threads=1))
    tree = make_tree(root / "tree", lock, python=sys.executable, paths=[packages])
    (tree.root / "train.py").write_text(HEAD + SCRIPTS[name])

    def train(**variables: str) -> str:
        done = tree.execute("train.py", DEVICE, variables=variables, timeout=300)
        return str(json.loads(done.stdout.splitlines()[-1]))

    equal = {train() for _ in range(RUNS)}
    traced = train(ENVBUILD_TRACE="1")
    (found,) = compare.read_run(tree.run)
    off = {train(**{gate.CONTROLS: "off"}) for _ in range(2)}
    figure(f"{name} training, different results of {RUNS} runs", len(equal))
    figure(f"{name} training, different results of 2 runs without controls", len(off))
    assert equal == {traced}
    assert len(found.steps) == STEPS + 1
