"""Pickles as the structure that they would build: read by their opcodes, nothing in them is run or imported.

joblib writes the values of each array between the opcodes, behind the object that describes it
(``joblib.numpy_pickle.NumpyArrayWrapper``).
"""

from __future__ import annotations

import io
import pickletools
import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from envbuild.core.patterns import lazy
from envbuild.record.measurements import are_durations, kind_of
from envbuild.verification.content import values
from envbuild.verification.content.canonical import (
    NESTED,
    Canonical,
    TooMuchError,
    UnreadableError,
    below,
    moment_text,
)
from envbuild.verification.content.frames import Measured, measured_in
from envbuild.verification.content.members import counted_name
from envbuild.verification.content.nodes import Node, latin
from envbuild.verification.content.padding import DTYPE, without_padding
from envbuild.verification.content.pickled_times import moment_in, span_of

Nested = Callable[[Canonical, str, bytes], None]
PICKLE = 32 << 20
"""Bytes of the largest pickle that is read by opcodes."""
_STEPS = 2_000_000
_NESTED_ARRAYS = 20
_BLOCK = 512
"""Bytes to whose multiples ``dbm.dumb`` fills values."""


class _Values(bytes):
    """Numbers of an array: they are never a text or an archive, whatever they look like."""


class _Mark:
    """Where the parts of what comes next begin."""


_MARK = _Mark()
_EMPTY = {"EMPTY_LIST": "list", "EMPTY_DICT": "dict", "EMPTY_TUPLE": "tuple", "EMPTY_SET": "set"}
_MARKED = {"LIST": "list", "TUPLE": "tuple", "FROZENSET": "frozenset", "DICT": "dict"}
_SHORT = {"TUPLE1": 1, "TUPLE2": 2, "TUPLE3": 3}
_CONSTANTS: dict[str, Any] = {"NONE": None, "NEWTRUE": True, "NEWFALSE": False}
_INTO = {"APPENDS", "ADDITEMS", "SETITEMS"}


def read_pickles(out: Canonical, path: str, data: bytes, nested: Nested) -> None:
    """Read pickles, one behind the other: as ``pickle.dump`` appends them, or in blocks as ``dbm.dumb`` does.

    Between two pickles zeros may fill a block. What is behind them and no pickle counts by its bytes. Raises
    ``UnreadableError`` if one is damaged.
    """
    if len(data) > PICKLE:
        raise UnreadableError(f"pickles of more than {PICKLE} bytes")
    stream, left, number = io.BytesIO(data), [_STEPS], 0
    while stream.tell() < len(data):
        start = stream.tell()
        if number:
            block = -start % _BLOCK
            if data[start : start + block] == bytes(block) and _begins(data, start + block):
                out.add(path, f"filled to {start + block}")
                stream.seek(start + block)
            elif not _begins(data, start):
                out.add(path, data[start:])
                return
        _read_pickle(out, f"{path}[{number}]" if number else path, stream, nested, left)
        number += 1


def _begins(data: bytes, at: int) -> bool:
    """Whether a pickle of protocol 2 to 5 may begin at a place."""
    return data[at : at + 1] == b"\x80" and b"\x02" <= data[at + 1 : at + 2] <= b"\x05"


def _read_pickle(out: Canonical, path: str, stream: io.BytesIO, nested: Nested, left: list[int]) -> None:
    count(out, path, built(stream, left), nested)


def built(stream: io.BytesIO, left: list[int]) -> Any:
    """Return the structure that the next pickle of a stream would build; raises ``UnreadableError`` if it is damaged.

    Args:
        stream: is behind the pickle afterwards.
        left: counts down the opcodes that may still come.
    """
    try:
        return _built(stream, left)
    except (
        ValueError,
        IndexError,
        KeyError,
        TypeError,
        struct.error,
        OverflowError,
        MemoryError,
        AttributeError,
    ) as error:
        raise UnreadableError(f"a damaged pickle: {error}") from None


def count(out: Canonical, path: str, top: Any, nested: Nested) -> None:
    """Count a structure that ``built`` returned; raises ``UnreadableError`` if a part has a form that none may have."""
    try:
        _Walk(out, nested).value(path, "", top, (), 0)
    except (ValueError, IndexError, TypeError, AttributeError, OverflowError, struct.error) as error:
        raise UnreadableError(f"a damaged pickle: {error}") from None


