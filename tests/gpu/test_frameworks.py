"""What is deterministic on this GPU and what is not: the switches off and on, each program in processes of its own.

``off`` is only reported, since a GPU may happen to repeat; ``on`` must repeat within a process and between processes.
"""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from collections.abc import Callable
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest

from envbuild.runtime.hook import libraries

Figure = Callable[[str, Any], None]
DEVICE = os.environ.get("ENVBUILD_GPU_DEVICE", "cuda")
"""``cpu`` runs PyTorch's programs on the CPU, to see that the programs themselves work."""
PROCESSES = 5

HEAD = """
import hashlib, json, sys, torch
mode, device = sys.argv[1:]
on = mode == "on"
torch.backends.cudnn.benchmark = not on
torch.backends.cudnn.deterministic = on
torch.use_deterministic_algorithms(on)
def digest(*tensors):
    return hashlib.sha256(b"".join(t.detach().cpu().numpy().tobytes() for t in tensors)).hexdigest()[:16]
torch.manual_seed(1)
"""
CONVOLUTION = """
images = torch.randn(32, 32, 28, 28, device=device)
model = torch.nn.Sequential(
    torch.nn.Conv2d(32, 64, 3, padding=1), torch.nn.ReLU(), torch.nn.MaxPool2d(2), torch.nn.Conv2d(64, 64, 5, groups=4)
).to(device)
found = []
for _ in range(5):
    model.zero_grad()
    model(images).square().sum().backward()
    found.append(digest(*(p.grad for p in model.parameters())))
print(json.dumps(found))
"""
SCATTER = """
values = torch.randn(1 << 20, device=device)
index = torch.randint(0, 97, (1 << 20,), device=device)
print(json.dumps([digest(torch.zeros(97, device=device).index_add(0, index, values)) for _ in range(5)]))
"""
TF32 = """
torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = not on
left, right = torch.randn(512, 512, device=device), torch.randn(512, 512, device=device)
images, weights = torch.randn(32, 64, 56, 56, device=device), torch.randn(128, 64, 3, 3, device=device)
print(json.dumps([digest(left @ right), digest(torch.nn.functional.conv2d(images, weights))]))
"""
JAX = """
import hashlib, json, sys, numpy, jax
key = jax.random.PRNGKey(0)
images, weights = jax.random.normal(key, (32, 32, 28, 28)), jax.random.normal(key, (64, 32, 3, 3))
values, index = jax.random.normal(key, (1 << 20,)), jax.random.randint(key, (1 << 20,), 0, 97)
loss = lambda images, weights: (jax.lax.conv(images, weights, (1, 1), "SAME") ** 2).sum()
step = jax.jit(lambda: (*jax.grad(loss, (0, 1))(images, weights), jax.numpy.zeros(97).at[index].add(values)))
digest = lambda arrays: hashlib.sha256(b"".join(numpy.asarray(a).tobytes() for a in arrays)).hexdigest()[:16]
print(json.dumps([digest(step()) for _ in range(5)]))
"""


def need(name: str) -> None:
    if importlib.util.find_spec(name) is None:
        pytest.skip(f"{name} is not installed")


