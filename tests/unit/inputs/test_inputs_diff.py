"""Manifests: written, read back, compared; what changed is named and counted."""

from __future__ import annotations

import io
import tracemalloc
from collections.abc import Iterable

import pytest
from blake3 import blake3
from hypothesis import given
from hypothesis import strategies as st

from envbuild.inputs.diff import Part, TreeDiff, compare_trees, printable
from envbuild.inputs.manifest import DIR, FILE, HEADER, LINK, Draft, Entry, ManifestError, entries, order

A, B = b"a" * 64, b"b" * 64


def manifest(*records: Entry) -> io.BytesIO:
    """Write a manifest, sorted."""
    return io.BytesIO(HEADER + b"".join(entry.encoded() for entry in sorted(records, key=lambda e: order(e.path))))


def file(path: bytes, value: bytes = A, size: int = 10) -> Entry:
    return Entry(FILE, path, size, value)


def folder(path: bytes) -> Entry:
    return Entry(DIR, path, 0, b"")


def link(path: bytes, target: bytes) -> Entry:
    return Entry(LINK, path, 0, target)


ROOT = folder(b"")
OLD = (ROOT, file(b"a"), folder(b"d"), file(b"d/x"), folder(b"d-"), link(b"l", b"a"))


def reported(old: Iterable[Entry], new: Iterable[Entry]) -> tuple[str, list[str]]:
    """Compare; return the summary, and the named with the word for what happened to them."""
    found = compare_trees(manifest(*old), manifest(*new))
    return found.summary("missing"), found.lines("missing")


def without(path: bytes) -> tuple[Entry, ...]:
    return tuple(entry for entry in OLD if entry.path != path)


KINDS = {
    "nothing": (OLD, ("no differences", [])),
    "a file added": ((*OLD, file(b"d/y")), ("1 file added (10 bytes)", ["added    d/y"])),
    "a link added": ((*OLD, link(b"m", b"a")), ("1 file added", ["added    m"])),
    "an empty folder added": ((*OLD, folder(b"e")), ("1 empty folder added", ["added    e/"])),
    "a folder with files added": (
        (*OLD, folder(b"e"), file(b"e/1"), folder(b"e/f"), file(b"e/f/2")),
        ("2 files added (20 bytes)", ["added    e/1", "         e/f/2"]),
    ),
    "a file missing": (without(b"a"), ("1 file missing (10 bytes)", ["missing  a"])),
    "the last file of a folder missing": (without(b"d/x"), ("1 file missing (10 bytes)", ["missing  d/x"])),
    "an empty folder missing": (without(b"d-"), ("1 empty folder missing", ["missing  d-/"])),
    "content": ((*without(b"a"), file(b"a", B)), ("1 file changed", ["changed  a"])),
    "content and size": ((*without(b"a"), file(b"a", B, 9)), ("1 file changed", ["changed  a"])),
    "a link's target": ((*without(b"l"), link(b"l", b"./a")), ("1 file changed", ["changed  l"])),
    "a link made a file": (
        (*without(b"l"), file(b"l")),
        ("1 file changed", ["changed  l (was a link, is a file)"]),
    ),
    "a file made a link": (
        (*without(b"a"), link(b"a", b"l")),
        ("1 file changed", ["changed  a (was a file, is a link)"]),
    ),
    "a file made a folder": (
        (*without(b"a"), folder(b"a"), file(b"a/1")),
        ("1 file added (10 bytes), 1 file changed", ["added    a/1", "changed  a/ (was a file, is a folder)"]),
    ),
    "a file renamed": (
        (*without(b"a"), file(b"A")),
        ("1 file added (10 bytes), 1 file missing (10 bytes)", ["added    A", "missing  a"]),
    ),
    "a file moved": (
        (*without(b"a"), file(b"d/a")),
        ("1 file added (10 bytes), 1 file missing (10 bytes)", ["added    d/a", "missing  a"]),
    ),
    "a name with a newline": ((*OLD, file(b"x\ny\x1b[2J")), ("1 file added (10 bytes)", [r"added    x\ny\x1b[2J"])),
    "a name that is no UTF-8": ((*OLD, file(b"\xe9")), ("1 file added (10 bytes)", [r"added    \xe9"])),
}


@pytest.mark.parametrize("kind", KINDS)
def test_each_kind_of_change_is_named(kind: str) -> None:
    """What happened is counted and named, each thing once."""
    new, expected = KINDS[kind]
    assert reported(OLD, new) == expected


def test_an_input_that_changed_its_kind() -> None:
    """A folder that is a file now: the input itself has changed, and what was in it is missing."""
    summary, lines = reported(OLD, [file(b"", B, 3)])
    assert summary == "1 file changed, 3 files and 1 empty folder missing (20 bytes)"
    assert lines == [
        "changed  the input itself (was a folder, is a file)",
        *("missing  a", "         d/x", "         d-/", "         l"),
    ]