def _built(stream: io.BytesIO, left: list[int] | None = None, depth: int = 0) -> Any:
    """Follow the opcodes; returns what they build. ``left`` counts those down that may still come."""
    stack: list[Any] = []
    memo: dict[int, Any] = {}
    left = left if left is not None else [_STEPS]
    for opcode, argument, _ in pickletools.genops(stream):
        name = opcode.name
        left[0] -= 1
        if left[0] < 0:
            raise TooMuchError(f"a pickle of more than {_STEPS} opcodes")
        if name == "STOP":
            return stack.pop()
        if name in ("PROTO", "FRAME"):
            continue
        if name == "MEMOIZE":
            memo[len(memo)] = stack[-1]
        elif name in ("PUT", "BINPUT", "LONG_BINPUT"):
            memo[int(argument or 0)] = stack[-1]
        elif name in ("GET", "BINGET", "LONG_BINGET"):
            stack.append(memo[int(argument or 0)])
        else:
            _step(stack, name, argument)
            if name in ("BUILD", "REDUCE"):
                _keep_values(stack[-1], left)
            if name == "BUILD" and (wrapped := _wrapped(stack[-1])) is not None:
                stack[-1].parts.append(_array(stream, wrapped, left, depth))
    raise ValueError("no end")


_ARRAY = "joblib.numpy_pickle NumpyArrayWrapper"
_SIZES = lazy(r"[<>|=]?([biufcSVmMUO?])(\d{1,9})")


def _wrapped(node: Any) -> dict[str, Any] | None:
    """Return what joblib notes of an array whose values follow; None for other objects."""
    match node:
        case Node(kind="object", parts=[Node(kind="global", parts=[name]), _, Node(kind="state", parts=[state])]):
            if name == _ARRAY and isinstance(state, Node) and state.kind == "dict":
                return {key: value for key, value in _pairs(state.parts) if isinstance(key, str)}
    return None


def _array(stream: io.BytesIO, wrapped: dict[str, Any], left: list[int], depth: int) -> Any:
    """Read the values of an array: bytes, or the pickle that is there for one of objects."""
    shape, dtype = wrapped["shape"], wrapped["dtype"]
    if not isinstance(shape, Node) or any(not isinstance(each, int) or each < 0 for each in shape.parts):
        raise ValueError("an array without a shape")
    name = dtype.parts[1].parts[0] if dtype.parts[0].parts == [DTYPE] else ""
    found = _SIZES.fullmatch(name) if isinstance(name, str) else None
    if found is None:
        raise ValueError("an array of another type")
    if found[1] == "O":
        if depth > _NESTED_ARRAYS:
            raise TooMuchError("arrays in arrays in arrays")
        return _built(stream, left, depth + 1)
    if isinstance(alignment := wrapped.get("numpy_array_alignment_bytes"), int) and alignment:
        stream.seek(stream.read(1)[0], io.SEEK_CUR)
    rest = len(stream.getbuffer()) - stream.tell()
    size = int(found[2]) * (4 if found[1] == "U" else 1)
    for extent in sorted(shape.parts):  # zeros first
        size *= extent
        if size > rest:
            raise ValueError("an array beyond the end")
    return _Values(without_padding(stream.read(size), dtype, left))


def _keep_values(node: Any, left: list[int]) -> None:
    """Mark the bytes of an array, or of one number of NumPy's."""
    match node:
        case Node(kind="object", parts=[Node(parts=[name]), _, Node(kind="state", parts=[Node() as state])]):
            place, kind = (4, 2) if name in _ARRAYS else (None, None)
        case Node(kind="object", parts=[Node(parts=[name]), Node() as state]):
            place, kind = (0, 1) if name in _BUFFERS else (1, 0) if name in _SCALARS else (None, None)
        case _:
            return
    if place is None or kind is None or len(state.parts) <= max(place, kind):
        return
    data = latin(state.parts[place])
    if isinstance(data, bytes | bytearray) and not isinstance(data, _Values):
        state.parts[place] = _Values(without_padding(bytes(data), state.parts[kind], left))


