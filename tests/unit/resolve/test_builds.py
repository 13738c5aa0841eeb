"""Standalone builds of CPython: the table, which one is taken, and where archives come from."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from envbuild.core.digest import sha256_file
from envbuild.core.progress import Silent
from envbuild.errors import IntegrityError, ResolveError, UsageError
from envbuild.lockfile.model import PythonBuild
from envbuild.net.config import network_config
from envbuild.resolve.python import build_sources, builds
from envbuild.spec.keys import STANDALONE
from tests.support.pythons import RELEASE, file_name, tiny_archive, write_list
from tools import python_builds

PATH = f"{RELEASE}/{file_name('3.12.7')}"


@pytest.fixture(autouse=True)
def _without_the_machines_settings(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in (build_sources.VARIABLE, build_sources.UV_VARIABLE, "UV_CONFIG_FILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize("architecture", ["amd64", "arm64"])
def test_the_table_has_every_python_that_a_spec_may_name(architecture: str) -> None:
    """Each feature release has builds; a row's path names its release of CPython, and no row is free-threaded."""
    rows = getattr(builds.table(), architecture)
    assert {version.rpartition(".")[0] for version in rows} == set(STANDALONE)
    machine = {"amd64": "x86_64", "arm64": "aarch64"}[architecture]
    for version, row in rows.items():
        assert f"/cpython-{version}+" in row.path
        assert f"-{machine}-unknown-linux-gnu-install_only" in row.path
        assert "freethreaded" not in row.path
    assert all(builds.table().source)


def test_the_newest_of_a_feature_release_is_taken() -> None:
    """By number, not by text: 3.12.10 is newer than 3.12.9."""
    rows = {f"3.12.{patch}": builds.Row(path=f"{RELEASE}/{file_name(f'3.12.{patch}')}") for patch in (9, 10, 1)}
    table = builds.Table(amd64=rows)
    assert builds.choose("3.12", "amd64", listed=table) == ("3.12.10", rows["3.12.10"])
    assert builds.choose("3.12.1", "amd64", listed=table) == ("3.12.1", rows["3.12.1"])


def test_a_locked_build_stays() -> None:
    """A newer build moves no lock; another wish of the spec does."""
    held = PythonBuild(version="3.12.7", path=PATH, size=1, sha256="1" * 64)
    assert builds.choose("3.12", "amd64", held) == ("3.12.7", held)
    assert builds.choose("3.12.7", "amd64", held) == ("3.12.7", held)
    assert builds.choose("3.12.6", "amd64", held)[0] == "3.12.6"
    assert builds.choose("3.13", "amd64", held)[0].startswith("3.13.")


def test_a_release_without_a_build_is_reported_with_those_there_are() -> None:
    """The message names the range, the hint a release to write."""
    rows = {f"3.12.{patch}": builds.Row(path=f"{RELEASE}/{file_name(f'3.12.{patch}')}") for patch in (1, 2)}
    with pytest.raises(ResolveError) as caught:
        builds.choose("3.12.99", "amd64", listed=builds.Table(amd64=rows))
    assert "of 3.12 there are 3.12.1 to 3.12.2" in caught.value.message
    assert "3.12.2" in caught.value.hint


def test_a_folder_has_a_list_of_its_own(tmp_path: Path) -> None:
    """Builds that are in no table can be used; what is no list is refused with its path."""
    tiny_archive(tmp_path / "py" / PATH)
    write_list(tmp_path / "py")
    path = build_sources.own_list({build_sources.VARIABLE: str(tmp_path / "py")})
    assert path == tmp_path / "py" / "pythons.toml"
    assert list(builds.read_table(path).amd64) == ["3.12.7"]
    path.write_text("[amd64]\n'3.12.7' = 3\n")
    with pytest.raises(UsageError, match=r"pythons\.toml"):
        builds.read_table(path)


def test_addresses_follow_the_configuration(tmp_path: Path) -> None:
    """Own setting, uv's variable, the user's file of uv, in this order; a project has no say. A folder may be flat."""
    own, uvs = (
        {build_sources.VARIABLE: "https://one.example.invalid/py/"},
        {build_sources.UV_VARIABLE: "file:///srv/py"},
    )
    quoted = PATH.replace("+", "%2B")
    assert build_sources.addresses(PATH, own | uvs) == (f"https://one.example.invalid/py/{quoted}",)
    places = (PATH, quoted, file_name("3.12.7"), file_name("3.12.7").replace("+", "%2B"))
    assert build_sources.addresses(PATH, uvs) == tuple(f"/srv/py/{place}" for place in places)
    settings = tmp_path / "uv/uv.toml"
    settings.parent.mkdir()
    settings.write_text('python-install-mirror = "https://two.example.invalid"\n')
    (tmp_path / "uv.toml").write_text('python-install-mirror = "https://project.example.invalid"\n')
    environ = {"XDG_CONFIG_HOME": str(tmp_path)}
    assert build_sources.addresses(PATH, environ) == (f"https://two.example.invalid/{quoted}",)


@pytest.mark.parametrize("mirror", ["ftp://x.example.invalid", "relative/folder", "https://"])
def test_what_is_no_mirror_is_refused(mirror: str) -> None:
    """The message names the variables."""
    with pytest.raises(UsageError) as caught:
        build_sources.addresses(PATH, {build_sources.VARIABLE: mirror})
    assert build_sources.VARIABLE in caught.value.hint


def test_an_archive_comes_from_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Size and digest are those of the bytes; every place that lacks it is named."""
    archive = tiny_archive(tmp_path / "py" / file_name("3.12.7"))
    monkeypatch.setenv(build_sources.VARIABLE, str(tmp_path / "py"))
    found = build_sources.download(PATH, tmp_path / "a", network_config(), Silent())
    assert (found.size, found.sha256) == (archive.stat().st_size, sha256_file(archive))
    assert (tmp_path / "a").read_bytes() == archive.read_bytes()
    with pytest.raises(IntegrityError) as caught:
        build_sources.download(f"{RELEASE}/{file_name('3.12.8')}", tmp_path / "b", network_config(), Silent())
    assert caught.value.message.count(str(tmp_path / "py")) == 4


def entry(version: str, **changes: Any) -> dict[str, Any]:
    name = file_name(version).replace("+", "%2B")
    return {
        "version": version,
        "url": f"https://host.example.invalid/a/{RELEASE}/{name}",
        "os": "linux",
        "libc": "gnu",
        "arch": "x86_64",
        "variant": "default",
        "implementation": "cpython",
        **changes,
    }


def test_the_table_is_derived_from_the_list_of_uv() -> None:
    """Releases for glibc only, with the digests of uv's metadata; free-threaded and unfinished ones are left out."""
    entries = [
        entry("3.12.7"),
        entry("3.12.10"),
        entry("3.13.1", variant="freethreaded"),
        entry("3.15.0a1"),
        entry("3.12.9", libc="musl"),
        entry("3.12.8", implementation="pypy"),
        entry("3.9.1"),
    ]
    digests = python_builds.digests_in({"x": {"url": entry("3.12.7")["url"], "sha256": "a" * 64}})
    tables = python_builds.rows(entries, digests)
    assert tables == {
        "amd64": {
            "3.12.10": {"path": f"{RELEASE}/{file_name('3.12.10')}"},
            "3.12.7": {"path": PATH, "sha256": "a" * 64},
        },
        "arm64": {},
    }
    assert json.dumps(tables).count("example.invalid") == 0
