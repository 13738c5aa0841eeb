"""Kernel version ranges."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from envbuild.runtime.guard import ranges

versions = st.lists(st.integers(0, 30), min_size=1, max_size=4)


@pytest.mark.parametrize(
    ("text", "numbers"),
    [
        ("6.18.44-fc-v595", (6, 18, 44)),
        ("5.10.0-33-amd64", (5, 10, 0)),
        ("6.6.87.2-microsoft-standard-WSL2", (6, 6, 87, 2)),
        ("4.18.0-553.el8_10.x86_64", (4, 18, 0)),
        ("7.0-rc1", (7, 0)),
        ("6.1.0+", (6, 1, 0)),
        ("5", (5,)),
    ],
)
def test_release_of_real_kernels(text: str, numbers: tuple[int, ...]) -> None:
    """What distributions append to a release orders nothing."""
    assert ranges.release(text) == numbers


@pytest.mark.parametrize("text", ["", "v6.1", "-1", "linux"])
def test_release_refuses(text: str) -> None:
    """A release without a leading number is an error, not version 0."""
    with pytest.raises(ValueError, match=r"^'.*' does not begin with a version number$"):
        ranges.release(text)


@pytest.mark.parametrize(
    ("text", "inside", "outside"),
    [
        ("", "1.0", None),
        (">=5.10,<7", "6.6.87.2-microsoft-standard-WSL2", "7.0.0-rc1"),
        (">=5.10", "5.10.0-33-amd64", "5.9.16"),
        (">5.10", "5.10.1", "5.10.0"),
        ("<=6.1", "6.1.0-40", "6.1.1"),
        ("==6.1.*", "6.1.140-cloud", "6.10.1"),
        ("==6.1", "6.1.0", "6.1.5"),
        ("!=6.1.*", "6.2", "6.1.7"),
        ("!=6.1", "6.1.1", "6.1"),
        ("~=6.1", "6.18.44-fc", "7.0"),
        ("~=6.1.3", "6.1.9", "6.2.0"),
        (" >= 5.10 , < 7 ", "6.1", "5.4"),
    ],
)
def test_contains(text: str, inside: str, outside: str | None) -> None:
    """The operators mean what PEP 440 specifies for release numbers."""
    assert ranges.contains(text, inside)
    assert outside is None or not ranges.contains(text, outside)


@pytest.mark.parametrize("text", [">>5", "5.10", ">=", ">=5.x", "=>5", ">=5,,<7", "~=5", ">=5.*", ">=５"])
def test_parse_refuses(text: str) -> None:
    """What is no range is refused and named."""
    with pytest.raises(ValueError, match=r"is not a version range$"):
        ranges.parse(text)


@pytest.mark.parametrize(
    ("text", "found", "side"),
    [
        (">=6.1", "5.15", "below"),
        ("<7", "7.1", "above"),
        ("!=6.1.*", "6.1.2", "outside"),
        ("==6.1.*", "5.4", "below"),
        ("~=6.1", "7.0", "above"),
    ],
)
def test_side(text: str, found: str, side: str) -> None:
    """A release outside a range is below it, above it, or in a hole of it."""
    assert ranges.side(text, found) == side


def test_show() -> None:
    """People read signs, not operators."""
    assert ranges.show(">=5.10,<7") == "≥ 5.10, < 7"
    assert ranges.show("==6.1.*") == "6.1.*"
    assert ranges.show("") == "any"


@given(bound=versions, found=versions, operator=st.sampled_from([">=", "<=", "==", "!=", ">", "<"]))
def test_agrees_with_packaging(bound: list[int], found: list[int], operator: str) -> None:
    """On plain numbers the comparison is that of the reference implementation of PEP 440."""
    from packaging.specifiers import SpecifierSet

    text = f"{operator}{'.'.join(map(str, bound))}"
    version = ".".join(map(str, found))
    assert ranges.contains(text, version) == SpecifierSet(text).contains(version)