def _step(stack: list[Any], name: str, argument: Any) -> None:
    if name == "MARK":
        stack.append(_MARK)
    elif name in _EMPTY:
        stack.append(Node(_EMPTY[name]))
    elif name in _MARKED:
        stack.append(Node(_MARKED[name], _taken(stack)))
    elif name in _SHORT:
        stack[-_SHORT[name] :] = [Node("tuple", _last(stack, _SHORT[name]))]
    elif name in _CONSTANTS:
        stack.append(_CONSTANTS[name])
    elif name in _INTO:
        parts = _taken(stack)
        stack[-1].parts.extend(parts)
    elif name in ("APPEND", "SETITEM"):
        count = 1 if name == "APPEND" else 2
        parts = _last(stack, count)
        del stack[-count:]
        stack[-1].parts.extend(parts)
    elif name in ("POP", "POP_MARK"):
        if name == "POP_MARK":
            _taken(stack)
        else:
            stack.pop()
    elif name == "DUP":
        stack.append(stack[-1])
    elif not _object(stack, name, argument):
        stack.append(argument)


def _object(stack: list[Any], name: str, argument: Any) -> bool:
    """Follow an opcode that makes or fills an object; False for others."""
    if name == "GLOBAL":
        stack.append(Node("global", [str(argument)]))
    elif name == "STACK_GLOBAL":
        names = _last(stack, 2)
        if not all(isinstance(each, str) for each in names):  # a structure's text may be longer than any memory
            raise ValueError("a name that is no text")
        stack[-2:] = [Node("global", [" ".join(names)])]
    elif name in ("REDUCE", "NEWOBJ", "NEWOBJ_EX"):
        count = 3 if name == "NEWOBJ_EX" else 2
        stack[-count:] = [Node("object", _last(stack, count))]
    elif name == "BUILD":
        state = stack.pop()
        stack[-1].parts.append(Node("state", [state]))
    elif name in ("OBJ", "INST"):
        parts = _taken(stack)
        stack.append(Node("object", [*([str(argument)] if name == "INST" else []), *parts]))
    elif name == "BINPERSID":
        stack[-1:] = [Node("persistent", [stack[-1]])]
    elif name == "PERSID":
        stack.append(Node("persistent", [argument]))
    elif name in ("EXT1", "EXT2", "EXT4", "NEXT_BUFFER", "READONLY_BUFFER"):
        raise ValueError(f"{name} depends on what is not in the file")
    else:
        return False
    return True


def _last(stack: list[Any], count: int) -> list[Any]:
    found = stack[-count:]
    if len(found) != count or any(each is _MARK for each in found):
        raise ValueError("too little on the stack")
    return found


def _taken(stack: list[Any]) -> list[Any]:
    """Take what is above the last mark off the stack, and the mark."""
    found = []
    while (top := stack.pop()) is not _MARK:
        found.append(top)
    return found[::-1]


