"""Pins of years ago, whose wheels are for other Pythons alone."""

from __future__ import annotations

import pytest

from envbuild.resolve.python.newest import File
from envbuild.resolve.python.old_pins import explained, of_projects
from envbuild.resolve.python.wheels import NoWheelError, Target

_TARGET = Target(python="3.11", platform="manylinux_2_36_x86_64")
_PAGES = {
    "torch": [[File(name="torch-1.3.1-cp36-cp36m-manylinux1_x86_64.whl", python=""),
               File(name="torch-1.3.1-cp37-cp37m-manylinux1_x86_64.whl", python=""),
               File(name="torch-1.3.1-cp38-cp38-win_amd64.whl", python=""),
               File(name="torch-2.9.0-cp311-cp311-manylinux_2_28_x86_64.whl", python="")]],
    "numpy": [[File(name="numpy-1.21.2-cp310-cp310-manylinux2010_x86_64.whl", python=">=3.7,<3.11"),
               File(name="numpy-1.21.2-cp3x-none-any.whl", python=""),
               File(name="numpy-1.21.2-cp3²-none-any.whl", python=""),
               File(name="numpy-1.21.2.zip", python=">=3.7,<3.11")]],
    "six": [[File(name="six-1.0-py2.py3-none-any.whl", python="")]],
    "old": [[File(name="old-1-py3-none-any.whl", python="<3.10,>=3.8"),
             File(name="old-1-py3-none-macosx_10_9.whl", python="x")]],
}  # fmt: skip


def _error(*lacking: str, hint: str = "build it") -> NoWheelError:
    return NoWheelError("no wheel: because", hint, lacking)


def _explained(*lines: str, hint: str = "build it") -> NoWheelError:
    pins = of_projects(lines)
    return explained(_error(*lines[:1], hint=hint), pins, _PAGES, _TARGET)


def test_requirements_are_those_on_versions() -> None:
    """The first of each project; addresses and what is no requirement are none, markers and extras are left out."""
    lines = ["torch == 1.3.1", "torch>=1", "a @ file:///a.whl", "-r x", "old[b]~=1.0 ; sys_platform != 'x'"]
    assert of_projects(lines) == ["torch==1.3.1", "old~=1.0"]


def test_all_old_pins_are_named_at_once() -> None:
    """With the Pythons that have wheels; those that have one for the target are not."""
    error = _explained("torch==1.3.1", "numpy==1.21.2", "six==1.0", "old==1.*", "unknown==2", "torch>=2")
    assert error.message == (
        "no wheel: because\n  torch==1.3.1 has wheels for Python 3.6 to 3.7\n"
        "  numpy==1.21.2 has wheels for Python 3.10\n  old==1.* has wheels for Python 3.8 to 3.9"
    )
    assert error.hint == (
        "images have Python 3.10 to 3.14: require newer releases (torch>=1.3.1, numpy>=1.21.2, old>=1); or build it"
    )
    assert error.lacking == ("torch==1.3.1",)


def test_a_python_that_has_all_of_them_is_named() -> None:
    """Once."""
    assert _explained("numpy==1.21.2").hint == (
        'choose the Python that has wheels, in the spec:  python: "3.10"; or build it'
    )
    hint = 'choose the Python that has wheels, in the spec:  python: "3.10"; or build it'
    assert _explained("numpy==1.21.2", hint=hint).hint == hint
    assert _explained("numpy==1.21.2", "torch<2", hint=hint).hint == (
        "images have Python 3.10 to 3.14: require newer releases (numpy>=1.21.2, torch); or build it"
    )


@pytest.mark.parametrize("line", ["six==1.0", "unknown==2", "torch==2.9.0", "torch==1.4"])
def test_an_error_for_another_reason_stays(line: str) -> None:
    """It has a wheel for the target, or none at all, or is not on the pages."""
    error = _explained(line)
    assert (error.message, error.hint) == ("no wheel: because", "build it")
