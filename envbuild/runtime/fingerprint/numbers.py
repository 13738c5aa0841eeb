"""The C library's maths, Python's and NumPy's random numbers, NumPy's functions and its BLAS and LAPACK.

Inputs are exact: integers divided by powers of two. Nothing here depends on a function under test to make its input.
"""

from __future__ import annotations

import math
import os
import sys
from array import array

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from .__main__ import Fingerprint

SEED = 20240229
_VALUES = 400
_ONE_ARGUMENT = (
    *("acos", "acosh", "asin", "asinh", "atan", "atanh", "cos", "cosh", "erf", "erfc", "exp", "expm1", "gamma"),
    *("lgamma", "log", "log10", "log1p", "log2", "sin", "sinh", "tan", "tanh"),
)
_SINGLE = ("cosf", "exp2f", "expf", "log2f", "logf", "sinf", "tanf", "tanhf")
_NUMPY = ("arctan", "cbrt", "cos", "exp", "expm1", "log", "log1p", "sin", "sqrt", "tan", "tanh")


def parts(fingerprint: Fingerprint) -> None:
    """Add ``libm``, ``python.random`` and, where NumPy is installed, ``numpy.…``."""
    libc = os.confstr("CS_GNU_LIBC_VERSION") if "CS_GNU_LIBC_VERSION" in os.confstr_names else None
    name, _, version = (libc or "libc").partition(" ")
    fingerprint.add("libm", name, version, _libm)
    fingerprint.add("python.random", "Python", ".".join(map(str, sys.version_info[:3])), _random)
    numpy = installed("numpy")
    if numpy is None:
        return
    for part, compute in (
        ("functions", _numpy_functions),
        ("matmul", _numpy_matmul),
        ("linalg", _numpy_linalg),
        ("random", _numpy_random),
    ):
        fingerprint.add(f"numpy.{part}", "NumPy", numpy.__version__, lambda compute=compute: compute(numpy))  # type: ignore[misc]


def installed(name: str) -> Any:
    """Import a module; None if it is not there, while one that cannot be imported is an error."""
    try:
        return __import__(name)
    except ModuleNotFoundError as error:
        if error.name != name:
            raise
        return None


def fractions(count: int, seed: int = 1) -> Iterator[float]:
    """Yield numbers in [0, 1) that are multiples of 2⁻⁵³ (Knuth's MMIX generator)."""
    state = seed
    for _ in range(count):
        state = (state * 6364136223846793005 + 1442695040888963407) % 2**64
        yield (state >> 11) / 2**53


def _libm() -> bytes:
    """Double precision through ``math``, single precision through ``ctypes``."""
    inputs = [16.0 * value - 8.0 for value in fractions(_VALUES)]
    found = array("d")
    for name in _ONE_ARGUMENT:
        function = getattr(math, name)
        found.extend(function(x) for x in map(_domain(name), inputs))
    for x, y in zip(inputs, reversed(inputs)):
        found.extend((math.pow(abs(x) + 0.5, y), math.atan2(x, y), math.hypot(x, y), math.fmod(x, y)))
    return found.tobytes() + _single(inputs)


def _domain(name: str) -> Any:
    """Return what maps numbers in [-8, 8) to where a function is defined."""
    if name in ("acos", "asin", "atanh"):
        return lambda x: x / 8.5
    if name == "acosh":
        return lambda x: abs(x) + 1.0
    if name in ("log", "log10", "log1p", "log2", "gamma", "lgamma"):
        return lambda x: abs(x) + 2.0**-20
    return lambda x: x


def _single(inputs: list[float]) -> bytes:
    """Call the C library's functions for ``float``; empty where there is no ``libm.so.6``."""
    import ctypes

    try:
        library = ctypes.CDLL("libm.so.6")
    except OSError:
        return b""
    found = array("f")
    for name in _SINGLE:
        function = getattr(library, name)
        function.restype, function.argtypes = ctypes.c_float, [ctypes.c_float]
        found.extend(function(abs(x) + 2.0**-20) for x in inputs)
    function = library.powf
    function.restype, function.argtypes = ctypes.c_float, [ctypes.c_float, ctypes.c_float]
    found.extend(function(abs(x) + 0.5, y) for x, y in zip(inputs, reversed(inputs)))
    return found.tobytes()


def _random() -> bytes:
    from random import Random

    generator = Random(SEED)  # noqa: S311 - it has to be predictable
    found = array("d")
    for _ in range(200):
        found.extend((generator.random(), generator.gauss(0, 1), generator.gammavariate(2, 1)))
    numbers = list(range(200))
    generator.shuffle(numbers)
    return found.tobytes() + array("d", numbers).tobytes()


def filled(numpy: Any, shape: tuple[int, ...], kind: str) -> Any:
    """Return an array of multiples of 2⁻²⁴ in [-½, ½)."""
    size = math.prod(shape)
    scrambled = (numpy.arange(1, size + 1, dtype="uint64") * 2654435761 % 2**32) >> 8
    return (scrambled.astype(kind) / 2**24 - 0.5).astype(kind).reshape(shape)


def _numpy_functions(numpy: Any) -> bytes:
    """Element-wise functions and sums: NumPy's own vector code, chosen by CPU."""
    found = b""
    for kind in ("float32", "float64"):
        values = numpy.abs(filled(numpy, (5003,), kind) * 16) + 2.0**-10
        with numpy.errstate(all="ignore"):
            for name in _NUMPY:
                found += getattr(numpy, name)(values).tobytes()
            found += numpy.power(values, values[::-1]).tobytes()
        for result in (values.sum(), values.mean(), values.std(), values.reshape(-1, 5003).sum(axis=1)):
            found += numpy.asarray(result).tobytes()
    return found


def _numpy_matmul(numpy: Any) -> bytes:
    """Products of several shapes; the first and third were seen to change with the number of threads."""
    found = b""
    for kind in ("float32", "float64"):
        for rows, inner, columns in ((100, 1000, 100), (127, 311, 65), (513, 1025, 3), (1, 1023, 257)):
            left, right = filled(numpy, (rows, inner), kind), filled(numpy, (inner, columns), kind)
            found += (left @ right).tobytes()
    return found


def _numpy_linalg(numpy: Any) -> bytes:
    matrix = filled(numpy, (48, 48), "float64") + 4 * numpy.eye(48)
    singular = numpy.linalg.svd(matrix, compute_uv=False)
    return bytes(numpy.linalg.solve(matrix, matrix[0]).tobytes() + singular.tobytes())


def _numpy_random(numpy: Any) -> bytes:
    old = numpy.random.RandomState(SEED)
    found = old.rand(100).tobytes() + old.randn(100).tobytes() + old.permutation(100).astype("int64").tobytes()
    if hasattr(numpy.random, "default_rng"):
        new = numpy.random.default_rng(SEED)
        found += new.random(100).tobytes() + new.standard_normal(100).tobytes() + new.gamma(2.0, size=100).tobytes()
    return bytes(found)
