"""Databases of TensorStore, in which Orbax keeps checkpoints: keys and values count, not where they are."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from pathlib import Path

import msgspec
import pytest

from envbuild.core.digest import sha256_file
from envbuild.operations.contents import note
from envbuild.record.compare_outputs import compare
from envbuild.record.model import Output, Record
from envbuild.verification.content import Content, read_file
from envbuild.verification.files import FileTable
from envbuild.verification.masking.masks import Masks
from tests.unit.verification.test_verification import ran

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

MASKS = Masks(1_795_247_763.0)
MOMENT = (1_795_247_763_250).to_bytes(8, "little")
NAMES = ("0123456789abcdef" * 2, "fedcba9876543210" * 2, "00112233445566778899aabbccddeeff")
PAIRS = {
    b"b/.zarray": b'{"shape": [2]}',
    b"b/0": b"\x01" * 40,
    b"w/.zarray": b'{"shape": [2, 3]}',
    b"w/0": b"\x02" * 90,
}


def varint(value: int) -> bytes:
    """Return a number of variable length."""
    return bytes([value]) if value < 128 else bytes([value & 127 | 128]) + varint(value >> 7)


def varints(values: Sequence[int]) -> bytes:
    """Return numbers of variable length."""
    return b"".join(map(varint, values))


def framed(magic: str, body: bytes, *, packed: bool = True) -> bytes:
    """Return a node, or a manifest."""
    head, data = varint(0) + varint(packed), zstd.compress(body) if packed else body
    length = 4 + 8 + len(head) + len(data) + 4
    return bytes.fromhex(magic) + length.to_bytes(8, "little") + head + data + b"\0\0\0\0"


def table(files: Sequence[str]) -> bytes:
    """Return a table of files of data; in each its nodes' own are relative to where it is."""
    bases = [len(file) - len("d/") - 32 if file.endswith(tuple(f"d/{name}" for name in NAMES)) else 0 for file in files]
    return (
        varint(len(files))
        + varints([0] * max(0, len(files) - 1))
        + varints([len(file) for file in files])
        + varints(bases)
        + "".join(files).encode()
    )


def keys(found: Sequence[bytes]) -> tuple[bytes, bytes]:
    """Return the lengths of keys, each with what it has of the one before, and what is their own."""
    common = []
    for one, other in pairwise(found):
        common.append(next((at for at in range(len(other)) if one[at : at + 1] != other[at : at + 1]), len(other)))
    own = [key[size:] for key, size in zip(found, [0, *common], strict=True)]
    return varints(common) + varints(list(map(len, own))), b"".join(own)


@dataclass
class Database:
    """Files of a database that is being made.

    Attributes:
        names: of the files of data, in which nodes and values go by turns.
        inline: bytes of the longest value in a node.
    """

    folder: Path
    names: Sequence[str] = NAMES[:1]
    inline: int = 20
    packed: bool = True
    below: str = ""
    _turn: int = 0
    _versions: list[tuple[int, str, int, int, int]] = field(default_factory=list)

    def put(self, data: bytes) -> tuple[str, int, int]:
        """Write bytes; returns their file, place and length."""
        name = f"{self.below}d/{self.names[self._turn % len(self.names)]}"
        self._turn += 1
        file = self.folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        before = file.read_bytes() if file.exists() else b"free"
        file.write_bytes(before + data)
        return name, len(before), len(data)

    def leaf(self, pairs: Mapping[bytes, bytes]) -> tuple[str, int, int]:
        """Write a node with keys and values."""
        outside = {key: self.put(value) for key, value in pairs.items() if len(value) > self.inline}
        files = sorted({place[0][len(self.below) :] for place in outside.values()})
        lengths, own = keys([*pairs])
        body = b"\0" + table(files) + varint(len(pairs)) + lengths + own
        body += varints([len(value) for value in pairs.values()]) + varints([key in outside for key in pairs])
        body += varints([files.index(place[0][len(self.below) :]) for place in outside.values()])
        body += varints([place[1] for place in outside.values()])
        body += b"".join(value for key, value in pairs.items() if key not in outside)
        return self.put(framed("0cdb20de", body, packed=self.packed))

    def branch(self, children: Sequence[tuple[bytes, int, tuple[str, int, int]]]) -> tuple[str, int, int]:
        """Write a node above others; of each its first key, how much of that is common, and where it is."""
        files = sorted({place[0][len(self.below) :] for *_, place in children})
        lengths, own = keys([key for key, *_ in children])
        places = [place for *_, place in children]
        body = b"\1" + table(files) + varint(len(children)) + lengths + varints([common for _, common, _ in children])
        body += own + varints([files.index(place[0][len(self.below) :]) for place in places])
        body += varints([place[1] for place in places]) + varints([place[2] for place in places])
        body += varints([1] * len(children)) * 3
        return self.put(framed("0cdb20de", body, packed=self.packed))

    def version(self, root: tuple[str, int, int], height: int = 0) -> None:
        """Add a version."""
        self._versions.append((height, *root, 1))

    def manifest(self, *, kind: int = 0, arity: int = 4) -> Path:
        """Write the manifest."""
        files = sorted({version[1] for version in self._versions})
        body = bytes(self.folder.name.encode().ljust(16, b"#")[:16]) + varint(kind)
        body += varint(1024) + varint(100_000_000) + bytes([arity]) + varint(1) + bytes(4) + table(files)
        count = len(self._versions)
        body += varint(count) + varints(range(1, count + 1)) + bytes(version[0] for version in self._versions)
        body += varints([files.index(version[1]) for version in self._versions])
        body += varints([version[2] for version in self._versions]) + varints(
            [version[3] for version in self._versions]
        )
        body += varints([1] * count) * 3 + MOMENT * count + varint(0)
        file = self.folder / "manifest.ocdbt"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(framed("0cdb3a2a", body))
        return file


