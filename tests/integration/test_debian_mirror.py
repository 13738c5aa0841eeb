"""Debian archives over HTTP: one on this machine, frozen in time, and the real one."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime, timedelta, timezone
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from pysequoia import Cert

from envbuild.core.package_data import archive_keys
from envbuild.errors import IntegrityError
from envbuild.image.os.deb import open_deb
from envbuild.resolve.debian.closure import OsRequest, deb_urls, resolve_os
from envbuild.resolve.debian.contents import package_for_library
from envbuild.resolve.debian.sources import AptConfig
from tests.support.archives import BASE, keyring, stanza, write_release
from tests.support.oslocks import real_os, shared_store

TIMES = {"20250101T000000Z": "1.0", "20250601T000000Z": "2.0"}
NOTHING = AptConfig(mirrors={})


@dataclass
class Site:
    """A folder served over HTTP, and the status of each request in order."""

    root: Path
    url: str = ""
    log: list[tuple[str, int]] = field(default_factory=list)


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    """Serve an empty folder on the loopback interface."""
    found = Site(tmp_path / "site")
    found.root.mkdir()

    class Handler(SimpleHTTPRequestHandler):
        def log_request(self, code: Any = "-", size: Any = "-") -> None:
            found.log.append((self.path, int(code)))

        def log_message(self, *arguments: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Handler, directory=str(found.root)))
    found.url = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    yield found
    server.shutdown()
    thread.join()
    server.server_close()


def test_a_dated_snapshot_service_is_used(site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two times of a frozen archive give two systems, again and again, and their files come from the same times."""
    for time, version in TIMES.items():
        date = datetime.strptime(time, "%Y%m%dT%H%M%SZ").replace(tzinfo=timezone.utc) - timedelta(hours=3)
        write_release(tmp_path / "made", main=[*BASE, stanza("tool", version)], date=date)
        for archive in ("debian", "debian-security"):
            (site.root / "archive" / archive).mkdir(parents=True, exist_ok=True)
            (tmp_path / "made" / archive).rename(site.root / "archive" / archive / time)
    monkeypatch.setenv("ENVBUILD_DEBIAN_SNAPSHOT", site.url)
    keys = [keyring(tmp_path / "key.pgp")]
    for time, version in TIMES.items():
        request = OsRequest(release="debian-12", architecture="amd64", packages=("tool",), snapshot=time)
        found = resolve_os(request, tmp_path / "cache", keyrings=keys, apt=NOTHING)
        asked = len(site.log)
        assert resolve_os(request, tmp_path / "cache", keyrings=keys, apt=NOTHING) == found
        assert len(site.log) == asked
        tool = found.packages[-1]
        assert (tool.name, tool.version, found.snapshot) == ("tool", version, time)
        assert deb_urls(found, apt=NOTHING)[tool.sha256] == (
            f"{site.url}/archive/debian/{time}/pool/main/t/tool/tool_{version}_amd64.deb",
        )


def test_an_unchanged_release_file_is_not_sent_again(site: Site, tmp_path: Path) -> None:
    """A mirror that knows conditional requests answers 304, and nothing else is asked for."""
    write_release(site.root)
    request = OsRequest(release="debian-12", architecture="amd64", packages=(), mirror=f"{site.url}/debian")
    ask = partial(resolve_os, request, tmp_path / "cache", keyrings=[keyring(tmp_path / "key.pgp")], apt=NOTHING)
    first = ask()
    site.log.clear()
    assert ask(refresh=True) == first
    assert sorted(site.log) == [
        ("/debian-security/dists/bookworm-security/InRelease", 304),
        ("/debian/dists/bookworm-updates/InRelease", 304),
        ("/debian/dists/bookworm/InRelease", 304),
    ]


def test_a_mirror_that_is_not_there_is_reported(tmp_path: Path) -> None:
    """No connection: the address, the reason, and what to check."""
    request = OsRequest(release="debian-12", architecture="amd64", packages=(), mirror="http://127.0.0.1:9/debian")
    with pytest.raises(IntegrityError) as caught:
        resolve_os(request, tmp_path / "cache", apt=NOTHING)
    assert caught.value.message == (
        "http://127.0.0.1:9/debian/dists/bookworm/InRelease: expected the file, "
        "found: no connection: [Errno 111] Connection refused"
    )
    assert caught.value.hint == "check the network and the mirror (the spec's, or apt's sources)"


@pytest.mark.network
def test_the_real_archive_reports_which_package_ships_a_library(tmp_path: Path) -> None:
    """The library that TensorFlow misses on a minimal system, the one OpenCV misses, and one that nobody has."""
    request = OsRequest(release="debian-12", architecture="amd64", packages=())
    assert package_for_library("libstdc++.so.6", request, tmp_path)[0] == "libstdc++6"
    assert package_for_library("libGL.so.1", request, tmp_path) == ["libgl1"]
    assert package_for_library("libcuda.so.1", request, tmp_path) == []


@pytest.mark.network
def test_ubuntu_s_keys_are_those_of_debian_s_package(tmp_path: Path) -> None:
    """The package comes from Debian's mirror, verified like any; the key that ships with envbuild is one of its own."""
    system = real_os("debian-13", "ubuntu-keyring")
    (package,) = (found for found in system.packages if found.name == "ubuntu-keyring")
    deb = open_deb(shared_store().path(package.sha256), package.file)
    with (tmp_path / "data.tar").open("w+b") as data:
        deb.unpack_data(data)
        data.seek(0)
        found = {entry.path: content.read() for entry, content in deb.members(data) if content}
    theirs = Cert.split_bytes(found["usr/share/keyrings/ubuntu-archive-keyring.gpg"])
    ours = [Cert.from_bytes(path.read_bytes()) for path in archive_keys("ubuntu")]
    assert {bytes(certificate) for certificate in ours} <= {bytes(certificate) for certificate in theirs}
    assert ours
