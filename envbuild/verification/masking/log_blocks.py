"""What libraries log, or not, by the clock, in several lines: an error of a part of themselves with its stack.

Prefect's server, which a flow starts for itself, reports home while the flow begins; whether that finds the network, or
the database locked, is luck (``prefect/server/services/telemetry.py``). XGBoost's workers write which of them got which
rank at the same time to the same stream, so that two lines may be one, and an empty one be behind it
(``xgboost/dask/__init__.py``). pyinstrument prints what it saw when it looked, so many times a second
(``pyinstrument/renderers/console.py``), memory_profiler what each line took, pytorch-ignite what its handlers did
(``ignite/handlers/time_profilers.py``). DuckDB returns the profile of a query as JSON.
"""

from __future__ import annotations

from envbuild.core.patterns import lazy

_HEAD = lazy(
    r"\d\d:\d\d:\d\d\.\d{3} \| (?:ERROR|WARNING) +\| (?:prefect\.server\.services\.telemetry - Failed to send telemetry"
    r"|docket\.\w+ - ↩ \[ *\d+m?s\] send_telemetry_heartbeat\()"
)
_STACK = lazy(r"(?:Traceback|\s+\+ Exception Group Traceback) \(most recent call last\):\s*$")
_ERROR = lazy(r"[A-Za-z_][\w.]*(?:Error|Exception)(?:: | \(|$)")
_CHAINED = lazy(r"(?:The above|During handling of the above) exception")
_STATEMENT, _STATEMENT_END = lazy(r"\[(?:SQL|parameters): .*[^\]\s]\s*$"), lazy(r"\s.*\]\s*$")
_DETAILS = lazy(r"\[SQL: |\[parameters: |\(Background on this error at: ")
_NEXT_OF_BLOCK = {
    "said": (
        (_STACK, "stack"),
        (_CHAINED, "chained"),
        (_STATEMENT, "statement"),
        (_DETAILS, "said"),
        (lazy(r"\s*$"), "said"),
    ),
    "statement": ((_STATEMENT_END, "said"), (lazy(r"\s"), "statement")),
    "stack": ((_STACK, "stack"), (lazy(r"\s"), "stack"), (_ERROR, "said")),
    "chained": ((_STACK, "stack"), (_ERROR, "said"), (lazy(r"\s*$"), "chained")),
}
"""Lines of stacks as Python and SQLAlchemy write them, by what came before: indented ones are those of a stack, or of a
statement that goes on. All others are the program's."""
_RANK = r"\[\d\d:\d\d:\d\d\] Task \[xgboost\.dask-\d+\]:[a-z]+://[\w.:-]+:\d+ got rank \d+"
_RANKS = lazy(rf"(?:{_RANK})+\s*")


class LogBlocks:
    """Finds such lines of a stream, which are given one by one."""

    def __init__(self) -> None:
        self._part = ""
        self._ends = 0

    def has(self, line: str) -> bool:
        """Whether a line belongs to such a block."""
        if _RANKS.fullmatch(line) is not None:
            self._part = ""
            self._ends += line.count(" got rank ") - 1
            return True
        if not line and self._ends:
            self._ends -= 1
            return True
        if _HEAD.match(line) is not None:
            self._part = "said"
        elif self._part:
            following = _NEXT_OF_BLOCK[self._part]
            self._part = next((part for pattern, part in following if pattern.match(line) is not None), "")
        return bool(self._part)


_OF_SAMPLES = lazy(r"  _     \._   __/__   _ _  _  _ _/_   Recorded: [\d:]+  Samples: +\d+\s*")
_BANNER = lazy(r" /_//_///.*Duration: [\d.]+ +CPU time: [\d.]+\s*|/   _/ +v\d\S*\s*|\s*")
_NAMED = lazy(r"(?:Profile at|Program:) .*")
_ROOT, _FRAME = (
    lazy(r"\d+\.\d+ \S.*"),
    lazy(r"[ │|]*(?:[├└]─ |[|`]- | {6})\d+\.\d+ \S.*|[ │|]{3,}\[\d+ frames? hidden\].*"),
)
_NEXT = {"banner": "named", "named": "root", "root": "root"}


class Samples:
    """Finds the lines of a profile of pyinstrument in a stream, which are given one by one."""

    def __init__(self) -> None:
        self._part = ""

    def has(self, line: str) -> bool:
        """Whether a line belongs to such a profile: its banner, what was profiled, and the tree of frames."""
        if _OF_SAMPLES.fullmatch(line) is not None:
            self._part = "banner"
            return True
        if not self._part:
            return False
        wanted = {"banner": _NAMED, "named": _ROOT, "root": _FRAME}[self._part]
        if wanted.fullmatch(line) is not None:
            self._part = _NEXT[self._part]
            return True
        if self._part == "banner" and _BANNER.fullmatch(line) is not None:
            return True
        if self._part == "named" and not line.strip():
            return True
        self._part = ""
        return False


_HEADINGS = lazy(r"Line # +Mem usage +Increment +Occurrences +Line Contents\s*")
_RULE = lazy(r"={20,}\s*")
_USED = lazy(r"( +\d+ +)-?\d+\.\d+ MiB +-?\d+\.\d+ MiB( +\d+   .*)")
_UNUSED = lazy(r" +\d{1,6}(?: {20,}.*)?")


