"""Opens a file by what its first bytes are; what it cannot open counts by its bytes."""

from __future__ import annotations

import re
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import msgspec

from envbuild.core.fs import read_foreign
from envbuild.verification.content.canonical import (
    DEPTH,
    FILE,
    FURTHER,
    UNPACKED,
    Canonical,
    Content,
    Identities,
    Leaves,
    Texts,
    TooMuchError,
    UnreadableError,
    Wholes,
)
from envbuild.verification.content.database import is_index_of_log, is_log, read_database
from envbuild.verification.content.documents import read_text
from envbuild.verification.content.formats import format_of, is_database, is_text
from envbuild.verification.content.json_texts import parsed
from envbuild.verification.content.lance import is_manifest as is_lance
from envbuild.verification.content.lance import may_have_files
from envbuild.verification.content.lance import read_manifest as read_lance
from envbuild.verification.content.mlflow import metric_of, read_metric
from envbuild.verification.content.names import CACHE, CACHED
from envbuild.verification.content.ocdbt import NAME as MANIFEST
from envbuild.verification.content.ocdbt import is_manifest, read_manifest
from envbuild.verification.content.rolling_logs import PLACE, limits, may_roll, older_files
from envbuild.verification.content.snakemake import is_log as is_log_of_snakemake
from envbuild.verification.content.snakemake import read_log as read_log_of_snakemake
from envbuild.verification.content.stage_locks import is_stage_lock, without_digests
from envbuild.verification.content.trackers import COUNTERS, is_operations, read_operations
from envbuild.verification.content.values import names_identity
from envbuild.verification.masking.doubtful import last_key
from envbuild.verification.masking.masks import Masks

_SEARCHED = 4 << 30
"""Bytes that are looked through for names, as often as there are names."""
_OF_LOGS = ("-wal", "-shm")
"""Ends of the names that SQLite gives a database's write-ahead log, and its index."""


def read_file(path: Path, masks: Masks) -> Content | None:
    """Open a file that a program left; None if it is no plain file, too large, or of no format that is opened.

    A write-ahead log of SQLite means the database next to it, with what is in the log; the log's index means nothing.
    In a lock of a pipeline digests of files next to it are replaced by their names.
    The newest file of a log that begins new ones when one is full means all of them.
    A manifest of a database of TensorStore means the database, whose other files are its parts; so does the database of
    a cache of diskcache, whose files have the large values.
    """
    data = read_foreign(path, FILE)
    if data is None:
        return None
    if path.name == MANIFEST and is_manifest(data):
        return _content(masks, lambda out: read_manifest(out, path.parent, data, _nested(0)))
    if is_lance(path, data):
        return _content(masks, lambda out: read_lance(out, path.parent, data))
    if path.name == CACHE and is_database(data):
        return _content(masks, lambda out: _of_cache(out, path, data))
    if is_log_of_snakemake(path):
        return _content(masks, lambda out: read_log_of_snakemake(out, data))
    if metric := metric_of(path):
        content = _content(masks, lambda out: read_metric(out, metric, data))
        if content is not None:
            return content
    if is_operations(data):
        return _content(masks, lambda out: _of_operations(out, path, data))
    if path.name.endswith(_OF_LOGS) and (is_log(data) or is_index_of_log(data)):
        database = read_foreign(path.with_name(path.name[: -len(_OF_LOGS[0])]), FILE)
        if database is not None and is_database(database):
            return _content(masks, lambda out: _of_log(out, data, database))
    if is_stage_lock(path) and is_text(data):
        return _content(masks, lambda out: _opened(out, "", without_digests(out, path.parent, data), 0))
    if may_roll(path) and (log := _of_rolling_log(path, data, masks)) is not None:
        return log
    content = read(data, masks)
    return content if content is not None else _with_own_names(data, masks)


def _of_rolling_log(path: Path, data: bytes, masks: Masks) -> Content | None:
    """Return what is in all files of a log; None if sizes do not show that it is one."""
    files = [*older_files(path), data]
    if len(files) < 2 or not all(map(is_text, files)) or any(map(_is_document, files)):
        return None
    least, most = limits(files)
    if least > most:
        return None

    def opened(out: Canonical) -> frozenset[str]:
        out.leave_out_line(PLACE, " ".join(str(len(each)) for each in files))
        _opened(out, "", b"".join(files), 0)
        return frozenset(f"{path.name}.{number}" for number in range(1, len(files)))

    content = _content(masks, opened)
    return msgspec.structs.replace(content, rolls=(least, most)) if content is not None else None


def _with_own_names(data: bytes, masks: Masks) -> Content | None:
    """Return data of no format that is opened without the names of the run's files in it; None if it has none.

    TileDB has that of a schema in each fragment. What a name is for is compared itself, under the name for all runs.
    """
    known = masks.own_names() if b"\0" in data else {}
    if len(known) * len(data) > _SEARCHED:
        return None
    present = sorted((name for name in known if name in data), key=len, reverse=True)
    if not present:
        return None
    names = re.compile(b"(?<![0-9A-Za-z])(?:" + b"|".join(map(re.escape, present)) + b")(?![0-9A-Za-z])")
    out, places = Canonical(masks=masks), [0]
    for found in names.finditer(data):
        out.add(f"byte {places[-1]}", data[places[-1] : found.start()])
        out.add(f"byte {found.start()}", known[found[0]])
        out.leave_out("names of files", found[0], "identity")
        places.append(found.end())
    out.add("the rest", data[places[-1] :])
    return out.result() if len(places) > 1 else None


