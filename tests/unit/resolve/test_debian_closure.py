"""How packages are chosen: ``debian_universe``, ``debian_marks`` and ``debian_search`` on small indexes."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path

import pytest

from envbuild.errors import IntegrityError, ResolveError
from envbuild.resolve.debian.closure import close
from envbuild.resolve.debian.index import open_index, write_index
from envbuild.resolve.debian.marks import mark
from envbuild.resolve.debian.search import search
from envbuild.resolve.debian.universe import Universe
from tests.support.archives import stanza

Make = Callable[..., Universe]


@pytest.fixture
def make(tmp_path: Path) -> Make:
    """Return a maker of universes from the stanzas of each suite."""

    def build(*suites: Iterable[str], excluded: dict[str, str] | None = None) -> Universe:
        indexes = []
        for number, stanzas in enumerate(suites):
            path = tmp_path / f"{number}.sqlite"
            write_index(path, "\n".join(stanzas).encode(), f"suite {number}")
            index = open_index(path)
            assert index is not None
            indexes.append([index])
        return Universe(indexes, "amd64", excluded or {})

    return build


def chosen(universe: Universe, *names: str) -> list[str]:
    return sorted(close(universe, names))


def test_what_is_needed_is_chosen_and_no_more(make: Make) -> None:
    """Depends and Pre-Depends are followed, Recommends and Suggests are not, essential packages come along."""
    universe = make(
        [
            stanza("a", depends="b (>= 1)", pre_depends="c", recommends="r", suggests="s"),
            *map(stanza, "bcrs"),
            stanza("e", essential="yes"),
        ]
    )
    assert chosen(universe, "a") == ["a", "b", "c", "e"]


def test_the_highest_version_of_all_suites_is_chosen(make: Make) -> None:
    """A security update wins over the release, and the release's own file over an equal version elsewhere."""
    universe = make([stanza("a", "1.9"), stanza("b", "1")], [stanza("b", "1")], [stanza("a", "1.10")])
    found = close(universe, ["a", "b"])
    assert (found["a"].version, found["a"].suite) == ("1.10", 2)
    assert (found["b"].version, found["b"].suite) == ("1", 0)


def test_the_first_alternative_that_can_be_had_is_chosen(make: Make) -> None:
    """Alternatives are tried in written order; one that itself lacks something is passed over."""
    universe = make(
        [
            stanza("a", depends="none | bad | good | other"),
            stanza("bad", depends="none"),
            stanza("good"),
            stanza("other"),
        ]
    )
    assert chosen(universe, "a") == ["a", "good"]


def test_an_alternative_that_is_chosen_already_wins(make: Make) -> None:
    """What is asked for by name satisfies an alternative at any position."""
    universe = make([stanza("a", depends="x | y"), stanza("x"), stanza("y")])
    assert chosen(universe, "a", "y") == ["a", "y"]


def test_what_was_chosen_for_an_alternative_given_up_is_not_kept(make: Make) -> None:
    """A failed alternative leaves nothing behind."""
    universe = make(
        [
            stanza("a", depends="x | y"),
            stanza("x", depends="extra, deep"),
            stanza("deep", depends="deeper"),
            stanza("deeper", depends="none"),
            stanza("extra"),
            stanza("y"),
        ]
    )
    assert chosen(universe, "a") == ["a", "y"]


def test_a_virtual_package_is_satisfied_by_a_provider(make: Make) -> None:
    """Provides count, and a versioned need only takes a versioned Provides that fits."""
    universe = make(
        [
            stanza("a", depends="mail, perl-module (>= 2)"),
            stanza("exim", provides="mail"),
            stanza("old", provides="perl-module (= 1)"),
            stanza("bare", provides="perl-module"),
            stanza("new", provides="perl-module (= 2)"),
        ]
    )
    assert chosen(universe, "a") == ["a", "exim", "new"]


@pytest.mark.parametrize(
    ("first", "second", "preferred"),
    [
        ({}, {"priority": "important"}, "second"),
        ({}, {"important": "yes"}, "second"),
        ({"priority": "required"}, {"priority": "important"}, "first"),
        ({}, {}, "second"),
    ],
)
def test_providers_are_preferred_as_apt_prefers_them(
    make: Make, first: dict[str, str], second: dict[str, str], preferred: str
) -> None:
    """Important ones, then priority, then the one apt heard of last."""
    stanzas = [stanza("first", provides="mail", **first), stanza("second", provides="mail", **second)]
    assert chosen(make([*stanzas, stanza("z", depends="mail")]), "z") == [preferred, "z"]


