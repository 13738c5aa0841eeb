"""Our choice of packages against apt's own, on the same bytes of the real archive."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

import pytest

from envbuild.core.package_data import archive_keys
from envbuild.errors import ResolveError
from envbuild.resolve.debian import http
from envbuild.resolve.debian.archive import Access
from envbuild.resolve.debian.closure import EXCLUDED, OsRequest, close, open_suites
from envbuild.resolve.debian.releases import find_release
from envbuild.resolve.debian.sources import read_apt_config
from envbuild.resolve.debian.universe import Universe
from tests.support.snapshots import SnapshotServer, latest

pytestmark = [
    pytest.mark.network,
    pytest.mark.skipif(shutil.which("apt-get") is None, reason="compares with apt, which this machine does not have"),
]

SETS = (
    "git",
    "ffmpeg",
    "gcc",
    "libgl1",
    "openssh-client",
    "python3-dev",
    "build-essential",
    "python3-numpy",
    "default-jre-headless",
    "postgresql",
    "nginx",
    "openmpi-bin",
    "perl",
    "vim",
    "git curl libgl1 gfortran libstdc++6",
    "openssh-server nfs-kernel-server default-mta",
    "texlive-latex-base graphviz imagemagick",
)
SNAPSHOT = "/[0-9]{8}T[0-9]{6}Z(?=/)"
IMPOSSIBLE = ("exim4-daemon-light postfix", "nvidia-cuda-toolkit-that-nobody-has", "systemd-sysv sysvinit-core")
CASES = [
    *(("debian-12", "amd64", names) for names in (*SETS, "python3.11", *IMPOSSIBLE)),
    *(("debian-13", "amd64", names) for names in (*SETS[1::2], "python3.13", *IMPOSSIBLE)),
    *(("debian-11", "amd64", names) for names in (*SETS[::3], "python3.9", *IMPOSSIBLE)),
    *(("debian-testing", "amd64", names) for names in (*SETS[2::3], "python3.14", *IMPOSSIBLE)),
    *(("debian-12", "arm64", names) for names in ("git", "ffmpeg python3.11")),
    ("debian-12 contrib non-free", "amd64", "nvidia-cuda-toolkit unrar"),
]


@dataclass(frozen=True)
class Recorder:
    """Gets files and keeps a copy of each below ``root``, as a mirror would hold them."""

    root: Path

    def __call__(
        self,
        url: str,
        *,
        limit: int,
        headers: Mapping[str, str] | None = None,
        advance: Callable[[int], None] | None = None,
    ) -> http.Reply:
        reply = http.get(url, limit=limit, headers=headers, advance=advance)
        if reply.status == 200:
            archive, _, name = re.sub(SNAPSHOT, "", url).partition("/dists/")
            path = self.root / archive.rsplit("/", 1)[-1] / "dists" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(reply.data)
        return reply


@dataclass(frozen=True)
class Apt:
    """An apt that knows nothing of this machine: an empty system, and the recorded archive as its only source."""

    root: Path

    def setup(self, sources: str, architecture: str) -> None:
        for name in (
            "etc/apt/apt.conf.d",
            "var/lib/apt/lists/partial",
            "var/cache/apt/archives/partial",
            "var/lib/dpkg",
        ):
            (self.root / name).mkdir(parents=True)
        (self.root / "var/lib/dpkg/status").touch()
        (self.root / "etc/apt/sources.list").write_text(sources)
        (self.root / "apt.conf").write_text(
            f'Dir "{self.root}"; Dir::State::status "{self.root}/var/lib/dpkg/status"; Dir::Log "{self.root}";\n'
            f'APT::Architecture "{architecture}"; APT::Architectures {{ "{architecture}"; }};\n'
            'APT::Install-Recommends "0"; APT::Sandbox::User "root"; Acquire::Languages "none"; Debug::NoLocking "1";\n'
        )
        self._run("update")

    def install(self, names: list[str]) -> dict[str, str] | None:
        """Return the packages apt would install, by name and version, or None if it cannot."""
        result = self._run("-s", "install", *names, check=False)
        if result.returncode:
            return None
        return dict(re.findall(r"^Inst (\S+) \((\S+)", result.stdout, re.MULTILINE))

    def _run(self, *arguments: str, check: bool = True) -> subprocess.CompletedProcess[str]:
        environment = {**os.environ, "APT_CONFIG": str(self.root / "apt.conf"), "LC_ALL": "C"}
        return subprocess.run(["apt-get", *arguments], env=environment, check=check, capture_output=True, text=True)


@dataclass(frozen=True)
class Both:
    """Apt and our universe, of the same archive."""

    apt: Apt
    universe: Universe


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[str, str], Both]]:
    """Return a maker of apt and universe for a release and architecture, made once each."""
    with ExitStack() as stack:

        @cache
        def make(release: str, architecture: str) -> Both:
            root = tmp_path_factory.mktemp(f"{release.replace(' ', '-')}-{architecture}")
            return stack.enter_context(_both(root, release, architecture))

        yield make


@contextmanager
def _both(root: Path, name: str, architecture: str) -> Iterator[Both]:
    name, *further = name.split()
    components = ("main", *further)
    release = find_release(name)
    access = Access(cache=root / "cache", get=Recorder(root / "mirror"))
    request = OsRequest(release=name, architecture=architecture, packages=(), components=components)
    keys, config = root / "keys.gpg", read_apt_config()
    keys.write_bytes(b"".join(path.read_bytes() for path in archive_keys()))
    with ExitStack() as stack:
        if name == "debian-testing":
            # Its files are valid for a week, and mirrors may lag further.
            config = replace(config, snapshot=stack.enter_context(SnapshotServer()).url)
            request = replace(request, snapshot=latest(release.codename))
        opened = stack.enter_context(open_suites(request, release, access, config))
        apt = Apt(root / "apt")
        lines = (
            f"deb [signed-by={keys} check-valid-until=no] file:{root}/mirror/{part} {suite} {' '.join(components)}\n"
            for part, suite in release.suites(architecture)
        )
        apt.setup("".join(lines), architecture)
        yield Both(apt, Universe([indexes for _, indexes in opened], architecture, EXCLUDED))


@pytest.mark.parametrize(("release", "architecture", "names"), CASES)
def test_apt_would_install_the_same(
    both: Callable[[str, str], Both], release: str, architecture: str, names: str
) -> None:
    """On an empty system without Recommends, name for name and version for version; what apt refuses, we refuse."""
    system = both(release, architecture)
    roots = [*system.universe.essential(), *sorted(names.split())]
    try:
        ours = {name: package.version for name, package in close(system.universe, names.split()).items()}
    except ResolveError:
        ours = None
    # apt has to be given our one deviation: usr-is-merged instead of usrmerge.
    reported = [*roots, "usr-is-merged"] if ours and "usr-is-merged" in ours else roots
    assert ours == system.apt.install(reported)
    assert (ours is None) == (names in IMPOSSIBLE)


def test_no_package_is_lost_between_the_index_and_us(both: Callable[[str, str], Both]) -> None:
    """apt's list of names and ours are the same."""
    system = both("debian-12", "amd64")
    environment = {**os.environ, "APT_CONFIG": str(system.apt.root / "apt.conf")}
    dumped = subprocess.run(["apt-cache", "dumpavail"], env=environment, check=True, capture_output=True, text=True)
    assert set(re.findall(r"^Package: (\S+)", dumped.stdout, re.MULTILINE)) == system.universe.names()
