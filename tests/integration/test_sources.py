"""Packages without wheels, built from source: which, in what sandbox, equally, and found or built again elsewhere."""

from __future__ import annotations

import os
import zipfile
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from envbuild.lockfile import model as locks
from tests.support.cli import Done, Project
from tests.support.indexes import make_index
from tests.support.server import FileServer
from tests.support.sources import make_sdist
from tests.support.wheels import make_wheel

pytestmark = [pytest.mark.engine, pytest.mark.network, pytest.mark.both_engines]

SPY = """\
import os, socket
found = [path for path in [{place!r}] if os.path.exists(path)]
try:
    socket.create_connection(("127.0.0.1", {port}), timeout=5)
    found.append("the network")
except OSError:
    pass
if found:
    raise SystemExit(f"reached {{found}}")
"""


class Bench:
    """A project whose packages come from an index on the loopback."""

    def __init__(self, project: Project, server: FileServer, folder: Path) -> None:
        self.project, self.server, self.folder = project, server, folder
        project.environ |= {"PIP_NO_INDEX": "", "UV_DEFAULT_INDEX": f"{server.url}/simple"}
        project.environ = {key: value for key, value in project.environ.items() if value}

    def offer(self, *files: Path, hashes: dict[str, str] | None = None) -> None:
        make_index(self.folder / "index", files, hashes)
        self.server.add_tree(self.folder / "index", "")

    def spec(self, requirements: str, sources: str = "", more: str = "") -> None:
        lines = (f"sources: {sources}\n" if sources else "") + more
        self.project.write("spec.yaml", f"name: clitest\nrequirements: {requirements}\nwheels: [wheels]\n{lines}")

    def object(self, lock: locks.Lock, name: str) -> Path:
        """Where the store has a package's wheel."""
        (sha256,) = (package.wheel.sha256 for package in lock.packages if package.name == name)
        return self.project.store / "sha256" / sha256[:2] / sha256[2:]

    def lock(self) -> locks.Lock:
        return locks.load(self.project.folder / "pylock.clitest.toml")


@pytest.fixture(scope="module", name="store")
def _store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store for all tests of this file, so that the system that sources are built in is fetched once."""
    return tmp_path_factory.mktemp("sources") / "store"


@pytest.fixture(name="bench")
def _bench(store: Path, tmp_path: Path) -> Iterator[Bench]:
    proxies = {name: value for name, value in os.environ.items() if name.lower().endswith("_proxy")}
    project = Project(folder=tmp_path / "project", store=store, environ=proxies)
    make_wheel(project.folder / "wheels", "part", "1.5")
    with FileServer() as server:
        yield Bench(project, server, tmp_path)


def _refused(done: Done, code: int) -> str:
    assert done.code == code, done.out + done.err
    return done.err


def test_a_package_without_wheel_is_built_where_the_spec_allows_it(bench: Bench) -> None:
    """The newest version is built and locked with what it needs; the image has it; nothing is built once more."""
    made = bench.folder / "made"
    spy = SPY.format(place=str(bench.folder), port=int(bench.server.url.rpartition(":")[2]))
    old = make_wheel(made, "plain", "0.4")
    bench.offer(old, make_sdist(made, "plain", "1.5", requires=("part>=1",), before=spy))
    bench.spec("[plain]")
    text = _refused(bench.project("lock"), 12)
    assert "plain 0.4 instead of 1.5" in text
    assert "sources: [plain]" in text
    bench.spec("[plain]", "[plain]")
    done = bench.project.must("lock")
    assert "built from source, twice, with equal results: plain 1.5" in done.out + done.err
    lock = bench.lock()
    assert {package.name: package.version for package in lock.packages} == {"plain": "1.5", "part": "1.5"}
    (source,) = lock.sources
    assert (source.name, source.archive.name) == ("plain", "plain-1.5.tar.gz")
    assert source.builds[0] != source.builds[1]
    assert source.normalised == ("order of files", "times of files")
    again = bench.project.must("lock")
    assert "built from source" not in again.out + again.err
    assert bench.lock() == lock
    with zipfile.ZipFile(bench.object(lock, "plain")) as wheel:
        assert wheel.read("plain.py") == b"ANSWER = 42\n"
        assert wheel.testzip() is None


def test_a_build_gets_what_the_spec_adds(bench: Bench) -> None:
    """As flash-attn, whose build imports torch and does not ask for it; another version than the image's is noted."""
    made = bench.folder / "made"
    bench.offer(
        make_sdist(made, "plain", "1.5", before="import frame\n", content="frame.__version__ + os.getenv('KIND', '')"),
        make_wheel(made, "frame", "1.0", files={"frame.py": "__version__ = '# 1.0'\n"}),
        make_wheel(made, "frame", "2.0", files={"frame.py": "__version__ = '# 2.0'\n"}),
    )
    bench.spec("[plain, frame]", "[plain]")
    text = _refused(bench.project("lock"), 14)
    assert "its build imports frame and does not ask for it" in text
    assert "build-requirements: {plain: [frame]}" in text
    bench.spec("[plain, frame]", "[plain]", "build-requirements: {plain: [frame==1.0]}\n")
    done = bench.project.must("lock")
    assert "plain was built with frame 1.0, and the image has 2.0" in done.out + done.err
    bench.spec("[plain, frame]", "[plain]", "build-requirements: {plain: [frame==2.0]}\nbuild-env: {KIND: odd}\n")
    done = bench.project.must("lock")
    assert "plain was built with" not in done.out + done.err
    lock = bench.lock()
    (source,) = lock.sources
    assert source.added == source.requires == ("frame==2.0",)
    assert [(package.name, package.version) for package in source.packages] == [("frame", "2.0")]
    with zipfile.ZipFile(bench.object(lock, "plain")) as wheel:
        assert b"# 2.0odd" in wheel.read("plain.py")
    bench.object(lock, "plain").unlink()
    bench.project.must("fetch")
    assert bench.object(lock, "plain").is_file()