def execute(program: str, *arguments: str, **variables: str) -> list[Any]:
    """The list, mostly of digests, that one process printed."""
    environment = {**os.environ, "CUBLAS_WORKSPACE_CONFIG": ":4096:8", "XLA_PYTHON_CLIENT_PREALLOCATE": "false"}
    command = [sys.executable, "-c", program, *arguments]
    done = subprocess.run(command, env={**environment, **variables}, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr[-2000:]
    return list(json.loads(done.stdout.splitlines()[-1]))


@pytest.mark.parametrize("name", ["convolution", "scatter"])
def test_torch(facts: dict[str, Any], figure: Figure, name: str) -> None:
    """With deterministic algorithms gradients and scattered sums repeat in 5 processes, 5 times each."""
    need("torch")
    program = HEAD + {"convolution": CONVOLUTION, "scatter": SCATTER}[name]
    off = [digest for _ in range(2) for digest in execute(program, "off", DEVICE)]
    on = [digest for _ in range(PROCESSES) for digest in execute(program, "on", DEVICE)]
    figure(f"torch {name}, different results of {len(off)} without determinism", len(set(off)))
    figure(f"torch {name}, different results of {len(on)} with determinism", len(set(on)))
    assert len(set(on)) == 1


def test_torch_tf32(facts: dict[str, Any], figure: Figure) -> None:
    """TF32 changes the bits of products on GPUs that have it; without it products and convolutions repeat.

    Whether cuDNN takes TF32 for a convolution, where it may, is its own choice: on an H100 a small one did not.
    """
    need("torch")
    off, on, again = (execute(HEAD + TF32, mode, DEVICE) for mode in ("off", "on", "on"))
    changed = [name for name, one, other in zip(("matmul", "convolution"), off, on, strict=True) if one != other]
    figure("TF32 changes", ", ".join(changed) or "nothing")
    assert on == again
    if DEVICE == "cuda" and all(float(device["compute-capability"]) >= 8 for device in facts["devices"]):
        assert "matmul" in changed


def test_jax(facts: dict[str, Any], figure: Figure) -> None:
    """With --xla_gpu_deterministic_ops gradients and scattered sums repeat in 5 processes, 5 times each."""
    need("jax")
    off = [digest for _ in range(2) for digest in execute(JAX)]
    flags = "--xla_gpu_deterministic_ops=true"
    on = [digest for _ in range(PROCESSES) for digest in execute(JAX, XLA_FLAGS=flags)]
    figure(f"JAX, different results of {len(off)} without determinism", len(set(off)))
    figure(f"JAX, different results of {len(on)} with determinism", len(set(on)))
    assert len(set(on)) == 1


LOADED = """
import json, sys, torch
sys.path.insert(0, sys.argv[1])
if torch.cuda.is_available():
    torch.nn.Conv2d(1, 1, 3, device="cuda")(torch.ones(1, 1, 8, 8, device="cuda")).sum().item()
from envbuild.runtime.hook import libraries
torch.backends.cudnn.version()
wanted, prefix = json.loads(sys.argv[2]), sys.argv[3]
found = [libraries.describe(path, wanted, prefix) for path in libraries.relevant(libraries._mapped("/proc/self/maps"))]
print(json.dumps(found))
"""


def wheels() -> dict[str, str]:
    """Versions of NVIDIA's wheels that are installed, as a lock's CUDA table has them."""
    found = {}
    for distribution in metadata.distributions():
        name = str(distribution.metadata["Name"]).lower().replace("_", "-")
        for key, stem in (("version", "cuda-runtime"), ("cudnn", "cudnn"), ("cublas", "cublas"), ("nccl", "nccl")):
            if name in (f"nvidia-{stem}", f"nvidia-{stem}-cu12", f"nvidia-{stem}-cu13"):
                found[key] = str(distribution.version)
    if "version" in found:
        found["version"] = ".".join(found["version"].split(".")[:2])
    return found


def test_libraries_as_loaded(facts: dict[str, Any], figure: Figure) -> None:
    """After a convolution cuDNN, cuBLAS, NCCL and the CUDA runtime tell the versions of their wheels."""
    need("torch")
    spec = importlib.util.find_spec("torch")
    assert spec is not None
    site = Path(str(spec.origin)).parents[1]
    wanted = wheels()
    found: list[Any] = execute(LOADED, str(Path(__file__).parents[2]), json.dumps(wanted), str(site))
    reported = {libraries._stem(entry["path"]): entry for entry in found}
    figure(
        "libraries", ", ".join(f"{entry['name']} {entry['version']}" for entry in reported.values() if entry["version"])
    )
    assert reported
    for stem, key in libraries.KINDS.items():
        if stem in reported and key in wanted:
            assert reported[stem]["problem"] == "", reported[stem]
            assert reported[stem]["version"]
