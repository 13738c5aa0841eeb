"""``envbuild lock`` as users run it: real processes, against archives and indexes on the loopback."""

from __future__ import annotations

import base64
import hashlib
import re
import shutil
import subprocess
from collections.abc import Iterator
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import pytest

from envbuild.lockfile import layout
from envbuild.lockfile import model as locks
from envbuild.resolve.libraries.wheels import scan_wheel
from envbuild.store.objects import Store
from tests.support.archives import BASE, keyring, stanza, write_release
from tests.support.cli import Done, Project, finish
from tests.support.elf import make_elf
from tests.support.indexes import make_index
from tests.support.locks import sealed
from tests.support.server import FileServer, Served
from tests.support.wheels import make_wheel

SYSTEM = (
    *BASE,
    stanza("libstdc++6", "12"),
    stanza("python3.11", "3.11.2", depends="libc6"),
    stanza("ffmpeg", "7:5.1", depends="libc6"),
    stanza("git", "1:2.39", depends="libc6"),
    stanza("libgl1", "1.6", depends="libc6"),
    stanza("libodbc2", "2.3", depends="libc6"),
    stanza("tzdata", "2026a", architecture="all"),
    stanza("ca-certificates", "20250419", architecture="all", depends="openssl"),
    stanza("openssl", "3.0", depends="libc6"),
)
SPEC = """\
name: t
os:
  release: debian-12
  mirror: {mirror}/debian
python: "3.11"
requirements: [alpha]
wheels: [wheels]
"""


@pytest.fixture(name="server")
def _server() -> Iterator[FileServer]:
    with FileServer() as running:
        yield running


@pytest.fixture(name="project")
def _project(tmp_path: Path, server: FileServer) -> Project:
    """A project whose Debian archive and wheels are available; ``alpha`` needs ``beta``, both in two releases."""
    write_release(tmp_path / "mirror", main=SYSTEM)
    server.add_tree(tmp_path / "mirror")
    environ = {"ENVBUILD_DEBIAN_KEYS": str(keyring(tmp_path / "key.pgp"))}
    project = Project(folder=tmp_path / "project", store=tmp_path / "store", environ=environ)
    for version in ("1.0", "2.0"):
        make_wheel(project.folder / "wheels", "alpha", version, requires=["beta"])
        make_wheel(project.folder / "wheels", "beta", version)
    project.write("spec.yaml", SPEC.format(mirror=server.url))
    return project


def _lock(project: Project) -> locks.Lock:
    return locks.load(project.folder / "pylock.t.toml")


def _pins(project: Project) -> dict[str, str]:
    return {package.name: package.version for package in _lock(project).packages}


def _edit(project: Project, old: str, new: str) -> None:
    text = (project.folder / "spec.yaml").read_text()
    assert old in text
    project.write("spec.yaml", text.replace(old, new))


def _refused(project: Project, code: int, *arguments: str, **environ: Any) -> Done:
    """Lock, expecting this exit code; lock and Dockerfile stay as they were and nothing else is left."""
    before = _files(project)
    done = project("lock", *arguments, **environ)
    assert (done.code, done.out) == (code, ""), done.err
    assert done.err.startswith("envbuild: ")
    assert _files(project) == before
    return done


def _files(project: Project) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in project.folder.iterdir() if path.is_file()}


def test_what_a_lock_prints(project: Project) -> None:
    """Aligned lines on standard output, nothing on standard error, no colour in a pipe; both files are written."""
    done = project.must("lock")
    lines = [re.sub(" +", " ", line) for line in done.out.splitlines()]
    assert lines[:2] == [
        "os debian-12 6 packages 6.0 kB signatures verified (Debian 12 archive keys)",
        "python 3.11 2 wheels 1.7 kB alpha 2.0 …",
    ]
    assert lines[-1].startswith("wrote pylock.t.toml, Dockerfile ")
    assert (done.err, "\033" in done.out) == ("", False)
    assert sorted(_files(project)) == ["Dockerfile", "pylock.t.toml", "spec.yaml"]
    assert project.must("lock", "--check").err == ""


def test_streams(project: Project) -> None:
    """``--json`` puts one document on standard output; ``--quiet`` leaves nothing but that."""
    done = project.must("lock", "--json")
    assert done.json == {
        "lock": "pylock.t.toml",
        "moved": [],
        "notes": [],
        "sha256": locks.lock_digest(_lock(project)),
    }
    assert "wrote     pylock.t.toml, Dockerfile" in done.err
    done = project.must("lock", "--quiet")
    assert (done.out, done.err) == ("", "")
    done = project.must("lock", "--quiet", "--json")
    assert (sorted(done.json), done.err) == (["lock", "moved", "notes", "sha256"], "")


