"""The tables of CUDA: every row has its source, and the rows agree with each other."""

from __future__ import annotations

import re
from itertools import pairwise

import pytest

from envbuild.resolve.cuda import table as tables
from envbuild.resolve.cuda.table import numbers

ROWS = [
    row
    for rows in (
        tables.written().floor,
        tables.written().toolkit,
        tables.written().architecture,
        tables.written().build,
        tables.written().other,
        tables.written().model,
    )
    for row in rows
]


def test_every_row_has_a_source() -> None:
    """Each row by hand names a source, each source is used, and each derived row states what it was read from."""
    assert {row.source for row in ROWS} == set(tables.written().sources)
    for row in (*tables.derived().release, *tables.derived().toolkit):
        assert re.fullmatch(r"[a-z0-9-]+ [0-9.]+(?:post[0-9]+)?(?: and [0-9.]+)?", row.metadata)


def test_models_have_a_known_compute_capability_and_one_row() -> None:
    """A GPU's architecture can always be looked up."""
    names = [row.name for row in tables.written().model]
    assert len(names) == len(set(names))
    for row in tables.written().model:
        assert tables.architecture(row.capability) is not None, row.name


def test_a_model_is_found_by_its_name_under_old_drivers_too() -> None:
    """``NVIDIA`` at the front of a name makes no difference."""
    found = tables.model("A100-SXM4-40GB")
    assert found is not None
    assert (found.capability, found.sms) == ("8.0", 108)
    assert tables.model("NVIDIA A100-SXM4-40GB") == found
    assert tables.model("A100") is None


def test_architectures_and_toolkits_are_consistent() -> None:
    """Versions rise, no key is there twice, and no toolkit's driver is below its major's floor."""
    written = tables.written()
    assert len({row.capability for row in written.architecture}) == len(written.architecture)
    for row in written.architecture:
        assert not row.until or numbers(row.since) < numbers(row.until)
    drivers = [numbers(row.driver) for row in sorted(written.toolkit, key=lambda row: numbers(row.cuda))]
    assert drivers == sorted(set(drivers))
    for tool in written.toolkit:
        assert numbers(tool.driver) >= numbers(tables.floor_driver(tool.cuda))
    for build in written.build:
        assert list(build.cubins) == sorted(set(build.cubins), key=numbers)
        for capability in (*build.cubins, *build.ptx):
            assert tables.architecture(capability) is not None


def test_what_was_built_with_goes_with_what_is_asked_for() -> None:
    """The CUDA and cuDNN that a framework was built with satisfy what its own metadata ask for."""
    for row in tables.derived().release:
        build = tables.build(row.framework, row.releases[-1], ".".join(map(str, tables.span(row.cuda)[0][:2])))
        if build and build.builds_on:
            assert tables.meets(row.cuda, build.builds_on), row
            assert tables.meets(row.cudnn, build.cudnn), row


@pytest.mark.parametrize("framework", ["tensorflow", "torch", "jax"])
def test_every_framework_is_known(framework: str) -> None:
    """The derived table has each framework's releases, newest first, with CUDA, cuDNN and Pythons."""
    rows = tables.releases(framework)
    assert len(rows) > 5
    assert rows[0].major >= rows[-1].major
    for row in rows:
        assert row.releases
        assert row.cudnn
        assert row.nccl
        assert "3.11" in row.python or "3.13" in row.python
        assert tables.release_of(framework, row.releases[-1], row.major) == row


def test_no_wheel_is_in_two_toolkits() -> None:
    """The ranges of neighbouring toolkits do not overlap, so a version belongs to one of them."""
    known = sorted((row.cuda for row in tables.derived().toolkit), key=numbers)
    for cuda, following in pairwise(known):
        ours, theirs = tables.toolkit_wheels(cuda), tables.toolkit_wheels(following)
        for name in ours.keys() & theirs.keys():
            if tables.span(ours[name])[0] != tables.span(theirs[name])[0]:
                assert tables.span(ours[name])[1] <= tables.span(theirs[name])[0], (name, cuda)
    assert tables.toolkit_wheels("1.0") == {}


@pytest.mark.parametrize(
    ("specifier", "wanted", "fits"),
    [
        ("==12.8.*", "12.8", True),
        ("==12.8.*", "12", True),
        ("==12.8.*", "12.5", False),
        (">=12.5,<13.0", "12.4", False),
        (">=12.5,<13.0", "13", False),
        ("<10.0,>=9.3.0.75", "9.3", True),
        ("<10.0,>=9.3.0.75", "9.2", False),
        ("<10.0,>=9.3.0.75", "10", False),
        ("==9.10.2.21", "9.10", True),
        ("==9.10.2.21", "9.1", False),
        ("<=12.9.1", "12.9", True),
        ("", "12", True),
    ],
)
def test_ranges_and_prefixes(specifier: str, wanted: str, fits: bool) -> None:
    """A short version represents all that start with it."""
    assert tables.meets(specifier, wanted) is fits


def test_numbers_end_where_letters_begin() -> None:
    """Versions are compared by their leading numbers."""
    assert [numbers(text) for text in ("12.9.86", "2.15.0+cu126", "1.0rc1", "x")] == [
        (12, 9, 86),
        (2, 15, 0),
        (1, 0),
        (),
    ]
