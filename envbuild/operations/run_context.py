"""What is known of two runs in addition to their records: locks, listings of data, texts, fingerprints."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from envbuild.core.digest import sha256_bytes
from envbuild.core.fs import folder_below, read_regular
from envbuild.difference.finding import Context, PrintedLine, Tree
from envbuild.errors import LockError
from envbuild.lockfile import model as locks
from envbuild.record import history, listing, printed, sources
from envbuild.record.compare_printed import compare_printed, names_of_two, several_processes
from envbuild.record.git import changed_between, file_at
from envbuild.record.jobs import JobRecord
from envbuild.record.listing import FoundFile, folders_above
from envbuild.record.model import Record
from envbuild.runs import fingerprint


@dataclass(frozen=True, kw_only=True, slots=True)
class Side:
    """One of the runs that are compared.

    Attributes:
        record: of the run; of a job of several ranks that of the first rank.
        project: what it is of.
        others: the records of the job's other ranks.
        alone: the record is meant by itself, and not the job that it may be of.
    """

    record: Record
    project: Path
    others: tuple[Record, ...] = ()
    alone: bool = True

    @property
    def job(self) -> JobRecord:
        """All its ranks."""
        return JobRecord(ranks=(self.record, *self.others), alone=self.alone)


def gather_context(a: Side, b: Side) -> Context:
    """Gather all that there is; what is missing is missing."""
    texts = Texts((a, b))
    return Context(
        lock_a=kept_lock(a),
        lock_b=kept_lock(b),
        trees=_trees(a, b),
        texts={digest: text for digest in _other_texts(a.record, b.record) if (text := texts.text(digest)) is not None},
        fingerprint_a=_fingerprint(a),
        fingerprint_b=_fingerprint(b),
        committed=_committed(a, b),
        lines=_lines(a, b),
        files=_files(a, b),
        named=_named(a, b),
        contradicted=_contradicted(a, b),
    )


def kept_lock(side: Side) -> locks.Lock | None:
    """Read the lock that a run was made with; None if it was not kept and is not in its place any more."""
    path = lock_path(side)
    with suppress(LockError):
        return locks.loads(path.read_bytes(), side.record.lock.file) if path else None
    return None


def lock_path(side: Side) -> Path | None:
    """Return a file with the bytes of the lock that a run was made with."""
    wanted = side.record.lock.sha256
    path = side.project / Path(side.record.lock.file).name
    with suppress(OSError):
        if sha256_bytes(read_regular(path, locks.LIMIT)) == wanted:
            return path
    return sources.lock_file(side.project, wanted)


class Texts:
    """Sources by digest: those that were kept, those that still are in their place, and those that git has.

    Args:
        sides: the runs whose projects to look in.
    """

    def __init__(self, sides: Iterable[Side]) -> None:
        self._sides = tuple(sides)
        self._paths: dict[str, list[tuple[Side, str]]] = {}
        for side in self._sides:
            for path, digest in _sources(side.record):
                self._paths.setdefault(digest, []).append((side, path))

    def content(self, digest: str) -> bytes | None:
        """Return a file's content; None if it is nowhere."""
        for side in self._sides:
            if (data := sources.source(side.project, digest)) is not None:
                return data
        for side, path in self._paths.get(digest, ()):
            with suppress(OSError, ValueError):
                *above, name = path.split("/")
                with folder_below(side.project, *above) as folder:
                    data = read_regular(folder / name, sources.LIMIT, follow=False)
                if sha256_bytes(data) == digest:
                    return data
        for side, path in self._paths.get(digest, ()):
            data = _of_git(side, path)
            if data is not None and sha256_bytes(data) == digest:
                return data
        return None

    def text(self, digest: str) -> str | None:
        """Return a file's content if it is text."""
        data = self.content(digest)
        with suppress(UnicodeDecodeError):
            return data.decode("utf-8") if data is not None and b"\0" not in data else None
        return None


def _sources(record: Record) -> list[tuple[str, str]]:
    """Return path and digest of all files of the project that a program read."""
    found = [(file.path, file.sha256) for file in (*record.modules, *record.configs) if file.sha256]
    return [*found, *([(record.script.path, record.script.sha256)] if record.script else [])]


def _other_texts(a: Record, b: Record) -> set[str]:
    """Return digests that only one of two records has."""
    return {digest for _, digest in _sources(a)} ^ {digest for _, digest in _sources(b)}


def _of_git(side: Side, path: str) -> bytes | None:
    """Return a file as the run's commit has it."""
    return file_at(side.project, side.record.git.commit, path) if side.record.git else None


def _committed(a: Side, b: Side) -> tuple[str, ...]:
    """Name the files that differ between the commits of two runs; none if git does not know both."""
    commits = dict.fromkeys(side.record.git.commit for side in (a, b) if side.record.git)
    return changed_between(b.project, *commits) if len(commits) == 2 else ()


