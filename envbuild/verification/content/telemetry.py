"""What tools note about a run: metrics in Prometheus' text format, traces of events, profiles of functions."""

from __future__ import annotations

import re
import struct
from typing import Any

from envbuild.core.patterns import lazy
from envbuild.verification.content import values
from envbuild.verification.content.canonical import Canonical, UnreadableError
from envbuild.verification.content.cursor import Cursor
from envbuild.verification.masking.masks import moment_of

_DECLARED = lazy(r"# (?:HELP|TYPE) [a-zA-Z_:][\w:]* .*")
_SAMPLE = lazy(r'([a-zA-Z_:][\w:]*)(\{(?:[^"}]|"(?:[^"\\]|\\.)*")*\})?[ \t]+(\S+)(?:[ \t]+(-?\d+(?:\.\d+)?))?')
_DERIVED = lazy(r"_(?:total|sum|bucket|created)$")
"""What Prometheus' clients put behind a name; a ``_count`` is how often something happened, which is a result."""


def read_metrics(out: Canonical, path: str, text: str) -> bool:
    """Read a text in Prometheus' or OpenMetrics' format; False, and nothing is counted, for other texts.

    Source: prometheus.io, "Exposition formats".
    """
    found: list[tuple[str, re.Match[str] | None]] = []
    for line in text.splitlines():
        sample = None if line.startswith("#") or not line.strip() else _SAMPLE.fullmatch(line.strip())
        if sample is None and line.strip() and not line.startswith("#"):
            return False
        if sample is not None and _value(sample[3]) is None:
            return False
        found.append((line, sample))
    if not any(_DECLARED.fullmatch(line) for line, _ in found):
        return False
    for line, sample in found:
        if sample is None:
            out.add(path, line)
            continue
        name, labels, number, moment = sample.groups()
        where = f"{path} {name}{out.masks.mask(labels or '').text}".strip()
        values.number(out, where, _DERIVED.sub("", name), _value(number) or 0.0, number)
        if moment is not None:
            if out.is_moment(moment_of(float(moment))):
                out.leave_out(f"{where} timestamp", moment, "time")
            else:
                out.add(f"{where} timestamp", moment)
    return True