def simple(folder: Path, pairs: Mapping[bytes, bytes] = PAIRS, names: Sequence[str] = NAMES[:1]) -> Path:
    """Make a database of one version and one node."""
    database = Database(folder, names)
    database.version(database.leaf(pairs))
    return database.manifest()


def read(manifest: Path) -> Content:
    """Read a database that is whole."""
    content = read_file(manifest, MASKS)
    assert content is not None
    return content


def test_where_values_are_does_not_count(tmp_path: Path) -> None:
    one = simple(tmp_path / "one")
    other = Database(tmp_path / "other", NAMES[1:], inline=1000, packed=False)
    first = {b"b/.zarray": PAIRS[b"b/.zarray"]}
    rest = {key[2:]: value for key, value in PAIRS.items() if key.startswith(b"w/")}
    other.version(other.leaf(first))
    children = [(b"b/.zarray", 0, other.leaf(first)), (b"b/0", 2, other.leaf({b"0": PAIRS[b"b/0"]}))]
    other.version(other.branch([*children, (b"w/.zarray", 2, other.leaf(rest))]), height=1)
    contents = read(one), read(other.manifest())
    assert contents[0].digest == contents[1].digest
    assert contents[0].parts == {f"d/{NAMES[0]}"}
    assert contents[1].parts == {f"d/{name}" for name in NAMES[1:]}


@pytest.mark.parametrize(
    "pairs",
    [
        {**PAIRS, b"w/0": b"\x02" * 89 + b"\x03"},
        {**PAIRS, b"b/0": b"\x01" * 41},
        {key: value for key, value in PAIRS.items() if key != b"w/0"},
        {**{key: value for key, value in PAIRS.items() if key != b"w/0"}, b"w/1": PAIRS[b"w/0"]},
        {**PAIRS, b"b/.zarray": b'{"shape": [3]}'},
        {**PAIRS, b"x": b""},
    ],
)
def test_each_key_and_value_counts(tmp_path: Path, pairs: dict[bytes, bytes]) -> None:
    assert read(simple(tmp_path / "one")).digest != read(simple(tmp_path / "other", pairs)).digest


def test_large_values_count(tmp_path: Path) -> None:
    large = b"\x07" * (1 << 20) + b"\x08"
    one, same, other = (
        simple(tmp_path / name, {**PAIRS, b"w/1": value}, NAMES[:2])
        for name, value in (("one", large), ("same", large), ("other", large[:-1] + b"\x09"))
    )
    assert read(one).digest == read(same).digest != read(other).digest


def test_what_only_an_earlier_version_has_counts(tmp_path: Path) -> None:
    contents = []
    for name, earlier in (("one", {}), ("other", {b"w/0": b"\x09" * 90}), ("third", {b"w/0": PAIRS[b"w/0"]})):
        database = Database(tmp_path / name)
        database.version(database.leaf({**PAIRS, **earlier}))
        database.version(database.leaf(PAIRS))
        contents.append(read(database.manifest()).digest)
    assert contents[0] == contents[2] != contents[1]


def test_the_configuration_counts(tmp_path: Path) -> None:
    database = Database(tmp_path / "other")
    database.version(database.leaf(PAIRS))
    assert read(database.manifest(arity=5)).digest != read(simple(tmp_path / "one")).digest


def test_damaged_databases_are_not_read(tmp_path: Path) -> None:
    manifest = simple(tmp_path / "made")
    file = manifest.parent / "d" / NAMES[0]
    whole = file.read_bytes()
    assert read_file(manifest, MASKS) is not None
    for data in (whole[:-1], whole[:-60] + bytes(60), b""):
        file.write_bytes(data)
        assert read_file(manifest, MASKS) is None
    file.unlink()
    assert read_file(manifest, MASKS) is None
    (tmp_path / "elsewhere").write_bytes(whole)
    file.symlink_to(tmp_path / "elsewhere")
    assert read_file(manifest, MASKS) is None
    file.unlink()
    file.parent.rmdir()
    (tmp_path / "d").mkdir()
    (tmp_path / "d" / NAMES[0]).write_bytes(whole)
    file.parent.symlink_to(tmp_path / "d")
    assert read_file(manifest, MASKS) is None
    file.parent.unlink()
    (tmp_path / "d").rename(file.parent)
    assert read_file(manifest, MASKS) is not None
    manifest.write_bytes(manifest.read_bytes() + b"\0")
    assert read_file(manifest, MASKS) is None


