"""Variants of a spec: what each is, and what none may have."""

from __future__ import annotations

import pytest

from envbuild.determinism import policy
from envbuild.errors import SpecError
from envbuild.spec.hardware import Requirement
from envbuild.spec.model import Package, Spec, parse_spec, spec_digest

COMMON = """\
name: t
python: "3.12"
requirements: [numpy]
packages: [git]
cuda: "12"
cudnn: "9"
env: {A: "1", B: "2"}
hardware: {kernel: ">=6", cpu: v3}
"""
SPEC = f"""\
{COMMON}variants:
  all: {{}}
  more:
    requirements: [numpy, torch]
    packages: [ffmpeg]
    groups: [Dev]
    cuda: 13
    env: {{B: x, C: "3"}}
    hardware: {{cpu: any, gpu: {{model: NVIDIA H200}}}}
  cpu: {{cuda: none, hardware: detect, sources: all}}
"""


def problems(text: str) -> list[str]:
    """Return the problems of a spec as ``line path: message``."""
    with pytest.raises(SpecError) as caught:
        parse_spec(text, check_env=policy.forbidden)
    return [f"{problem.line} {problem.path}: {problem.message}" for problem in caught.value.problems]


def test_lists_grow_mappings_merge_and_the_rest_is_replaced() -> None:
    """Each variant is a whole spec, named after itself; the written order stays."""
    spec = parse_spec(SPEC)
    assert [*spec.variants] == ["all", "more", "cpu"]
    alone, more, cpu = spec.locked
    assert [each.lock_name for each in spec.locked] == ["pylock.t-all.toml", "pylock.t-more.toml", "pylock.t-cpu.toml"]
    common = parse_spec(COMMON)
    assert common.locked == (common,)
    assert alone == Spec(**{**_fields(common), "name": "t-all", "variant": "all"})
    assert (more.requirements, more.groups) == (("numpy", "torch"), ("dev",))
    assert more.packages == (Package(name="git"), Package(name="ffmpeg"))
    assert (more.python, more.cuda, more.cudnn, more.env) == ("3.12", "13", "9", {"A": "1", "B": "x", "C": "3"})
    assert (more.hardware.kernel, more.hardware.gpu) == (">=6", "some")
    assert more.hardware.fields["cpu"] == Requirement(value="any")
    assert (cpu.cuda, cpu.cudnn, cpu.hardware.detect, cpu.sources) == ("none", "", True, ("all",))


def _fields(spec: Spec) -> dict[str, object]:
    return {name: getattr(spec, name) for name in spec.__struct_fields__}


def test_a_variant_is_stale_by_what_it_means() -> None:
    """An edit of one variant leaves what the others mean; the order in which they are written means nothing."""
    before = parse_spec(SPEC)
    after = parse_spec(SPEC.replace("[ffmpeg]", "[curl]").replace("  all: {}\n", "") + "  all: {}\n")
    same = {name: spec_digest(before.variants[name]) == spec_digest(after.variants[name]) for name in before.variants}
    assert same == {"all": True, "more": False, "cpu": True}
    assert "variants" not in COMMON
    assert spec_digest(parse_spec(COMMON)) == spec_digest(parse_spec(COMMON + "extras: []\ngroups: []\n"))


def test_a_project_with_extras_replaces_the_one_of_all() -> None:
    """Of one project one wheel is installed, so its extras are those that the variant states."""
    spec = parse_spec("name: t\nrequirements: [./lib, ./other]\nvariants: {a: {}, b: {requirements: ['./lib[x]']}}\n")
    assert [[(p.path, p.extras) for p in each.projects] for each in spec.locked] == [
        [("lib", ()), ("other", ())],
        [("other", ()), ("lib", ("x",))],
    ]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("variants: {}", "2 variants: expected at least one variant, found a mapping without any — leave variants out"),
        ("variants: [a]", "2 variants: expected a mapping of names to the keys of each variant, found a list"),
        (
            "variants: {a: }",
            "2 variants.a: expected a mapping of keys such as cuda and requirements, or {} for none, found nothing",
        ),
        (
            "variants: {cuda12.4: {}}",
            '2 variants.cuda12.4: "cuda12.4" is not a variant\'s name: lower-case letters, digits, - and _, at most 64 '
            "— e.g. cuda12",
        ),
        (
            "variants: {a/../b: {}}",
            '2 variants.a/../b: "a/../b" is not a variant\'s name: lower-case letters, digits, - and _, at most 64 — '
            "e.g. cuda12",
        ),
        (
            "variants:\n  a: {os: debian-13}",
            "3 variants.a.os: is the same for all variants — write it at the top of the spec, not in a variant",
        ),
        (
            "variants:\n  a: {variants: {}}",
            "3 variants.a.variants: is the same for all variants — write it at the top of the spec, not in a variant",
        ),
        (
            'variants: {"a\\n": {cuda: none, cudnn: 9}}',
            '2 variants."a\\n": "a\\n" is not a variant\'s name: lower-case letters, digits, - and _, at most 64 — '
            "e.g. cuda12",
        ),
        ("variants: {a: {cudda: 12}}", "2 variants.a.cudda: unknown key — perhaps you meant cuda"),
        ("variants: {a: {}, a: {}}", "2 variants.a: given twice; first on line 2"),
        (
            "cuda: auto\nvariants: {a: {cuda: none, cudnn: 9}}",
            "3 variants.a.cudnn: cuDNN comes with CUDA, but cuda is none — write cuda: auto, or leave cudnn out",
        ),
        (
            "cudnn: 9\nvariants: {a: {cuda: 12}, b: {}, c: {}}",
            "2 cudnn: cuDNN comes with CUDA, but cuda is none — write cuda: auto, or leave cudnn out (variant b)",
        ),
        ("python: 3.9\nvariants: {a: {}, b: {}}", None),
        (
            "variants: {a: {env: {PYTHONHASHSEED: 1}}}",
            "2 variants.a.env.PYTHONHASHSEED: is set by envbuild itself — use determinism.seed",
        ),
        (
            "variants: {" + 63 * "a" + ": {}}",
            f"2 variants.{63 * 'a'}: t-{63 * 'a'} is the name of its lock, which has at most 64 characters — write a "
            "shorter one",
        ),
    ],
)
def test_bad_variants(text: str, expected: str | None) -> None:
    """Each is one problem, with its field path and line."""
    (found,) = problems(f"name: t\n{text}\n")
    assert expected in (None, found)
