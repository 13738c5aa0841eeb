from __future__ import annotations

import pytest
from debian.debian_support import NativeVersion
from hypothesis import given, settings
from hypothesis import strategies as st

from envbuild.resolve.debian.relations import Relation, format_group, parse_relations, version_key

CHARACTERS = "019aAz.+~-:"
VERSIONS = st.from_regex(r"([0-9]{1,2}:)?[0-9][0-9aAz.+~]{0,6}(-[0-9aAz+.~]{1,4})?", fullmatch=True)


@settings(max_examples=400, deadline=None)
@given(left=VERSIONS, right=VERSIONS)
def test_versions_compare_as_python_debian_compares_them(left: str, right: str) -> None:
    """Any two versions sort as in python-debian, which follows dpkg."""
    ours = (version_key(left) > version_key(right)) - (version_key(left) < version_key(right))
    theirs = NativeVersion(left)._compare(NativeVersion(right))
    assert ours == (theirs > 0) - (theirs < 0)


@pytest.mark.parametrize(
    ("smaller", "larger"),
    [
        ("1.0~rc1", "1.0"),
        ("1.0", "1.0a"),
        ("1.0a", "1.0+b"),
        ("9", "10"),
        ("2.36-9+deb12u9", "2.36-9+deb12u13"),
        ("9.9", "1:0"),
        ("1-1-1", "1-1-2"),
        ("1.0~~", "1.0~"),
    ],
)
def test_the_policy_manual_s_order_is_kept(smaller: str, larger: str) -> None:
    """Tildes, numbers, letters, signs, epochs and revisions sort as the Debian Policy Manual 5.6.12 specifies."""
    assert version_key(smaller) < version_key(larger)


@pytest.mark.parametrize(("left", "right"), [("1", "1-0"), ("1.0", "1.00"), ("0:1", "1"), ("1a", "1a0")])
def test_versions_that_differ_in_spelling_only_are_equal(left: str, right: str) -> None:
    """Zeros and an absent epoch or revision do not count."""
    assert version_key(left) == version_key(right)


def test_a_relation_field_is_read_as_groups_of_alternatives() -> None:
    """Alternatives, versions, qualifiers and folded lines are understood, and spelled again the same way."""
    field = "libc6 (>= 2.34), python3:any (<< 3.12)\n , mta | exim4:native, a(=1)"
    assert parse_relations(field) == (
        (Relation("libc6", "", ">=", "2.34"),),
        (Relation("python3", "any", "<<", "3.12"),),
        (Relation("mta", "", "", ""), Relation("exim4", "", "", "")),
        (Relation("a", "", "=", "1"),),
    )
    assert [format_group(group) for group in parse_relations(field)] == [
        "libc6 (>= 2.34)",
        "python3:any (<< 3.12)",
        "mta | exim4",
        "a (= 1)",
    ]


@pytest.mark.parametrize("field", ["a (>= )", "a b", "(>= 1)", "a |", "a ($(id))", "a (~ 1)"])
def test_what_is_no_relation_is_refused(field: str) -> None:
    """Text that is not a relation raises ValueError instead of being guessed at."""
    with pytest.raises(ValueError, match="not a package relation"):
        parse_relations(field)


@pytest.mark.parametrize(
    ("relation", "version", "accepted"),
    [
        ("a", "", True),
        ("a (= 1)", "", False),
        ("a (>= 1)", "1", True),
        ("a (>> 1)", "1", False),
        ("a (<< 1)", "1~", True),
        ("a (<= 1)", "1-0", True),
        ("a (= 1)", "0:1", True),
    ],
)
def test_a_version_is_held_against_a_relation(relation: str, version: str, accepted: bool) -> None:
    """Each operator does what the Policy Manual 7.1 specifies; an unversioned Provides meets no versioned relation."""
    assert parse_relations(relation)[0][0].accepts(version) is accepted