def test_the_same_inputs_give_the_same_bytes(project: Project, tmp_path: Path) -> None:
    """Locked again, and from empty caches elsewhere, the files are the same."""
    project.must("lock")
    first = _files(project)
    project.must("lock", "--refresh")
    assert _files(project) == first
    other = Project(folder=tmp_path / "other" / "place", store=tmp_path / "other" / "store")
    shutil.copytree(project.folder / "wheels", other.folder / "wheels")
    shutil.copyfile(project.folder / "spec.yaml", other.folder / "spec.yaml")
    keys = project.environ["ENVBUILD_DEBIAN_KEYS"]
    other.must("lock", ENVBUILD_DEBIAN_KEYS=keys, TZ="Asia/Tokyo", LC_ALL="C", PYTHONHASHSEED="7")
    assert _files(other) == first


def test_pins_stay_until_they_are_asked_to_move(project: Project) -> None:
    """A new release moves nothing by itself; ``--upgrade-package`` moves one package, ``--upgrade`` all."""
    newer = [
        make_wheel(project.folder / "later", name, "3.0", requires=["beta"] if name == "alpha" else [])
        for name in ("alpha", "beta")
    ]
    project.must("lock")
    for wheel in newer:
        shutil.copy(wheel, project.folder / "wheels")
    assert project("lock", "--check").code == 11
    assert "moved" not in project.must("lock").out
    assert _pins(project) == {"alpha": "2.0", "beta": "2.0"}
    done = project.must("lock", "--upgrade-package", "beta", "--json")
    assert [re.sub(" +", " ", line) for line in done.json["moved"]] == ["beta 2.0 → 3.0"]
    assert _pins(project) == {"alpha": "2.0", "beta": "3.0"}
    done = project.must("lock", "--upgrade")
    assert "moved     alpha                         2.0 → 3.0\n" in done.out
    assert _pins(project) == {"alpha": "3.0", "beta": "3.0"}
    done = _refused(project, 12, "--upgrade-package", "betta")
    assert "--upgrade-package: no package 'betta' is locked" in done.err.replace('"', "'")
    assert "\n  → name a package of the lock; a new one is named in the spec's requirements\n" in done.err


def test_pins_of_the_system_stay_until_they_are_asked_to_move(project: Project, server: FileServer) -> None:
    """A security update moves nothing by itself and is noted; ``-P`` moves one OS package, ``--upgrade`` all."""
    _edit(project, 'python: "3.11"', 'python: "3.11"\npackages: [ffmpeg, git]')
    project.must("lock")
    updates = [stanza("ffmpeg", "7:5.2", depends="libc6"), stanza("git", "1:2.40", depends="libc6")]
    write_release(project.folder.parent / "mirror", main=SYSTEM, security=updates)
    server.add_tree(project.folder.parent / "mirror")
    done = project.must("lock", "--refresh", "--json")
    assert done.json["moved"] == []
    (note,) = done.json["notes"]
    assert note.startswith("2 OS packages have newer versions in the archive: ffmpeg, git;")
    assert project.must("lock", "-P", "ffmpeg", "--json").json["moved"] == [
        "ffmpeg (os)                   7:5.1 → 7:5.2"
    ]
    assert (_versions(project)["ffmpeg"], _versions(project)["git"]) == ("7:5.2", "1:2.39")
    project.must("lock", "--upgrade")
    assert _versions(project)["git"] == "1:2.40"


def test_an_unknown_name_to_move_is_refused_without_requirements_too(project: Project) -> None:
    """A lock of OS packages alone: one of them may be named, another name is exit 12, as it is with wheels."""
    _edit(project, "requirements: [alpha]", "packages: [git]")
    project.must("lock")
    project.must("lock", "-P", "git")
    assert "--upgrade-package: no package 'gti' is locked" in _refused(project, 12, "-P", "gti").err.replace('"', "'")


