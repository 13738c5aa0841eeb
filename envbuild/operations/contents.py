"""Opens files that runs left, to compare what they hold; see ``verification.content``."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import replace
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from envbuild.core.digest import sha256_bytes, sha256_file
from envbuild.core.fs import folder_below, read_foreign
from envbuild.record import history

if TYPE_CHECKING:
    from envbuild.operations.run_context import Side
    from envbuild.record.model import Output, Record
    from envbuild.runs.repeat import Repeated
    from envbuild.verification.content import Content
    from envbuild.verification.masking.masks import Masks


_LARGEST = 64 << 20
"""Bytes of the largest file whose places are compared, or that is searched for names."""
_HEAD = 4096
"""Bytes from which it is known whether a file is TensorBoard's."""


def content_of(folder: Path, output: Output, masks: Masks) -> Content | None:
    """Return the content of a file, or of a link: its target's name; None if it is of no format that is opened."""
    from envbuild.verification.content import read_file, read_noted

    if output.bare:
        return read_noted(output.bare, output.notes, masks)
    file = folder / output.path
    if not _is_below(file, folder):
        return None
    if file.is_symlink():
        return _of_link(os.readlink(file), masks)  # noqa: PTH115 - the name as it is
    return read_file(file, masks)


def _of_link(target: str, masks: Masks) -> Content | None:
    """Return the name of a link's target, and which drawn names are in it: of several files one is meant."""
    from envbuild.record.shared_names import shortened
    from envbuild.verification.content import read
    from envbuild.verification.content.names import drawn_names, masked_path

    content = read(masked_path(target, masks).encode("utf-8", "surrogateescape"), masks)
    names = map(shortened, sorted(drawn_names([target]), key=target.find))
    return msgspec.structs.replace(content, names=tuple(names)) if content is not None else None


def by_bytes(found: Repeated, output: Output) -> Content | None:
    """Return a file's digest as its content: it is called as TensorBoard's are, and is none of these, or damaged.

    None if there is no copy to be opened any more, or it is one of TensorBoard's that is larger than what is opened:
    these have the time in them, and count by the scalars of the record then.
    """
    from envbuild.verification.content import Content
    from envbuild.verification.content.canonical import FILE
    from envbuild.verification.content.event_files import LARGEST_WITHOUT_VERSION, is_event_file, may_be_event_file

    if found.files is None or output.sha256 is None:
        return None
    head = read_foreign(found.files / output.path, _HEAD, cut=True)
    if head is None:
        return None
    opened = FILE if is_event_file(head) else LARGEST_WITHOUT_VERSION
    if output.size > opened and may_be_event_file(head):
        return None
    entries = (("", f"{output.size:,} bytes, sha256 {output.sha256[:8]}"),)
    return Content(digest=output.sha256, entries=entries, left_out={}, others=output.sha256, count=1)


def _is_below(file: Path, folder: Path) -> bool:
    """Whether no link leads from a folder to a file elsewhere, or in a circle."""
    with suppress(OSError), folder_below(folder, *file.relative_to(folder).parts[:-1]):
        return True  # no link is on the way: to find that out level by level, far below, takes seconds
    try:
        return file.parent.resolve().is_relative_to(folder.resolve())
    except (OSError, RuntimeError):
        return False


def content_in(found: Repeated, output: Output, masks: Masks) -> Content | None:
    """Return the content of a file that a run left, in its project or outside; None also if it is gone."""
    if output.path.startswith("/"):
        return content_of(found.outside, msgspec.structs.replace(output, path=output.path.lstrip("/")), masks)
    return content_of(found.files, output, masks) if found.files is not None else None


def leaves_in(found: Repeated, output: Output, masks: Masks) -> list[tuple[str, bytes | str]]:
    """Return all that counts in a file that a run left, by name; nothing if it is gone, or of no format with names."""
    from envbuild.verification.content import leaves
    from envbuild.verification.content.canonical import FILE

    outside = output.path.startswith("/")
    folder, path = (found.outside, output.path.lstrip("/")) if outside else (found.files, output.path)
    if folder is None or not _is_below(folder / path, folder):
        return []
    data = read_foreign(folder / path, FILE)
    entries = leaves(data, masks) if data is not None else []
    return entries if len(entries) > 1 else []


def renamed_files(a: Record, b: Record) -> dict[str, str]:
    """Return, by B's path, A's path of each file whose name was drawn for its run or holds its time.

    As ``verify`` has it: ``runs/20261122-101500_ab12/w.npy`` in one run and ``runs/20261122-101507_9f8e/w.npy`` in the
    other one. Where names do not match one to one, those that each run has for one file.
    """
    from envbuild.verification.content.names import common_names
    from envbuild.verification.files import masks_of

    paths_of = [[*(each.path for each in run.outputs), *(each.path for each in run.folders)] for run in (a, b)]
    mine, theirs = common_names([(paths_of[0], masks_of(a)), (paths_of[1], masks_of(b))])
    paths = {common: path for path, common in mine.items()}
    return {path: paths[common] for path, common in theirs.items() if paths.get(common, path) != path}


