"""The way of the first thread through the project's lines, and what these lines set, in an experiment (fix.py).

Two runs of a program whose results differ go the same way up to a line that sets something to another value, or after
which they go on at another line: there the difference enters what this thread does. Nothing is fixed.

``/run/envbuild/path.bin`` has 12 bytes for each step, little-endian: which strand it belongs to (0, or one of
asyncio's tasks, by the CRC-32 of its name), the CRC-32 of its line (``/workspace/train.py:12``), and that of what the
line set, passed on, gave back or raised. Values are known to a depth: numbers and texts, what lists, dictionaries and
sets have, the texts that an object keeps; of sets in no order. No code of the program is called for that. What others
change meanwhile is seen where this thread puts it into a name, an attribute or an item, or is led elsewhere by it.
Handlers of signals and what frees objects have strands of their own: they come at any moment.

Only the program's first process is followed, for ``_STEPS`` steps and ``_SECONDS`` at most (a step of the strand
``CUT`` is the last one then), and no further once it sets a trace itself.
Of what is called, or goes on, more than ``_HOT`` times, later calls are not followed, so that the program is not much
slower than others that it runs with: what they give back is seen where it gets a name.
"""

from __future__ import annotations

import dis
import os
import sys
from collections import deque
from itertools import islice
from struct import Struct
from types import BuiltinFunctionType, FunctionType, MethodType
from zlib import crc32

from .handlers import is_programs

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from types import CodeType, FrameType
    from typing import Any

    from .fix_callers import Callers

NAME = "path.bin"
STEP = Struct("<III")
_STEPS, _HOT, _SECONDS = 4_000_000, 2000, 10
_BUFFER = 1 << 16
"""Bytes that are written at once."""
_LOOK = 1 << 12
"""Calls, whoever's, between two looks at the clock."""
_DEPTH, _ITEMS, _LAST, _MEMBERS, _TEXT, _BITS = 3, 16, 4, 1000, 1 << 20, 2048
"""How deep values are looked into; items of a list from its front and from its end, members of a set, characters of a
text, bits of a number."""
_ATTRIBUTES = 4
"""Texts of an object's attributes."""
_ARRAY = 1 << 16
"""Bytes of an array."""
_PLAIN = frozenset((bool, float, complex, type(None)))
_KNOWN = frozenset(("numpy", "pathlib", "datetime", "fractions", "decimal"))
"""Modules whose values are looked into."""
_CALLABLE = (FunctionType, BuiltinFunctionType, MethodType, type)
_CHANGING = frozenset((
    "append", "appendleft", "extend", "insert", "add", "update", "setdefault", "put", "push", "write", "writelines",
    "writerow", "writerows",
))  # fmt: skip
"""Methods whose object is looked at after the line that calls them."""
_BEGINNING = frozenset((
    "Thread", "Process", "Timer", "Popen", "start", "submit", "map", "apply_async", "imap", "imap_unordered",
    "create_task", "to_thread", "gather", "run_in_executor",
))  # fmt: skip
"""What is given to others on a line with one of these is not looked into: they change it at once."""
_CONTAINED = frozenset((
    "list", "dict", "set", "deque", "defaultdict", "Counter", "OrderedDict", "int", "float", "str", "bytes", "bool",
    "ndarray",
))  # fmt: skip
_NOTHING = frozenset(("CACHE", "EXTENDED_ARG", "PRECALL", "PUSH_NULL"))
_NAMES = frozenset(("STORE_FAST", "STORE_NAME", "STORE_GLOBAL", "STORE_DEREF"))
_LOADS = frozenset(("LOAD_FAST", "LOAD_NAME", "LOAD_GLOBAL", "LOAD_DEREF", "LOAD_CLASSDEREF", "LOAD_FAST_CHECK"))
_FREES = "__del__"
_KEPT, _AWAITS = 0x2A0, 0x280
"""Flags of code whose frames are left and go on: generators, coroutines, generators of coroutines; those that await."""
_RESUME = dis.opmap.get("RESUME")
_YIELDS = frozenset(dis.opmap[name] for name in ("YIELD_VALUE", "YIELD_FROM") if name in dis.opmap)
SIGNAL, FREED, CUT = 1, 2, 3
"""Strands of what comes at any moment, and that of a way which is cut off."""


def install(callers: Callers, folder: str, clock: Callable[[], float]) -> None:
    """Follow this thread from now on.

    Args:
        callers: knows the project's code.
        folder: where the file goes; it must not be there.
        clock: the real one, in seconds.
    """
    try:
        descriptor = os.open(os.path.join(folder, NAME), os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644)
    except OSError:  # a second program, or nowhere to write
        return
    follower = _Follower(callers, descriptor, clock)
    os.register_at_fork(after_in_child=follower.end)
    import atexit

    atexit.register(follower.flush)
    leave = os._exit

    def _exit(status: int) -> Any:
        follower.flush()
        leave(status)

    _exit.__module__, _exit.__qualname__ = "os", "_exit"  # it is handed to pools
    system: Any = os
    system._exit = _exit
    sys.settrace(follower.called)