class MemoryTable:
    """Finds the rows of memory_profiler's tables in a stream, which are given one by one.

    Of a row the line of the source and how often it ran count; what was in use behind it, and what it added, do not. A
    row of that form that is not below such headings is the program's own (``memory_profiler.show_results``).
    """

    def __init__(self) -> None:
        self._part = ""

    def masked(self, line: str) -> str | None:
        """Return a row without its memory; None if the line is no row with some."""
        if _HEADINGS.fullmatch(line) is not None:
            self._part = "headings"
        elif self._part == "headings" and _RULE.fullmatch(line) is not None:
            self._part = "rows"
        elif self._part == "rows" and (found := _USED.fullmatch(line)) is not None:
            return f"{found[1]}⟨memory⟩{found[2]}"
        elif not (self._part == "rows" and _UNUSED.fullmatch(line) is not None):
            self._part = ""
        return None


_OF_IGNITE = lazy(r"\| Time profiling stats \(in seconds\): {17}\|\s*")
_OF_HANDLERS = lazy(r"Handler +Event Name +Total\(s\) +Min\(s\)/IDX +Max\(s\)/IDX +Mean\(s\) +Std\(s\)\s*")
_SECTION = lazy(r"(?:Processing function|Dataflow|Event handlers):\s*|- Events\.[A-Z_]+: \[.*\]\s*")
_BETWEEN = lazy(r"not yet triggered\s*| -+\s*|total  \|  min/index  \|  max/index  \|  mean  \|  std\s*|\s*")
_STATISTICS = lazy(r"\d+\.\d{5}(?: \| \d+\.\d{5}/\d+ \| \d+\.\d{5}/\d+ \| \d+\.\d{5} \| \d+\.\d{5})?\s*")
_SECONDS = r"\d+(?:\.\d+)?(?:e-\d+)?"
_SPENT = lazy(
    rf"(\S.*?  +\S+) +{_SECONDS} +{_SECONDS}/\d+ +{_SECONDS}/\d+ +(?:{_SECONDS}|None) +(?:{_SECONDS}|None)\s*"
    rf"|(Total) {{20,}}{_SECONDS}\s*"
    rf"|(Processing took total|Dataflow took total) {_SECONDS}s \[min/index: {_SECONDS}s/\d+, "
    rf"max/index: {_SECONDS}s/\d+, mean: {_SECONDS}s, std: {_SECONDS}s\]\s*"
)
_UNSPENT = lazy(r"\S.* not triggered +None/None +None/None +None +None\s*|-{4,}(?:  -{4,}){6}\s*")


_LONGEST_ROW = 2000
"""Characters of a row in ignite's tables."""


class HandlerTimes:
    """Finds the times in the two tables of pytorch-ignite in a stream, whose lines are given one by one.

    Handlers, events and which were triggered count. A row of that form that is not behind the line of a section, or
    below the names of the columns, is the program's own.
    """

    def __init__(self) -> None:
        self._part = ""

    def masked(self, line: str) -> str | None:
        """Return a row without its times; None if the line is no row with some."""
        if len(line) > _LONGEST_ROW:
            self._part = ""
        elif _OF_IGNITE.fullmatch(line) is not None:
            self._part = "statistics"
        elif _OF_HANDLERS.fullmatch(line) is not None:
            self._part = "handlers"
        elif self._part == "section" and _STATISTICS.fullmatch(line) is not None:
            self._part = "statistics"
            return "⟨time⟩"
        elif self._part in ("statistics", "section"):
            named = _SECTION.fullmatch(line) is not None
            self._part = "section" if named else "statistics" if _BETWEEN.fullmatch(line) is not None else ""
        elif self._part == "handlers" and (found := _SPENT.fullmatch(line)) is not None:
            return f"{' '.join((found[1] or found[2] or found[3]).split())} ⟨time⟩"
        elif self._part == "handlers" and _UNSPENT.fullmatch(line) is None:
            self._part = ""
        return None


_BEGINNING = ("{", '    "io": {', '        "total_bytes_read": ')
"""The first lines of a profile of DuckDB 2, the third up to its number; no settings of an optimiser begin like that."""
_PART_OF_QUERY = lazy(r' {4}"([a-z_]+)": [\[{]\s*')
_TIME_OF_QUERY = lazy(rf'( {{8,}}"([a-z_]+)": ){_SECONDS}(,?)\s*')
TIMES_OF_QUERY = lazy(
    r"(?:query\.|physical_planner\.|planner\.|optimizer\.|io\.)(?:total_(?:read_|write_)?time|cpu_time|binding_time)"
    r"|(?:optimizer|physical_planner)\.[a-z_]+|system\.blocked_thread_time|operator\.timing"
)
"""Parts of such a profile with the names of times in them."""


class QueryTimes:
    """Finds the times in a profile of DuckDB's in a stream, whose lines are given one by one; all else of it counts."""

    def __init__(self) -> None:
        self._seen = 0
        self._part = ""

    def masked(self, line: str) -> str | None:
        """Return a line without its time; None if it has none."""
        if self._seen < len(_BEGINNING):
            begun = line == _BEGINNING[self._seen] or (self._seen > 1 and line.startswith(_BEGINNING[self._seen]))
            self._seen = self._seen + 1 if begun else int(line == _BEGINNING[0])
            self._part = "io"
        elif not line.startswith("    "):  # its end, or it was not printed whole
            self._seen = int(line == _BEGINNING[0])
        elif (named := _PART_OF_QUERY.fullmatch(line)) is not None:
            self._part = named[1]
        elif (found := _TIME_OF_QUERY.fullmatch(line)) is not None and self._is_time(found[2]):
            return f"{found[1].strip()} ⟨time⟩{found[3]}"
        return None

    def _is_time(self, name: str) -> bool:
        return TIMES_OF_QUERY.fullmatch(f"{self._part}.{name}") is not None