def test_a_package_that_is_gone_is_reported_with_the_ways_out(project: Project, server: FileServer) -> None:
    """Exit 13 names each place that was asked, the snapshot service too, and every way; a new lock moves it alone."""
    updates = [stanza("ffmpeg", "7:5.2", depends="libc6"), stanza("git", "1:2.40", depends="libc6")]
    mirror = project.folder.parent / "mirror"
    write_release(mirror, main=SYSTEM, security=updates)
    server.add_tree(mirror)
    _edit(project, 'python: "3.11"', 'python: "3.11"\npackages: [ffmpeg, git]')
    project.must("lock")
    project.environ["ENVBUILD_DEBIAN_SNAPSHOT"] = f"{server.url}/snapshots"
    done = project("fetch")
    assert done.code == 13
    assert f"{server.url}/debian-security/pool/main/f/ffmpeg/ffmpeg_5.2_amd64.deb: " in done.err
    assert f"{server.url}/snapshots/archive/debian-security/" in done.err
    for way in ("fetch --vendor", "fetch --from", "store pull", "envbuild lock"):
        assert way in done.err
    write_release(mirror, main=SYSTEM, security=[stanza("ffmpeg", "7:5.3", depends="libc6"), updates[1]])
    server.add_tree(mirror)
    done = project.must("lock", "--refresh", "--json")
    assert done.json["moved"] == ["ffmpeg (os)                   7:5.2 → 7:5.3"]


def test_time_zones_and_certificates_are_in_every_lock(project: Project) -> None:
    """Unless the spec leaves them out; the lock states why they are there, and a lock without them stays fresh."""
    _edit(project, "  mirror", "  without: [tzdata, ca-certificates]\n  mirror")
    project.must("lock")
    assert not {"tzdata", "ca-certificates", "openssl"} & _versions(project).keys()
    _edit(project, "  without: [tzdata, ca-certificates]\n", "")
    done = project.must("lock")
    assert {"tzdata", "ca-certificates", "openssl"} <= _versions(project).keys()
    assert _lock(project).added["tzdata"] == "in every image: time zones"
    assert "added     tzdata" not in done.out


def test_the_layout_stays_until_it_is_asked_to_move(project: Project) -> None:
    """A lock of a layout that this envbuild does not know is refused; ``--upgrade`` moves it and reports it."""
    project.must("lock")
    path = project.folder / "pylock.t.toml"
    newer = sealed(path.read_text().replace(f"layout = {layout.VERSION}\n", "layout = 99\n"))
    path.write_text(newer)
    for command in (["lock"], ["fetch"], ["build"]):
        done = project(*command)
        assert (done.code, done.out) == (11, ""), done.err
        assert done.err.startswith("envbuild: pylock.t.toml is of image layout 99; this envbuild makes layout")
        assert path.read_text() == newer
    done = project.must("lock", "--upgrade")
    assert re.search(rf"^moved +image layout +99 → {layout.VERSION}$", done.out, re.M)


@pytest.mark.parametrize(
    ("requirements", "words"),
    [
        ("[alpha>=9]", ["alpha>=9", "unsatisfiable"]),
        ("[alpha==1.0, 'beta<1']", ["beta<1"]),
        ("[gamma]", ["gamma"]),
    ],
)
def test_a_requirement_that_cannot_be_met(project: Project, requirements: str, words: list[str]) -> None:
    """Exit 12 with the resolver's own reason; the old lock stays."""
    project.must("lock")
    _edit(project, "[alpha]", requirements)
    done = _refused(project, 12)
    assert [word for word in words if word not in done.err] == []


def test_unknown_os_packages_are_reported_with_near_names(project: Project) -> None:
    """Exit 12, all unknown names at once, each with what may have been meant."""
    project.must("lock")
    _edit(project, 'python: "3.11"', 'python: "3.11"\npackages: [ffmpge, gti]')
    done = _refused(project, 12)
    assert "ffmpge" in done.err
    assert "ffmpeg" in done.err
    assert "gti" in done.err
    assert done.err.startswith("envbuild: os packages: these names do not do\n  there is no package 'ffmpge'")


