"""What is found in one file: tensors, and a digest of the rest; within bounds."""

from __future__ import annotations

import hashlib

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from typing import Any

PIECE = 1 << 22
"""Bytes that are looked at together: a multiple of every size of an element that is a power of two."""
COUNT, NOTES = 50_000, 1000
NAME = 300
_DIGITS = 32
_RELEASED = 1 << 26
"""Bytes after which mapped pages are let go."""

SIZES = {
    "bool": 1, "int8": 1, "uint8": 1, "int16": 2, "uint16": 2, "int32": 4, "uint32": 4, "int64": 8, "uint64": 8,
    "float16": 2, "bfloat16": 2, "float32": 4, "float64": 8, "complex64": 8, "complex128": 16,
    "float8_e4m3fn": 1, "float8_e5m2": 1, "float8_e4m3fnuz": 1, "float8_e5m2fnuz": 1, "float8_e8m0fnu": 1,
}  # fmt: skip
"""Bytes of an element by the name of its type."""
_NUMBERS = ("int", "uint", "float16", "float32", "float64", "bfloat16")
_WORDS: dict[int, Any] = {1: "B", 2: "H", 4: "I", 8: "Q"}


class UnreadableError(Exception):
    """The file is not what it seems, or more than can be read; the message has the reason."""


class Contents:
    """Collects the tensors of one file.

    Args:
        budget: bytes of tensors that may be read.
        numpy: the module, or None.
        release: lets go of pages that were looked at; called again and again.
    """

    def __init__(self, budget: int, numpy: Any = None, release: Callable[[], None] = lambda: None) -> None:
        self.tensors: dict[str, dict[str, Any]] = {}
        self.notes: dict[str, str] = {}
        self.left = budget
        self.numpy = numpy
        self.release, self._seen = release, 0
        self._rest = hashlib.sha256()
        self._listed: set[str] = set()

    def add(self, name: str, dtype: str, shape: Sequence[int], pieces: Iterable[Any], size: int) -> str:
        """Digest a tensor and return the name it got; one that is taken gets a number.

        Args:
            name: as the library names it.
            dtype: of one element; with ``>`` in front if its bytes are in big-endian order.
            shape: number of elements along each axis.
            pieces: buffers of the values in row-major order, of whole elements.
            size: bytes of all values.
        """
        self.spend(size)
        name = self._free(name)
        digest, measure = hashlib.sha256(), self._measure(dtype)
        read = 0
        for piece in pieces:
            digest.update(piece)
            read += len(piece)
            if measure:
                for part in cut(memoryview(piece)):
                    measure.add(part)
            self._looked(len(piece))
        if read != size:
            raise UnreadableError(f"{name} has {read} bytes of values, {size} by its shape")
        found = {"dtype": dtype, "shape": list(shape), "digest": digest.hexdigest()[:_DIGITS]}
        self.tensors[name] = {**found, **(measure.as_dict() if measure else {})}
        return name

    def repeat(self, name: str, first: str) -> None:
        """Add a tensor that was added already under another name."""
        self.tensors[self._free(name)] = self.tensors[first]

    def rest(self, *words: object) -> None:
        """Count something that is no tensor as part of the content: bytes, a buffer of bytes, or what has a text."""
        for word in words:
            data = word if isinstance(word, (bytes, memoryview)) else str(word).encode("utf-8", "backslashreplace")
            self._rest.update(b"%d:" % len(data))
            for part in cut(memoryview(data)):
                self._rest.update(part)
                self._looked(len(part))

    def note(self, name: str, value: str) -> None:
        """Count a short text or a number that has a name, such that the host can judge it; the first ``NOTES`` only."""
        if name in self.notes or len(self.notes) >= NOTES:
            self.rest("note", name, value)
        else:
            self.notes[name] = value

    def listed(self, name: str, values: Sequence[float]) -> None:
        """Count a tensor's values as notes, by ``name[number]``, or by its name alone if that is all it is.

        Args:
            name: of one that was added.
            values: finite; notes say with which digits they are written.
        """
        self._listed.add(name)
        tensor = self.tensors[name]
        self.rest("list", name, tensor["dtype"], tensor["shape"])
        for number, value in enumerate(values):
            self.note(f"{name}[{number}]" if tensor["shape"] else name, repr(value))

    def spend(self, size: int) -> None:
        """Take bytes from the budget."""
        if size < 0 or size > self.left:
            raise UnreadableError(f"more than {self.left} bytes of values are left to read")
        self.left -= size

    def as_dict(self) -> dict[str, Any]:
        """Return tensors, their number and the digest of the content; notes, and the digest without them, if any.

        Of a tensor whose values are notes, the digest without them has the type and the shape.
        """
        whole = hashlib.sha256(self._rest.digest())
        for name, each in sorted(self.tensors.items()):
            if name not in self._listed:
                whole.update(_described(name, each))
        found = {"tensors": self.tensors, "count": len(self.tensors)}
        if self.notes:
            found |= {"notes": self.notes, "bare": whole.hexdigest()[:_DIGITS]}
            whole.update(repr(sorted(self.notes.items())).encode())
        for name in sorted(self._listed):
            whole.update(_described(name, self.tensors[name]))
        return {**found, "content": whole.hexdigest()[:_DIGITS]}

    def _looked(self, size: int) -> None:
        self._seen += size
        if self._seen >= _RELEASED:
            self._seen = 0
            self.release()

    def _free(self, name: str) -> str:
        if len(self.tensors) >= COUNT:
            raise UnreadableError(f"more than {COUNT} tensors")
        name = name.encode("utf-8", "backslashreplace").decode()
        if len(name) > NAME:
            name = f"{name[:NAME]}…{hashlib.sha256(name.encode()).hexdigest()[:8]}"
        return f"{name} ({len(self.tensors)})" if name in self.tensors else name

    def _measure(self, dtype: str) -> _Measure | None:
        if self.numpy is None or not dtype.startswith(_NUMBERS) or "[" in dtype:
            return None
        if dtype != "bfloat16":
            try:
                self.numpy.dtype(dtype)
            except (TypeError, ValueError):  # a damaged file may have integers of seven bytes
                return None
        return _Measure(self.numpy, dtype)