def _is_document(data: bytes) -> bool:
    """Whether a text is a whole, and no part of a log: numbered copies of documents have such names too."""
    text = data.decode().strip()
    if text[:1] not in ("{", "[") or "\n" not in text:
        return text[:1] == "<"
    try:
        return parsed(text) is not None
    except UnreadableError:
        return True


def _content(masks: Masks, read: Callable[[Canonical], frozenset[str] | None], left: int = UNPACKED) -> Content | None:
    """Return what ``read`` counts, with the paths that it returns as parts; None if it finds the data unreadable."""
    out = Canonical(masks=masks, left=left)
    try:
        parts = read(out)
    except UnreadableError:
        return None
    return msgspec.structs.replace(out.result(), parts=parts or frozenset())


def _of_log(out: Canonical, data: bytes, database: bytes) -> None:
    if is_log(data):
        read_database(out, "", database, _nested(0), data)
    else:
        out.add("", "the index of a write-ahead log")


def has_parts(path: Path) -> bool:
    """Whether a file may be compared together with others next to it, by its name and place."""
    return path.name in (MANIFEST, CACHE) or may_have_files(path) or is_stage_lock(path) or may_roll(path)


def _of_cache(out: Canonical, path: Path, data: bytes) -> frozenset[str]:
    parts: set[str] = set()

    def files(out: Canonical, where: str, name: str) -> bool:
        if CACHED.fullmatch(name) is None or name in parts:
            return False
        file, folder = path.parent / name, path.parent
        data = read_foreign(file, FILE) if file.parent.resolve() == folder.resolve() / Path(name).parent else None
        if data is None:
            return False
        out.spend(len(data))
        parts.add(name)
        out.leave_out(where, name.replace("/", "").removesuffix(".val"), "identity")
        _nested(0)(out, where, data)
        return True

    read_database(out, "", data, _nested(0), files=files)
    return frozenset(parts)


def _of_operations(out: Canonical, path: Path, data: bytes) -> frozenset[str]:
    """Open the log of a run of Neptune, which counts what it noted of the machine too, and so do files next to it."""
    last = str(read_operations(out, "", data, _nested(0))).encode()
    return frozenset(name for name in COUNTERS if read_foreign(path.with_name(name), len(last)) == last)


def read(data: bytes, masks: Masks, *, unpacked: int = UNPACKED) -> Content | None:
    """Return what data mean; None if they are of no format that is opened, damaged, or hold too much.

    Args:
        data: of a whole file.
        masks: of the run that wrote it.
        unpacked: bytes that may come out of all archives in it.
    """
    return _content(masks, lambda out: _opened(out, "", data, 0), unpacked)


def leaves(data: bytes, masks: Masks) -> list[tuple[str, bytes | str]]:
    """Return what counts in data, in its order, each with its name; data of no format that is opened are one entry.

    Measurements that are left out by their names are there with a mark in the place of their value.

    Args:
        data: of a whole file.
        masks: of the run that wrote it.
    """
    out = Leaves(masks=masks)
    try:
        _opened(out, "", data, 0)
    except UnreadableError:
        return [("", data)]
    return out.found


def wholes(data: bytes, masks: Masks) -> list[tuple[str, bytes | str]]:
    """Return what is in data as ``leaves`` does, with the values of measurements, too; none if they are damaged."""
    out = Wholes(masks=masks)
    with suppress(UnreadableError):
        _opened(out, "", data, 0)
    return out.found


def all_texts(data: bytes) -> list[bytes]:
    """Return all values in data of a format that is opened, also what would be left out; of other data none."""
    out = Texts(masks=Masks(0.0, moments=False))
    with suppress(UnreadableError):
        _opened(out, "", data, 0)
    return out.found


def identities(data: bytes, masks: Masks) -> list[tuple[str, str]]:
    """Return place and text of what is left out of data as an identity by the name that it has there, in their order.

    Args:
        data: of a whole file.
        masks: of the run that wrote it.
    """
    out = Identities(masks=masks)
    with suppress(UnreadableError):
        _opened(out, "", data, 0)
    return [(place, text) for place, text in out.found if _names_identity(place)]


def leaves_identities_out(content: Content) -> bool:
    """Whether ``identities`` may find some in a file."""
    return any(place == FURTHER or _names_identity(place) for place in content.left_out)


def _names_identity(place: str) -> bool:
    """Whether the last key of a place is the name of an identity; it may have a dot."""
    return names_identity(last_key(place)) or names_identity(".".join(place.split(".")[-2:]))


def _nested(depth: int) -> Callable[[Canonical, str, bytes], None]:
    def nested(out: Canonical, path: str, data: bytes) -> None:
        """Open data inside a file; those of no known format count by their bytes."""
        if depth >= DEPTH:
            raise TooMuchError("archives in archives in archives")
        if _opens(data):
            try:
                _opened(out, path, data, depth + 1)
            except TooMuchError:
                raise
            except UnreadableError:
                out.add(path, data)
        else:
            out.add(path, data)

    return nested


def _opens(data: bytes) -> bool:
    """Whether data inside a file are of a format that is opened."""
    return format_of(data) is not None or (b"\0" not in data and is_text(data))


def _opened(out: Canonical, path: str, data: bytes, depth: int) -> None:
    known = format_of(data)
    (read_text if known is None else known.read)(out, path, data, _nested(depth))