class _Walk:
    """Counts a structure; what occurs in several places is counted once, and named by number elsewhere."""

    def __init__(self, out: Canonical, nested: Nested) -> None:
        self.out = out
        self.nested = nested
        self.seen: dict[int, int] = {}
        self.taken: set[int] = set()
        self.labels: dict[int, list[str]] = {}

    def value(self, path: str, key: str, value: Any, siblings: tuple[str, ...], depth: int) -> None:
        out = self.out
        if depth > NESTED:
            raise UnreadableError("nested too deep")
        if isinstance(value, Node):
            if id(value) in self.seen:
                out.add(path, f"as {self.seen[id(value)]}")
                return
            self.seen[id(value)] = len(self.seen)
            self.node(path, key, value, depth)
        elif isinstance(value, bool) or value is None:
            out.add(path, repr(value))
        elif isinstance(value, int | float):
            text = str(value) if isinstance(value, int) and abs(value) < 1 << 64 else _text_of(value)
            values.number(out, path, key, float(value) if abs(value) < 1e300 else 0.0, text, siblings)
        elif isinstance(value, str):
            values.string(out, path, key, value, typed=True)
        elif isinstance(value, _Values):
            out.add(path, value)
        elif isinstance(value, bytes | bytearray):
            out.add(path, type(value).__name__)
            self.nested(out, path, bytes(value))
        else:
            out.add(path, repr(value))

    def node(self, path: str, key: str, node: Node, depth: int) -> None:
        out = self.out
        self._without_tracker(path, node)
        for each in self._measured_in(node):
            out.leave_out(below(path, each.name), each.data, each.kind, packed=True, moment=each.moment)
        if key and are_durations(key):
            self._without_history(path, node)
        if node.kind == "list" and values.is_durations(key, node.parts):
            out.add(path, f"list {len(node.parts)}")
            out.leave_out(path, repr(node.parts), "time")
            return
        if key and (kind := kind_of(key)) in ("time", "rate", "memory") and _is_scalar(node):
            out.leave_out(path, repr(node.parts[1].parts[1:]), str(kind))
            return
        if key and are_durations(key) and (array := _durations(node)) is not None:
            values_, rest = array
            for at, each in enumerate(rest):
                self.value(below(path, f"[{at}]", ""), "", each, (), depth + 1)
            out.leave_out(path, values_, "time", packed=True)
            return
        if node.kind == "dict" and values.is_durations(key, node.parts[1::2]) and all(map(_is_text, node.parts[::2])):
            out.add(path, repr(node.parts[::2]))
            out.leave_out(path, repr(node.parts[1::2]), "time")
            return
        if (identity := _uuid(node)) is not None:
            out.add(path, "UUID")
            out.text(path, identity)
            return
        out.add(path, f"{node.kind} {len(node.parts)}")
        if self._moment(path, node, depth) or self._span(path, key, node):
            return
        ordered = _ordered(node)
        if node.kind != "dict" and ordered is None:
            for at, each in enumerate(node.parts):
                self.value(below(path, f"[{at}]", ""), "", each, (), depth + 1)
            return
        if ordered is not None:
            for at, each in ordered.others:
                self.value(below(path, f"[{at}]", ""), "", each, (), depth + 1)
        pairs = list(_pairs(node.parts if ordered is None else ordered.items))
        names = tuple(name for name, _ in pairs if isinstance(name, str))
        for name, each in pairs:
            if isinstance(name, str):
                counted = counted_name(out, path, name, "names of entries", without_uuids=True)
                place = below(path, counted)
                out.add(path, counted)
                if name == _ETA and _OF_A_RUN.issubset(names) and _is_seconds(each):
                    out.leave_out(place, repr(each), "time")
                    continue
                self.value(place, name, each, names, depth + 1)
            else:
                self.value(below(path, "key", " "), "", name, (), depth + 1)
                self.value(below(path, "[…]", ""), "", each, (), depth + 1)

    def _measured_in(self, node: Node) -> list[Measured]:
        return measured_in(node, self._array_of, self._is_of_run, self.labels) if node.kind == "object" else []

    def _array_of(self, node: Any) -> _Numbers | None:
        """Return the numbers of an array once: thousands of blocks may have the same one, and it is cleared for all."""
        if id(node) in self.taken:
            return None
        found = _numbers(node)
        if found is not None:
            self.taken.add(id(node))
        return found

    def _is_of_run(self, seconds: float) -> bool:
        return self.out.is_moment(seconds) and not self.out.masks.is_strange(seconds)

    def _moment(self, path: str, node: Node, depth: int) -> bool:
        """Leave out a date about when the run was; all else of its object counts. False, and nothing is, for others."""
        out, found = self.out, moment_in(node)
        if found is None or not out.is_moment(found.near):
            return False
        if found.exact is not None:
            out.note_moment(path, moment_text(found.exact), found.exact)
        during = found.exact is not None and out.is_during(found.exact)
        out.leave_out(path, found.text, "time", packed=True, moment=True, during=during)
        for at, each in enumerate(found.rest):
            self.value(below(path, f"[{at}]", ""), "", each, (), depth + 1)
        return True

    def _span(self, path: str, key: str, node: Node) -> bool:
        """Count a span of time by its seconds, as a number is; False for other objects."""
        found = span_of(node)
        if found is not None:
            values.number(self.out, path, key, *found)
        return found is not None

    def _without_history(self, path: str, node: Node) -> None:
        """Leave out the values of a history of MMEngine's; in objects of other classes such arrays are results."""
        match node:
            case Node(
                kind="object",
                parts=[
                    Node(kind="global", parts=[str(name)]),
                    *_,
                    Node(kind="state", parts=[Node(kind="dict", parts=parts)]),
                ],
            ) if name.endswith(_BUFFER):
                pass
            case _:
                return
        for at in range(1, len(parts), 2):
            of_history = parts[at - 1] == _HISTORY and isinstance(parts[at], Node)
            array = _durations(parts[at]) if of_history else None
            if array is not None:
                self.out.leave_out(path, array[0], "time", packed=True)
                parts[at] = Node("array", array[1])

    def _without_tracker(self, path: str, node: Node) -> None:
        """Number the identities by which cloudpickle knows classes again, which it draws in each process."""
        match node:
            case Node(kind="object", parts=[Node(kind="global", parts=[str(name)]), Node(kind="tuple") as arguments]):
                found = _SKELETON.fullmatch(name)
            case _:
                return
        count, place = _TRACKERS[found[1]] if found is not None else (-1, 0)
        identity = arguments.parts[place] if len(arguments.parts) == count else None
        if isinstance(identity, str) and values.is_drawn(identity):
            self.out.leave_out(below(path, "class_tracker_id"), identity, "identity")
            arguments.parts[place] = f"⟨class {self.out.number_of(f'class {identity}')}⟩"