class _Line:
    """What a line of code sets."""

    __slots__ = ("attributes", "begins", "containers", "loaded", "names", "place")

    def __init__(self, place: int) -> None:
        self.place = place
        self.names: list[str] = []
        self.attributes: list[str] = []
        self.containers: list[list[str]] = []
        self.loaded: list[list[str]] = []
        self.begins = False


class _Follower:
    """Writes steps.

    Args:
        callers: knows the project's code.
        descriptor: of the file.
        clock: the real one.
    """

    def __init__(self, callers: Callers, descriptor: int, clock: Callable[[], float]) -> None:
        self._callers, self._descriptor = callers, descriptor
        self.files: dict[str, bool] = {}
        self._codes: dict[int, tuple[CodeType, dict[int, _Line]]] = {}
        self._calls: dict[int, int] = {}
        self._seen = 0
        self._buffer = bytearray()
        self.left = _STEPS
        self._ends, self._clock = clock() + _SECONDS, clock

    def end(self) -> None:
        """Follow no longer, as in a child, whose parent writes the file."""
        sys.settrace(None)
        self.left = 0
        self._buffer.clear()

    def flush(self) -> None:
        """Write what is known."""
        data, self._buffer = bytes(self._buffer), bytearray()
        try:
            os.write(self._descriptor, data)
        except OSError:  # the program has closed all files, or there is no room
            self.end()

    def called(self, frame: FrameType, event: str, argument: Any) -> Any:
        """Return what follows a frame, if it is the project's: a trace function for the whole thread."""
        try:
            return self._called(frame)
        except BaseException:  # a handler of the program's has raised it, and it is the program's; no trace goes on
            self.cut()
            raise

    def _called(self, frame: FrameType) -> Any:
        self._seen += 1
        if not self._seen % _LOOK and self._clock() >= self._ends:  # also where nothing of the project's is called
            self.cut()
            return None
        code = frame.f_code
        own = self.files.get(code.co_filename)
        if own is None:
            own = self.files[code.co_filename] = self._callers.is_project(code)
        if not own or self.left <= 0:
            return None
        self._calls[id(code)] = calls = self._calls.get(id(code), 0) + 1
        if calls > _HOT:
            return None
        step = _Frame(self, frame, _strand_of(frame), self.lines(code))
        step.begin(frame)
        return step.next

    def cut(self) -> None:
        """Follow no longer, and say so."""
        self.left = 0
        sys.settrace(None)
        self._buffer += STEP.pack(CUT, 0, 0)
        self.flush()

    def note(self, strand: int, place: int, value: int) -> None:
        """Add a step."""
        self._buffer += STEP.pack(strand, place, value)
        self.left -= 1
        if len(self._buffer) >= _BUFFER:
            self.flush()
            if self._clock() >= self._ends:
                self.left = 0
        if self.left <= 0:
            self.cut()

    def lines(self, code: CodeType) -> dict[int, _Line]:
        """Return what lines of a function set."""
        known = self._codes.get(id(code))
        if known is None:
            known = self._codes[id(code)] = (code, {})
            lines = known[1]
            file = code.co_filename
            path = file if file.startswith("<") else os.path.abspath(file)
            line = code.co_firstlineno
            before: list[str] = []
            for each in dis.get_instructions(code):
                if each.starts_line is not None and each.starts_line is not False:
                    number = getattr(each, "line_number", None) or each.starts_line
                    line = line if number is True else number
                at = lines.get(line)
                if at is None:
                    at = lines[line] = _Line(crc32(f"{path}:{line}".encode("utf-8", "surrogateescape")))
                before = _look(at, each.opname, each.argval, before)
        return known[1]


def _strand_of(frame: FrameType) -> int:
    """Return which strand the steps of a function belong to."""
    code = frame.f_code
    if code.co_name == _FREES:
        return FREED
    last = code.co_varnames[code.co_argcount - 1] if code.co_argcount in (2, 3) else ""
    if last and type(frame.f_locals.get(last)) is type(frame) and _is_handler(code):
        return SIGNAL
    asyncio = sys.modules.get("asyncio")
    loop = getattr(asyncio, "_get_running_loop", lambda: None)() if asyncio is not None else None
    task = asyncio.current_task(loop) if asyncio is not None and loop is not None else None
    return crc32(task.get_name().encode("utf-8", "replace")) if task is not None else 0


