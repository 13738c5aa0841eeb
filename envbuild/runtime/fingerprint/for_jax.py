"""What XLA compiles for the CPU and for every GPU that JAX sees: products, convolutions, functions, random."""

from __future__ import annotations

from functools import partial

from .numbers import SEED, filled, installed

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from .__main__ import Fingerprint


_KNOWN = ((0, 4, 1), (0, 12))
"""Releases of JAX, from and below, whose XLA is known to have the flag for deterministic kernels without autotuning."""


def parts(fingerprint: Fingerprint) -> None:
    """Add ``jax.cpu.…`` and ``jax.gpuN.…``; nothing where JAX is not installed."""
    import os

    os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
    jax = installed("jax")
    if jax is None:
        return
    jax.config.update("jax_default_matmul_precision", "highest")
    version = str(jax.__version__)
    flags = os.environ.get("XLA_FLAGS", "")
    # XLA reads its flags when the first backend starts, and an unknown one ends the process.
    if _KNOWN[0] <= _release(version) < _KNOWN[1] and "deterministic_ops" not in flags:
        os.environ["XLA_FLAGS"] = f"{flags} --xla_gpu_deterministic_ops=true".strip()
    computed = (("matmul", _matmul), ("convolution", _convolution), ("functions", _functions), ("random", _random))
    devices = [("jax.cpu", jax.devices("cpu")[0])]
    devices += [(f"jax.gpu{index}", device) for index, device in enumerate(_gpus(jax))]
    for prefix, device in devices:
        for name, compute in computed:
            fingerprint.add(f"{prefix}.{name}", "XLA", version, partial(_on, jax, device, compute))


def _release(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split(".")[:3] if part.isdecimal())


def _gpus(jax: Any) -> list[Any]:
    """List the GPUs; a JAX without GPU support raises."""
    try:
        return list(jax.devices("gpu"))
    except RuntimeError:
        return []


def _on(jax: Any, device: Any, compute: Callable[[Any], Any]) -> bytes:
    """Compile and run a computation on one device; return the results' bytes."""
    as_array = installed("numpy").asarray
    with jax.default_device(device):
        return b"".join(as_array(array).tobytes() for array in compute(jax))


def _filled(jax: Any, *shape: int) -> Any:
    """Return an array of multiples of 2⁻²⁴ in [-½, ½), made by NumPy from integers."""
    return jax.numpy.asarray(filled(installed("numpy"), shape, "float32"))


def _matmul(jax: Any) -> Any:
    product = jax.jit(lambda left, right: left @ right)
    shapes = ((128, 256, 64), (127, 311, 65))
    return [product(_filled(jax, rows, inner), _filled(jax, inner, columns)) for rows, inner, columns in shapes]


def _convolution(jax: Any) -> Any:
    """Forward, and both gradients."""
    images, weights = _filled(jax, 8, 3, 24, 24), _filled(jax, 16, 3, 3, 3)

    def forward(images: Any, weights: Any) -> Any:
        result = jax.lax.conv(images, weights, (1, 1), "SAME")
        return (result * result).sum(), result

    (_, result), gradients = jax.jit(jax.value_and_grad(forward, (0, 1), has_aux=True))(images, weights)
    return (result, *gradients)


def _functions(jax: Any) -> Any:
    numpy = jax.numpy

    def compute(values: Any) -> Any:
        functions = (numpy.exp, numpy.sin, numpy.tanh, jax.lax.erf, jax.nn.softmax, numpy.sum)
        return [function(values) for function in functions]

    return jax.jit(compute)(_filled(jax, 5003) * 16)


def _random(jax: Any) -> Any:
    key = jax.random.PRNGKey(SEED)
    return jax.random.uniform(key, (512,)), jax.random.normal(key, (512,))
