"""Datasets of Lance: what is in them counts, drawn names and times do not."""

from __future__ import annotations

from pathlib import Path

import pytest

from envbuild.verification.content import Content, compare, read_file
from envbuild.verification.content.lance import _in_order, may_be_parts
from envbuild.verification.masking.masks import Masks

_NAMES = ("0001010101000010001101107e518948618a4d589830a3bc0e", "001110101011111011001000876faf4e84a088823dbb7d310b")
_UUIDS = ("d407232f-afd4-4cdb-96f5-3815cd3eab3d", "5fda9207-4b8c-42a5-8c7d-dab76dbdfb2f")
_DELETIONS = (17924824179121485292, 1616956516402631148)


def _varint(value: int) -> bytes:
    return bytes([value]) if value < 128 else bytes([value & 127 | 128]) + _varint(value >> 7)


def _message(*fields: tuple[int, int | str | bytes]) -> bytes:
    found = b""
    for number, value in fields:
        if isinstance(value, int):
            found += _varint(number << 3) + _varint(value)
        else:
            data = value.encode() if isinstance(value, str) else value
            found += _varint(number << 3 | 2) + _varint(len(data)) + data
    return found


def _sized(message: bytes) -> bytes:
    return len(message).to_bytes(4, "little") + message


def _dataset(
    folder: Path,
    run: int = 0,
    *,
    data: bytes = b"\0rows",
    deleted: bytes = b"\0deleted",
    rows: int = 50,
    predicate: str = "id = 3",
    column: str = "loss",
    indices: bool = False,
    in_file: str = "",
) -> Path:
    """Write a dataset with one version and return its manifest."""
    name, identity, deletion = _NAMES[run], _UUIDS[run], _DELETIONS[run]
    for part, content in (
        (f"data/{name}.lance", data),
        (f"_deletions/0-2-{deletion}.arrow", deleted),
        (f"_transactions/2-{identity}.txn", b""),
    ):
        (folder / part).parent.mkdir(parents=True, exist_ok=True)
        (folder / part).write_bytes(content)
    fragment = _message(
        (2, _message((1, f"{name}.lance"), (2, b"\0\1"), (6, len(data)))),
        (3, _message((2, 2), (3, deletion), (4, 1))),
        (4, rows),
    )
    transaction = _message((1, 2), (2, identity), (101, _message((1, fragment), (3, predicate))))
    own = _message((1, 2), (2, identity), (101, _message((1, fragment), (3, in_file or predicate))))
    (folder / f"_transactions/2-{identity}.txn").write_bytes(own)
    fields: list[tuple[int, int | str | bytes]] = [
        (1, _message((2, column))),
        (2, fragment),
        (3, 3),
        (7, _message((1, 1795770182 + run), (2, 532572839))),
        (12, f"2-{identity}.txn"),
        (21, 0),
    ]
    head = _sized(transaction)
    body = head + _sized(_message(*fields, *([(6, 7)] if indices else [])))
    path = folder / "_versions" / "18446744073709551612.manifest"
    path.parent.mkdir()
    path.write_bytes(body + len(head).to_bytes(8, "little") + b"\0\0\2\0LANC")
    return path


def _read(path: Path) -> Content:
    content = read_file(path, Masks(1_795_770_182.0))
    assert content is not None
    return content


def test_names_identities_and_times_do_not_count(tmp_path: Path) -> None:
    """Two runs draw other ones; files that the manifest names count by it."""
    one, other = (_read(_dataset(tmp_path / str(run), run)) for run in (0, 1))
    found = compare(one, other)
    assert found.same, found.why
    assert one.parts == {
        f"../data/{_NAMES[0]}.lance",
        f"../_deletions/0-2-{_DELETIONS[0]}.arrow",
        f"../_transactions/2-{_UUIDS[0]}.txn",
    }
    assert not any(one.exact.values())


@pytest.mark.parametrize(
    ("changed", "why"),
    [
        ({"data": b"\0Rows"}, "fragment 0, data"),
        ({"deleted": b"\0other"}, "fragment 0, deleted rows"),
        ({"rows": 51}, "fragment 0, field 4: 50 → 51"),
        ({"predicate": "id = 4"}, "transaction, 101.3: id = 3 → id = 4"),
        ({"in_file": "id = 4"}, "file of the transaction, 101.3: id = 3 → id = 4"),
        ({"column": "acc"}, "field 1"),
    ],
)
def test_all_else_counts(tmp_path: Path, changed: dict[str, object], why: str) -> None:
    """Data, what was deleted, the schema, and what a transaction did."""
    one, other = _dataset(tmp_path / "0"), _dataset(tmp_path / "1", 1, **changed)  # type: ignore[arg-type]
    found = compare(_read(one), _read(other))
    assert not found.same
    assert why in found.why


def _rows(*numbers: int, more: bytes = b"") -> bytes:
    """Return a file of Arrow with numbers of deleted rows."""
    messages = b"".join(b"\xff\xff\xff\xff" + (24).to_bytes(4, "little") + bytes(24) for _ in range(2))
    values = (8 * b"\xff" + b"".join(number.to_bytes(4, "little") for number in numbers)).ljust(64, b"\0")
    return (
        b"ARROW1".ljust(64, b"\0")
        + messages
        + (9 * b"\xff").ljust(64, b"\0")
        + values
        + more
        + b"\xff\xff\xff\xff"
        + bytes(4)
    )


def test_deleted_rows_are_a_set(tmp_path: Path) -> None:
    """Lance writes them in the order of a table of hashes."""
    files = (_rows(5), _rows(7), _rows(5, more=bytes(64)))
    one, *others = (_read(_dataset(tmp_path / str(at), at % 2, deleted=each)) for at, each in enumerate(files))
    assert all(not compare(one, other).same for other in others)
    assert _in_order(_rows(7, 5), 2) == _in_order(_rows(5, 7), 2) == _rows(5, 7)
    assert _in_order(_rows(7, 5), 1) == _rows(7, 5)
    assert _in_order(_rows(7, 5, more=bytes(64)), 2) == _rows(7, 5, more=bytes(64))


def test_what_is_not_known_is_not_opened(tmp_path: Path) -> None:
    """A dataset with indices, one that lacks a file, and a manifest that was cut."""
    assert read_file(_dataset(tmp_path / "a", indices=True), Masks(0.0)) is None
    lacking = _dataset(tmp_path / "b")
    (tmp_path / "b" / "data" / f"{_NAMES[0]}.lance").unlink()
    assert read_file(lacking, Masks(0.0)) is None
    cut = _dataset(tmp_path / "c")
    cut.write_bytes(cut.read_bytes()[4:])
    assert read_file(cut, Masks(0.0)) is None


def test_files_of_datasets_are_known_by_their_places() -> None:
    """Those that manifests name have drawn names; others keep theirs."""
    part = f"db/t.lance/data/{_NAMES[0]}.lance"
    manifest = "db/t.lance/_versions/1.manifest"
    assert may_be_parts([part, manifest, "db/t.lance/data/w.npy"]) == {part}
    assert may_be_parts([part]) == frozenset()