def _described(name: str, tensor: dict[str, Any]) -> bytes:
    return repr((name, tensor["dtype"], tensor["shape"], tensor["digest"])).encode()


class _Measure:
    """Smallest and largest value and Euclidean norm, in double precision."""

    def __init__(self, numpy: Any, dtype: str) -> None:
        self.numpy, self.dtype = numpy, dtype
        self.low, self.high, self.squares = float("inf"), float("-inf"), 0.0

    def add(self, piece: Any) -> None:
        numpy = self.numpy
        if self.dtype == "bfloat16":
            values = (numpy.frombuffer(piece, "<u2").astype("<u4") << 16).view("<f4")
        else:
            values = numpy.frombuffer(piece, self.dtype)
        if not values.size:
            return
        with numpy.errstate(all="ignore"):
            self.low = min(self.low, float(values.min()))
            self.high = max(self.high, float(values.max()))
            wide = values.astype("f8")
            self.squares += float(numpy.dot(wide, wide))

    def as_dict(self) -> dict[str, float]:
        found = {"low": self.low, "high": self.high, "norm": self.squares**0.5}
        return found if all(abs(value) < float("inf") for value in found.values()) else {}


def bytes_of(shape: Sequence[int], itemsize: int) -> int:
    """Return the size of an array; raises ``UnreadableError`` if the shape is none."""
    if not isinstance(shape, (tuple, list)):
        raise UnreadableError("a shape is not made of numbers")
    size = itemsize
    for extent in shape:
        if not isinstance(extent, int) or isinstance(extent, bool) or not 0 <= extent < 1 << 62:
            raise UnreadableError("a shape is not made of numbers")
        size *= extent
    if size >= 1 << 62 or len(shape) > 64:
        raise UnreadableError("a shape is larger than any memory")
    return size


