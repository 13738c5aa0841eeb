"""Fetching without a network: files of this machine, and what is asked of whom."""

from __future__ import annotations

import io
import os
from pathlib import Path

import pytest

from envbuild.core.digest import sha256_bytes
from envbuild.core.progress import Silent
from envbuild.errors import IntegrityError
from envbuild.net.config import NetworkConfig
from envbuild.store.download import local_path
from envbuild.store.fetch import FetchResult, Item, fetch, lock_items
from envbuild.store.objects import Store
from envbuild.store.partial import Part, copy_into
from tests.support.locks import small_lock

OFFLINE = NetworkConfig(offline=True)


def item(*sources: str, data: bytes) -> Item:
    return Item(name="a.whl", size=len(data), sha256=sha256_bytes(data), sources=sources)


@pytest.mark.parametrize("prefix", ["", "file://", "file:"])
def test_files_of_this_machine_are_sources_even_offline(tmp_path: Path, prefix: str) -> None:
    """Plain paths and file: URLs serve without a network; the original stays as it was."""
    source = tmp_path / "a b.whl"
    source.write_bytes(b"wheel")
    address = str(source) if not prefix else f"{prefix}{source}".replace(" ", "%20")
    result = fetch([item(address, data=b"wheel")], Store(tmp_path / "store"), Silent(), OFFLINE)
    assert (result.fetched, result.bytes, result.reused) == (1, 5, 0)
    assert source.stat().st_nlink == 1


def test_a_folder_with_another_file_of_the_same_name_is_passed_over(tmp_path: Path) -> None:
    """Wrong local files are skipped with a warning, absent and odd ones silently; the right one is taken."""
    for name, data in (("short", b"whee"), ("wrong", b"WHEEL"), ("right", b"wheel")):
        (tmp_path / name).write_bytes(data)
    os.mkfifo(tmp_path / "fifo")
    names = ("absent", "fifo", "short", "wrong", "right")
    sources = [str(tmp_path / name) for name in names]
    result = fetch([item(*sources, data=b"wheel")], Store(tmp_path / "store"), Silent(), OFFLINE)
    assert result.fetched == 1
    assert [warning.split(": expected")[0] for warning in result.warnings] == [
        "a.whl: wrong size",
        "a.whl: wrong bytes",
    ]


def test_what_is_wrong_with_each_source_is_reported(tmp_path: Path) -> None:
    """If no source serves, each is listed with its fault."""
    sources = (str(tmp_path / "absent"), str(tmp_path), "ftp://h.example.invalid/x", "https://h.example.invalid:x/")
    with pytest.raises(IntegrityError) as caught:
        fetch([item(*sources, data=b"wheel")], Store(tmp_path / "store"), Silent(), NetworkConfig())
    assert caught.value.message == (
        "1 of 1 files could not be fetched\n  a.whl (5 B)\n"
        f"    {tmp_path}/absent: No such file or directory\n"
        f"    {tmp_path}: not a regular file\n"
        "    ftp://h.example.invalid/x: not an http address: ftp://h.example.invalid/x\n"
        "    https://h.example.invalid:x/: not a usable address: Port could not be cast to integer value as 'x'"
    )


def test_nothing_to_do_is_nothing(tmp_path: Path) -> None:
    """An empty fetch makes no folder and has a rate of zero."""
    result = fetch([], Store(tmp_path / "store"), Silent(), OFFLINE)
    assert (result, result.rate) == (FetchResult(fetched=0, bytes=0, reused=0, seconds=0.0), 0.0)
    assert not (tmp_path / "store").exists()


def test_the_rate_is_in_megabytes_per_second() -> None:
    """10^6 bytes in half a second are 2 MB/s."""
    assert FetchResult(fetched=1, bytes=1_000_000, reused=0, seconds=0.5).rate == 2.0


def test_a_lock_lists_its_files_with_their_sources_in_order() -> None:
    """Debian packages and wheels become items; of several mappings the first is tried first, no source twice."""
    lock = small_lock({"xx-1.0-py3-none-any.whl": b"wheel"}, {"yy_1.0_amd64.deb": b"deb"})
    wheel, deb = sha256_bytes(b"wheel"), sha256_bytes(b"deb")
    items = lock_items(lock, {wheel: ("/vendored",)}, {wheel: ("https://one", "/vendored"), "other": ("https://two",)})
    assert [(entry.name, entry.size, entry.sha256, entry.sources) for entry in items] == [
        ("yy_1.0_amd64.deb", 3, deb, ()),
        ("xx-1.0-py3-none-any.whl", 5, wheel, ("/vendored", "https://one")),
    ]


def test_only_addresses_of_this_machine_are_paths() -> None:
    """http addresses and relative names are no local files."""
    assert local_path("/a/b") == Path("/a/b")
    assert local_path("file:///a%20b/c") == Path("/a b/c")
    assert local_path("https://h.example.invalid/a") is None
    assert local_path("a/b") is None


def test_a_file_that_grows_without_end_is_left(tmp_path: Path) -> None:
    """A shared folder's file may be longer than when it was looked at: no more than its promised size is copied."""

    class Endless(io.BytesIO):
        def read(self, size: int | None = -1) -> bytes:
            return bytes(max(size or 0, 0))

        def fileno(self) -> int:
            return -1

    with (tmp_path / "part").open("w+b", buffering=0) as stream:
        part = Part(stream)
        copy_into(part, Endless(), limit=3 << 20)
        assert 3 << 20 < part.size <= 4 << 20