def test_a_package_of_that_name_is_preferred_to_its_providers(make: Make) -> None:
    """A real package comes before those that only provide its name."""
    universe = make([stanza("a", depends="b"), stanza("b"), stanza("c", provides="b", priority="required")])
    assert chosen(universe, "a") == ["a", "b"]


def test_any_architecture_is_satisfied_by_multi_arch_allowed_only(make: Make) -> None:
    """``name:any`` takes a package that states Multi-Arch: allowed; ``name:amd64`` takes the native one."""
    universe = make(
        [
            stanza("a", depends="python:any, libc:amd64"),
            stanza("python", multi_arch="allowed"),
            stanza("libc"),
            stanza("b", depends="libc:any"),
        ]
    )
    assert chosen(universe, "a") == ["a", "libc", "python"]
    with pytest.raises(ResolveError, match="b 1 is wanted\n  b needs libc:any, but\n    only libc 1 exists"):
        close(universe, ["b"])


def test_packages_of_another_architecture_are_not_seen(make: Make) -> None:
    """An index may hold more; only the native architecture and ``all`` count."""
    universe = make([stanza("a", architecture="arm64"), stanza("b", architecture="all")])
    assert universe.candidate("a") is None
    assert chosen(universe, "b") == ["b"]


def test_a_cycle_of_needs_is_chosen_whole(make: Make) -> None:
    """Packages that need each other come together."""
    assert chosen(make([stanza("a", depends="b"), stanza("b", depends="a")]), "a") == ["a", "b"]


def test_a_chain_of_a_thousand_needs_is_followed(make: Make) -> None:
    """No limit of the interpreter shows."""
    count = 1000
    links = [stanza(f"p{n}", depends=f"p{n + 1}") for n in range(count)] + [stanza(f"p{count}")]
    assert len(chosen(make(links), "p0")) == count + 1


def test_a_package_that_provides_and_conflicts_with_a_name_does_not_conflict_with_itself(make: Make) -> None:
    """The usual way to state that only one mail server may be installed."""
    universe = make([stanza("exim", provides="mail", conflicts="mail"), stanza("a", depends="mail")])
    assert chosen(universe, "a") == ["a", "exim"]


def test_a_conflict_makes_another_alternative_be_chosen(make: Make) -> None:
    """What a requested package conflicts with is not chosen for an alternative."""
    universe = make([stanza("a", conflicts="x"), stanza("b", depends="x | y"), stanza("x"), stanza("y")])
    assert chosen(universe, "a", "b") == ["a", "b", "y"]


def test_a_conflict_found_late_is_searched_around(make: Make) -> None:
    """Where apt's first choice breaks what was chosen before, the complete search finds the way out."""
    universe = make(
        [
            stanza("a", depends="x | y"),
            stanza("b", depends="c"),
            stanza("c", breaks="x (<< 2)"),
            stanza("x"),
            stanza("y"),
        ]
    )
    assert sorted(search(universe, ["a", "b"])) == ["a", "b", "c", "y"]
    assert chosen(universe, "a", "b") == ["a", "b", "c", "y"]


def test_the_search_jumps_back_over_decisions_that_do_not_matter(make: Make) -> None:
    """A dead end behind many free choices is got out of at once."""
    free = [stanza(f"f{n}", depends=f"g{n} | h{n}") for n in range(30)]
    ways = [stanza(f"{letter}{n}") for n in range(30) for letter in "gh"]
    knot = [
        stanza("k", depends="l | m"),
        stanza("l", depends="o | p"),
        stanza("o", conflicts="z"),
        stanza("p", conflicts="z"),
        stanza("m"),
        stanza("z"),
    ]
    universe = make([*free, *ways, *knot])
    found = search(universe, ["k", *(f"f{n}" for n in range(30)), "z"])
    assert {"m", "z", "k"} <= found.keys()
    assert not {"o", "p"} & found.keys()


def test_apt_s_way_reports_when_it_is_not_enough(make: Make) -> None:
    """A set that would be broken is never returned."""
    universe = make([stanza("a", conflicts="b"), stanza("b")])
    assert mark(universe, ["a", "b"]) is None


def test_two_packages_that_conflict_are_named(make: Make) -> None:
    """An impossible request names the conflicting packages, and why each is needed."""
    universe = make(
        [
            stanza("a", depends="exim"),
            stanza("b", depends="postfix"),
            stanza("exim", "4", provides="mail", conflicts="mail"),
            stanza("postfix", "3", provides="mail", conflicts="mail"),
        ]
    )
    with pytest.raises(ResolveError) as caught:
        close(universe, ["a", "b"])
    assert caught.value.message == (
        "os packages: no set of packages fits together:\n"
        "  b 1 is wanted\n"
        "  b needs postfix, but\n"
        "    exim 4 conflicts with mail (postfix 3)\n"
        "  a 1 needs exim 4"
    )
    assert caught.value.hint == "drop one of the packages named above from the spec"
    assert caught.value.exit_code == 12