@pytest.mark.parametrize(
    "line",
    ["x @ git+{url}/x.git", "x @ {url}/x-1-py3-none-any.whl", "x @ file:///x", "-e .", "part\n-e .", "part --pre"],
)
def test_what_a_build_asks_for_comes_from_indexes(bench: Bench, line: str) -> None:
    """An archive names no address that this host would fetch, nor a folder of the project that it would build."""
    wanted = line.format(url=bench.server.url)
    bench.offer(make_sdist(bench.folder / "made", "plain", "1.5", build_requires=(wanted,)))
    bench.spec("[plain]", "[plain]")
    assert "plain-1.5.tar.gz: its build asks for" in _refused(bench.project("lock"), 12)
    assert not [request for request in bench.server.requests if "/x" in request.target]


def test_any_package_may_be_built(bench: Bench) -> None:
    """``all`` builds what turns out to lack a wheel, and what that needs in turn; a wheel that fits is taken."""
    made = bench.folder / "made"
    outer = make_sdist(made, "outer", "2.0", requires=("inner>=3",))
    bench.offer(
        outer, make_sdist(made, "inner", "3.0"), make_sdist(made, "tidy", "1.0"), make_wheel(made, "tidy", "1.0")
    )
    bench.spec("[outer, tidy]", "all")
    bench.project.must("lock")
    assert [source.name for source in bench.lock().sources] == ["inner", "outer"]


def test_the_folder_of_a_build_is_taken_out(bench: Bench) -> None:
    """A module with the folder of its build, as contourpy has it, is the same from both; the lock states it."""
    bench.offer(make_sdist(bench.folder / "made", "odd", "1.0", content='f"WHERE = {os.getcwd()!r}"'))
    bench.spec("[odd]", "[odd]")
    bench.project.must("lock")
    (lock,) = bench.project.folder.glob("pylock.*.toml")
    assert "folder of the build in" in lock.read_text()


def test_two_builds_that_differ_are_refused(bench: Bench) -> None:
    """A wheel that holds something of chance is not locked; the file that differs is named."""
    bench.offer(make_sdist(bench.folder / "made", "odd", "1.0", content='f"CHANCE = {os.urandom(16)!r}"'))
    bench.spec("[odd]", "[odd]")
    text = _refused(bench.project("lock"), 16)
    assert "odd-1.0.tar.gz: two builds of it differ" in text
    assert "\n  odd.py" in text
    assert not list(bench.project.folder.glob("pylock.*"))


def test_an_archive_with_other_bytes_is_refused(bench: Bench) -> None:
    """What the index states of an archive is compared before anything in it is read."""
    archive = make_sdist(bench.folder / "made", "plain", "1.5")
    bench.offer(archive, hashes={archive.name: "0" * 64})
    bench.spec("[plain]", "[plain]")
    assert "plain-1.5.tar.gz" in _refused(bench.project("lock"), 13)


def test_another_machine_has_the_wheel_or_builds_it_again(bench: Bench) -> None:
    """A vendored folder has the wheel; else the same bytes are built from the locked source, or it is an error."""
    bench.offer(make_sdist(bench.folder / "made", "plain", "1.5"))
    bench.spec("[plain]", "[plain]")
    bench.project.must("lock")
    lock = bench.lock()
    (wheel,) = (package.wheel for package in lock.packages)
    vendor = bench.folder / "vendor"
    bench.project.must("fetch", "--vendor", str(vendor))
    assert list(vendor.rglob(wheel.name))
    place = bench.object(lock, "plain")
    kept = place.read_bytes()
    place.unlink()
    brought = bench.project.must("fetch", "--from", str(vendor), PIP_NO_INDEX="1", UV_DEFAULT_INDEX="")
    assert "built again" not in brought.out + brought.err
    place.unlink()
    again = bench.project.must("fetch")
    assert "built again from plain-1.5.tar.gz" in again.out + again.err
    assert place.read_bytes() == kept
    place.unlink()
    _claim_another_wheel(bench, lock)
    refusal = _refused(bench.project("fetch"), 16)
    assert f"found     sha256 {wheel.sha256}" in refusal


def _claim_another_wheel(bench: Bench, lock: locks.Lock) -> None:
    """Write a lock whose wheel nobody can build, as an altered build on another machine would leave it."""
    (package,) = lock.packages
    other = msgspec.structs.replace(package, wheel=msgspec.structs.replace(package.wheel, sha256="1" * 64))
    path = bench.project.folder / "pylock.clitest.toml"
    path.write_bytes(locks.dumps(msgspec.structs.replace(lock, packages=(other,))))
