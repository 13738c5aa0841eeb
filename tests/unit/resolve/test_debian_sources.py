from __future__ import annotations

from pathlib import Path

import pytest

from envbuild.errors import ResolveError
from envbuild.resolve.debian.sources import AptConfig, archive_bases, check_snapshot, origin, read_apt_config

NOTHING = AptConfig(mirrors={})
APT = AptConfig(
    mirrors={"debian": ("http://one.invalid/debian",), "debian-security": ("http://two.invalid/debian-security",)},
    snapshot="http://old.invalid",
)
TIME = "20260115T000000Z"


def configure(root: Path, files: dict[str, str]) -> AptConfig:
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return read_apt_config(root, root / "template")


def test_one_line_sources_are_read(tmp_path: Path) -> None:
    """Options, comments, sources and foreign archives are distinguished; the order of the files is kept."""
    found = configure(
        tmp_path,
        {
            "sources.list": "# deb http://no.invalid/debian trixie main\n"
            "deb-src http://no.invalid/debian trixie main\n"
            "deb [arch=amd64 signed-by=/k.gpg] http://a.invalid/debian/ bookworm main\n",
            "sources.list.d/b.list": "deb https://b.invalid/pub/debian bookworm main\n"
            "deb http://b.invalid/ubuntu noble main\ndeb cdrom:[Debian]/debian bookworm main\n",
            "sources.list.d/c.list": "deb http://c.invalid/debian-security bookworm-security main\n",
            "sources.list.d/d.list.save": "deb http://no.invalid/debian bookworm main\n",
        },
    )
    assert found == AptConfig(
        mirrors={
            "debian": ("http://a.invalid/debian", "https://b.invalid/pub/debian"),
            "debian-security": ("http://c.invalid/debian-security",),
            "ubuntu": ("http://b.invalid/ubuntu",),
        }
    )


def test_deb822_sources_are_read(tmp_path: Path) -> None:
    """Stanzas, several addresses, folded fields, comments and Enabled: no are understood."""
    text = (
        "Types: deb\n# http://no.invalid/debian\nURIs: http://a.invalid/debian\n https://b.invalid/debian\n"
        "Suites: trixie\nComponents: main\n\n"
        "Types: deb-src\nURIs: http://no.invalid/debian\nSuites: trixie\n\n"
        "Enabled: no\nTypes: deb\nURIs: http://no.invalid/debian\nSuites: trixie\n\n"
        "Types: deb deb-src\nURIs: http://c.invalid/debian-security/\nSuites: trixie-security\n"
    )
    assert configure(tmp_path, {"sources.list.d/debian.sources": text}).mirrors == {
        "debian": ("http://a.invalid/debian", "https://b.invalid/debian"),
        "debian-security": ("http://c.invalid/debian-security",),
    }


def test_a_machine_without_apt_reports_nothing(tmp_path: Path) -> None:
    """No configuration is no error."""
    assert read_apt_config(tmp_path / "none", tmp_path / "none") == AptConfig(
        mirrors={"debian": (), "debian-security": ()}
    )


@pytest.mark.parametrize(
    ("name", "text"),
    [
        (
            "apt.conf.d/50s",
            'Acquire::Snapshots::URI::Origin::Debian "http://s.invalid/archive/debian/@SNAPSHOTID@/";\n',
        ),
        ("sources.list.d/debian.sources", "Types: deb\n# http://s.invalid/archive/debian/20250520T000000Z\n"),
    ],
)
def test_the_snapshot_service_is_found_in_apt_s_files(tmp_path: Path, name: str, text: str) -> None:
    """apt's own setting counts, and the note that official images leave in their sources."""
    assert configure(tmp_path, {name: text}).snapshot == "http://s.invalid"


@pytest.mark.parametrize(
    ("mirror", "snapshot", "expected"),
    [
        ("http://m.invalid/debian", "", "http://m.invalid/debian-security"),
        ("http://m.invalid/debian/", "", "http://m.invalid/debian-security"),
        ("http://m.invalid/x", "", "http://m.invalid/x/debian-security"),
        ("file:///srv/{archive}", "", "file:///srv/debian-security"),
        ("http://m.invalid", TIME, f"http://m.invalid/archive/debian-security/{TIME}"),
        ("http://m.invalid/{snapshot}/{archive}", TIME, f"http://m.invalid/{TIME}/debian-security"),
    ],
)
def test_the_spec_s_mirror_comes_first(mirror: str, snapshot: str, expected: str) -> None:
    """A mirror names its archive, the folder of both, a pattern, or with a time a snapshot service."""
    assert archive_bases("debian-security", mirror=mirror, snapshot=snapshot, apt=APT, environ={}) == (expected,)


def test_apt_s_mirrors_come_next() -> None:
    """Without a mirror in the spec, the machine's own are used, each archive its own."""
    assert archive_bases("debian", apt=APT, environ={}) == ("http://one.invalid/debian",)
    assert archive_bases("debian-security", apt=APT, environ={}) == ("http://two.invalid/debian-security",)