def test_a_need_that_no_version_meets_is_reported_as_a_chain(make: Make) -> None:
    """The message leads from the request to the version that exists."""
    universe = make([stanza("a", depends="b"), stanza("b", depends="c (>= 2), d"), stanza("c", "1")])
    with pytest.raises(ResolveError) as caught:
        close(universe, ["a"])
    assert caught.value.message == (
        "os packages: no set of packages fits together:\n  a 1 needs b 1\n  b needs c (>= 2), but\n    only c 1 exists"
    )


def test_all_closed_ways_of_a_need_are_reported(make: Make) -> None:
    """Each alternative has its own reason: absent, too old, left out, provided in another version, in conflict."""
    universe = make(
        [
            stanza("a", depends="none | old (>= 2) | gone | virtual (>= 2) | foe"),
            stanza("old"),
            stanza("gone"),
            stanza("some", provides="virtual (= 1)"),
            stanza("foe"),
            stanza("z", conflicts="foe"),
        ],
        excluded={"gone": "it is not for images"},
    )
    with pytest.raises(ResolveError) as caught:
        close(universe, ["a", "z"])
    assert caught.value.message == (
        "os packages: no set of packages fits together:\n"
        "  a 1 is wanted\n"
        "  a needs none | old (>= 2) | gone | virtual (>= 2) | foe, but\n"
        "    there is no none\n"
        "    only old 1 exists\n"
        "    gone is left out: it is not for images\n"
        "    only virtual 1 is provided\n"
        "    z 1 conflicts with foe\n"
        "  z 1 is wanted"
    )


def test_an_excluded_package_gives_way_to_its_alternative(make: Make) -> None:
    """``usrmerge | usr-is-merged`` becomes the latter."""
    universe = make(
        [
            stanza("init", essential="yes", depends="usrmerge | usr-is-merged"),
            *map(stanza, ("usrmerge", "usr-is-merged")),
        ],
        excluded={"usrmerge": "no"},
    )
    assert chosen(universe) == ["init", "usr-is-merged"]


def test_unknown_names_are_all_reported_at_once_with_near_ones(make: Make) -> None:
    """One message for all: near names, providers of a virtual name, names that can be none."""
    universe = make(
        [stanza("ffmpeg"), stanza("git"), *(stanza(name, provides="mail") for name in ("exim4", "postfix"))],
        excluded={"usrmerge": "it is not for images"},
    )
    with pytest.raises(ResolveError) as caught:
        close(universe, ["git", "ffmpg", "mail", "$(id)", "qqqq", "usrmerge"])
    assert caught.value.message == (
        "os packages: these names do not do\n"
        "  expected a Debian package name, found '$(id)'\n"
        "  there is no package 'ffmpg' — perhaps you meant ffmpeg\n"
        "  'mail' is virtual; write one of its providers: exim4, postfix\n"
        "  there is no package 'qqqq'\n"
        "  'usrmerge' is left out: it is not for images"
    )


def test_a_virtual_name_with_one_provider_means_that(make: Make) -> None:
    """As with apt, a name that a single package provides represents it."""
    assert chosen(make([stanza("nodejs-real", provides="node")]), "node") == ["nodejs-real"]


def test_order_and_repetition_of_the_request_do_not_matter(make: Make) -> None:
    """The same names give the same packages in any order."""
    universe = make([stanza("a", depends="x | y"), stanza("b", depends="y | x"), stanza("x"), stanza("y")])
    assert chosen(universe, "b", "a", "b") == chosen(universe, "a", "b") == ["a", "b", "x"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("Package: a\nVersion: 1\n", "suite 0: package a: expected a complete entry, found a bad field: 'Size'"),
        (
            stanza("a").replace("Size: 1000", "Size: -1"),
            "suite 0: package a: expected a complete entry, found a bad field: Size: '-1'",
        ),
    ],
)
def test_an_incomplete_entry_is_refused(make: Make, text: str, message: str) -> None:
    """An index that lacks what a lock needs is an integrity failure that names the package."""
    with pytest.raises(IntegrityError) as caught:
        make([text])
    assert caught.value.message == message


def test_a_relation_that_cannot_be_read_is_refused(make: Make) -> None:
    """A malformed relation is an integrity failure that names the package, not a wrong closure."""
    with pytest.raises(IntegrityError, match=r"package index: a 1: not a package relation: 'b c'"):
        close(make([stanza("a", depends="b c")]), ["a"])
