"""Errors: one exit code per class, and messages a person can act on."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from envbuild import errors
from envbuild.errors import EnvbuildError, Problem, SpecError

PACKAGE = Path(errors.__file__).parent


def _classes() -> list[type[EnvbuildError]]:
    kinds = [value for value in vars(errors).values() if isinstance(value, type)]
    return [kind for kind in kinds if issubclass(kind, EnvbuildError)]


PUBLISHED = {
    "EnvbuildError": 1,
    "UsageError": 2,
    "SpecError": 10,
    "LockError": 11,
    "ResolveError": 12,
    "IntegrityError": 13,
    "BuildError": 14,
    "EngineError": 15,
    "NotReproducibleError": 16,
    "RegistryError": 17,
    "JobError": 18,
    "HostMismatchError": 78,
}


def test_the_published_exit_codes_stay() -> None:
    """Programs rely on the numbers: each class of errors.py keeps the one that was published."""
    assert {kind.__name__: kind.exit_code for kind in _classes()} == PUBLISHED


def test_exit_codes_are_distinct() -> None:
    """An exit code identifies exactly one class of failure."""
    codes = [kind.exit_code for kind in _classes()]
    assert len(set(codes)) == len(codes)


def test_no_exit_code_is_one_of_an_engine_or_of_success() -> None:
    """125 to 127 belong to container engines, from 128 on to signals, 0 to success."""
    for kind in _classes():
        assert 0 < kind.exit_code < 125, kind


def test_only_errors_py_gives_out_exit_codes() -> None:
    """A module may refine an error by deriving from the class that has its exit code, not by setting a number."""
    setters = [
        f"{path.relative_to(PACKAGE)}: {node.name}"
        for path in sorted(PACKAGE.rglob("*.py"))
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.ClassDef) and node.name.endswith("Error") and path.name != "errors.py"
        for line in node.body
        if isinstance(line, ast.Assign | ast.AnnAssign) and "exit_code" in ast.unparse(line).partition("=")[0]
    ]
    assert setters == []


def test_the_page_lists_every_exit_code() -> None:
    """docs/reference/exit-codes.md is the interface: it has each number that a class has."""
    page = (PACKAGE.parent / "docs/reference/exit-codes.md").read_text(encoding="utf-8")
    listed = {int(number) for number in re.findall(r"^\| (\d+) \|", page, re.M)}
    assert {kind.exit_code for kind in _classes()} <= listed


@pytest.mark.parametrize("kind", [k for k in _classes() if k is not SpecError])
def test_errors_carry_message_and_hint(kind: type[EnvbuildError]) -> None:
    """Whatever the class, message and hint are kept apart and str() is the message."""
    error = kind("the disk is full", "free some space")
    assert (str(error), error.message, error.hint) == ("the disk is full", "the disk is full", "free some space")


def test_a_spec_error_lists_all_problems_aligned() -> None:
    """Every problem is on a separate line, with its line number and field path."""
    problems = [
        Problem(path="pyton", message="unknown key — perhaps you meant python", line=4),
        Problem(path="hardware.kernel", message='">>5" is not a version range', line=12),
        Problem(path="", message="cannot be read"),
    ]
    assert str(SpecError("spec.yaml", problems)) == (
        "spec.yaml has 3 problems\n"
        "  line 4    pyton: unknown key — perhaps you meant python\n"
        '  line 12   hardware.kernel: ">>5" is not a version range\n'
        "  cannot be read"
    )


def test_one_problem_is_not_problems() -> None:
    """The heading counts in English."""
    assert str(SpecError("a.yaml", [Problem(path="", message="empty", line=1)])) == (
        "a.yaml has 1 problem\n  line 1   empty"
    )


def test_problems_are_compared_by_what_they_say() -> None:
    """As those of a spec are in tests, and where one stands for several."""
    one = Problem(path="os", message="is missing", line=3)
    assert one == Problem("os", "is missing", 3)
    assert len({one, Problem("os", "is missing", 3), Problem("os", "is missing")}) == 2
    assert one != ("os", "is missing", 3)
    assert repr(one) == "Problem(path='os', message='is missing', line=3)"