def test_an_os_package_pinned_to_another_version(project: Project) -> None:
    """A version that the archive does not have is exit 12, with the version it has."""
    _edit(project, 'python: "3.11"', 'python: "3.11"\npackages: [ffmpeg=7:6.0]')
    done = _refused(project, 12)
    assert done.err == (
        "envbuild: packages[0]: ffmpeg 7:6.0 is not in the archive, which has 7:5.1\n"
        "  → write ffmpeg=7:5.1, or pin the archive: os.snapshot\n"
    )
    _edit(project, "7:6.0", "7:5.1")
    project.must("lock")


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ('"3.11"', '"3.9"', "python: "),
        ("alpha]", "alpha; touch /tmp/x]", "requirements"),
        ("alpha]", '"alpha\\nRUN evil"]', "requirements"),
        ("release: debian-12", "release: debian-99", "debian-12"),
        ("requirements", "requirments", "perhaps you meant requirements"),
        ("name: t", "name: t\n\tbad: tab", "line 2"),
        ("name: t", "name: ../t", "name"),
        ('python: "3.11"', 'python: "3.11"\npackages: ["git; reboot"]', "packages[0]"),
        ('python: "3.11"', 'python: "3.11"\ncuda: twelve', "cuda"),
    ],
)
def test_a_bad_spec(project: Project, old: str, new: str, words: str) -> None:
    """Exit 10 before anything is asked of the network: the field, its line and what was expected."""
    _edit(project, old, new)
    done = _refused(project, 10)
    assert done.err.startswith("envbuild: spec.yaml has 1 problem\n  line ")
    assert words in done.err


def _tamper(served: Served, old: bytes, new: bytes) -> None:
    assert old in served.data
    served.data = served.data.replace(old, new)


def test_an_altered_release_file(project: Project, server: FileServer) -> None:
    """Exit 13: an InRelease with one byte changed is not used, and the old lock stays."""
    project.must("lock")
    _tamper(server.files["/debian/dists/bookworm/InRelease"], b"Origin: Test", b"Origin: Evil")
    done = _refused(project, 13, "--refresh")
    assert "InRelease" in done.err
    assert "bookworm" in done.err
    shutil.rmtree(project.store)
    _refused(project, 13)


def test_a_release_file_of_a_stranger(project: Project, server: FileServer, tmp_path: Path) -> None:
    """Exit 13: an archive signed by a key nobody trusts is refused."""
    write_release(tmp_path / "evil", main=SYSTEM, key="stranger")
    server.add_tree(tmp_path / "evil")
    assert "InRelease" in _refused(project, 13).err


def test_altered_package_lists(project: Project, server: FileServer) -> None:
    """Exit 13: a Packages file that is not the one InRelease names is not used, and its address is reported."""
    for path, served in server.files.items():
        if "/debian/dists/bookworm/main/" in path and ("Packages" in path or "by-hash" in path):
            served.data = served.data[:-8] + bytes(8)
    done = _refused(project, 13)
    assert f"{server.url}/debian/dists/bookworm/main/" in done.err


def test_a_silent_mirror(project: Project, server: FileServer) -> None:
    """Exit 13: a mirror without the release is reported with its address."""
    for path in [path for path in server.files if "bookworm-security" not in path]:
        del server.files[path]
    assert f"{server.url}/debian/dists/bookworm" in _refused(project, 13).err


def test_an_archive_frozen_in_time(project: Project, server: FileServer, tmp_path: Path) -> None:
    """``snapshot`` locks from the archive as it was then, whatever it has become, and reports it in the lock."""
    then = datetime(2026, 7, 10, 20, tzinfo=timezone.utc)
    old = [stanza("ffmpeg", "7:4.0", depends="libc6") if "ffmpeg" in entry else entry for entry in SYSTEM]
    write_release(tmp_path / "frozen", main=old, date=then)
    for archive in ("debian", "debian-security"):
        server.add_tree(tmp_path / "frozen" / archive, f"/snapshots/archive/{archive}/20260711T000000Z")
    _edit(project, 'python: "3.11"', 'python: "3.11"\npackages: [ffmpeg]')
    project.must("lock")
    assert _versions(project)["ffmpeg"] == "7:5.1"
    _edit(project, f"mirror: {server.url}/debian", f"mirror: {server.url}/snapshots\n  snapshot: 20260711T000000Z")
    done = project.must("lock")
    assert _versions(project)["ffmpeg"] == "7:4.0"
    assert _lock(project).os.snapshot == "20260711T000000Z"
    assert "snapshot 20260711T000000Z" in done.out
    assert re.search(r"^moved +ffmpeg \(os\) +7:5\.1 → 7:4\.0$", done.out, re.M)


def _versions(project: Project) -> dict[str, str]:
    return {package.name: package.version for package in _lock(project).os.packages}


