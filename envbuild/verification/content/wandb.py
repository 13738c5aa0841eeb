"""What Weights & Biases keeps of a run: its transaction log (``run-ID.wandb``), and the logs of its own work.

Of the former what the program gave it counts: configuration, rows of history, summary, artifacts, metrics, alerts. What
it notes of itself does not: use of the machine, telemetry, names drawn for the run, what was printed, which is compared
by itself. Entries of a row come in any order, and so do records of different kinds. Sources: core/pkg/leveldb/record.go
(blocks as https://github.com/google/leveldb/blob/main/doc/log_format.md has them, behind a head of seven bytes),
wandb/proto/wandb_internal.proto.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Callable, Iterator

from envbuild.core.patterns import lazy
from envbuild.core.tfrecord import fields_of, signed
from envbuild.verification.content.canonical import Canonical, UnreadableError, below

Nested = Callable[[Canonical, str, bytes], None]
"""Opens what is in a value."""
MAGIC = b":W&B"
_HEAD = MAGIC + b"\xe1\xbe\0"
_BLOCK, _RECORD = 32768, 7
_FULL, _FIRST, _MIDDLE, _LAST = 1, 2, 3, 4
_HISTORY, _SUMMARY, _CONFIG, _FILES, _ARTIFACT, _ALERT, _METRIC, _RUN, _EXIT, _USED = 2, 3, 5, 6, 8, 10, 12, 17, 18, 25
_OF_ITSELF = frozenset((1, 4, 7, 11, 13, 16, 19, 20, 21, 22, 23, 24, 26, 27, 100, 200))
"""Fields of a ``Record``: numbers, output, statistics, telemetry, ends, versions, the environment, requests."""
_OF_RUN = {3: "project", 6: "group", 7: "job type", 8: "name", 9: "notes", 10: "tag", 12: "sweep"}
_OF_ARTIFACT = {4: "type", 5: "name", 6: "digest", 7: "description", 8: "metadata", 11: "alias", 19: "tag"}
_ARTIFACT_TYPE, _ARTIFACT_NAME, _DIGEST, _BY_USER, _MANIFEST, _ENTRY = 4, 5, 6, 9, 12, 4
_OF_ENTRY = {1: "path", 2: "digest", 3: "reference", 4: "size"}
_OF_USED = {2: "type", 3: "name"}
_OF_ALERT = {1: "title", 2: "text", 3: "level"}
_KEY, _NESTED_KEY, _VALUE = 1, 2, 16
_UPDATE, _REMOVE = 1, 2
_LIBRARY = "_wandb"
"""The key of what the library notes of itself in configuration, history and summary."""
_LINE = lazy(
    rb"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3} [A-Z]+ +[\w-]+:\d+ \[(?:wandb_\w+|retry|redirect|router\w*|sock_client"
    rb"|interface\w*|service\w*|mailbox\w*|sentry|git\w*|settings|system_\w+|progress|login|internal\w*|handler|sender"
    rb"|writer)\.py:\w+\(\):\d+\] "
    rb"|\{\"time\":\"[\d:T.Z+-]+\",\"level\":\"[A-Z]+\",\"msg\":\""
)
_BEGIN = lazy(
    rb"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3} [A-Z]+ +[\w-]+:\d+ \[wandb_\w+\.py:|\{\"time\":\"[\d:T.Z+-]+\",\"level\":"
    rb"\"[A-Z]+\",\"msg\":\"(?:wandb-core|main: starting server|stream: starting)\""
)


def is_log(data: bytes) -> bool:
    """Whether data begin as the library's log of its own work does, in Python or in its server."""
    return _BEGIN.match(data) is not None


def read_log(out: Canonical, path: str, data: bytes, nested: Nested) -> None:
    """Count what are no messages of the library: rests of those of several lines, such as the configuration."""
    out.add(path, "a log of Weights & Biases")
    rest = b"".join(line for line in data.splitlines(keepends=True) if _LINE.match(line) is None)
    if rest:
        nested(out, path, rest)
    out.leave_out(path, data, "log")


def read_transactions(out: Canonical, path: str, data: bytes, nested: Nested) -> None:
    """Read a transaction log; one that was not closed has no whole last record and counts by its bytes."""
    run = _Run()
    try:
        for record in _records(data):
            run.take(record)
    except (ValueError, IndexError) as error:
        raise UnreadableError(f"a damaged transaction log: {error}") from None
    run.add(out, path, nested)


def _records(data: bytes) -> Iterator[bytes]:
    place, parts = len(_HEAD), list[bytes]()
    if not data.startswith(_HEAD):
        raise ValueError("another version")
    while place < len(data):
        left = _BLOCK - place % _BLOCK
        if left < _RECORD:
            place += left
            continue
        size, kind = int.from_bytes(data[place + 4 : place + 6], "little"), data[place + 6]
        expected = int.from_bytes(data[place : place + 4], "little")
        body = data[place + _RECORD : place + _RECORD + size]
        if len(body) != size or size > left - _RECORD or zlib.crc32(bytes([kind]) + body) != expected:
            raise ValueError("a record with another sum")
        if (kind in (_FULL, _FIRST)) == bool(parts) or kind not in (_FULL, _FIRST, _MIDDLE, _LAST):
            raise ValueError("parts of records in another order")
        parts.append(body)
        if kind in (_FULL, _LAST):
            yield b"".join(parts)
            parts = []
        place += _RECORD + size
    if parts:
        raise ValueError("a record without an end")


