"""Platforms of a spec: what is locked for each, and what none may have."""

from __future__ import annotations

import pytest

from envbuild.errors import SpecError
from envbuild.spec.hardware import Requirement
from envbuild.spec.model import Spec, parse_spec, spec_digest

SPEC = "name: t\nplatforms: [arm64, amd64]\nrequirements: [numpy]\nhardware: {kernel: '>=6', cpu: armv8.2-a}\n"


def problems(text: str) -> list[str]:
    """Return the problems of a spec as ``line path: message``."""
    with pytest.raises(SpecError) as caught:
        parse_spec(text)
    return [f"{problem.line} {problem.path}: {problem.message}" for problem in caught.value.problems]


def test_each_platform_is_a_spec_of_its_own() -> None:
    """Named after it, in the written order; a level of one platform's CPUs is none of the other's."""
    arm, amd = parse_spec(SPEC).locked
    assert [each.lock_name for each in (arm, amd)] == ["pylock.t-arm64.toml", "pylock.t-amd64.toml"]
    assert [(each.platform, each.os.architecture) for each in (arm, amd)] == [("arm64",) * 2, ("amd64",) * 2]
    assert arm.hardware.fields == {"cpu": Requirement(value="armv8.2-a")}
    assert amd.hardware.fields == {}
    assert arm.hardware.kernel == amd.hardware.kernel == ">=6"
    alone = parse_spec(SPEC.replace("platforms: [arm64, amd64]", "os: {architecture: arm64}"))
    assert arm == Spec(**{**_fields(alone), "name": "t-arm64", "platform": "arm64"})


def _fields(spec: Spec) -> dict[str, object]:
    return {name: getattr(spec, name) for name in spec.__struct_fields__}


def test_variants_have_platforms_too() -> None:
    """Every variant for every platform, the variants first; names end in both."""
    spec = parse_spec("name: t\nplatforms: [amd64, arm64]\nvariants: {cpu: {}, more: {requirements: [torch]}}\n")
    found = [(each.name, each.variant, each.platform, each.requirements) for each in spec.locked]
    assert found == [
        ("t-cpu-amd64", "cpu", "amd64", ()),
        ("t-cpu-arm64", "cpu", "arm64", ()),
        ("t-more-amd64", "more", "amd64", ("torch",)),
        ("t-more-arm64", "more", "arm64", ("torch",)),
    ]


def test_a_platform_is_stale_by_what_it_means() -> None:
    """Another platform leaves what the first one means; a spec without platforms means what it meant."""
    before, after = parse_spec("name: t\nplatforms: [amd64]\n"), parse_spec("name: t\nplatforms: [arm64, amd64]\n")
    assert spec_digest(before.locked[0]) == spec_digest(after.locked[1])
    assert spec_digest(parse_spec("name: t\n")) == spec_digest(parse_spec("name: t\nos: {architecture: amd64}\n"))


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        ("platforms: []", ["2 platforms: expected one platform at least — leave it out for os.architecture alone"]),
        (
            "platforms: amd64",
            ['2 platforms: expected a list of platforms such as [amd64, arm64], found "amd64" — write [amd64]'],
        ),
        ("platforms: [arm]", ['2 platforms[0]: expected amd64 or arm64, found "arm" — perhaps you meant arm64']),
        (
            "platforms: [amd64, arm64]\nos: {architecture: arm64}",
            ["3 os.architecture: platforms name what the image is made for — leave one of the two out"],
        ),
        (
            "platforms: [amd64]\nhardware: {cpu: armv9.0-a}",
            [
                "3 hardware.cpu: armv9.0-a is a level of arm64, but the image is for amd64 — it has x86-64, x86-64-v2, "
                "x86-64-v3, x86-64-v4"
            ],
        ),
        (
            "platforms: [amd64, arm64]\nhardware: {cpu-flags: [avx2]}",
            [
                "3 hardware.cpu-flags: flags are of one platform, but platforms are amd64, arm64 — describe a host of "
                "each platform: envbuild lock --platform ARCH --host FILE"
            ],
        ),
        (
            "platforms: [amd64, arm64]\npython: '3.9'",
            [
                '3 python: expected Python 3.10 to 3.14, found "3.9" — write 3.11, which debian-12 has, or leave '
                "python out"
            ],
        ),
    ],
)
def test_each_mistake_is_named_once(lines: str, expected: list[str]) -> None:
    """With its line and what to write, however many platforms have it."""
    assert problems(f"name: t\n{lines}\n") == expected


def test_a_name_that_is_too_long_with_its_platform() -> None:
    """A lock's name has 64 characters at most."""
    name = "a" * 60
    (found,) = problems(f"name: {name}\nplatforms: [amd64]\n")
    assert (
        found
        == f"2 platforms: {name}-amd64 is the name of a lock, which has at most 64 characters — write a shorter name"
    )
    with pytest.raises(SpecError):
        parse_spec(f"name: t\nplatforms: [amd64]\nvariants: {{{'a' * 58}: {{}}}}\n")
