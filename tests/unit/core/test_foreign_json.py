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