class _Run:
    """What the records of a run say."""

    def __init__(self) -> None:
        self.history: list[tuple[int | None, dict[str, str]]] = []
        self.config: dict[str, str] = {}
        self.summary: dict[str, str] = {}
        self.names: dict[str, list[str]] = {}
        self.files: set[str] = set()
        self.others: list[tuple[str, bytes]] = []

    def take(self, record: bytes) -> None:
        """Note a ``Record``."""
        for number, value in fields_of(record):
            if number in _OF_ITSELF:
                continue
            if not isinstance(value, bytes):
                raise ValueError("a number in the place of a message")
            self._take(number, value)

    def _take(self, number: int, value: bytes) -> None:
        if number == _HISTORY:
            row: dict[str, str] = {}
            _update(row, value)
            steps = [each for part, each in fields_of(value) if part == _REMOVE and isinstance(each, bytes)]
            self.history.append((next((_number(step) for step in steps), None), row))
        elif number == _SUMMARY:
            _update(self.summary, value, removes=True)
        elif number == _CONFIG:
            _update(self.config, value, removes=True)
        elif number == _RUN:
            for part, each in fields_of(value):
                if part == 4 and isinstance(each, bytes):
                    _update(self.config, each, removes=True)
                elif part == 5 and isinstance(each, bytes):
                    _update(self.summary, each, removes=True)
            self._name("run", value, _OF_RUN)
        elif number == _ARTIFACT:
            self._artifact(f"artifact {len(self.names)}", value)
        elif number == _USED:
            self._name(f"used artifact {len(self.names)}", value, _OF_USED)
        elif number == _ALERT:
            self._name(f"alert {len(self.names)}", value, _OF_ALERT)
        elif number == _EXIT:
            self.names["exit"] = [str(each) for part, each in fields_of(value) if part == 1]
        elif number == _FILES:
            files = (dict(fields_of(each)) for part, each in fields_of(value) if part == 1 and isinstance(each, bytes))
            self.files |= {_text(path) for each in files if isinstance(path := each.get(1), bytes)}
        elif number == _METRIC:
            kept = [(part, each) for part, each in fields_of(value) if part not in (9, 200)]
            self.others.append(("metric", repr(kept).encode()))
        else:
            self.others.append((f"record {number}", value))

    def _name(self, what: str, value: bytes, known: dict[int, str]) -> None:
        """Note texts of a message under the names of its fields; of several messages of a run the last."""
        found = [(known[part], each) for part, each in fields_of(value) if part in known]
        new = {name for name, _ in found}
        kept = [text for text in self.names.get(what, ()) if text.partition(":")[0] not in new]
        self.names[what] = [*kept, *(f"{name}: {_shown(each)}" for name, each in found)]

    def _artifact(self, what: str, value: bytes) -> None:
        """Note an artifact by its files, as far as they are known: its digest is of their names, also drawn ones."""
        manifests = [each for number, each in fields_of(value) if number == _MANIFEST and isinstance(each, bytes)]
        entries = [
            ", ".join(f"{name} {_shown(dict(fields_of(entry)).get(part, ''))}" for part, name in _OF_ENTRY.items())
            for manifest in manifests
            for number, entry in fields_of(manifest)
            if number == _ENTRY and isinstance(entry, bytes)
        ]
        fields = [*fields_of(value)]
        of_table = (_BY_USER, 1) not in fields and (_ARTIFACT_TYPE, b"run_table") in fields
        drawn = {_ARTIFACT_NAME} if of_table else set()
        left = drawn | ({_DIGEST} if entries else set())
        known = {part: name for part, name in _OF_ARTIFACT.items() if part not in left}
        self._name(what, value, known)
        self.names[what] += sorted(entries)

    def add(self, out: Canonical, path: str, nested: Nested) -> None:
        """Count it."""
        out.add(path, "a transaction log of Weights & Biases")
        for what, table in (("config", self.config), ("summary", self.summary)):
            nested(out, below(path, what), _json(table))
        for at, (step, row) in enumerate(self.history, 1):
            where = below(path, f"history[{at}]")
            out.add(where, f"step {step}")
            nested(out, where, _json(row))
        for what, texts in self.names.items():
            for text in texts:
                for line in text.splitlines() or [text]:
                    out.text(below(path, what), line)
        for name in sorted(self.files):
            out.text(below(path, "files"), name)
        for what, data in sorted(self.others):
            out.add(below(path, what), data)


def _update(table: dict[str, str], message: bytes, *, removes: bool = False) -> None:
    """Put the items of a message into a table: keys, nested ones as lists, and values in JSON."""
    for number, item in fields_of(message):
        if number not in (_UPDATE, _REMOVE) or not isinstance(item, bytes) or (number == _REMOVE and not removes):
            continue
        found = [*fields_of(item)]
        keys = [
            _text(value) for part, value in found if part in (_KEY, _NESTED_KEY) and value and isinstance(value, bytes)
        ]
        key = keys[0] if len(keys) == 1 else json.dumps(keys)
        if keys and keys[0].partition(".")[0] == _LIBRARY:
            continue
        if number == _REMOVE:
            table.pop(key, None)
        else:
            values = [_text(value) for part, value in found if part == _VALUE and isinstance(value, bytes)]
            table[key] = values[-1] if values else "null"


def _number(step: bytes) -> int:
    return next((signed(value) for part, value in fields_of(step) if part == 1 and isinstance(value, int)), 0)


def _shown(value: int | bytes | str) -> str:
    return _text(value) if isinstance(value, bytes) else str(value)


def _text(data: bytes) -> str:
    return data.decode("utf-8", "backslashreplace")


def _json(table: dict[str, str]) -> bytes:
    """Return a table as JSON, its values as they are."""
    return ("{" + ", ".join(f"{json.dumps(key)}: {table[key]}" for key in sorted(table)) + "}").encode()