def test_a_killed_lock(project: Project, server: FileServer) -> None:
    """kill -9 at several moments leaves the old files whole; the next lock is the same as an undisturbed one."""
    project.must("lock")
    before = _files(project)
    for served in server.files.values():
        served.delay = 0.05
    killed = []
    for count in (1, 3, 6):
        shutil.rmtree(project.store, ignore_errors=True)
        asked = len(server.requests)
        killed.append(project.kill("lock", when=lambda: len(server.requests) >= asked + count))  # noqa: B023
        assert _files(project) == before
    assert True in killed
    assert project.must("lock").err == ""
    assert _files(project) == before


def test_two_locks_at_once(project: Project) -> None:
    """Commands that share an empty store do not disturb each other."""
    processes = [project.start("lock") for _ in range(3)]
    done = [finish(process) for process in processes]
    assert [one.code for one in done] == [0, 0, 0], done
    project.must("lock", "--check")
    assert sorted(_files(project)) == ["Dockerfile", "pylock.t.toml", "spec.yaml"]


def test_a_private_index(project: Project, server: FileServer, tmp_path: Path) -> None:
    """Wheels come from the index of the user's configuration, with its password; neither is in the lock or printed."""
    make_index(tmp_path / "index", sorted((project.folder / "wheels").iterdir()))
    server.add_tree(tmp_path / "index", "/private", auth="user:s3cret")
    shutil.rmtree(project.folder / "wheels")
    _edit(project, "wheels: [wheels]\n", "")
    host = server.url.removeprefix("http://")
    address = f"http://user:s3cret@{host}/private/simple"
    done = project.must("lock", PIP_NO_INDEX="", PIP_INDEX_URL=address)
    assert _pins(project) == {"alpha": "2.0", "beta": "2.0"}
    sent = base64.b64encode(b"user:s3cret").decode()
    assert any(request.headers.get("Authorization") == f"Basic {sent}" for request in server.requests)
    reported = done.out + done.err + "".join(data.decode() for data in _files(project).values())
    assert "s3cret" not in reported
    assert host not in (project.folder / "pylock.t.toml").read_text()
    done = _refused(project, 12, "--upgrade", PIP_NO_INDEX="", PIP_INDEX_URL=address.replace("s3cret", "wr0ng"))
    assert "wr0ng" not in done.err


def test_the_locks_digests_are_those_of_the_files(project: Project) -> None:
    """What the lock names is what is in the folder of wheels."""
    project.must("lock")
    for package in _lock(project).packages:
        data = (project.folder / "wheels" / package.wheel.name).read_bytes()
        assert (package.wheel.sha256, package.wheel.size) == (hashlib.sha256(data).hexdigest(), len(data))


def test_no_colour_off_a_terminal_and_with_no_color(project: Project) -> None:
    """On a terminal labels are bold; NO_COLOR and a pipe leave every control character out."""

    def on_terminal(*environ: str) -> str:
        assignments = [f"{name}={value}" for name, value in project.environ.items()]
        command = ["script", "-qec", "python -m envbuild lock --check", "/dev/null"]
        done = subprocess.run(
            ["env", "-i", *assignments, "TERM=xterm", *environ, *command],
            cwd=project.folder,
            check=True,
            capture_output=True,
            stdin=subprocess.DEVNULL,
        )
        return done.stdout.decode()

    project.must("lock")
    assert on_terminal() == "\033[1mfresh     \033[0mpylock.t.toml is what spec.yaml asks for\r\n"
    assert on_terminal("NO_COLOR=1") == "fresh     pylock.t.toml is what spec.yaml asks for\r\n"
    assert "\033" not in project.must("lock", "--check").out