def test_the_first_names_and_a_number() -> None:
    """A flood of names would hide the cause: the first five of each kind, and how many more."""
    new = [*OLD, *(file(b"d/n%04d" % number) for number in range(3412))]
    found = compare_trees(manifest(*OLD), manifest(*new))
    assert found.summary() == "3,412 files added (34,120 bytes)"
    assert found.lines() == [
        *("added    d/n0000", "         d/n0001", "         d/n0002", "         d/n0003", "         d/n0004"),
        "         and 3,407 more",
    ]
    assert found.added == Part(files=3412, bytes=34120, names=tuple(f"d/n000{number}" for number in range(5)))
    assert compare_trees(manifest(*OLD), manifest(*new), names=0).lines() == ["added    and 3,412 more"]


PATHS = st.lists(
    st.lists(st.binary(min_size=1, max_size=3).filter(lambda name: not {0, 47} & {*name}), min_size=1, max_size=4).map(
        b"/".join
    ),
    unique=True,
    max_size=30,
)
FILES = PATHS.map(lambda paths: {path: bytes([65 + len(path) % 3]) * 64 for path in paths})


@given(old=FILES, new=FILES)
def test_counts_are_those_of_sets(old: dict[bytes, bytes], new: dict[bytes, bytes]) -> None:
    """Reading side by side finds just what comparing whole sets of names finds, whatever characters sort where."""
    found = compare_trees(
        manifest(*(file(path, value) for path, value in old.items())),
        manifest(*(file(path, value) for path, value in new.items())),
        names=99,
    )
    both = old.keys() & new.keys()
    assert found.added.names == tuple(map(printable, sorted(new.keys() - old.keys(), key=order)))
    assert found.removed.names == tuple(map(printable, sorted(old.keys() - new.keys(), key=order)))
    assert found.changed.count == sum(old[path] != new[path] for path in both)
    assert bool(found) == (old != new)


@given(paths=PATHS)
def test_a_folders_content_follows_it(paths: list[bytes]) -> None:
    """The order of records is that of a walk: by names, not by whole paths."""
    assert sorted(paths, key=order) == sorted(paths, key=lambda path: path.split(b"/"))


@given(st.lists(st.tuples(st.binary(min_size=1, max_size=30), st.binary(max_size=30)), unique_by=lambda pair: pair[0]))
def test_records_read_back_as_written(pairs: list[tuple[bytes, bytes]]) -> None:
    """Names and targets may hold any byte but NUL."""
    links = [link(path.replace(b"\0", b"0"), target.replace(b"\0", b"0")) for path, target in pairs]
    records = {order(entry.path): entry for entry in links}
    written = [records[place] for place in sorted(records)]
    assert list(entries(manifest(*written))) == written


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "not a manifest of this format"),
        (b"envbuild inputs 2\n", "not a manifest of this format"),
        (manifest(*OLD).getvalue()[:-1], "the last record is not whole"),
        (manifest(*OLD).getvalue() + b"file\0", "the last record is not whole"),
        (HEADER + b"pipe\0a\0\0\0", "not a record of a manifest: b'pipe' b'a'"),
        (HEADER + b"file\0a\0\0x\0", "not a record of a manifest: b'file' b'a'"),
        (HEADER + b"dir\0a\x004\0\0", "not a record of a manifest: b'dir' b'a'"),
        (HEADER + b"dir\0b\0\0\0dir\0a\0\0\0", "not a record of a manifest: b'dir' b'a'"),
        (HEADER + b"dir\0a\0\0\0dir\0a\0\0\0", "not a record of a manifest: b'dir' b'a'"),
    ],
)
def test_damaged_manifests_are_refused(data: bytes, message: str) -> None:
    """Half a listing would report files missing that are there."""
    with pytest.raises(ManifestError) as caught:
        compare_trees(manifest(*OLD), io.BytesIO(data))
    assert str(caught.value) == message


def test_a_draft_knows_its_digest() -> None:
    """The digest of a manifest is known when its last record is written, without reading it again."""
    draft = Draft()
    for entry in OLD:
        draft.write(entry.encoded())
    assert draft.digest == blake3(manifest(*OLD).getvalue()).hexdigest()
    assert draft.rewound().read() == manifest(*OLD).getvalue()
    draft.close()


def test_comparing_takes_little_memory() -> None:
    """However many files: two million lines of a listing must not need gigabytes."""
    old = manifest(*(file(b"d/%06d" % number) for number in range(40_000)))
    new = manifest(*(file(b"d/%06d" % number) for number in range(1, 40_001)))
    size = len(old.getvalue())
    tracemalloc.start()
    found = compare_trees(old, new)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert (found.added.count, found.removed.count, found.changed.count) == (1, 1, 0)
    assert size > 3_000_000
    assert peak < 14_000_000  # two pieces of a megabyte, split; it does not grow with the manifest


def test_an_empty_difference_is_false() -> None:
    """So that ``if found:`` reads well."""
    assert not TreeDiff()
    assert TreeDiff(changed=Part(files=1))
