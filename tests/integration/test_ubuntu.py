"""Ubuntu 24.04 over an archive in Ubuntu's layout, made of Debian 13's packages; and a vendor's archive next to it.

Ubuntu 22.04 and 26.04 likewise, of Debian 12's and 13's. Python is a standalone build, since Debian has no 3.12.

Where the machine reaches Ubuntu's own archive, its releases are locked, built and run too, each with its own Python.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from envbuild.image.os.deb import open_deb
from envbuild.lockfile import model as locks
from envbuild.resolve.debian.release_file import trusted_certificates
from tests.support.archives import keyring, sign, stanza, write
from tests.support.cli import Project
from tests.support.debs import make_deb
from tests.support.images import forget_images
from tests.support.oslocks import real_os, shared_store
from tests.support.pythons import from_debs
from tests.support.ubuntu import KEY, pool_entry, write_ubuntu

pytestmark = [pytest.mark.engine, pytest.mark.network, pytest.mark.both_engines]

WANTED = ("libexpat1", "zlib1g", "tzdata", "tzdata-legacy", "ca-certificates", "libffi8")
UNIVERSE = ("tzdata-legacy",)
ZSTD = ("bash", "tzdata", "dash", "libexpat1")
PROGRAM = """\
import ctypes, json, pathlib, ssl, subprocess, zoneinfo
status = pathlib.Path("/var/lib/dpkg/status").read_text()
print(json.dumps({
    "vendor": pathlib.Path("/usr/share/vendor-tool/word").read_text(),
    "bash": subprocess.run(["dpkg-query", "-W", "-f", "${Version}", "bash"], capture_output=True, text=True).stdout,
    "installed": status.count("Status: install ok installed"),
    "zone": str(zoneinfo.ZoneInfo("US/Eastern")),
    "merged": pathlib.Path("/bin").is_symlink(),
    "ffi": ctypes.CDLL(None).getpid() > 0,
}))
"""


@dataclass(frozen=True, kw_only=True, slots=True)
class Case:
    """A locked and built project over the archive, and Debian's packages by name."""

    project: Project
    debian: locks.Os

    @property
    def lock(self) -> locks.Lock:
        """The project's lock."""
        return locks.load(self.project.folder / "pylock.noble.toml")


def _deb(package: locks.OsPackage) -> Path:
    return shared_store().path(package.sha256)


def _write_archive(root: Path, system: locks.Os, codename: str = "noble") -> None:
    """Write Ubuntu's suites: tzdata is a phased update, tzdata-legacy in universe, and bash has an older entry too."""
    entries = {
        package.name: pool_entry(
            root,
            _deb(package),
            component="universe" if package.name in UNIVERSE else "main",
            repack=package.name in ZSTD,
            **({"phased_update_percentage": "10"} if package.name == "tzdata" else {}),
        )
        for package in system.packages
    }
    updated = entries.pop("tzdata")
    main = [text for name, text in entries.items() if name not in UNIVERSE]
    suites = {
        "": {
            "main": [*main, stanza("tzdata", "2000a-1", architecture="all")],
            "universe": [entries[name] for name in UNIVERSE if name in entries],
        },
        "-updates": {"main": [updated]},
        "-security": {"multiverse": [stanza("secret-driver")]},
    }
    suites[""]["multiverse"] = [stanza("unrar")]
    write_ubuntu(root, codename, suites)


def _write_vendor(root: Path) -> None:
    """Write an archive without suites, as NVIDIA's is, with a tool of its own and a bash that nobody asked for."""
    deb = make_deb(root, "vendor-tool", "2.0", {"/usr/share/vendor-tool/word": "vendor\n"}, depends="bash")
    bad = make_deb(root, "bash", "99:1.0", {"/usr/bin/bash": "never\n"}, architecture="amd64")
    text = ""
    for path in (deb, bad):
        control = "".join(f"{key}: {value}\n" for key, value in open_deb(path).fields().items() if key != "Description")
        digest = hashlib.sha256(path.read_bytes()).hexdigest()
        text += f"{control}Filename: ./{path.name}\nSize: {path.stat().st_size}\nSHA256: {digest}\n\n"
    files = {"Packages": text.encode(), "Packages.gz": gzip.compress(text.encode())}
    lines = [f" {hashlib.sha256(data).hexdigest()} {len(data)} {name}" for name, data in files.items()]
    head = "Origin: Vendor\nLabel: Vendor\nDate: Mon, 02 Nov 2026 10:00:00 +0000\nSHA256:\n"
    write(root / "Packages.gz", files["Packages.gz"])
    write(root / "InRelease", sign(head + "\n".join(lines) + "\n", "vendor"))