@dataclass(frozen=True, slots=True)
class _Ordered:
    """What an ``OrderedDict`` has: names and values one after the other, and all else with its place."""

    items: list[Any]
    others: list[tuple[int, Any]]


_TABLES = frozenset((
    "collections OrderedDict", "collections defaultdict", "sklearn.utils Bunch", "sklearn.utils._bunch Bunch",
))  # fmt: skip
"""Dictionaries of other classes; not ``Counter``, whose keys are what is counted."""


def _ordered(node: Node) -> _Ordered | None:
    """Return what is in a table of a known class that was filled; None for others, and where a key is no text."""
    match node:
        case Node(kind="object", parts=[Node(kind="global", parts=[name]) as first, second, *rest]) if name in _TABLES:
            pass
        case _:
            return None
    # Attributes of the table itself come behind what is in it: ``_metadata`` of PyTorch's states.
    states = [(at, each) for at, each in enumerate(rest, 2) if isinstance(each, Node) and each.kind == "state"]
    last = len(rest) - len(states)
    items = rest[:last]
    if [at for at, _ in states] != [*range(last + 2, len(rest) + 2)] or len(items) % 2:
        return None
    if not items or not all(isinstance(each, str) for each in items[::2]):
        return None
    return _Ordered(items, [(0, first), (1, second), *states])


_SKELETON = lazy(r"(?:[\w.]+\.)?cloudpickle\.cloudpickle (_make_(?:skeleton_class|skeleton_enum|typevar))")
_TRACKERS = {"_make_skeleton_class": (6, 4), "_make_skeleton_enum": (7, 5), "_make_typevar": (6, 5)}
"""Functions of cloudpickle's that make a class: how many arguments they have, and which is its identity."""


_BUFFER, _HISTORY = " HistoryBuffer", "_log_history"
"""A class of MMEngine's, and its attribute for values; another attribute has the number of steps of each."""
_ETA, _OF_A_RUN = "eta", frozenset(("cfg", "epoch", "experiment_name", "iter", "max_epochs", "max_iters"))
"""What a training has yet to take, next to what MMEngine notes of it; by itself it may be a learning rate."""


def _is_seconds(value: Any) -> bool:
    return _is_scalar(value) if isinstance(value, Node) else isinstance(value, float)


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


def _pairs(parts: list[Any]) -> Iterator[tuple[Any, Any]]:
    if len(parts) % 2:
        raise UnreadableError("a damaged pickle: a key without a value")
    yield from zip(parts[::2], parts[1::2], strict=True)


def _text_of(value: float) -> str:
    """Write a number so that other bits give another text."""
    if isinstance(value, int):
        return f"{value:#x}"
    return f"{value!r} {struct.pack('>d', value).hex()}" if value != value else repr(value)


def _is_scalar(node: Node) -> bool:
    """Whether an object is one number of NumPy's."""
    if node.kind != "object" or len(node.parts) != 2 or not all(isinstance(each, Node) for each in node.parts):
        return False
    name, arguments = node.parts
    known = len(name.parts) == 1 and name.parts[0] in _SCALARS
    return known and len(arguments.parts) == 2 and isinstance(arguments.parts[1], bytes)


_ARRAYS = tuple(f"numpy.{core}.multiarray _reconstruct" for core in ("core", "_core"))
_SCALARS = tuple(f"numpy.{core}.multiarray scalar" for core in ("core", "_core"))
_BUFFERS = tuple(f"numpy.{core}.numeric _frombuffer" for core in ("core", "_core"))
_CODES = {"f4": "f", "f8": "d", "i8": "q", "M8": "q", "m8": "q"}
_FLOATS = frozenset("fd")