def row_major(shape: Sequence[int]) -> tuple[int, ...]:
    """Return the strides, in elements, of an array in row-major order."""
    strides: list[int] = []
    step = 1
    for extent in reversed(shape):
        strides.insert(0, step)
        step *= extent
    return tuple(strides)


def cut(view: memoryview) -> Iterator[memoryview]:
    """Yield a buffer in pieces."""
    for start in range(0, len(view), PIECE):
        yield view[start : start + PIECE]


def gathered(
    view: memoryview, itemsize: int, start: int, shape: Sequence[int], strides: Sequence[int], numpy: Any = None
) -> Iterator[Any]:
    """Yield the values of a strided array in row-major order.

    Args:
        view: bytes that hold it.
        itemsize: bytes of an element.
        start: the first element, in elements.
        shape, strides: in elements; strides are not negative.
        numpy: the module, which is quicker where the innermost axis is short.

    Raises:
        UnreadableError: it is not within ``view``.
    """
    size = bytes_of(shape, itemsize)
    if len(strides) != len(shape) or any(not isinstance(step, int) or step < 0 for step in (*strides, start)):
        raise UnreadableError("strides do not fit the shape")
    if not size:
        return
    last = start + sum((extent - 1) * step for extent, step in zip(shape, strides))
    if (last + 1) * itemsize > len(view):
        raise UnreadableError("values lie beyond the end of their storage")
    axes = [(extent, step) for extent, step in zip(shape, strides) if extent != 1]
    if [step for _, step in axes] == list(row_major([extent for extent, _ in axes])):
        yield from cut(view[start * itemsize : start * itemsize + size])
    elif numpy is not None:
        yield from _by_numpy(view, itemsize, start, axes, numpy)
    else:
        yield from _by_rows(view, itemsize, start, axes)


def _by_rows(view: memoryview, itemsize: int, start: int, axes: list[tuple[int, int]]) -> Iterator[Any]:
    if itemsize not in _WORDS:
        axes = [*((extent, step * itemsize) for extent, step in axes), (itemsize, 1)]
        start, itemsize = start * itemsize, 1
    words = view[: len(view) // itemsize * itemsize].cast(_WORDS[itemsize])
    *outer, (extent, step) = axes
    row = max(1, PIECE // itemsize)  # elements that are copied together
    for first in _places(outer, start):
        for done in range(0, extent, row):
            count = min(row, extent - done)
            if step:
                place = first + done * step
                yield words[place : place + (count - 1) * step + 1 : step].tobytes()
            else:
                yield words[first : first + 1].tobytes() * count


def _places(axes: Sequence[tuple[int, int]], start: int) -> Iterator[int]:
    """Yield where each row begins; ``itertools.product`` would hold every index of every axis."""
    if not axes:
        yield start
        return
    (extent, step), *others = axes
    for number in range(extent):
        yield from _places(others, start + number * step)


def _by_numpy(view: memoryview, itemsize: int, start: int, axes: list[tuple[int, int]], numpy: Any) -> Iterator[Any]:
    words = numpy.frombuffer(view[: len(view) // itemsize * itemsize], f"V{itemsize}")[start:]
    shape, strides = [extent for extent, _ in axes], [step * itemsize for _, step in axes]
    array = numpy.lib.stride_tricks.as_strided(words, shape, strides, writeable=False)
    for index in blocks(shape, itemsize):
        yield array[index].tobytes()


def blocks(shape: Sequence[int], itemsize: int, limit: int = PIECE) -> Iterator[tuple[Any, ...]]:
    """Yield indexes that take an array apart, in row-major order, into blocks of at most ``limit`` bytes."""
    size = bytes_of(shape, itemsize)
    if size <= limit or not shape:
        yield ()
        return
    row = size // shape[0]
    if row <= limit:
        rows = limit // row
        for start in range(0, shape[0], rows):
            yield (slice(start, start + rows),)
        return
    for first in range(shape[0]):
        for others in blocks(shape[1:], itemsize, limit):
            yield (first, *others)