def _value(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None


SPENT = frozenset(("ts", "dur", "tts", "tdur"))
"""Keys of an event that are times: when it began and how long it took, by the clock and by the CPU."""
OWNERS = frozenset(("pid", "tid"))
OF_TRACE = {"baseTimeNanoseconds": "time", "trace_id": "identity"}
"""Keys that PyTorch's profiler (Kineto) puts next to the events."""


def is_trace(table: Any) -> bool:
    """Whether a JSON value is a trace of events: ``Trace Event Format``, as Chrome and PyTorch's profiler write it."""
    events = table.get("traceEvents") if isinstance(table, dict) else table
    return isinstance(events, list) and bool(events) and all(is_event(each) for each in events)


_OF_PROFILERS = frozenset(("schemaVersion", "deviceProperties", "baseTimeNanoseconds", "viztracer_metadata"))
"""Keys next to the events, of PyTorch's profiler and VizTracer."""
_CATEGORIES = frozenset((
    "cpu_op", "kernel", "user_annotation", "gpu_memcpy", "gpu_memset", "cuda_runtime", "python_function", "ac2g",
    "Trace", "Session", "Node", "Api", "FEE", "Op", "operator",
))  # fmt: skip
"""Categories of events by profilers: Kineto's, ONNX Runtime's, VizTracer's, MXNet's."""
_SIMULATED = 10**9
"""Microseconds that a schedule of a simulation is below; what counts from 1970 or the machine's start is above it."""


def may_be_schedule(table: Any) -> bool:
    """Whether the times in a trace may be results: a scheduler's, which begins at zero and counts in whole numbers.

    Profilers that measure are known by what they note besides.
    """
    if isinstance(table, dict) and (
        not _OF_PROFILERS.isdisjoint(table) or "highres-ticks" in str(table.get("metadata"))
    ):
        return False
    events = table["traceEvents"] if isinstance(table, dict) else table
    moments = [str(getattr(each.get("ts"), "text", "")) for each in events if each["ph"] != "M"]
    return all(each.get("cat") not in _CATEGORIES for each in events if isinstance(each.get("cat"), str)) and any(
        _is_below(text, _SIMULATED) for text in moments
    )


def _is_below(text: str, limit: float) -> bool:
    try:
        return 0 <= float(text) < limit
    except ValueError:
        return False


_PHASES = frozenset("BEXiICnbeSTpFstfPNODMVvRcaj(),")
"""Letters of an event's phase (``ph``). Source: "Trace Event Format", section "Event Descriptions"."""


def is_event(value: Any) -> bool:
    """Whether a JSON value is one of a trace's events: samples of water have a ``ph`` too."""
    return (
        isinstance(value, dict)
        and isinstance(value.get("ph"), str)
        and value["ph"] in _PHASES
        and "name" in value
        and ("ts" in value or value["ph"] == "M")
    )


_ARGUMENTS, _OF_THREADS = "args", "thread_scheduling_stats"
_THREADS = frozenset(("main_thread", "sub_threads"))


def without_chance(event: dict[str, Any]) -> tuple[dict[str, Any], Any]:
    """Return an event with its arguments by name, and what ONNX Runtime notes in them of the threads of its pool.

    The arguments are a map, which ONNX Runtime writes in an order of its own in each process. Of threads it notes what
    each of them did and how long it waited, under numbers that are addresses (onnxruntime/core/platform/threadpool.h,
    ``ThreadPoolProfiler``). The second is None where there is no such note.
    """
    arguments = event.get(_ARGUMENTS)
    if not isinstance(arguments, dict):
        return event, None
    left = dict(sorted(arguments.items()))
    threads = left.get(_OF_THREADS)
    if isinstance(threads, dict) and threads.keys() == _THREADS and event.get("cat") == "Node":
        left[_OF_THREADS] = None
    else:
        threads = None
    return {**event, _ARGUMENTS: left}, threads


_DEPTH = 8
_PARTS = 2_000_000
_KEYWORDS: dict[bytes, Any] = {b"N": None, b"T": True, b"F": False}
_TEXTS = {b"a": 4, b"A": 4, b"u": 4, b"t": 4, b"s": 4, b"z": 1, b"Z": 1}


class _Marshalled(Cursor):
    """Reads what ``marshal`` wrote of tuples, dictionaries, texts and numbers; everything else is refused.

    Python's own reader is not made for damaged data. Source: CPython, Python/marshal.c.
    """

    def __init__(self, data: bytes) -> None:
        super().__init__(data, _PARTS)
        self._known: list[Any] = []

    def whole(self) -> Any:
        """Return the value; raises ``UnreadableError`` if there is anything else."""
        found = self.value(0)
        if self._at != len(self._data):
            raise UnreadableError("something behind the end")
        return found

    def value(self, depth: int) -> Any:
        """Return the next value; ``...`` for the end of a dictionary."""
        self._left -= 1
        if depth > _DEPTH or self._left < 0:
            raise UnreadableError("nested too deep, or too many parts")
        code = self._take(1)[0]
        kind, keep = bytes((code & 0x7F,)), bool(code & 0x80)
        if kind == b"0":
            return ...
        if kind == b"r":
            (place,) = struct.unpack("<I", self._take(4))
            if place >= len(self._known) or self._known[place] is ...:
                raise UnreadableError("a reference to nothing")
            return self._known[place]
        if keep:
            self._known.append(...)
        at = len(self._known) - 1
        found = self._plain(kind, depth)
        if keep:
            self._known[at] = found
        return found

    def _plain(self, kind: bytes, depth: int) -> Any:
        if kind in _KEYWORDS:
            return _KEYWORDS[kind]
        if kind == b"i":
            return struct.unpack("<i", self._take(4))[0]
        if kind == b"g":
            return struct.unpack("<d", self._take(8))[0]
        if kind == b"l":
            (digits,) = struct.unpack("<i", self._take(4))
            data = struct.unpack(f"<{abs(digits)}H", self._take(2 * abs(digits)))
            number = sum(digit << (15 * place) for place, digit in enumerate(data[:100]))
            return -number if digits < 0 else number
        if kind in _TEXTS:
            size = int.from_bytes(self._take(_TEXTS[kind]), "little")
            return self._take(size).decode("utf-8", "surrogateescape")
        if kind in (b"(", b")"):
            size = int.from_bytes(self._take(4 if kind == b"(" else 1), "little")
            if size > len(self._data) - self._at:
                raise UnreadableError("a tuple beyond the end")
            return tuple(self._part(depth) for _ in range(size))
        if kind == b"{":
            pairs = []
            while (key := self.value(depth + 1)) is not ...:
                pairs.append((key, self._part(depth)))
            return _Pairs(pairs)
        raise UnreadableError("of a kind that no profile has")

    def _part(self, depth: int) -> Any:
        found = self.value(depth + 1)
        if found is ...:
            raise UnreadableError("an end in the middle")
        return found


class _Pairs(list[tuple[Any, Any]]):
    """A dictionary as a list."""


def is_profile(data: bytes) -> bool:
    """Whether data begin like what ``cProfile`` dumps: a marshalled dictionary whose first key is a tuple."""
    return len(data) > 2 and data[0] & 0x7F == 0x7B and data[1] & 0x7F in (0x28, 0x29) and data[-1:] == b"0"


def read_profile(out: Canonical, path: str, data: bytes) -> None:
    """Read what ``cProfile`` dumped: functions and how often each called which; the times that it took are left out.

    Functions come in the order of their addresses, so that they are sorted here. Source: Lib/cProfile.py and
    Lib/pstats.py. Raises ``UnreadableError`` if it is no such file.
    """
    table = _Marshalled(data).whole()
    if not isinstance(table, _Pairs):
        raise UnreadableError("no profile")
    functions = []
    for function, stats in table:
        name = _function(out, function)
        if not isinstance(stats, tuple) or len(stats) != 5 or not isinstance(stats[4], _Pairs):
            raise UnreadableError("no profile")
        callers = sorted((_function(out, caller), *_calls(found)) for caller, found in stats[4])
        functions.append((name, _calls(stats[:4]), callers))
    for name, calls, callers in sorted(functions):
        where = f"{path} {name}".strip()
        out.add(where, f"calls {calls[0]}")
        out.leave_out(where, calls[1], "time")
        for caller, counts, spent in callers:
            out.add(f"{where} from {caller}", f"calls {counts}")
            out.leave_out(where, spent, "time")


def _function(out: Canonical, found: Any) -> str:
    if not isinstance(found, tuple) or [type(part) for part in found] != [str, int, str]:
        raise UnreadableError("no profile")
    return out.masks.mask("{}:{} {}".format(*found)).text


def _calls(found: Any) -> tuple[str, str]:
    """Return the counts of calls, and the times they took."""
    if not isinstance(found, tuple) or [type(part) for part in found] != [int, int, float, float]:
        raise UnreadableError("no profile")
    return f"{found[0]} {found[1]}", f"{found[2]!r} {found[3]!r}"