def _durations(node: Node) -> tuple[bytes, list[Any]] | None:
    """Return the bytes of an array of durations, and what else the array consists of; None for anything else.

    NumPy's own way to pickle arrays, that for protocol 5, and joblib's; only floating-point numbers of at least zero.
    """
    match node:
        case Node(kind="object", parts=[Node(kind="global", parts=[name]), first, Node(kind="state", parts=[state])]):
            if name not in _ARRAYS or not isinstance(state, Node) or len(state.parts) != 5:
                return None
            *rest, data = state.parts
            return (data, [name, first, *rest]) if _are_floats(data, rest[2]) else None
        case Node(kind="object", parts=[Node(kind="global", parts=[name]), Node(parts=[data, dtype, *rest])]):
            return (bytes(data), [name, dtype, *rest]) if name in _BUFFERS and _are_floats(data, dtype) else None
        case Node(kind="object", parts=[_, _, Node(kind="state", parts=[state]), data]):
            wrapped = _wrapped(Node("object", node.parts[:3]))
            if wrapped is not None and _are_floats(data, wrapped.get("dtype")):
                return data, [state]
    return None


def _are_floats(data: Any, dtype: Any) -> bool:
    """Whether bytes are floating-point numbers of at least zero, by NumPy's description of their type."""
    code = _code_of(dtype) if isinstance(data, bytes | bytearray) else None
    if code not in _FLOATS or len(data) % struct.calcsize(code):
        return False
    return all(number >= 0 for (number,) in struct.iter_unpack(f"<{code}", data))


def _unit_of(dtype: Any) -> str:
    """Return NumPy's name of what dates count since 1970, one by one; empty for other types."""
    match dtype:
        case Node(
            parts=[_, Node(parts=["M8", *_]), Node(parts=[Node(parts=[*_, Node(parts=[None, Node(parts=units)])])])]
        ):
            unit, *counts = map(latin, units)
            return unit.decode() if isinstance(unit, bytes) and counts == [1, 1, 1] else ""
    return ""


def _code_of(dtype: Any) -> str | None:
    """Return how ``struct`` reads a number of a type of NumPy's; None for most other types than floating-point ones."""
    match dtype:
        case Node(parts=[Node(parts=[name]), Node(parts=[str(text), *_]), Node(parts=[Node(parts=[_, "<", *_])])]):
            return _CODES.get(text) if name == DTYPE else None
    return None


@dataclass(frozen=True, slots=True)
class _Numbers:
    """The numbers of an array: see ``frames.Array``."""

    parts: list[Any]
    place: int
    shape: tuple[int, ...]
    fortran: bool
    code: str
    unit: str


def _numbers(node: Any) -> _Numbers | None:
    """Return the numbers of an array, in any of the forms that ``_durations`` knows."""
    match node:
        case Node(
            kind="object", parts=[Node(parts=[name]), _, Node(kind="state", parts=[Node(kind="tuple") as state])]
        ):
            if name not in _ARRAYS or len(state.parts) != 5:
                return None
            _, shape, dtype, fortran, _ = state.parts
            parts, place = state.parts, 4
        case Node(kind="object", parts=[Node(parts=[name]), Node(parts=[_, dtype, shape, order]) as arguments]):
            if name not in _BUFFERS:
                return None
            fortran, parts, place = order == "F", arguments.parts, 0
        case Node(kind="object", parts=[_, _, Node(kind="state"), _]):
            wrapped = _wrapped(Node("object", node.parts[:3])) or {}
            shape, dtype, fortran = wrapped.get("shape"), wrapped.get("dtype"), wrapped.get("order") == "F"
            parts, place = node.parts, 3
        case _:
            return None
    sizes = tuple(shape.parts) if isinstance(shape, Node) else ()
    code = _code_of(dtype)
    if code is None or not isinstance(parts[place], _Values) or not all(isinstance(each, int) for each in sizes):
        return None
    return _Numbers(parts, place, sizes, bool(fortran), code, _unit_of(dtype))


def _uuid(node: Node) -> str | None:
    """Return a pickled ``uuid.UUID`` as a text, which is masked as other texts are; None for other objects."""
    match node:
        case Node(
            kind="object",
            parts=[
                Node(kind="global", parts=["uuid UUID"]),
                Node(kind="tuple", parts=[]),
                Node(kind="state", parts=[Node(kind="dict", parts=["int", int(number)])]),
            ],
        ) if 0 <= number < 1 << 128:
            return str(UUID(int=number))
    return None