def _lines(a: Side, b: Side) -> dict[printed.Stream, PrintedLine]:
    """Return the first line at which each stream differs, of those that were kept."""
    streams = compare_printed(a.record, b.record).differing
    if not streams:
        return {}
    from envbuild.verification.files import masks_of
    from envbuild.verification.masking.printed import first_difference

    found: dict[printed.Stream, PrintedLine] = {}
    masks = (masks_of(a.record), masks_of(b.record))
    ordered = not several_processes(a.record, b.record)
    known = names_of_two(a.record, b.record)
    for stream in streams:
        before, after = (printed.kept(side.project, side.record.id, stream) for side in (a, b))
        if before is None and after is None:
            continue
        line = first_difference(stream, before or b"", after or b"", masks, ordered=ordered, known=known)
        cut = any(text is not None and len(text) >= printed.KEPT_TEXT for text in (before, after))
        # At the end of a text that was cut lines are missing, and the last one is not whole.
        if line is not None and not (cut and (not ordered or not line.before or not line.after)):
            found[stream] = PrintedLine(number=line.line, before=line.before, after=line.after)
    return found


def _files(a: Side, b: Side) -> dict[str, str] | None:
    """Return how the files differ that two runs found in their project; of a folder that only one had, itself alone."""
    one, other = listing.kept(a.project, a.record.id), listing.kept(b.project, b.record.id)
    if one is None or other is None:
        return None
    found = {path: phrase for path in {**one, **other} if (phrase := _change(one.get(path), other.get(path)))}
    alone = {path for path in found if path.endswith("/") and not (path in one and path in other)}
    return {path: each for path, each in found.items() if alone.isdisjoint(folders_above(path))}


def _change(before: FoundFile | None, after: FoundFile | None) -> str:
    """Describe how a file differs; empty if it does not."""
    if before is None or after is None:
        return "only in B" if before is None else "only in A"
    if before.size != after.size:
        return f"{before.size:,} → {after.size:,} bytes"
    if before.mode != after.mode:
        return f"mode {before.mode:03o} → {after.mode:03o}"
    return "written again, of the same size" if before.changed != after.changed else ""


def _named(a: Side, b: Side) -> dict[printed.Stream, PrintedLine]:
    """Return the first line of each equal stream in which the runs have other names that look drawn."""
    from envbuild.verification.files import masks_of
    from envbuild.verification.masking.printed import other_names

    found: dict[printed.Stream, PrintedLine] = {}
    differing = compare_printed(a.record, b.record).differing
    for stream in printed.STREAMS:
        kinds = [(side.record.printed or {}).get(stream, printed.Printed()).masked for side in (a, b)]
        if stream in differing or any("names" not in each for each in kinds):
            continue
        texts = [printed.kept(side.project, side.record.id, stream) or b"" for side in (a, b)]
        line = other_names(stream, texts[0], texts[1], (masks_of(a.record), masks_of(b.record)))
        if line is not None:
            found[stream] = PrintedLine(number=line.line, before=line.before, after=line.after)
    return found


def _contradicted(a: Side, b: Side) -> dict[printed.Stream, PrintedLine]:
    """Return the first line at which texts differ that are one by the records: a record, or a text, was edited.

    Only of texts that were kept whole, and of which nothing was masked: there the digests are of what is kept.
    """
    found: dict[printed.Stream, PrintedLine] = {}
    for stream in printed.STREAMS:
        one, other = ((side.record.printed or {}).get(stream) for side in (a, b))
        if one is None or one != other or one.masked or one.names or one.rest_bytes:
            continue
        before, after = (printed.kept(side.project, side.record.id, stream) for side in (a, b))
        if before is None or after is None or before == after or max(len(before), len(after)) >= printed.KEPT_TEXT:
            continue
        if several_processes(a.record, b.record):
            continue
        from envbuild.verification.files import masks_of
        from envbuild.verification.masking.printed import first_difference

        masks = (masks_of(a.record), masks_of(b.record))
        line = first_difference(stream, before, after, masks, ordered=True, known=names_of_two(a.record, b.record))
        if line is not None:
            found[stream] = PrintedLine(number=line.line, before=line.before, after=line.after)
    return found


def _trees(a: Side, b: Side) -> dict[str, Tree]:
    """Compare the listings of data that differs."""
    found = {}
    for path, before in a.record.inputs.items():
        after = b.record.inputs.get(path)
        if after is not None and after != before and (tree := _tree(a, before, b, after)) is not None:
            found[path] = tree
    return found


def _tree(a: Side, before: str, b: Side, after: str) -> Tree | None:
    from envbuild.inputs.diff import compare_trees
    from envbuild.inputs.manifest import ManifestError
    from envbuild.inputs.state import State

    one, other = State(a.project).open_manifest(before), State(b.project).open_manifest(after)
    if one is None or other is None:
        for stream in (one, other):
            if stream is not None:
                stream.close()
        return None
    with one, other, suppress(ManifestError):
        found = compare_trees(one, other)
        names = {"added": found.added.names, "changed": found.changed.names, "removed": found.removed.names}
        return Tree(
            of_one_file=found.of_one_file,
            added=found.added.count,
            changed=found.changed.count,
            removed=found.removed.count,
            bytes=found.added.bytes,
            names=names,
        )
    return None


def _fingerprint(side: Side) -> dict[str, str]:
    """Return what the machine computed before the program started, by part."""
    found = fingerprint.found_in(history.process_folder(side.project, side.record.id))
    parts = found.get("parts") if found else None
    if not isinstance(parts, dict):
        return {}
    return {name: str(part.get("digest")) for name, part in parts.items() if isinstance(part, dict)}