def with_names_of(record: Record, renamed: Mapping[str, str]) -> Record:
    """Return a record with files and folders under other names; ``renamed`` as ``renamed_files`` returns it."""
    outputs = (
        msgspec.structs.replace(
            each, path=renamed.get(each.path, each.path), part_of=renamed.get(each.part_of, each.part_of)
        )
        for each in record.outputs
    )
    folders = (msgspec.structs.replace(each, path=renamed.get(each.path, each.path)) for each in record.folders)
    return msgspec.structs.replace(record, outputs=tuple(outputs), folders=tuple(folders)) if renamed else record


def with_contents(a: Side, b: Side, renamed: Mapping[str, str]) -> tuple[Side, Side]:
    """Return two runs with the contents of files whose bytes differ, as far as both files are still there."""
    from envbuild.verification.content.canonical import with_shared_names
    from envbuild.verification.files import masks_of

    theirs = {renamed.get(output.path, output.path): output for output in (*b.record.outputs, *b.record.outside)}
    found: tuple[dict[str, Content], dict[str, Content]] = ({}, {})
    masks = [cache(partial(masks_of, side.record)) for side in (a, b)]
    for mine in (*a.record.outputs, *a.record.outside):
        other = theirs.get(mine.path)
        if other is None or mine.sha256 == other.sha256 or (mine.canonical and other.canonical):
            continue
        one, another = (_known(side, output, of) for side, output, of in ((a, mine, masks[0]), (b, other, masks[1])))
        if one is not None and another is not None:
            fresh = not mine.canonical and not other.canonical  # a digest alone says nothing of names
            found[0][mine.path], found[1][other.path] = with_shared_names((one, another)) if fresh else (one, another)
    return noted(a, found[0]), noted(b, found[1])


def noted(side: Side, contents: Mapping[str, Content]) -> Side:
    """Return a run whose record has the digests of contents, by path."""
    return replace(side, record=note(side.record, contents))


def note(record: Record, contents: Mapping[str, Content]) -> Record:
    """Return a record with the digests of contents, by path, and with the files that count by them.

    Without those of logs that begin new files: whether these do so at the same limit, digests do not say.
    """
    from envbuild.verification.files import parts_of

    contents = {path: each for path, each in contents.items() if each.rolls is None}
    if not contents:
        return record
    parts = parts_of(contents)

    def noted(outputs: Iterable[Output]) -> tuple[Output, ...]:
        return tuple(
            msgspec.structs.replace(
                each,
                canonical=contents[each.path].digest if each.path in contents else each.canonical,
                part_of=parts.get(each.path, each.part_of),
            )
            for each in outputs
        )

    return msgspec.structs.replace(record, outputs=noted(record.outputs), outside=noted(record.outside))


def _known(side: Side, output: Output, masks: Callable[[], Masks]) -> Content | None:
    """Return a file's content; None if it is not there any more, or of no format that is opened."""
    from envbuild.runs.repeat import OUTPUTS, OUTSIDE
    from envbuild.verification.content import Content, read, read_file, read_noted
    from envbuild.verification.content.canonical import FILE
    from envbuild.verification.content.reader import has_parts

    if output.canonical:
        return Content(digest=output.canonical, entries=(), left_out={})
    if output.bare:
        return read_noted(output.bare, output.notes, masks())
    kept = history.run_folder(side.project, side.record.id)
    outside = output.path.startswith("/")
    for folder in (kept / OUTSIDE,) if outside else (kept / OUTPUTS, side.project):
        file = folder / output.path.lstrip("/")
        if not _is_below(file, folder):
            continue
        data = read_foreign(file, FILE)
        if data is None or sha256_bytes(data) != output.sha256:
            continue
        if not has_parts(file):
            return read(data, masks())
        content = read_file(file, masks())
        return content if content is not None and _as_recorded(side.record, folder, output.path, content) else None
    return None


def _as_recorded(record: Record, folder: Path, path: str, content: Content) -> bool:
    """Whether the files that count by another one's content are those that a run left."""
    from envbuild.verification.files import parts_of

    known = {output.path: output.sha256 for output in (*record.outputs, *record.outside)}
    return all(known.get(part) == sha256_file(folder / part.lstrip("/")) for part in parts_of({path: content}))


def data_of(found: Repeated, what: str | Output) -> bytes | None:
    """Return what a run wrote to a file or a stream, ``stdout`` or ``stderr``.

    None if a file is gone, or either is larger than 64 MiB; a stream to which nothing was written is empty.
    """
    if not isinstance(what, str):
        return file_of(found, what)
    path = found.output.stdout if what == "stdout" else found.output.stderr
    if not path.is_file():
        return b""
    return path.read_bytes() if path.stat().st_size <= _LARGEST else None


def file_of(found: Repeated, output: Output) -> bytes | None:
    """Return a file that a run left, or where a link leads; None if it is gone, elsewhere, or too large."""
    folder = found.outside if output.path.startswith("/") else found.files
    if folder is None or output.size > _LARGEST:
        return None
    file = folder / output.path.lstrip("/")
    if not _is_below(file, folder):
        return None
    return os.fsencode(os.readlink(file)) if file.is_symlink() else read_foreign(file, _LARGEST)  # noqa: PTH115
