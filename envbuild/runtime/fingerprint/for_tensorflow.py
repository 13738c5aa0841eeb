"""TensorFlow's kernels, on the CPU and on every GPU it sees: products, convolutions, functions, scattering, random."""

from __future__ import annotations

from functools import partial

from .numbers import SEED, filled, installed

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from .__main__ import Fingerprint


def parts(fingerprint: Fingerprint) -> None:
    """Add ``tensorflow.cpu.…`` and ``tensorflow.gpuN.…``; nothing where TensorFlow is not installed."""
    import os

    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
    os.environ.setdefault("TF_DETERMINISTIC_OPS", "1")
    tensorflow = installed("tensorflow")
    if tensorflow is None:
        return
    experimental = tensorflow.config.experimental
    if hasattr(experimental, "enable_op_determinism"):
        experimental.enable_op_determinism()
    if hasattr(experimental, "enable_tensor_float_32_execution"):
        experimental.enable_tensor_float_32_execution(False)
    for device in tensorflow.config.list_physical_devices("GPU"):
        experimental.set_memory_growth(device, True)
    build = tensorflow.sysconfig.get_build_info()
    host = ("oneDNN or Eigen", str(tensorflow.__version__))
    _device(fingerprint, tensorflow, "CPU:0", "tensorflow.cpu", (host, host))
    libraries = (("cuBLAS", f"CUDA {build.get('cuda_version', '')}"), ("cuDNN", str(build.get("cudnn_version", ""))))
    for index in range(len(tensorflow.config.list_logical_devices("GPU"))):
        _device(fingerprint, tensorflow, f"GPU:{index}", f"tensorflow.gpu{index}", libraries)


def _device(
    fingerprint: Fingerprint,
    tensorflow: Any,
    device: str,
    prefix: str,
    libraries: tuple[tuple[str, str], tuple[str, str]],
) -> None:
    """Add the parts of one device; ``libraries``: name and version of what makes products, and convolutions."""
    own = ("TensorFlow", str(tensorflow.__version__))
    computed = (
        ("matmul", _matmul, libraries[0]),
        ("convolution", _convolution, libraries[1]),
        ("functions", _functions, own),
        ("scatter", _scatter, own),
        ("random", _random, own),
    )
    for name, compute, library in computed:
        fingerprint.add(f"{prefix}.{name}", *library, partial(_on, tensorflow, device, compute))


def _on(tensorflow: Any, device: str, compute: Any) -> bytes:
    """Compute on one device; return the results' bytes."""
    with tensorflow.device(device):
        return b"".join(tensor.numpy().tobytes() for tensor in compute(tensorflow))


def _filled(tensorflow: Any, *shape: int, kind: str = "float32") -> Any:
    """Return a tensor of multiples of 2⁻²⁴ in [-½, ½), made by NumPy from integers."""
    return tensorflow.constant(filled(installed("numpy"), shape, kind))


def _matmul(tensorflow: Any) -> Any:
    for kind in ("float32", "float64"):
        for rows, inner, columns in ((128, 256, 64), (127, 311, 65), (1, 1023, 257)):
            left, right = _filled(tensorflow, rows, inner, kind=kind), _filled(tensorflow, inner, columns, kind=kind)
            yield tensorflow.linalg.matmul(left, right)


def _convolution(tensorflow: Any) -> Any:
    """Forward, and both gradients."""
    images, weights = _filled(tensorflow, 8, 24, 24, 3), _filled(tensorflow, 3, 3, 3, 16)
    with tensorflow.GradientTape() as tape:
        tape.watch([images, weights])
        result = tensorflow.nn.conv2d(images, weights, strides=1, padding="SAME")
        loss = tensorflow.reduce_sum(tensorflow.square(result))
    return (result, *tape.gradient(loss, [images, weights]))


def _functions(tensorflow: Any) -> Any:
    values = _filled(tensorflow, 5003) * 16
    functions = (tensorflow.exp, tensorflow.sin, tensorflow.tanh, tensorflow.math.erf, tensorflow.sigmoid)
    return [function(values) for function in (*functions, tensorflow.nn.softmax, tensorflow.reduce_sum)]


def _scatter(tensorflow: Any) -> Any:
    """Sums into few places: where kernels without determinism add in any order."""
    index = tensorflow.range(4096) * 40503 % 37
    return [tensorflow.math.unsorted_segment_sum(_filled(tensorflow, 4096), index, 37)]


def _random(tensorflow: Any) -> Any:
    seed = [SEED, 1]
    yield tensorflow.random.stateless_uniform([512], seed)
    yield tensorflow.random.stateless_normal([512], seed)
    tensorflow.random.set_seed(SEED)
    yield tensorflow.random.uniform([512])
    yield tensorflow.random.normal([512])
