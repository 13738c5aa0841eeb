"""Extras and dependency groups of the project next to a spec."""

from __future__ import annotations

from pathlib import Path

import pytest

from envbuild.errors import SpecError
from envbuild.operations.lock_files import resolution_inputs
from envbuild.spec.model import parse_spec
from envbuild.spec.requirement_files import project_lines

PROJECT = """\
[project]
name = "My.Project"
dependencies = ["numpy"]
[project.optional-dependencies]
cuda = ["triton >=3"]
plots_and = ["matplotlib"]
all = ["my-project[cuda,plots-and]", "rich"]
again = ["my-project[again]"]
itself = ["my-project"]
[dependency-groups]
Dev = ["pytest>8", {include-group = "typing"}]
typing = ["mypy"]
round = [{include-group = "round"}]
odd = ["x @ https://example.org/x.whl"]
wrong = [3]
"""


@pytest.fixture(name="folder")
def _folder(tmp_path: Path) -> Path:
    (tmp_path / "pyproject.toml").write_text(PROJECT)
    return tmp_path


@pytest.mark.parametrize(
    ("extras", "groups", "lines"),
    [
        ((), (), ()),
        (("cuda",), (), ("triton>=3",)),
        (("all",), (), ("triton>=3", "matplotlib", "rich")),
        ((), ("dev",), ("pytest>8", "mypy")),
        (("cuda", "all"), ("typing", "dev"), ("triton>=3", "matplotlib", "rich", "mypy", "pytest>8")),
    ],
)
def test_lines(folder: Path, extras: tuple[str, ...], groups: tuple[str, ...], lines: tuple[str, ...]) -> None:
    """Names are compared as PEP 685 has it; what includes another has its lines; none is there twice."""
    assert project_lines(folder, extras, groups) == lines


@pytest.mark.parametrize(
    ("extras", "groups", "problem"),
    [
        (("cude",), (), 'extras[0]: pyproject.toml: "cude": no such extra: it has cuda, plots-and, all, again, itself'),
        (("again",), (), 'extras[0]: pyproject.toml: "again": is part of itself'),
        (("itself",), (), '"my-project" is the project itself; write the packages of its extras'),
        (
            (),
            ("typing", "deb"),
            'groups[1]: pyproject.toml: "deb": no such group: it has dev, typing, round, odd, wrong',
        ),
        ((), ("round",), 'groups[0]: pyproject.toml: "round": Cyclic dependency group include'),
        ((), ("odd",), 'groups[0]: pyproject.toml: "odd": '),
        ((), ("wrong",), 'groups[0]: pyproject.toml: "wrong": Invalid dependency group item: 3'),
    ],
)
def test_what_is_refused(folder: Path, extras: tuple[str, ...], groups: tuple[str, ...], problem: str) -> None:
    """Each with its field path and the reason."""
    with pytest.raises(SpecError) as caught:
        project_lines(folder, extras, groups)
    assert problem in caught.value.message


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (None, "extras: pyproject.toml: cannot be read: No such file or directory"),
        ("[", "extras: pyproject.toml: not a TOML file"),
        ("", "extras: pyproject.toml: no [project] table"),
        ("[project]\nname = 'x'\n[tool.uv.sources]\na = {path = '.'}", "tool.uv.sources"),
        ("[project]\nname = 'x'\ndynamic = ['optional-dependencies']", "project.dynamic: optional-dependencies"),
        ("[project]\nname = 'x'\noptional-dependencies = 3", 'extras[0]: pyproject.toml: "cuda": '),
        (
            "[project]\nname = 'x'\noptional-dependencies = {cuda = 'abc'}",
            'extras[0]: pyproject.toml: "cuda": is no list',
        ),
    ],
)
def test_a_file_that_is_no_use(tmp_path: Path, text: str | None, problem: str) -> None:
    """A file that is missing or damaged, or whose build backend would have to run, is an error of the spec."""
    if text is not None:
        (tmp_path / "pyproject.toml").write_text(text)
    with pytest.raises(SpecError) as caught:
        project_lines(tmp_path, ("cuda",), ())
    assert problem in caught.value.message


def test_groups_need_no_project(tmp_path: Path) -> None:
    """PEP 735 has groups in files without metadata."""
    (tmp_path / "pyproject.toml").write_text("[dependency-groups]\ndev = ['pytest']\n")
    assert project_lines(tmp_path, (), ("dev",)) == ("pytest",)


def test_the_file_is_an_input(folder: Path) -> None:
    """A change of the file makes the lock stale, where extras or groups are asked for."""
    spec = parse_spec("name: t\nvariants: {a: {}, b: {groups: [Dev]}}\n")
    path = folder / "spec.yaml"
    assert spec.variants["b"].groups == ("dev",)
    assert [*resolution_inputs(spec.variants["a"], path)] == ["spec.yaml"]
    assert [*resolution_inputs(spec.variants["b"], path)] == ["spec.yaml", "pyproject.toml"]
