"""Numbers that represent a tensor in the step trace: a 64-bit digest, and seven figures of its size.

**Digest.** The bytes of the tensor, row by row and little-endian, zeros added to a multiple of four, are read as 32-bit
words x and cut into blocks of 8,192. With odd 64-bit constants w (one for each place in a block) and m (one for each
block), both from SplitMix64 (Steele, Lea, Flood, *Fast splittable pseudorandom number generators*, OOPSLA 2014):

    digest = sum over blocks c of  m[c] * (sum over places i of  w[i] * x[c, i])   modulo 2**64

Odd constants have inverses, so a change of one word is always seen. Several changes together are missed with a chance
of about 2**-63, at worst 2**-32 (two words that differ in their sign bits alone). Integers may be added in any order:
processors and GPUs give the same digest, at a tenth of the cost of a cryptographic one.

**Figures.** Norm, minimum and maximum, and four sums of the elements with fixed pseudo-random signs, all in float64.
For tensors a and b the mean of the squared differences of those four sums estimates the square of the distance of a and
b (Alon, Matias, Szegedy 1999): how far two runs are apart is known without keeping a value. Equality is judged by
the digests alone.
"""

from __future__ import annotations

from array import array
from functools import cache
from math import sqrt

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from typing import Any

BLOCK = 8192
"""Words, or elements: OpenBLAS computes products of vectors of this length in the calling thread."""
SHORT = 2048
"""Elements up to which the same holds for a product of a matrix of four rows with a vector."""
SKETCHES = 4
FIGURES = 3 + SKETCHES
MASK = (1 << 64) - 1
_STEP = 0x9E3779B97F4A7C15
Measured = tuple[int, "Sequence[float]"]
"""Digest and figures."""


def splitmix(number: int) -> int:
    """Return the ``number``-th value of SplitMix64 with seed 0."""
    word = (number + 1) * _STEP & MASK
    word = (word ^ word >> 30) * 0xBF58476D1CE4E5B9 & MASK
    word = (word ^ word >> 27) * 0x94D049BB133111EB & MASK
    return word ^ word >> 31


@cache
def _places() -> list[int]:
    return [splitmix(place) for place in range(BLOCK)]


def weights() -> array[int]:
    """Return the constant of each place in a block."""
    return array("Q", [word | 1 for word in _places()])


def multiplier(block: int) -> int:
    """Return the constant of a block."""
    return splitmix(BLOCK + block) | 1


def signs(sketch: int) -> array[float]:
    """Return the sign of each place in a block for one of the four sums."""
    return array("d", [1.0 - 2.0 * (word >> 60 - sketch & 1) for word in _places()])


def block_sign(block: int, sketch: int) -> float:
    """Return the sign of a block for one of the four sums."""
    return 1.0 - 2.0 * (splitmix(BLOCK + block) >> 60 - sketch & 1)


