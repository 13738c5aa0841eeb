"""The manifest of package sets is well formed, and the page about it is made from the recorded outcomes."""

from __future__ import annotations

from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from envbuild.spec.model import load_spec
from tests.sets import RESULTS, load, most_used, read
from tests.sets.archives import folder_of
from tests.sets.page import PAGE, written

SETS = load()


def test_there_are_sets_enough() -> None:
    """At least sixty sets, ten of them the dependencies of a public project with its repository, commit and file."""
    assert len(SETS) >= 60
    assert sum(each.group == "project" for each in SETS) >= 10
    assert all(each.origin.count(" ") >= 2 for each in SETS if each.group == "project")


def test_the_most_used_packages_are_in_a_set() -> None:
    """Each of the hundred and more packages that most projects use is a requirement of a set."""
    wanted = {canonicalize_name(name) for name in most_used()}
    found = {canonicalize_name(Requirement(line).name) for each in SETS for line in each.requirements}
    assert len(wanted) >= 100
    assert wanted - found == set()


def test_each_set_is_a_spec(tmp_path: Path) -> None:
    """Each set makes a spec that is accepted; what is refused imports nothing."""
    for each in SETS:
        path = tmp_path / "spec.yaml"
        path.write_text(each.spec())
        for pin in each.projects:
            (tmp_path / folder_of(pin)).mkdir()
        assert load_spec(path).name == each.name
        assert not (each.refused and each.imports)


def test_the_page_has_the_recorded_outcomes() -> None:
    """docs/explanation/dependency-sets.md is what ``python -m tests.sets --page`` writes; each outcome is of a set."""
    page = PAGE.read_text(encoding="utf-8")
    outcomes = read(RESULTS)
    assert page == written(page, SETS, outcomes)
    assert set(outcomes) <= {each.name for each in SETS}
