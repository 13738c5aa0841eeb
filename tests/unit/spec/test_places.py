"""Projects among the requirements: every form that pip has, read or refused with what to write instead."""

from __future__ import annotations

from pathlib import Path

import pytest

from envbuild.errors import SpecError
from envbuild.spec.model import load_spec
from envbuild.spec.places import Place, is_place, place
from envbuild.spec.requirement_files import flattened, places_in


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        (".", Place(path=".")),
        ("-e .", Place(path=".", editable=True)),
        ("--editable=.[dev,gpu]", Place(path=".", editable=True, extras=("dev", "gpu"))),
        ("./libs/one/", Place(path="libs/one")),
        ("..", Place(path="..")),
        ("../../x", Place(path="../../x")),
        ("Lib_One @ ./lib", Place(path="lib", name="lib-one")),
        ("./lib ; python_version < '3.12'", Place(path="lib", marker='python_version < "3.12"')),
        (
            "git+https://git.example/a/b.git@v1.2#egg=B[x]&subdirectory=python",
            Place(git="https://git.example/a/b.git", ref="v1.2", name="b", extras=("x",), subdirectory="python"),
        ),
        ("b @ git+https://git.example/b", Place(git="https://git.example/b", name="b")),
        ("b @ git+http://git.example:80/b@feature/x", Place(git="http://git.example:80/b", name="b", ref="feature/x")),
    ],
)
def test_a_project_is_read(line: str, expected: Place) -> None:
    """Folders and commits, with extras, markers and names."""
    assert is_place(line)
    assert place(line) == expected


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("/srv/lib", "no path of one machine"),
        ("~/lib", "no path of one machine"),
        ("file:///srv/lib", "no path of one machine"),
        ("git+ssh://git@git.example/a.git", "ssh would run with your keys"),
        ("git+file:///srv/a", "the repository's own configuration"),
        ("git+https://me:secret@git.example/a.git", "a user name or password"),
        ("-e git+https://git.example/a.git", "a commit cannot be edited"),
        ("git+https://git.example/a.git@--upload-pack=x", "is no commit, tag or branch"),
        ("git+https://git.example/a.git?x=y", "is not a repository's address"),
        ("git+https://git.example/a.git#subdirectory=../x/..", "is no folder relative"),
        ("git+https://git.example/a.git#subdirectory=../x", "leads out of the repository"),
        ("git+https://git.example/a.git#subdirectory=..", "leads out of the repository"),
        ("./a/../../b", "is no folder relative"),
    ],
)
def test_what_cannot_be_locked_is_refused(line: str, why: str) -> None:
    """Paths of one machine, other protocols, credentials, options in the place of a branch."""
    with pytest.raises(ValueError, match=why) as caught:
        place(line)
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize("line", ["numpy", "numpy>=2", "x.whl", "./x-1.0-py3-none-any.whl", "https://x.example/a.zip"])
def test_other_requirements_are_no_projects(line: str) -> None:
    """Packages, wheels and archives keep their own rules."""
    assert not is_place(line)


def test_a_spec_names_projects_among_its_requirements(tmp_path: Path) -> None:
    """They are apart from packages; a folder that is absent is a problem of the spec."""
    (tmp_path / "lib").mkdir()
    path = tmp_path / "spec.yaml"
    path.write_text("name: x\nrequirements: [-e ./lib, numpy]\n")
    spec = load_spec(path)
    assert spec.projects == (Place(path="lib", editable=True),)
    assert spec.requirements == ("numpy",)
    path.write_text("name: x\nrequirements: [./lob]\n")
    with pytest.raises(SpecError, match="no folder"):
        load_spec(path)


def test_projects_of_requirements_files_are_apart_from_their_packages(tmp_path: Path) -> None:
    """A file with ``-e .`` gives its other lines and its constraints, so that no resolver builds the project."""
    (tmp_path / "requirements.txt").write_text("-e .  # ours\n-r more.txt\n-c limits.txt\nnumpy\n")
    (tmp_path / "more.txt").write_text("scipy>=1\ngit+https://git.example/b@main\n")
    (tmp_path / "limits.txt").write_text("six<2\n")
    found = places_in(tmp_path, ["requirements.txt"])
    assert set(found) == {Place(path=".", editable=True), Place(git="https://git.example/b", ref="main")}
    assert flattened(tmp_path, ["requirements.txt"]) == (("numpy", "scipy>=1"), ("six<2",))