class Meter:
    """Measures NumPy arrays.

    Args:
        numpy: the module, which the program has loaded already.
    """

    def __init__(self, numpy: Any) -> None:
        self.numpy = numpy
        self._weights = numpy.array(weights())
        self._signs = numpy.array([signs(sketch) for sketch in range(SKETCHES)])
        self._blocks: list[tuple[int, list[float]]] = []
        self._words = numpy.empty(BLOCK, numpy.uint64)
        self._reals = numpy.empty(BLOCK, numpy.float64)
        self._joined: tuple[Any, ...] = ((), None, None, None)

    def measure(self, values: Iterable[Any], figures: bool = True) -> list[Measured]:
        """Return digests, and figures if asked for, of arrays of numbers; raises ``TypeError`` for any other."""
        numpy = self.numpy
        with numpy.errstate(all="ignore"):
            found: list[Any] = []
            small: list[tuple[int, Any]] = []
            for value in values:
                flat = numpy.ascontiguousarray(value).reshape(-1)
                if flat.dtype.char in "fiI" and 0 < len(flat) <= SHORT:
                    small.append((len(found), flat))
                    found.append(None)
                else:
                    found.append(self._measure(flat, figures))
            for (place, _), result in zip(small, self._measure_small([flat for _, flat in small], figures)):
                found[place] = result
        return found

    def _measure(self, flat: Any, figures: bool) -> Measured:
        if flat.dtype.hasobject or flat.dtype.kind in "SUmM":
            raise TypeError(f"an array of {flat.dtype} is no parameter")
        return self._digest(self._as_words(flat)), self._figures(flat) if figures else ()

    def _measure_small(self, parts: list[Any], figures: bool) -> Iterable[Measured]:
        """Measure arrays of four-byte numbers, a block each at most, at once: it is calls that cost here."""
        if not parts:
            return ()
        numpy, sizes = self.numpy, [len(part) for part in parts]
        if sizes != self._joined[0]:
            starts = [sum(sizes[:place]) for place in range(len(sizes))]
            weights = numpy.concatenate([self._weights[:size] for size in sizes])
            signs = numpy.concatenate([self._signs[:, :size] for size in sizes], axis=1)
            self._joined = (sizes, starts, weights, signs)
        _, starts, weights, signs = self._joined
        words = numpy.concatenate([part.view(numpy.uint32) for part in parts]) * weights
        factor, block = self._block(0)
        digests = (numpy.add.reduceat(words, starts) * numpy.uint64(factor)).tolist()
        if not figures:
            return [(digest, ()) for digest in digests]
        reals = numpy.concatenate(parts, dtype=numpy.float64, casting="unsafe")
        norms = numpy.sqrt(numpy.add.reduceat(reals * reals, starts)).tolist()
        lows = numpy.minimum.reduceat(reals, starts).tolist()
        highs = numpy.maximum.reduceat(reals, starts).tolist()
        sums = (numpy.add.reduceat(signs * reals, starts, axis=1) * numpy.array(block)[:, None]).T.tolist()
        return [
            (digest, (norm, low, high, *sketch))
            for digest, norm, low, high, sketch in zip(digests, norms, lows, highs, sums)
        ]

    def _block(self, number: int) -> tuple[int, list[float]]:
        """Return a block's constant and signs."""
        while len(self._blocks) <= number:
            new = len(self._blocks)
            self._blocks.append((multiplier(new), [block_sign(new, sketch) for sketch in range(SKETCHES)]))
        return self._blocks[number]

    def _as_words(self, flat: Any) -> Any:
        numpy = self.numpy
        if flat.dtype.itemsize % 4 == 0:
            return flat.view(numpy.uint32)
        octets = flat.view(numpy.uint8)
        if missing := -len(octets) % 4:
            octets = numpy.concatenate([octets, numpy.zeros(missing, numpy.uint8)])
        return octets.view(numpy.uint32)

    def _digest(self, words: Any) -> int:
        numpy, total = self.numpy, 0
        for block, start in enumerate(range(0, len(words), BLOCK)):
            part = words[start : start + BLOCK]
            wide = self._words[: len(part)]
            numpy.copyto(wide, part)
            total += int(numpy.dot(wide, self._weights[: len(part)])) * self._block(block)[0]
        return total & MASK

    def _figures(self, flat: Any) -> Sequence[float]:
        numpy = self.numpy
        if flat.dtype.kind == "c":
            flat = flat.view(flat.real.dtype)
        if not len(flat):
            return (0.0,) * FIGURES
        square, low, high = 0.0, [], []
        sums = [0.0] * SKETCHES
        for block, start in enumerate(range(0, len(flat), BLOCK)):
            part = flat[start : start + BLOCK]
            reals = self._reals[: len(part)]
            numpy.copyto(reals, part, casting="unsafe")
            square += float(numpy.dot(reals, reals))
            low.append(numpy.minimum.reduce(reals))
            high.append(numpy.maximum.reduce(reals))
            if len(part) <= SHORT:
                products = numpy.dot(self._signs[:, : len(part)], reals).tolist()
            else:
                products = [float(numpy.dot(reals, row[: len(part)])) for row in self._signs]
            for sketch, sign in enumerate(self._block(block)[1]):
                sums[sketch] += sign * products[sketch]
        return (sqrt(square), float(numpy.minimum.reduce(low)), float(numpy.maximum.reduce(high)), *sums)