@pytest.mark.parametrize("held", [(), ("one",), ("two",), ("one", "two")])
def test_the_store_decides_nothing(project: Project, server: FileServer, held: tuple[str, ...]) -> None:
    """A lock has the same bytes whichever of its wheels were downloaded before; the spec's own wheels are read."""
    tag = "cp311-cp311-manylinux_2_28_x86_64"
    made = {}
    for name, soname in (("one", "libGL.so.1"), ("two", "libGL.so.1"), ("own", "libodbc.so.2")):
        folder = project.folder / "wheels" if name == "own" else project.folder.parent / "made"
        made[name] = make_wheel(folder, name, files={f"{name}/a.so": make_elf([soname])}, tag=tag)
    make_index(project.folder.parent / "index", [made["one"], made["two"]])
    server.add_tree(project.folder.parent / "index")
    project.environ |= {"UV_DEFAULT_INDEX": f"{server.url}/simple"}
    del project.environ["PIP_NO_INDEX"]
    _edit(project, "[alpha]", "[one, two, own]")
    _edit(project, "  mirror", "  without: [tzdata, ca-certificates]\n  mirror")
    store = Store(project.store)
    for name in held:
        digest = hashlib.sha256(made[name].read_bytes()).hexdigest()
        store.add_file(made[name], digest)
        scan_wheel(made[name], digest, store.cache_dir("libraries"))
    project.must("lock")
    assert _lock(project).added == {
        "libodbc2": "needed by own (libodbc.so.2)",
        "libstdc++6": "manylinux baseline (libstdc++.so.6)",
    }
    project.must("lock", "--upgrade")
    assert list(_lock(project).added) == ["libodbc2", "libstdc++6"]


VARIANTS = """\
variants:
  plain: {}
  more:
    requirements: [gamma]
    packages: [git]
    env: {FLAVOUR: more}
"""


@pytest.fixture(name="variants")
def _variants(project: Project) -> Project:
    """The project with two variants; ``gamma`` is in one of them."""
    make_wheel(project.folder / "wheels", "gamma", requires=["beta"])
    project.write("spec.yaml", (project.folder / "spec.yaml").read_text() + VARIANTS)
    return project


def _locked(project: Project, variant: str) -> dict[str, str]:
    lock = locks.load(project.folder / f"pylock.t-{variant}.toml")
    assert (lock.name, lock.variant) == (f"t-{variant}", variant)
    return {package.name: package.version for package in lock.packages}


def test_variants_have_a_lock_each_and_share_pins(variants: Project) -> None:
    """Each has what it adds; a new variant takes the versions that others have; -P moves one in all that have it."""
    done = variants.must("lock")
    assert [line for line in done.out.splitlines() if line.startswith("variant")] == [
        "variant   plain",
        "variant   more",
    ]
    made = ["Dockerfile.t-more", "Dockerfile.t-plain", "pylock.t-more.toml", "pylock.t-plain.toml", "spec.yaml"]
    assert sorted(_files(variants)) == made
    assert _locked(variants, "plain") == {"alpha": "2.0", "beta": "2.0"}
    assert _locked(variants, "more") == {"alpha": "2.0", "beta": "2.0", "gamma": "1.0"}
    plain, more = (locks.load(variants.folder / f"pylock.t-{name}.toml") for name in ("plain", "more"))
    assert {p.name for p in more.os.packages} - {p.name for p in plain.os.packages} == {"git"}
    assert (plain.environment.get("FLAVOUR"), more.environment["FLAVOUR"]) == (None, "more")
    make_wheel(variants.folder / "wheels", "beta", "3.0")
    _edit(variants, "  more:\n", "  third: {requirements: [gamma]}\n  more:\n")
    variants.must("lock")
    assert [_locked(variants, name)["beta"] for name in ("plain", "third", "more")] == ["2.0"] * 3
    variants.must("lock", "-P", "beta")
    assert [_locked(variants, name)["beta"] for name in ("plain", "third", "more")] == ["3.0"] * 3
    make_wheel(variants.folder / "wheels", "gamma", "2.0")
    done = variants.must("lock", "-P", "gamma")  # the first variant has none
    assert [_locked(variants, name).get("gamma") for name in ("plain", "third", "more")] == [None, "2.0", "2.0"]
    assert variants("lock", "-P", "delta").code == 12
    before = _files(variants)
    variants.must("lock")
    variants.must("lock", "--upgrade")
    assert _files(variants) == before


def test_a_variant_that_needs_another_version_says_so(variants: Project) -> None:
    """What is not shared is one line; the earlier variant's version is in parentheses."""
    _edit(variants, "[gamma]", "[gamma, beta<2]")
    done = variants.must("lock")
    assert "note      not as in variant plain: beta 1.0 (2.0)\n" in done.out
    assert [_locked(variants, name)["beta"] for name in ("plain", "more")] == ["2.0", "1.0"]
    make_wheel(variants.folder / "wheels", "beta", "1.5")
    done = variants.must("lock", "--variant", "more", "--json")
    assert done.json["variants"][0]["notes"] == ["not as in variant plain: beta 1.0 (2.0)"]  # its own pin stays
    before = _files(variants)
    variants.must("lock")
    assert _locked(variants, "more")["beta"] == "1.0"
    assert {name for name, data in _files(variants).items() if data != before[name]} <= {
        "pylock.t-plain.toml",
        "Dockerfile.t-plain",  # the folder of wheels is an input of all
    }
    variants.must("lock", "-P", "Beta")
    assert [_locked(variants, name)["beta"] for name in ("plain", "more")] == ["2.0", "1.5"]
    _edit(variants, "[gamma, beta<2]", "[gamma]")
    variants.must("lock")
    assert [_locked(variants, name)["beta"] for name in ("plain", "more")] == ["2.0", "2.0"]


