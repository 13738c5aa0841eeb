"""What is read and written without ``json`` is what ``json`` reads and writes, with its exceptions."""

from __future__ import annotations

import json
import sys
from typing import Any

import pytest

from envbuild.core import quick_json
from envbuild.core.digest import canonical_json

VALUES: list[Any] = [
    {},
    [],
    {"b": [1, -2, 0, 10**30], "a": {"é": 'ü\u2028 \ud800 "\\/\b\f\n\r\t\x00\x1f\x7f'}, "": None},
    [1.0, 1e16, 1e-7, 0.1, -0.0, 123456789.123, float("inf"), float("-inf")],
    [True, False, None, [[[]]], {"z": {}, "y": ()}],
    "text é",
    7,
    2.5,
    None,
    {1: 2, None: 3, 2.5: 4},
]
DOCUMENTS = [
    '{"a": 1}', '[1, 2.5e3, "é"]', '  {"a": NaN}', '{"a": [Infinity, -Infinity, NaN]} \r\n\t', '{"a": 1, "a": 2}',
    '"x"', "7", '{"a": "\\ud800", "b": "\\u00e9"}', '{"a": "é\u2028"}',
    "", "{", "[1,]", '{"a": 1} x', '{"a" 1}', "{'a': 1}", '{"a": "\n"}', "\ufeff{}", "[1]\u00a0", "[nan]", "[01]",
    '{"a": \x00}',
]  # fmt: skip
BYTES = [
    *(text.encode("utf-8") for text in DOCUMENTS),
    b"[\xff]", b'["\xed\xa0\x80"]', b"\xef\xbb\xbf{}", b"[", b"{", b"[\x00]", bytearray(b'{"a": [1]}'),
    *('{"a": "é"}'.encode(kind) for kind in ("utf-16", "utf-16-le", "utf-16-be", "utf-32", "utf-32-le")),
]  # fmt: skip


@pytest.fixture(autouse=True)
def _without(monkeypatch: pytest.MonkeyPatch) -> None:
    """As in a command that has not imported it."""
    monkeypatch.delitem(sys.modules, "json")


def outcome(function: Any, *arguments: Any, **named: Any) -> str:
    try:
        return repr(function(*arguments, **named))
    except (ValueError, TypeError, RecursionError) as error:
        return f"{type(error).__name__}: {error}"


@pytest.mark.parametrize("document", [*DOCUMENTS, *BYTES], ids=repr)
def test_documents_are_read_alike(document: str | bytes | bytearray) -> None:
    """Values, and what is wrong with a document."""
    assert outcome(quick_json.loads, document) == outcome(json.loads, document)


def test_documents_are_nested_too_deeply_for_both() -> None:
    """The exception is not taken for a document of another kind."""
    with pytest.raises(RecursionError):
        quick_json.loads("[" * 200_000)


@pytest.mark.parametrize("value", VALUES, ids=repr)
def test_values_are_written_alike(value: Any) -> None:
    """To the last byte: digests are made of it."""
    assert quick_json.dumps(value) == json.dumps(value)
    canonical = outcome(json.dumps, value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    assert outcome(quick_json.dumps, value, canonical=True) == canonical


def test_what_is_no_value_is_refused_alike() -> None:
    """As ``json`` puts it."""
    for value in ({"a": {1}}, [b""], {(1,): 2}):
        assert outcome(quick_json.dumps, value) == outcome(json.dumps, value)
    found: list[Any] = []
    found.append(found)
    assert outcome(quick_json.dumps, found) == outcome(json.dumps, found)


def test_json_is_not_imported_for_what_is_as_expected() -> None:
    """That is what it is for."""
    quick_json.loads(b'{"a": [1, 2.5, "x"]}')
    canonical_json({"a": [1, "x"]})
    assert "json" not in sys.modules
