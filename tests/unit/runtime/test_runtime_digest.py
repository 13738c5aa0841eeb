"""SHA-256 in guard and hook, with what the interpreter has."""

from __future__ import annotations

import builtins
import hashlib
import sys
from types import SimpleNamespace
from typing import Any

import pytest

from envbuild.runtime import digest

DATA = b"of a file"
EXPECTED = hashlib.sha256(DATA).hexdigest()


@pytest.fixture(autouse=True)
def without_openssl(monkeypatch: pytest.MonkeyPatch) -> None:
    """As in a process that has not loaded it, and has hashed nothing yet."""
    monkeypatch.delitem(sys.modules, "_hashlib")
    monkeypatch.setattr(digest, "_own", None)


@pytest.mark.parametrize("absent", [(), ("_sha2",), ("_sha256",), ("_sha2", "_sha256")])
def test_it_is_the_same_whatever_there_is(absent: tuple[str, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    """Python 3.12 has ``_sha2``, older ones have ``_sha256``; an interpreter may be built without."""
    for name in absent:
        monkeypatch.setitem(sys.modules, name, None)
    assert [digest.sha256(DATA), digest.sha256(DATA)] == [EXPECTED, EXPECTED]


def test_it_looks_for_modules_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """The guard hashes a hundred files, and to find that there is no such module takes longer than hashing one."""
    found, original = [], builtins.__import__

    def counted(name: str, *arguments: Any) -> Any:
        found.append(name)
        return original(name, *arguments)

    monkeypatch.setattr(builtins, "__import__", counted)
    digest.sha256(DATA)
    first = len(found)
    digest.sha256(DATA)
    assert first
    assert len(found) == first


def test_openssl_is_taken_where_it_is_loaded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also if the program has loaded it later: it is faster."""
    digest.sha256(DATA)
    monkeypatch.setitem(sys.modules, "_hashlib", SimpleNamespace(openssl_sha256=lambda data: hashlib.sha256(b"")))
    assert digest.sha256(DATA) == hashlib.sha256(b"").hexdigest()