def _is_handler(code: CodeType) -> bool:
    """Whether a signal calls a function of this code."""
    signal = sys.modules.get("signal")
    if signal is None:
        return False
    for number in range(1, signal.NSIG):
        handler = signal.getsignal(number)
        function = handler.__func__ if type(handler) is MethodType else handler
        if type(function) is FunctionType and function.__code__ is code:
            return True
    return False


def _look(line: _Line, operation: str, argument: Any, before: list[str]) -> list[str]:
    """Add what an instruction sets or loads to its line.

    Args:
        line: which it is of.
        operation, argument: what it is.
        before: the name that was loaded right before it, and attributes of that.

    Returns:
        The same for what comes next.
    """
    if operation in _NOTHING:
        return before
    if operation in _NAMES or operation.startswith("STORE_FAST"):
        line.names += argument if isinstance(argument, tuple) else (argument,)
    elif operation == "STORE_ATTR":
        line.attributes.append(argument)
    elif operation == "STORE_SUBSCR":
        line.containers += line.loaded
    elif operation in ("LOAD_METHOD", "LOAD_ATTR") and before:
        line.begins = line.begins or argument in _BEGINNING
        if argument in _CHANGING:
            line.containers.append([*before])
        elif operation == "LOAD_ATTR":
            before.append(str(argument))
            return before
    if operation in _LOADS or operation.startswith("LOAD_FAST"):
        name = str(argument[-1] if isinstance(argument, tuple) else argument)
        line.begins = line.begins or name in _BEGINNING
        line.loaded.append([name])
        return line.loaded[-1]
    return []


class _Frame:
    """One running function of the project's.

    Args:
        follower: takes the steps.
        frame: the function's.
        strand: which its steps belong to.
        lines: what its lines set.
    """

    def __init__(self, follower: _Follower, frame: FrameType, strand: int, lines: dict[int, _Line]) -> None:
        self._follower, self._strand, self._lines = follower, strand, lines
        self._at = 0
        flags = frame.f_code.co_flags
        self._is_kept, self._awaits = bool(flags & _KEPT), bool(flags & _AWAITS)
        self._bytes = frame.f_code.co_code if self._is_kept else b""

    def begin(self, frame: FrameType) -> None:
        """Note what the function is given, as of the line that calls it."""
        code, back = frame.f_code, frame.f_back
        own = back is not None and self._follower.files.get(back.f_code.co_filename)
        if self._is_kept and _goes_on(self._bytes, frame.f_lasti):
            self._at = frame.f_lineno  # the line that waited goes on: it sets something now
            return
        names = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
        given = frame.f_locals if names else {}
        value = 0
        for name in names:
            if not name.startswith("."):
                value = form(given.get(name), value, 0)  # what a list has is seen where something is taken of it
        if own and back is not None:
            line = self._follower.lines(back.f_code).get(back.f_lineno or 0)
        else:
            line = self._lines.get(code.co_firstlineno)
        if line is not None:
            self._follower.note(self._strand, line.place, value)

    def next(self, frame: FrameType, event: str, argument: Any) -> Any:
        """Note a line that was executed: a trace function."""
        if self._follower.left <= 0:
            return None
        try:
            self._next(frame, event, argument)
        except BaseException:  # as in ``called``
            self._follower.cut()
            raise
        return self.next

    def _next(self, frame: FrameType, event: str, argument: Any) -> None:
        if event == "line":
            if self._at:
                self._done(frame)
            self._at = frame.f_lineno
        elif event == "return":
            # Whether an await lets others come first, and how often, is no step: what it gives is.
            if self._at and not (self._awaits and _waits(self._bytes, frame.f_lasti)):
                self._done(frame, (argument,))
            self._at = 0
        elif event == "exception":
            line = self._lines.get(frame.f_lineno)
            kind = argument[0]
            if line is not None and kind not in (StopIteration, StopAsyncIteration, GeneratorExit):
                self._follower.note(self._strand, line.place, crc32(kind.__qualname__.encode("utf-8", "replace")))

    def _done(self, frame: FrameType, given_back: tuple[Any, ...] = ()) -> None:
        line = self._lines.get(self._at)
        if line is None:
            return
        value = 0
        if line.names or line.attributes:
            known = frame.f_locals
            for name in line.names:
                value = form(known.get(name, frame.f_globals.get(name)), value)
            for name in line.attributes:
                for owner in (*known.values(),)[:_ITEMS]:
                    value = form(_attributes(owner).get(name), value)
        read = line.containers
        if not (line.names or line.attributes or read or line.begins):  # what is printed, say
            read = line.loaded
        if read:
            known = frame.f_locals
            for first, *names in read:
                value = _contained(known.get(first, frame.f_globals.get(first)), names, value)
        for each in given_back:
            value = form(each, value)
        self._follower.note(self._strand, line.place, value)


