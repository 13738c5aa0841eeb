"""Two records' outputs: which files differ in bytes, which of them hold the same, and which tensors differ."""

from __future__ import annotations

from envbuild.record.measurements import is_measured
from envbuild.record.model import NOTHING_LEFT, Output, Record


def compare(record: Record, earlier: Record) -> tuple[str, ...]:
    """Name the files that differ between two runs, those that only one of them has included.

    Files of equal content (``same_tensors``) do not differ, whatever their bytes.
    """
    alike = {*same_tensors(record, earlier)}
    return tuple(path for path in _other_bytes(record, earlier) if path not in alike)


def other_metrics(record: Record, earlier: Record) -> tuple[str, ...]:
    """Name the metrics of other values, or of one run alone; times, rates and the like are none."""
    mine, theirs = record.metrics, earlier.metrics
    names = (
        name
        for name in {**mine, **theirs}
        if mine.get(name) != theirs.get(name)
        and not is_measured(name, (value for _, value in (*mine.get(name, ()), *theirs.get(name, ()))))
    )
    return tuple(f"metric {name}" for name in names)


def other_properties(record: Record, earlier: Record) -> tuple[str, ...]:
    """Name what both runs left with other permissions or extended attributes, and what one alone left or deleted.

    That is: empty folders, and files that were there before.
    """
    (empty, modes), (before, old) = folders_and_modes(record), folders_and_modes(earlier)
    mine, theirs = attributes(record), attributes(earlier)
    both = modes.keys() & old.keys()
    changed = {path for path in both if modes[path] != old[path] or mine.get(path) != theirs.get(path)}
    return tuple(sorted((empty ^ before) | changed | ({*record.deleted} ^ {*earlier.deleted})))


def not_looked_at(record: Record) -> tuple[str, ...]:
    """Return what outside the project was not compared, a phrase each."""
    return tuple(each for each in record.outside_left_out if not each.startswith(NOTHING_LEFT))


def unread(record: Record) -> tuple[str, ...]:
    """Name the files, and folders, that nobody could read after the run: of those no two runs are known to be equal."""
    return tuple(output.path for output in (*record.outputs, *record.outside) if output.sha256 is None)


def same_tensors(record: Record, earlier: Record) -> tuple[str, ...]:
    """Name the files whose bytes differ between two runs while what they hold is equal: formats keep the time."""
    mine, theirs = ({each.path: each for each in (*run.outputs, *run.outside)} for run in (record, earlier))
    return tuple(
        path
        for path in _other_bytes(record, earlier)
        if path in mine and path in theirs and equal_content(mine[path], theirs[path])
    )


def equal_content(one: Output, other: Output) -> bool:
    """Whether two files are known to hold the same, by the reader in the image or with measurements left out."""
    pairs = ((one.content, other.content), (one.canonical, other.canonical))
    return any(mine and mine == theirs for mine, theirs in pairs)


def different_tensors(output: Output, earlier: Output) -> tuple[str, ...]:
    """Name the tensors of a file that differ between two runs in values, type or shape, or that one of them lacks."""
    mine = {name: (each.dtype, each.shape, each.digest) for name, each in output.tensors.items()}
    theirs = {name: (each.dtype, each.shape, each.digest) for name, each in earlier.tensors.items()}
    return tuple(name for name in {**mine, **theirs} if mine.get(name) != theirs.get(name))


def folders_and_modes(record: Record) -> tuple[frozenset[str], dict[str, str]]:
    """Return the empty folders that a run left or removed, and the permissions of all that it left, by path.

    Outside the project too, but for folders there.

    Folders with files in them are there because of those.
    """
    empty = frozenset(folder.path for folder in record.folders if folder.empty or folder.change == "removed")
    modes = {folder.path: folder.mode for folder in record.folders if folder.mode}
    files = (*record.outputs, *record.outside)
    return empty, modes | {output.path: output.mode for output in files if output.mode}


def attributes(record: Record) -> dict[str, str]:
    """Return the digests of the extended attributes of files that a run left, by path; of those that have some."""
    return {output.path: output.attributes for output in (*record.outputs, *record.outside) if output.attributes}


def _other_bytes(record: Record, earlier: Record) -> list[str]:
    """Name the files whose digests differ, but for those that count by the content of another one, if both have it."""
    mine, theirs = ({each.path: each for each in (*run.outputs, *run.outside)} for run in (record, earlier))
    wholes = {path for path in mine.keys() & theirs.keys() if mine[path].canonical and theirs[path].canonical}
    one, other = (
        {path: each.sha256 for path, each in table.items() if each.part_of not in wholes} for table in (mine, theirs)
    )
    return [path for path in sorted({*one, *other}) if one.get(path, "") != other.get(path, "")]
