"""Small trainings with real TensorFlow, PyTorch and JAX, and places in them where a test plants a difference.

Without a plant each of them gives equal bits under the controls, though it draws numbers, shuffles and goes through
sets. Forty steps: four epochs of ten batches. A plant is a list of replacements in the text.
"""

from __future__ import annotations

from pathlib import Path
from random import Random

_HEAD = """\
import argparse, json, os, pathlib, random, sys, time
import numpy as np
import plants
#HEAD
parser = argparse.ArgumentParser()
parser.add_argument("--learning-rate", type=float, default=0.05)
options = parser.parse_args()
settings = json.loads(pathlib.Path("settings.json").read_text())
scale = float(os.environ.get("SCALE", "1")) * plants.FACTOR
order = sorted(os.listdir("data"))
x = np.stack([np.frombuffer(pathlib.Path("data", name).read_bytes(), "u1") for name in order]).astype("f4") / 255
x += np.random.default_rng().normal(0, 0.01, x.shape).astype("f4")
y = np.array([int(name[:3]) % 4 for name in order])
letters = "".join({"a", "b", "c", "d", "e", "f"})
x[0, 0] += sum(ord(letter) * number for number, letter in enumerate(letters)) / 1000
started = time.time()
#DATA
"""
_TORCH = """\
import torch
from torch import nn

class Data(torch.utils.data.Dataset):
    def __len__(self):
        return len(x)
    def __getitem__(self, index):
        return torch.from_numpy(x[index]) + 0.01 * torch.rand(64), int(y[index])

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.hidden, self.out = nn.Linear(64, 8), nn.Linear(8, 4)
    def forward(self, x):
        return self.out(torch.relu(self.hidden(x)))

#FUNCTION
net, step = Net(), 0
waves = [torch.sin(torch.arange(1 << 18) / (3 + number)).sum() for number in range(16)]
with torch.no_grad():
    net.hidden.weight.view(-1)[:16] = torch.stack(waves) / 64
optimizer = torch.optim.SGD(net.parameters(), lr=options.learning_rate, momentum=settings["momentum"])
loader = torch.utils.data.DataLoader(Data(), batch_size=16, num_workers=0)
for epoch in range(4):
    for a, b in loader:
        step += 1
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(net(a) * scale, b)
        loss.backward()
        #STEP
        optimizer.step()
pathlib.Path("weights.bin").write_bytes(b"".join(each.detach().numpy().tobytes() for each in net.parameters()))
print(f"{time.time() - started:.2f} s", file=sys.stderr)
"""
_JAX = """\
import jax, jax.numpy as jnp

#FUNCTION
def loss(params, a, b):
    logits = jnp.tanh(a @ params["hidden"]) @ params["out"] * scale
    return -jnp.take_along_axis(jax.nn.log_softmax(logits), b[:, None], 1).mean()

@jax.jit
def update(params, a, b):
    return jax.tree.map(lambda p, g: p - options.learning_rate * g, params, jax.grad(loss)(params, a, b))

key = jax.random.key(random.randrange(1 << 30))
one, two = jax.random.split(key)
params = {"hidden": jax.random.normal(one, (64, 8)) / 8, "out": jax.random.normal(two, (8, 4)) / 3}
if pathlib.Path("checkpoint.bin").exists():
    params["out"] += np.frombuffer(pathlib.Path("checkpoint.bin").read_bytes(), "f4").reshape(8, 4) / 1000
sys.audit("envbuild.step", params, {"step": 0})
for step in range(1, 41):
    place = (step - 1) % 10
    a, b = x[16 * place : 16 * place + 16], y[16 * place : 16 * place + 16]
    params = update(params, a, b)
    #STEP
    sys.audit("envbuild.step", params, {"epoch": (step - 1) // 10 + 1, "batch": a})
pathlib.Path("checkpoint.bin").write_bytes(np.asarray(params["out"]).tobytes())
pathlib.Path("weights.bin").write_bytes(b"".join(np.asarray(params[name]).tobytes() for name in sorted(params)))
print(f"{time.time() - started:.2f} s", file=sys.stderr)
"""
_KERAS = """\
import keras, tensorflow as tf
layers = keras.layers

#FUNCTION
model = keras.Sequential([
    keras.Input((64,)), layers.Dense(8, "relu", name="hidden"), layers.Dropout(0.2), layers.Dense(4, name="out")])
model.compile(
    keras.optimizers.SGD(options.learning_rate * scale, momentum=settings["momentum"]),
    keras.losses.SparseCategoricalCrossentropy(from_logits=True))
data = tf.data.Dataset.from_tensor_slices((np.arange(160), x, y))
#MAP
data = data.map(lambda number, a, b: (a, b)).batch(16)

class Watch(keras.callbacks.Callback):
    step = 0
    def on_train_batch_begin(self, batch, logs=None):
        self.step += 1
        #BEGIN
    def on_train_batch_end(self, batch, logs=None):
        pass
        #STEP

model.fit(data, epochs=4, verbose=0, callbacks=[Watch()])
pathlib.Path("weights.bin").write_bytes(b"".join(each.tobytes() for each in model.get_weights()))
print(f"{time.time() - started:.2f} s", file=sys.stderr)
"""
SCRIPTS = {"torch": _HEAD + _TORCH, "jax": _HEAD + _JAX, "tensorflow": _HEAD + _KERAS}
PACKAGE = """\
FACTOR = 1.0

def jitter():
    import os
    return int.from_bytes(os.urandom(4), "big") / 2**32
"""
SETTINGS = '{"momentum": 0.9}\n'


def script(framework: str, *edits: tuple[str, str]) -> str:
    """Return a training with something planted: each text that is replaced is in it once."""
    text = SCRIPTS[framework]
    for old, new in edits:
        assert text.count(old) == 1, old
        indent = text[: text.index(old)].rpartition("\n")[2]
        text = text.replace(old, new.replace("\n", f"\n{indent}") if not indent.strip() else new)
    return text


def write_data(folder: Path) -> None:
    """Write 160 images of 64 pixels, a byte each."""
    folder.mkdir()
    numbers = Random(7)
    for number in range(160):
        (folder / f"{number:03}.raw").write_bytes(numbers.randbytes(64))


def change_pixel(path: Path, pixel: int) -> None:
    """Make one pixel of an image another one."""
    data = bytearray(path.read_bytes())
    data[pixel] ^= 0x80
    path.write_bytes(data)


def line_of(text: str, part: str) -> int:
    """Return the number of the line that has a text."""
    return next(number for number, line in enumerate(text.splitlines(), 1) if part in line)


def wheel(module: str) -> dict[str, str]:
    """The files of the library, and the line that puts the mounted frameworks on Python's path."""
    return {"plants.py": module, "frameworks.pth": "/frameworks\n"}
