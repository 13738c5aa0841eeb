"""PyTorch's kernels, on the CPU and on every GPU it sees: products, convolutions, functions, scattering, random."""

from __future__ import annotations

from functools import partial

from .numbers import SEED, installed

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from .__main__ import Fingerprint


def parts(fingerprint: Fingerprint) -> None:
    """Add ``torch.cpu.…`` and ``torch.gpuN.…``; nothing where PyTorch is not installed."""
    import os

    # Wanted by cuBLAS for deterministic products; read at its first call.
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
    torch = installed("torch")
    if torch is None:
        return
    torch.use_deterministic_algorithms(True)
    torch.backends.cudnn.benchmark, torch.backends.cudnn.deterministic = False, True
    torch.backends.cudnn.allow_tf32 = torch.backends.cuda.matmul.allow_tf32 = False
    version = str(torch.__version__)
    _device(fingerprint, torch, torch.device("cpu"), "torch.cpu", (("PyTorch", version), ("oneDNN", version)))
    libraries = (("cuBLAS", f"CUDA {torch.version.cuda}"), ("cuDNN", str(torch.backends.cudnn.version())))
    for index in range(torch.cuda.device_count()):
        _device(fingerprint, torch, torch.device("cuda", index), f"torch.gpu{index}", libraries)


def _device(
    fingerprint: Fingerprint, torch: Any, device: Any, prefix: str, libraries: tuple[tuple[str, str], tuple[str, str]]
) -> None:
    """Add the parts of one device; ``libraries``: name and version of what makes products, and convolutions."""
    own = ("PyTorch", str(torch.__version__))
    computed = (
        ("matmul", _matmul, libraries[0]),
        ("convolution", _convolution, libraries[1]),
        ("functions", _functions, own),
        ("scatter", _scatter, own),
        ("random", _random, own),
    )
    for name, compute, library in computed:
        fingerprint.add(f"{prefix}.{name}", *library, partial(compute, torch, device))


def filled(torch: Any, device: Any, *shape: int, kind: str = "float32") -> Any:
    """Return a tensor of multiples of 2⁻²⁴ in [-½, ½), made on the CPU from integers."""
    size = 1
    for length in shape:
        size *= length
    scrambled = (torch.arange(1, size + 1, dtype=torch.int64) * 2654435761 % 2**32) >> 8
    return (scrambled.to(getattr(torch, kind)) / 2**24 - 0.5).reshape(shape).to(device)


def raw(torch: Any, tensor: Any) -> bytes:
    """Return a tensor's bytes; NumPy need not be there."""
    flat = tensor.detach().cpu().contiguous().flatten()
    return bytes(flat.view(torch.uint8).tolist())


def _matmul(torch: Any, device: Any) -> bytes:
    found = b""
    for kind in ("float32", "float64"):
        for rows, inner, columns in ((128, 256, 64), (127, 311, 65), (1, 1023, 257)):
            left = filled(torch, device, rows, inner, kind=kind)
            found += raw(torch, left @ filled(torch, device, inner, columns, kind=kind))
    return found


def _convolution(torch: Any, device: Any) -> bytes:
    """Forward, and both gradients."""
    images = filled(torch, device, 8, 3, 24, 24).requires_grad_()
    weights = filled(torch, device, 16, 3, 3, 3).requires_grad_()
    result = torch.nn.functional.conv2d(images, weights, padding=1)
    result.square().sum().backward()
    return raw(torch, result) + raw(torch, weights.grad) + raw(torch, images.grad)


def _functions(torch: Any, device: Any) -> bytes:
    values = filled(torch, device, 5003) * 16
    found = b""
    for name in ("exp", "sin", "tanh", "erf", "sigmoid"):
        found += raw(torch, getattr(torch, name)(values))
    return found + raw(torch, torch.softmax(values, 0)) + raw(torch, values.sum()) + raw(torch, values.std())


def _scatter(torch: Any, device: Any) -> bytes:
    """Sums into few places: where kernels without determinism add in any order."""
    index = (torch.arange(4096, dtype=torch.int64) * 2654435761 % 37).to(device)
    return raw(torch, torch.zeros(37, device=device).index_add(0, index, filled(torch, device, 4096)))


def _random(torch: Any, device: Any) -> bytes:
    generator = torch.Generator(device)
    generator.manual_seed(SEED)
    options = {"generator": generator, "device": device}
    numbers = (torch.rand(512, **options), torch.randn(512, **options), torch.randperm(512, **options))
    return b"".join(raw(torch, number) for number in numbers)