@pytest.fixture(scope="module", name="case")
def _case(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Case]:
    root = tmp_path_factory.mktemp("ubuntu")
    system = real_os("debian-13", *WANTED)
    _write_archive(root / "mirror", system)
    _write_vendor(root / "vendor")
    (root / "debs").mkdir()
    for package in real_os("debian-12", "python3.11").packages:
        if "python3.11" in package.name:
            shutil.copy(_deb(package), root / "debs" / package.file)
    from_debs(sorted((root / "debs").iterdir()), root / "unpacked", root / "pythons")
    project = Project(folder=root / "project", store=root / "store")
    project.environ["ENVBUILD_UBUNTU_KEYS"] = str(keyring(root / "ubuntu.pgp", KEY))
    project.environ["ENVBUILD_PYTHON_MIRROR"] = f"file://{root / 'pythons'}"
    project.environ["HOME"] = str(root)
    keyring(project.write("keys/vendor.pgp", ""), "vendor")
    project.write(
        "spec.yaml",
        "name: noble\npython: '3.11'\npackages: [libffi8, vendor-tool]\nos:\n  release: ubuntu-24.04\n"
        f"  mirror: file://{root}/mirror/ubuntu\n  archives:\n"
        f"    - {{name: vendor, url: 'file://{root}/vendor', suite: /, key: keys/vendor.pgp}}\n",
    )
    project.write("train.py", PROGRAM)
    project.write("lock.out", project.must("lock").out)
    project.must("build")
    yield Case(project=project, debian=system)
    forget_images("envbuild/noble")


def test_the_lock_is_that_of_the_archive(case: Case) -> None:
    """The closure is Debian's for the same packages, the phased update is taken, and universe is searched."""
    found = {package.name: package for package in case.lock.os.packages}
    assert found.keys() - {"vendor-tool"} == {package.name for package in case.debian.packages}
    assert {name: found[name].version for name in found if name != "vendor-tool"} == {
        package.name: package.version for package in case.debian.packages
    }
    assert {package.archive for package in found.values()} == {"ubuntu", "vendor"}
    assert found["tzdata-legacy"].path.startswith("pool/universe/")
    assert [(suite.archive, suite.name) for suite in case.lock.os.suites] == [
        ("ubuntu", "noble"),
        ("ubuntu", "noble-updates"),
        ("ubuntu", "noble-security"),
        ("vendor", "/"),
    ]
    assert case.lock.python.platform == "manylinux_2_39_x86_64"
    assert "(Ubuntu 24.04 archive keys; vendor: …" in (case.project.folder / "lock.out").read_text()
    assert case.project.must("lock", "--check").code == 0


def test_the_further_archive_is_pinned_with_its_key(case: Case) -> None:
    """Fingerprint and digest of the key are locked; what the system has is not taken from there."""
    (vendor,) = case.lock.os.archives
    key = case.project.folder / "keys" / "vendor.pgp"
    assert vendor.key_sha256 == hashlib.sha256(key.read_bytes()).hexdigest()
    assert vendor.keys == (trusted_certificates((key,), "")[0].fingerprint.upper(),)
    (tool,) = (package for package in case.lock.os.packages if package.archive == "vendor")
    assert (tool.name, tool.path) == ("vendor-tool", "vendor-tool_2.0_all.deb")


def test_the_image_runs(case: Case) -> None:
    """Every package is installed by its own scripts, those packed with zstd too; two runs are equal."""
    one, two = (case.project.must("run", "train.py").out for _ in range(2))
    assert one == two
    (bash,) = (package for package in case.debian.packages if package.name == "bash")
    assert json.loads(one.splitlines()[-1]) == {
        "vendor": "vendor\n",
        "bash": bash.version,
        "installed": len(case.lock.os.packages),
        "zone": "US/Eastern",
        "merged": True,
        "ffi": True,
    }