def test_a_snapshot_never_comes_from_a_mirror_of_today() -> None:
    """A pinned time goes to the snapshot service; the environment's comes before apt's."""
    assert archive_bases("debian", snapshot=TIME, apt=APT, environ={}) == (f"http://old.invalid/archive/debian/{TIME}",)
    environ = {"ENVBUILD_DEBIAN_SNAPSHOT": "http://mine.invalid/"}
    assert archive_bases("debian", snapshot=TIME, apt=APT, environ=environ) == (
        f"http://mine.invalid/archive/debian/{TIME}",
    )


def test_a_machine_without_mirrors_gets_the_snapshot_of_today() -> None:
    """The service is asked for the newest snapshot before this day began."""
    (base,) = archive_bases("debian", apt=NOTHING, environ={"ENVBUILD_DEBIAN_SNAPSHOT": "http://mine.invalid"})
    start, _, time = base.rpartition("/")
    assert start == "http://mine.invalid/archive/debian"
    assert check_snapshot(time).endswith("T000000Z")


@pytest.mark.parametrize(
    ("snapshot", "start"),
    [(TIME, f"os snapshot: {TIME} needs"), ("", "no mirror of debian is known: neither os.mirror in the spec")],
)
def test_a_missing_snapshot_service_is_reported_with_the_setting_to_make(snapshot: str, start: str) -> None:
    """No address is built in, so the message states where one is written."""
    with pytest.raises(ResolveError) as caught:
        archive_bases("debian", snapshot=snapshot, apt=NOTHING, environ={})
    assert caught.value.message.startswith(start)
    assert "mirror: http://mirror.example.invalid/debian" in caught.value.hint
    assert "export ENVBUILD_DEBIAN_SNAPSHOT=ADDRESS" in caught.value.hint


@pytest.mark.parametrize("mirror", ["ftp://m.invalid/debian", "http://m.invalid/a b", "http://m.invalid/`id`", "/srv"])
def test_a_mirror_that_is_no_address_is_refused(mirror: str) -> None:
    """Only http, https and file addresses without odd characters pass."""
    with pytest.raises(ResolveError) as caught:
        archive_bases("debian", mirror=mirror, apt=APT, environ={})
    assert caught.value.message == f"os mirror: expected an http, https or file address, found {mirror!r}"


@pytest.mark.parametrize("time", ["2026-01-15", "20260115T000000", "20260115T000000Z\n", "../x"])
def test_a_time_that_is_none_is_refused(time: str) -> None:
    """A snapshot time becomes part of an address, so it is matched whole."""
    with pytest.raises(ResolveError, match=r"os snapshot: expected a UTC time such as 20260115T000000Z, found"):
        archive_bases("debian", snapshot=time, apt=APT, environ={})


def test_a_mirror_pattern_without_a_place_for_the_time_is_refused() -> None:
    """A time that would be ignored is an error."""
    with pytest.raises(ResolveError, match=r"os mirror: with a snapshot, expected \{snapshot\} in the address"):
        archive_bases("debian", mirror="http://m.invalid/{archive}", snapshot=TIME, apt=APT, environ={})


def test_the_service_of_a_fetch_keeps_its_place_for_a_time() -> None:
    """``origin`` leaves the time to the caller, and is empty where no service is known."""
    assert origin("debian", APT, {}) == "http://old.invalid/archive/debian/{snapshot}"
    assert origin("debian", NOTHING, {}) == ""


_TEMPLATE = """\
ChangelogURI: https://changes.example.invalid/%s

Suite: {series}
RepositoryType: deb
BaseURI: https://mirror.example.invalid/debian/
MatchURI: x
Component: main

Suite: {series}-security
RepositoryType: deb
BaseURI: https://security.example.invalid/
Description: Security updates

Suite: lenny
Description: no address

Suite: sarge/updates
BaseURI: file:/etc/passwd
"""


def test_another_distribution_s_apt_names_debian_s_mirror(tmp_path: Path) -> None:
    """Where sources name none, as on Ubuntu, the mirror is that of python-apt's templates; sources of Debian win."""
    template = tmp_path / "Debian.info"
    template.write_text(_TEMPLATE)
    (tmp_path / "sources.list").write_text("deb http://ubuntu.example.invalid/ubuntu noble main\n")
    assert read_apt_config(tmp_path, template).mirrors == {
        "debian": ("https://mirror.example.invalid/debian",),
        "debian-security": (
            "https://security.example.invalid/debian-security",
            "https://mirror.example.invalid/debian-security",
        ),
        "ubuntu": ("http://ubuntu.example.invalid/ubuntu",),
    }
    (tmp_path / "sources.list").write_text("deb http://near.example.invalid/debian bookworm main\n")
    assert read_apt_config(tmp_path, template).mirrors["debian"] == ("http://near.example.invalid/debian",)
