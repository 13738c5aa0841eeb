"""Tensors of PyTorch, measured for the step trace where they are: on the processor by NumPy, on a GPU by PyTorch.

The digest is the same on both (``trace_measure``); the figures may differ in their last bits.
"""

from __future__ import annotations

import sys
from math import sqrt

from .trace_measure import BLOCK, MASK, SKETCHES, block_sign, multiplier, signs, weights

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

    from .trace_measure import Measured

AT_ONCE = 512
"""Blocks that are worked on at once: 32 MiB for each intermediate result."""


def local(tensor: Any) -> Any:
    """Return the part of a tensor that this process has, without its history."""
    if hasattr(tensor, "to_local"):
        tensor = tensor.to_local()
    return tensor.detach()


def as_array(tensor: Any) -> Any:
    """Return a tensor of the processor as an array of NumPy on the same memory; None if that cannot be."""
    if tensor.device.type != "cpu" or "numpy" not in sys.modules or tensor.layout is not _torch().strided:
        return None
    tensor = tensor.resolve_conj().resolve_neg()
    try:
        return tensor.numpy()
    except (TypeError, RuntimeError):  # a type that NumPy lacks: its bytes will do for the digest
        return None


def octets(tensor: Any) -> bytes:
    """Return a tensor's bytes, row by row."""
    torch = _torch()
    with torch.no_grad():
        flat = _flat(tensor).cpu().view(torch.uint8)
        array = as_array(flat)
        return bytes(array.tobytes()) if array is not None else bytes(flat.tolist())


def measure(
    values: Sequence[Any], measure_arrays: Callable[[list[Any], bool], list[Measured]], figures: bool = True
) -> list[Measured]:
    """Return digests, and figures if asked for, of tensors; results of a GPU are fetched with one copy.

    Args:
        values: tensors, and arrays of NumPy.
        measure_arrays: measures arrays of NumPy, which tensors of the processor become.
        figures: whether figures are wanted.
    """
    torch = _torch()
    found: list[Any] = [None] * len(values)
    arrays: list[tuple[int, Any]] = []
    waiting: dict[Any, list[tuple[int, Any]]] = {}
    with torch.no_grad():
        for place, value in enumerate(values):
            array = as_array(value) if hasattr(value, "detach") else value
            if array is not None:
                arrays.append((place, array))
            else:
                waiting.setdefault(value.device, []).append((place, _on_device(torch, value, figures)))
        if arrays:
            for (place, _), result in zip(arrays, measure_arrays([array for _, array in arrays], figures)):
                found[place] = result
        for results in waiting.values():
            rows = torch.stack([row for _, row in results]).cpu()
            for (place, _), row, numbers in zip(results, rows.tolist(), rows.view(torch.float64).tolist()):
                found[place] = (row[0] & MASK, (sqrt(numbers[1]), *numbers[2:]) if figures else ())
    return found


class _Constants:
    """The constants of ``trace_measure`` on one device."""

    def __init__(self, torch: Any, device: Any) -> None:
        self.torch, self.device = torch, device
        self.weights = torch.tensor([_signed(word) for word in weights()], dtype=torch.int64, device=device)
        self.signs = torch.tensor([list(signs(each)) for each in range(SKETCHES)], dtype=torch.float64, device=device)
        self.multipliers = torch.empty(0, dtype=torch.int64, device=device)
        self.block_signs = torch.empty((SKETCHES, 0), dtype=torch.float64, device=device)

    def grow(self, blocks: int) -> None:
        """Have the constants of so many blocks."""
        if len(self.multipliers) >= blocks:
            return
        numbers = range(max(blocks, 64))
        words = [_signed(multiplier(block)) for block in numbers]
        self.multipliers = self.torch.tensor(words, dtype=self.torch.int64, device=self.device)
        rows = [[block_sign(block, sketch) for block in numbers] for sketch in range(SKETCHES)]
        self.block_signs = self.torch.tensor(rows, dtype=self.torch.float64, device=self.device)


_constants: dict[Any, _Constants] = {}


def _on_device(torch: Any, tensor: Any, figures: bool = True) -> Any:
    """Return 64-bit words on the tensor's device: digest; square of the norm, minimum, maximum, four sums."""
    constants = _constants.get(tensor.device)
    if constants is None:
        constants = _constants[tensor.device] = _Constants(torch, tensor.device)
    flat = _flat(tensor)
    digest = _digest(torch, _words(torch, flat), constants).reshape(1)
    if not figures:
        return digest
    if flat.is_complex():
        flat = torch.view_as_real(flat).reshape(-1)
    numbers = [torch.zeros((), dtype=torch.float64, device=tensor.device) for _ in range(3 + SKETCHES)]
    for first in range(0, len(flat), BLOCK * AT_ONCE):
        part = flat[first : first + BLOCK * AT_ONCE].to(torch.float64)
        low, high = part.min(), part.max()
        numbers[1] = torch.minimum(numbers[1], low) if first else low
        numbers[2] = torch.maximum(numbers[2], high) if first else high
        rows = _rows(torch, part)
        constants.grow(first // BLOCK + len(rows))
        numbers[0] = numbers[0] + (part * part).sum()
        for sketch in range(SKETCHES):
            sums = (rows * constants.signs[sketch]).sum(1)
            sums = sums * constants.block_signs[sketch, first // BLOCK : first // BLOCK + len(rows)]
            numbers[3 + sketch] = numbers[3 + sketch] + sums.sum()
    return torch.cat([digest, torch.stack(numbers).view(torch.int64)])


def _digest(torch: Any, words: Any, constants: _Constants) -> Any:
    total = torch.zeros((), dtype=torch.int64, device=words.device)
    for first in range(0, len(words), BLOCK * AT_ONCE):
        part = words[first : first + BLOCK * AT_ONCE].to(torch.int64) & 0xFFFFFFFF
        rows = _rows(torch, part)
        constants.grow(first // BLOCK + len(rows))
        sums = (rows * constants.weights).sum(1)
        total = total + (sums * constants.multipliers[first // BLOCK : first // BLOCK + len(rows)]).sum()
    return total


def _rows(torch: Any, flat: Any) -> Any:
    """Return rows of one block each, the last filled with zeros."""
    missing = -len(flat) % BLOCK
    if missing:
        flat = torch.cat([flat, torch.zeros(missing, dtype=flat.dtype, device=flat.device)])
    return flat.view(-1, BLOCK)


def _words(torch: Any, flat: Any) -> Any:
    """Return the bytes as 32-bit words, filled with zeros."""
    if flat.element_size() % 4 == 0:
        return flat.view(torch.int32)
    flat = flat.view(torch.uint8)
    missing = -len(flat) % 4
    if missing:
        flat = torch.cat([flat, torch.zeros(missing, dtype=torch.uint8, device=flat.device)])
    return flat.view(torch.int32)


def _flat(tensor: Any) -> Any:
    return tensor.resolve_conj().resolve_neg().contiguous().reshape(-1)


def _signed(word: int) -> int:
    """Return the signed number of the same 64 bits."""
    return word - (1 << 64) if word >> 63 else word


def _torch() -> Any:
    return sys.modules["torch"]