@pytest.mark.parametrize(
    ("release", "codename", "debian", "platform"),
    [("ubuntu-22.04", "jammy", "debian-12", "2_35"), ("ubuntu-26.04", "resolute", "debian-13", "2_42")],
)
def test_other_releases_lock_build_and_run(
    case: Case, tmp_path: Path, release: str, codename: str, debian: str, platform: str
) -> None:
    """Their suites are asked, their C library's level is the wheels', and the image runs."""
    wanted = WANTED if debian == "debian-13" else tuple(name for name in WANTED if name not in UNIVERSE)
    system = real_os(debian, *wanted)
    _write_archive(tmp_path / "mirror", system, codename)
    project = Project(folder=tmp_path / "project", store=tmp_path / "store", environ=dict(case.project.environ))
    project.write(
        "spec.yaml",
        f"name: {codename}\npython: '3.11'\npackages: [libffi8]\nos:\n  release: {release}\n"
        f"  mirror: file://{tmp_path}/mirror/ubuntu\n",
    )
    project.write("train.py", "import ctypes, ssl\nprint('runs', ctypes.CDLL(None).getpid() > 0)\n")
    project.must("lock")
    lock = locks.load(project.folder / f"pylock.{codename}.toml")
    assert {package.name for package in lock.os.packages} == {package.name for package in system.packages}
    assert [suite.name for suite in lock.os.suites] == [codename, f"{codename}-updates", f"{codename}-security"]
    assert lock.python.platform == f"manylinux_{platform}_x86_64"
    try:
        project.must("build")
        assert project.must("run", "train.py").out.splitlines()[-1] == "runs True"
    finally:
        forget_images(f"envbuild/{codename}")


def test_another_key_makes_the_lock_stale(case: Case) -> None:
    """The file of the key is an input of the resolution, and an archive that another key signed is refused."""
    key = case.project.folder / "keys" / "vendor.pgp"
    before = key.read_bytes()
    keyring(key, "stranger")
    try:
        done = case.project("lock", "--check")
        assert (done.code, "keys/vendor.pgp changed" in done.err + done.out) == (11, True)
        done = case.project("lock", "--refresh")
        assert (done.code, "expected a good signature by the key that the spec names" in done.err) == (13, True)
    finally:
        key.write_bytes(before)


def test_an_unsearched_component_is_named(case: Case) -> None:
    """The message has the component and the line to write."""
    text = (case.project.folder / "spec.yaml").read_text().replace("vendor-tool]", "vendor-tool, unrar]")
    case.project.write("other/keys/vendor.pgp", "")
    shutil.copy(case.project.folder / "keys/vendor.pgp", case.project.folder / "other/keys/vendor.pgp")
    done = case.project("lock", str(case.project.write("other/spec.yaml", text)))
    assert done.code == 12
    assert "in Ubuntu's multiverse, but only main and universe are searched" in done.err
    assert "os: {release: ubuntu-24.04, components: [main, universe, multiverse]}" in done.err


@pytest.mark.parametrize(("release", "python"), [("22.04", "3.10"), ("24.04", "3.12"), ("26.04", "3.14")])
def test_the_real_archive(tmp_path: Path, release: str, python: str) -> None:
    """Ubuntu's own packages and Python make an image that runs; skipped where they are not reached."""
    name = f"real-{release.replace('.', '-')}"
    project = Project(folder=tmp_path / "project", store=tmp_path / "store")
    project.write("spec.yaml", f"name: {name}\nos: ubuntu-{release}\n")
    project.write(
        "train.py",
        "import ctypes, ssl, subprocess, sys\n"
        "ssl.create_default_context()\n"
        "print(subprocess.run(['dpkg', '--audit'], capture_output=True, text=True, check=True).stdout, end='')\n"
        "print('.'.join(map(str, sys.version_info[:2])), ctypes.CDLL(None).getpid() > 0)\n",
    )
    done = project("lock")
    if done.code in {12, 13} and any(words in done.err for words in ("no Ubuntu mirror", "no connection")):
        pytest.skip("Ubuntu's archive is not reached from here")
    assert done.code == 0, done.err
    try:
        project.must("build")
        assert project.must("run", "train.py").out == f"{python} True\n"
    finally:
        forget_images(f"envbuild/{name}")
