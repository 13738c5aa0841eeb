"""Which releases may be built from source, and what the resolver is shown of them."""

from __future__ import annotations

from pathlib import Path

import pytest

from envbuild.errors import IntegrityError, ResolveError
from envbuild.resolve.python.newest import File
from envbuild.resolve.python.sources import BuiltWheel, Shelf, SourceFile, lacking_wheels, locate
from envbuild.resolve.python.wheels import Candidate, Target

TARGET = Target(python="3.11", platform="manylinux_2_36_x86_64")
PAGE = [
    File(name="a-1.0.tar.gz", python="", address="x:/a-1.0.tar.gz", sha256="1" * 64),
    File(name="a-1.0-py3-none-any.whl", python=""),
    File(name="a-2.0.zip", python=""),
    File(name="a-2.0.tar.gz", python="", sha256="2" * 64, address="x:/a-2.0.tar.gz"),
    File(name="a-2.0-cp311-cp311-win_amd64.whl", python=""),
    File(name="a-3.0.tar.gz", python=">=3.12"),
    File(name="a-4.0.rpm", python=""),
]


def test_only_releases_without_a_fitting_wheel_are_built() -> None:
    """A wheel that fits comes first; wheels of other systems do not count, releases for other Pythons neither."""
    found = lacking_wheels("a", PAGE, TARGET)
    assert [(source.version, source.file, source.sha256) for source in found] == [("2.0", "a-2.0.tar.gz", "2" * 64)]


def test_an_archive_is_found_by_its_bytes() -> None:
    """A page with another digest is no place to fetch from."""
    assert locate("a-2.0.tar.gz", "2" * 64, [PAGE]) == ("x:/a-2.0.tar.gz",)
    with pytest.raises(IntegrityError, match=r"a-2\.0\.tar\.gz with sha256 3333"):
        locate("a-2.0.tar.gz", "3" * 64, [PAGE])


def _shelf(folder: Path, made: str, names: tuple[str, ...] = ("a",)) -> tuple[Shelf, list[SourceFile]]:
    built: list[SourceFile] = []

    def build(source: SourceFile) -> BuiltWheel:
        built.append(source)
        (folder / "wheel").write_bytes(b"wheel")
        return BuiltWheel(name=made, path=folder / "wheel", sha256="f" * 64, size=5)

    shelf = Shelf(folder, names, TARGET, lambda names: {name: [PAGE] for name in names}, build)
    for kind in ("stand-ins", "built"):
        (folder / kind).mkdir()
    return shelf, built


def test_a_stand_in_is_replaced_by_what_was_built(tmp_path: Path) -> None:
    """Each release is built once, and the wheel is offered with its digest in the place of the stand-in."""
    shelf, built = _shelf(tmp_path, "a-2.0-py3-none-any.whl")
    assert shelf.offer()
    (stub,) = (tmp_path / "stand-ins").iterdir()
    chosen = [Candidate(package="a", version="2.0", file=stub.name, location=str(stub))]
    assert shelf.build(chosen)
    assert not shelf.build(chosen)
    assert [source.version for source in built] == ["2.0"]
    assert not list((tmp_path / "stand-ins").iterdir())
    (wheel,) = (tmp_path / "built").iterdir()
    offered = {"a": [Candidate(package="a", version="2.0", file=wheel.name, location=str(wheel))]}
    (complete,) = shelf.completed(offered)["a"]
    assert (complete.sha256, complete.size) == ("f" * 64, 5)
    assert shelf.archives == {"f" * 64: "2" * 64}


@pytest.mark.parametrize("made", ["b-2.0-py3-none-any.whl", "a-2.1-py3-none-any.whl", "a-2.0-cp312-cp312-any.whl", "x"])
def test_a_build_may_not_make_something_else(tmp_path: Path, made: str) -> None:
    """A wheel of another package, version or interpreter is refused."""
    shelf, _ = _shelf(tmp_path, made)
    shelf.offer()
    (stub,) = (tmp_path / "stand-ins").iterdir()
    with pytest.raises(ResolveError, match=r"a-2\.0\.tar\.gz: its build made"):
        shelf.build([Candidate(package="a", version="2.0", file=stub.name, location=str(stub))])


def test_others_are_taken_up_only_if_the_spec_allows_all(tmp_path: Path) -> None:
    """A list of names is not extended by what turns out to lack a wheel."""
    for number, (names, more) in enumerate(((("b",), False), (("all",), True))):
        folder = tmp_path / str(number)
        folder.mkdir()
        shelf, _ = _shelf(folder, "", names)
        shelf.offer()
        assert shelf.admit(["a>=1,<3"]) is more
        assert not shelf.admit(["a>=1,<3"])
