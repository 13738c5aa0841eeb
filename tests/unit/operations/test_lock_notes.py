"""What ``lock`` notes about an image that would build, and whose programs would fail."""

from __future__ import annotations

from envbuild.operations.lock_notes import notes
from envbuild.spec.model import parse_spec
from tests.support.locks import small_lock


def test_debian_s_modules_are_not_seen_by_the_environment() -> None:
    """Each is named with the requirement to write; parts of Python itself are seen."""
    spec = parse_spec("name: t\npackages: [git, python3-dev, python3-tk, python3-numpy, python3-opencv]\n")
    (note,) = notes(spec, small_lock())
    assert "python3-numpy, python3-opencv;" in note
    assert "requirements: [numpy, opencv]" in note
    assert not list(notes(parse_spec("name: t\npackages: [git, python3-dev, python3-tk]\n"), small_lock()))


def test_libraries_and_programs_that_wheels_ask_for_are_named_with_the_line_to_add() -> None:
    """One note for all of them; a base image, whose packages are unknown, gets none."""
    wheels = {"python_magic-1-py3-none-any.whl": b"", "gitpython-1-py3-none-any.whl": b""}
    spec = parse_spec("name: t\n")
    (note,) = notes(spec, small_lock(wheels, {"libc6_1_amd64.deb": b""}))
    assert "python-magic: libmagic.so.1" in note
    assert note.endswith("add  packages: [git, libmagic1]")
    assert not list(notes(spec, small_lock(wheels, {"git_1_amd64.deb": b"", "libmagic1_1_amd64.deb": b""})))
    assert not list(notes(spec, small_lock(wheels)))