@pytest.mark.parametrize("name", ["../elsewhere", "{}/elsewhere", "d/../../elsewhere", "./name", "d//../name"])
def test_files_elsewhere_are_not_read(tmp_path: Path, name: str) -> None:
    database = Database(tmp_path / "made", inline=1000)
    own, place, length = database.leaf(PAIRS)
    database.version((own, place, length))
    assert read_file(database.manifest(), MASKS) is not None
    (tmp_path / "elsewhere").write_bytes((tmp_path / "made" / own).read_bytes())
    (tmp_path / "made" / "name").write_bytes((tmp_path / "made" / own).read_bytes())
    database = Database(tmp_path / "made")
    database.version(("name", place, length))
    assert read_file(database.manifest(), MASKS) is not None
    database = Database(tmp_path / "made")
    database.version((name.format(tmp_path), place, length))
    assert read_file(database.manifest(), MASKS) is None


def test_manifests_in_several_files_are_not_read(tmp_path: Path) -> None:
    database = Database(tmp_path / "made")
    database.version(database.leaf(PAIRS))
    assert read_file(database.manifest(kind=1), MASKS) is None


def outputs(folder: Path) -> list[Output]:
    """Describe the files of a folder as a run leaves them."""
    return [
        Output(path=str(file.relative_to(folder)), change="created", size=file.stat().st_size, sha256=sha256_file(file))
        for file in sorted(folder.rglob("*"))
        if file.is_file()
    ]


def table_of(*folders: Path) -> FileTable:
    """Return the files of runs that left folders, with manifests opened."""
    runs = []
    for folder in folders:
        run = ran(*outputs(folder))
        found = {str(file.relative_to(folder)): read_file(file, MASKS) for file in folder.rglob("manifest.ocdbt")}
        runs.append(replace(run, contents={path: content for path, content in found.items() if content is not None}))
    return FileTable(runs, [[each.path for each in run.record.outputs] for run in runs])


def equal(files: FileTable) -> bool:
    """Whether all runs left the same."""
    return len({tuple(sorted(files.of(run).items())) for run in files.runs}) == 1


def test_a_manifest_stands_for_its_files(tmp_path: Path) -> None:
    simple(tmp_path / "one" / "checkpoint", names=NAMES[:1])
    simple(tmp_path / "two" / "checkpoint", names=NAMES[1:])
    files = table_of(tmp_path / "one", tmp_path / "two")
    assert equal(files)
    assert [*files.of(files.runs[0])] == ["checkpoint/manifest.ocdbt"]
    simple(tmp_path / "three" / "checkpoint", {**PAIRS, b"b/0": b"\x05" * 40}, NAMES[1:])
    assert not equal(table_of(tmp_path / "one", tmp_path / "three"))


def test_a_file_that_no_version_refers_to_counts_by_its_bytes(tmp_path: Path) -> None:
    for name, data in (("one", b"a"), ("two", b"b")):
        simple(tmp_path / name / "checkpoint", names=NAMES[:1])
        (tmp_path / name / "checkpoint" / "d" / NAMES[1]).write_bytes(data)
    assert not equal(table_of(tmp_path / "one", tmp_path / "two"))


def test_results_that_a_database_refers_to_count_by_their_bytes(tmp_path: Path) -> None:
    for name, rest in (("one", b"accuracy 0.91"), ("two", b"accuracy 0.92")):
        database = Database(tmp_path / name)
        _, place, length = database.leaf({b"a": b"1"})
        (tmp_path / name / "d" / NAMES[0]).rename(tmp_path / name / "results.bin")
        with (tmp_path / name / "results.bin").open("ab") as stream:
            stream.write(rest)
        database.version(("results.bin", place, length))
        database.manifest()
    files = table_of(tmp_path / "one", tmp_path / "two")
    assert not equal(files)
    assert files.of(files.runs[0])["results.bin"] != files.of(files.runs[1])["results.bin"]


def test_a_database_that_one_run_alone_left_whole_differs(tmp_path: Path) -> None:
    for name, names in (("one", NAMES[:1]), ("two", NAMES[1:2])):
        simple(tmp_path / name / "checkpoint", names=names)
    (tmp_path / "two" / "checkpoint" / "d" / NAMES[1]).unlink()
    assert not equal(table_of(tmp_path / "one", tmp_path / "two"))


def test_records_know_the_parts(tmp_path: Path) -> None:
    records: list[Record] = []
    for name, names in (("one", NAMES[:1]), ("two", NAMES[1:2])):
        simple(tmp_path / name / "checkpoint", names=names)
        record = ran(*outputs(tmp_path / name)).record
        records.append(note(record, {"checkpoint/manifest.ocdbt": read(tmp_path / name / "checkpoint/manifest.ocdbt")}))
    assert {each.part_of for each in records[0].outputs} == {"", "checkpoint/manifest.ocdbt"}
    assert compare(*records) == ()
    without = msgspec.structs.replace(
        records[1], outputs=tuple(msgspec.structs.replace(each, canonical="") for each in records[1].outputs)
    )
    assert len(compare(records[0], without)) == 3
