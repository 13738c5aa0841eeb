"""Errors: one exit code per class, and messages a person can act on."""

from __future__ import annotations

import pytest

from envbuild import errors
from envbuild.errors import EnvbuildError, Problem, SpecError


def _classes() -> list[type[EnvbuildError]]:
    pending: list[type[EnvbuildError]] = [EnvbuildError]
    found = []
    while pending:
        kind = pending.pop()
        if kind.__module__.startswith("envbuild."):
            found.append(kind)
        pending += kind.__subclasses__()
    return found


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
    "HostMismatchError": 78,
}


def test_the_published_exit_codes_stay() -> None:
    """Programs rely on the numbers: each class of errors.py keeps the one that was published."""
    own = [kind for kind in _classes() if kind.__module__ == errors.__name__]
    assert {kind.__name__: kind.exit_code for kind in own} == PUBLISHED


def test_exit_codes_are_distinct() -> None:
    """An exit code tells exactly one class of failure apart."""
    own = [kind for kind in _classes() if kind.__module__ == errors.__name__]
    codes = [kind.exit_code for kind in own]
    assert len(set(codes)) == len(codes)


def test_no_exit_code_is_one_of_an_engine_or_of_success() -> None:
    """125 to 127 belong to container engines, from 128 on to signals, 0 to success."""
    for kind in _classes():
        assert 0 < kind.exit_code < 125, kind


def test_every_class_elsewhere_shares_the_exit_code_of_its_parent() -> None:
    """Modules may refine an error but not invent an exit code."""
    for kind in _classes():
        if kind.__module__ != errors.__name__:
            parents = {parent.exit_code for parent in kind.__mro__[1:] if issubclass(parent, EnvbuildError)}
            assert kind.exit_code in parents, kind


@pytest.mark.parametrize("kind", [k for k in _classes() if k is not SpecError])
def test_errors_carry_message_and_hint(kind: type[EnvbuildError]) -> None:
    """Whatever the class, message and hint are kept apart and str() is the message."""
    error = kind("the disk is full", "free some space")
    assert (str(error), error.message, error.hint) == ("the disk is full", "the disk is full", "free some space")


def test_a_spec_error_lists_all_problems_aligned() -> None:
    """Every problem is on a line of its own, with its line number and field path."""
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