def _goes_on(code: bytes, last: int) -> bool:
    """Whether a frame that is called was so before, and waited; ``last``: where its code is."""
    if last < 0:
        return False
    if _RESUME is None:  # before 3.11
        return True
    return code[last] == _RESUME and bool(code[last + 1] & 3)


def _waits(code: bytes, last: int) -> bool:
    """Whether a frame that is left goes on later."""
    return last >= 0 and code[last] in _YIELDS


def _attributes(owner: Any) -> dict[str, Any]:
    try:
        found = object.__getattribute__(owner, "__dict__")
    except Exception as error:  # it has none, or its type does not say
        if is_programs(error):
            raise
        return {}
    return found if type(found) is dict else {}


def _contained(owner: Any, names: list[str], value: int) -> int:
    """Return a digest of a number, a text, a list, a set or a dictionary that attributes lead to."""
    for name in names:
        owner = _attributes(owner).get(name)
    return form(owner, value, 2) if type(owner).__name__ in _CONTAINED else value


def form(value: Any, before: int = 0, depth: int = _DEPTH) -> int:
    """Return a digest of a value, with one before it: what other runs have too if it is the same."""
    try:
        for part in _parts(value, depth):
            before = crc32(part, before)
    except Exception as error:  # it changes meanwhile, or is not what its type says
        if is_programs(error):
            raise
        return crc32(b"?", before)
    return before


def _parts(value: Any, depth: int) -> Iterator[bytes]:
    kind = type(value)
    name = kind.__name__
    yield name.encode("utf-8", "replace")
    if kind is int:
        yield b"%x" % value if value.bit_length() <= _BITS else b"%x" % hash(value)
    elif kind in _PLAIN:
        yield repr(value).encode()
    elif kind is str:
        yield b"%d " % len(value) + value[:_TEXT].encode("utf-8", "surrogatepass")
    elif kind in (bytes, bytearray):
        yield b"%d " % len(value) + bytes(value[:_TEXT])
    elif depth <= 0:
        return
    elif sequence := next((each for each in (list, tuple, deque) if issubclass(kind, each)), None):
        count = sequence.__len__(value)
        yield b"%d" % count
        for each in _ends(sequence.__iter__(value), _reversed_of(sequence, value), count):
            yield b"%x" % form(each, 0, depth - 1)
    elif issubclass(kind, dict):
        count = dict.__len__(value)
        yield b"%d" % count
        for key in _ends(dict.__iter__(value), dict.__reversed__(value), count):
            yield b"%x" % form(key, form(dict.get(value, key), 0, depth - 1), depth - 1)
    elif kind in (set, frozenset):
        members = list(value) if len(value) <= _MEMBERS else []
        yield b"%d %x" % (len(value), sum(form(each, 0, depth - 1) for each in members))
    elif (module := kind.__module__.partition(".")[0]) in _KNOWN:
        yield _known(value, module)
    elif kind in _CALLABLE:
        yield value.__qualname__.encode("utf-8", "replace")
        owner = value.__self__ if kind is MethodType else None
        if owner is not None:
            yield b"%x" % form(owner, 0, depth - 1)
    else:
        texts = [(key, each) for key, each in list(_attributes(value).items()) if type(each) is str]
        for key, each in texts[:_ATTRIBUTES]:
            yield f"{key}={each[:_TEXT]}".encode("utf-8", "surrogatepass")


def _reversed_of(sequence: Any, value: Any) -> Iterator[Any]:
    """Return the items of a list, tuple or deque from its end, whatever its class makes of them."""
    if sequence is tuple:
        return iter(tuple.__getitem__(value, slice(-1, -1 - _LAST, -1)))
    found: Iterator[Any] = sequence.__reversed__(value)
    return found


def _ends(front: Iterator[Any], back: Iterator[Any], count: int) -> Iterator[Any]:
    """Yield all of what has few items, and else the first ones and the last ones."""
    if count <= _ITEMS + _LAST:
        yield from front
        return
    yield from islice(front, _ITEMS)
    yield from islice(back, _LAST)


def _known(value: Any, module: str) -> bytes:
    """Return the content of a value of a library whose methods call no code of the program."""
    if module == "numpy":
        if value.dtype.hasobject:
            return repr(getattr(value, "shape", ())).encode()
        return bytes(value.ravel()[: _ARRAY // max(1, value.dtype.itemsize)].tobytes())
    if module == "pathlib":
        return str(value).encode("utf-8", "surrogatepass")
    return repr(value).encode("utf-8", "replace")
