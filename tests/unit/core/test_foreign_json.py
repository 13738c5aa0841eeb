"""JSON that is nested too deeply is damaged JSON, wherever it is read."""

from __future__ import annotations

from pathlib import Path

import pytest

from envbuild.core.foreign_json import parse_json
from envbuild.errors import LockError
from envbuild.record.model import RecordError, loads
from envbuild.verification import attestation

DEEP = b'{"a":' * 100_000


def test_nested_too_deeply_is_a_value_error() -> None:
    """Everybody who reads JSON from outside expects a ValueError."""
    with pytest.raises(ValueError, match="nested too deeply"):
        parse_json(b"[" * 100_000)
    with pytest.raises(ValueError, match="Expecting"):
        parse_json(b"[")


def test_records_and_attestations_are_refused(tmp_path: Path) -> None:
    """Both report that the file is damaged."""
    with pytest.raises(RecordError, match="is not a record"):
        loads(DEEP)
    (tmp_path / "x").write_bytes(DEEP)
    with pytest.raises(LockError, match="is no attestation"):
        attestation.load(tmp_path / "x")


@pytest.mark.parametrize(("value", "count"), [("[],", 2_100_000), ('"":0,', 2_100_000), ("0,", 4_100_000)])
def test_megabytes_of_values_are_refused(tmp_path: Path, value: str, count: int) -> None:
    """What would take hundreds of megabytes as Python's values is refused before it is parsed, by other parsers too."""
    values = value * count
    data = (f'{{"x":{{{values}"":0}}}}' if ":" in values else f'{{"x":[{values}0]}}').encode()
    for parse in (lambda: parse_json(data), lambda: parse_json(data.decode())):
        with pytest.raises(ValueError, match="more than 4000000 values"):
            parse()
    with pytest.raises(RecordError, match="more than 4000000 values"):
        loads(data)
    (tmp_path / "x").write_bytes(data)
    with pytest.raises(LockError, match="more than 4000000 values"):
        attestation.load(tmp_path / "x")


def test_megabytes_of_text_are_not() -> None:
    """One long text is one value."""
    assert parse_json(b'"' + b"x" * 5_000_000 + b'"') == "x" * 5_000_000