def test_variants_are_written_all_or_none(variants: Project) -> None:
    """One that cannot be resolved leaves the locks of all as they were; it is named."""
    variants.must("lock")
    _edit(variants, "requirements: [alpha]", "requirements: [alpha<2]")
    _edit(variants, "[gamma]", "[gamma, beta>9]")
    done = _refused(variants, 12)
    assert done.err.startswith("envbuild: variant more: ")


def test_a_stale_variant_is_named_and_others_stay_fresh(variants: Project) -> None:
    """An edit of one variant makes its lock stale alone; what all have makes all of them stale."""
    variants.must("lock")
    again = "  → lock again: envbuild lock spec.yaml\n"
    _edit(variants, "FLAVOUR: more", "FLAVOUR: less")
    done = variants("lock", "--check")
    assert (done.code, done.err) == (11, f"envbuild: pylock.t-more.toml is stale\n  spec.yaml changed\n{again}")
    assert done.out == "fresh     pylock.t-plain.toml is what spec.yaml asks for\n"
    assert variants("lock", "--check", "--variant", "plain").code == 0
    done = variants("lock", "--check", "--json")
    assert done.code == 11
    assert (done.json["fresh"], [each["fresh"] for each in done.json["variants"]]) == (False, [True, False])
    variants.must("check", "--variant", "plain")
    assert variants("check", "--variant", "more").code == 11
    _edit(variants, "requirements: [alpha]", "requirements: [alpha<2]")
    err = variants("lock", "--check").err
    assert (err.count("is stale"), err.count(again)) == (2, 1)


def test_a_lock_is_chosen_by_its_variant(variants: Project) -> None:
    """Without a variant all are listed; one that is not there is named with those that are."""
    variants.must("lock")
    done = variants("check")
    assert (done.code, done.err) == (
        2,
        f"envbuild: {variants.folder} holds 2 locks: pylock.t-more.toml, pylock.t-plain.toml\n"
        "  → choose one, by its variant: --variant more\n",
    )
    done = variants("check", "--variant", "mor")
    assert (done.code, done.err.splitlines()[0]) == (
        2,
        f'envbuild: {variants.folder} has no lock of variant "mor": it has more, plain — perhaps you meant more',
    )
    done = variants("check", "--variant", "more", "pylock.t-plain.toml")
    assert (done.code, done.err.splitlines()[0]) == (2, "envbuild: pylock.t-plain.toml names the lock already")
    done = variants("lock", "--variant", "cpu")
    assert (done.code, done.err.splitlines()[0]) == (
        2,
        'envbuild: spec.yaml has no variant "cpu": it has plain, more',
    )
    done = variants("check", "spec.yaml")
    assert done.code == 2
    assert "its locks are pylock.t-plain.toml, pylock.t-more.toml" in done.err


def test_variants_come_and_go(project: Project) -> None:
    """The locks of what a spec was before are stale and named until they are removed."""
    project.must("lock")
    plain = (project.folder / "spec.yaml").read_text()
    project.write("spec.yaml", plain + VARIANTS.replace("gamma", "beta"))
    done = project("check", "pylock.t.toml")
    assert (done.code, done.err) == (
        11,
        "envbuild: pylock.t.toml is stale\n  spec.yaml has the variants plain, more, nothing without a variant\n"
        "  → lock again: envbuild lock spec.yaml; then remove pylock.t.toml\n",
    )
    done = project.must("lock")
    assert done.out.count("pylock.t.toml is of spec.yaml too, under its earlier name: remove it") == 1
    assert (project.folder / "Dockerfile").is_file()
    (project.folder / "pylock.t.toml").unlink()
    project.write("spec.yaml", plain)
    assert project("check", "--variant", "more").code == 11
    project.must("lock")
    assert project("check", "pylock.t.toml").code == 0
