"""The hardware section of a spec: values, policies, and every mistake reported with what to write instead."""

from __future__ import annotations

import pytest

from envbuild.core.types import HardwareField, matches
from envbuild.errors import SpecError
from envbuild.lockfile.hardware import POLICIES
from envbuild.spec.hardware import HardwareRequirements, Requirement
from envbuild.spec.hardware_fields import WORDS, policy_in
from envbuild.spec.model import parse_spec, spec_digest


def hardware(section: str) -> HardwareRequirements:
    """Return what a spec with this hardware section wants."""
    return parse_spec(f"name: x\nhardware: {section}\n").hardware


def gpu(keys: str) -> dict[str, Requirement]:
    """Return the fields of a spec with these GPU keys."""
    return hardware(f"{{gpu: {{{keys}}}}}").fields


def problems(rest: str) -> list[str]:
    """Return the problems of a spec, each as ``path: message``."""
    with pytest.raises(SpecError) as caught:
        parse_spec(f"name: x\n{rest}\n")
    assert all(problem.line >= 2 for problem in caught.value.problems)
    return [f"{problem.path}: {problem.message}" for problem in caught.value.problems]


def test_a_field_is_a_value_a_policy_or_both() -> None:
    """The short forms state one half; the long form states both."""
    assert gpu("model: NVIDIA H200, driver: same branch, sms: {value: 132, policy: at least}") == {
        "gpu.model": Requirement(value="NVIDIA H200"),
        "gpu.driver": Requirement(policy="same branch"),
        "gpu.sms": Requirement(value=132, policy="at least"),
    }
    assert gpu("memory: {policy: 'exact, warn'}, ecc: {value: false}") == {
        "gpu.memory": Requirement(policy="exact, warn"),
        "gpu.ecc": Requirement(value=False),
    }


def test_values_are_taken_as_typed() -> None:
    """YAML's numbers do not shorten versions; memory is MiB however it is written."""
    assert gpu("driver: 580.10, compute-capability: 9.0, mig: 3g.40gb, vbios: 96.00, board: 900-21") == {
        "gpu.driver": Requirement(value="580.10"),
        "gpu.compute-capability": Requirement(value="9.0"),
        "gpu.mig": Requirement(value="3g.40gb"),
        "gpu.vbios": Requirement(value="96.00"),
        "gpu.board": Requirement(value="900-21"),
    }
    for text, size in (("143771", 143771), ("143771 MiB", 143771), ("16 GiB", 16384), ("16GiB", 16384)):
        assert gpu(f"memory: {text}") == {"gpu.memory": Requirement(value=size)}
    assert gpu("memory: 1.5 GiB") == {"gpu.memory": Requirement(value=1536)}


def test_the_other_keys_of_the_section() -> None:
    """Words for the whole, and what has no policy."""
    assert hardware("detect") == HardwareRequirements(detect=True)
    assert hardware("{gpu: none}") == HardwareRequirements(gpu="none")
    assert hardware("{gpu: detect, fingerprint: true}") == HardwareRequirements(gpu="detect", fingerprint=True)
    assert hardware("{gpu: {exclusive: true}}") == HardwareRequirements(gpu="some", exclusive=True)
    assert hardware("{kernel: any, cpu: any, cpu-flags: [fma, avx2]}") == HardwareRequirements(
        kernel="any", fields={"cpu": Requirement(value="any"), "cpu.flags": Requirement(value=("fma", "avx2"))}
    )
    assert hardware("{cpu: exact, cpu-flags: any}").fields == {
        "cpu": Requirement(policy="exact"),
        "cpu.flags": Requirement(policy="any"),
    }


def test_kinds_of_gpu_by_hand() -> None:
    """A list states what each kind is; driver and exclusive concern all."""
    found = hardware("{gpu: {driver: 580.10, devices: [{model: NVIDIA H200, count: 2}, {model: NVIDIA T4}]}}")
    assert found.fields == {"gpu.driver": Requirement(value="580.10")}
    assert found.devices == (
        {"gpu.model": Requirement(value="NVIDIA H200"), "gpu.count": Requirement(value=2)},
        {"gpu.model": Requirement(value="NVIDIA T4")},
    )


@pytest.mark.parametrize(
    ("text", "policy"),
    [
        ("same branch", "same branch"),
        ("Same-Branch", "same branch"),
        ("at_least,warn", "at least, warn"),
        ("any", "any"),
        ("exact, soft", ""),
        ("exact,", ""),
        ("", ""),
    ],
)
def test_policies_are_read_in_every_spelling(text: str, policy: str) -> None:
    """Case, dashes and spaces make no difference; other words are no policies."""
    assert policy_in(text) == policy


@pytest.mark.parametrize(
    ("section", "expected"),
    [
        (
            "detekt",
            '{0}: expected detect, or a mapping with kernel, cpu or gpu, found "detekt" — perhaps you meant detect',
        ),
        ("{gpu: 2}", '{0}.gpu: expected none, optional, detect, or a mapping with model, count or driver, found "2"'),
        ("{gpu: {}}", "{0}.gpu: an empty mapping specifies nothing — write none, detect, or what the GPU must be"),
        (
            "{gpu: {model: same branch}}",
            '{0}.gpu.model: "same branch" is no value of this field — write exact or any',
        ),
        ("{gpu: {ecc: at least}}", '{0}.gpu.ecc: "at least" is no value of this field — write exact or any'),
        ("{cpu: same branch}", '{0}.cpu: "same branch" is no value of this field — write exact, at least or any'),
        ('{gpu: {ecc: "any, warn"}}', '{0}.gpu.ecc: "any, warn" is no value of this field — write exact or any'),
        (
            "{gpu: {driver: sam branch}}",
            '{0}.gpu.driver: "sam branch" is not a driver version — perhaps you meant same branch',
        ),
        (
            "{gpu: {sms: at leats}}",
            '{0}.gpu.sms: expected a whole number from 1 to 4,096, found "at leats" — perhaps you meant at least',
        ),
        (
            "{gpu: {count: {value: 2, policy: al least}}}",
            '{0}.gpu.count.policy: expected exact, at least or any, found "al least" — perhaps you meant at least',
        ),
        (
            "{gpu: {count: {policy: }}}",
            "{0}.gpu.count.policy: expected a policy: exact, at least or any, found nothing",
        ),
        ("{gpu: {count: }}", "{0}.gpu.count: expected a whole number from 1 to 1,024, found nothing"),
        ("{gpu: {model: {}}}", "{0}.gpu.model: expected a mapping with value or policy, found a mapping with neither"),
        ("{gpu: {model: {valeu: A}}}", "{0}.gpu.model.valeu: unknown key — perhaps you meant value"),
        (
            "{gpu: {driver: exact, warn}}",
            '{0}.gpu.warn: unknown key — perhaps you meant a policy in quotes, such as "exact, warn"',
        ),
        ("{gpu: {vram: 5}}", "{0}.gpu.vram: unknown key — perhaps you meant memory"),
        ("{driver: 5}", "{0}.driver: unknown key — perhaps you meant gpu.driver"),
        (
            "{gpu: {driver: 580}}",
            '{0}.gpu.driver: "580" is not a driver version — write {{value: "580.0", policy: same branch}}',
        ),
        (
            "{gpu: {driver: '>=580.10'}}",
            '{0}.gpu.driver: ">=580.10" is not a driver version — write {{value: "580.10", policy: at least}}',
        ),
        ("{gpu: {driver: r580}}", '{0}.gpu.driver: "r580" is not a driver version — e.g. 580.159.04'),
        ("{gpu: {compute-capability: 9}}", '{0}.gpu.compute-capability: "9" is not a compute capability — write 9.0'),
        (
            "{gpu: {compute-capability: sm_120}}",
            '{0}.gpu.compute-capability: "sm_120" is not a compute capability — write 12.0',
        ),
        ("{gpu: {mig: MIG-3g.40gb}}", '{0}.gpu.mig: "MIG-3g.40gb" is not a MIG profile — write 3g.40gb'),
        ("{gpu: {mig: half}}", '{0}.gpu.mig: "half" is not a MIG profile — e.g. none or 3g.40gb'),
        ("{gpu: {vbios: ' '}}", '{0}.gpu.vbios: " " is empty, or longer than 120 characters'),
        ("{gpu: {ecc: on}}", '{0}.gpu.ecc: expected true or false, found "on" — write true'),
        (
            "{gpu: {memory: 141GB}}",
            '{0}.gpu.memory: expected an amount such as "143771 MiB", "16 GiB" or a number of MiB, found "141GB"'
            " — nvidia-smi prints MiB: write 141 MiB, or 141 GiB",
        ),
        (
            "{gpu: {memory: 0.3 MiB}}",
            '{0}.gpu.memory: expected an amount such as "143771 MiB", "16 GiB" or a number of MiB, found "0.3 MiB"',
        ),
        ("{cpu-flags: [AVX2]}", '{0}.cpu-flags[0]: "AVX2" is not a CPU flag — e.g. avx512f'),
        (
            "{cpu-flags: []}",
            "{0}.cpu-flags: expected a list of CPU flags, found a list without any — write any to compare none",
        ),
        (
            "{gpu: {devices: []}}",
            "{0}.gpu.devices: expected a list of mappings, one for each kind of GPU, found a list without any"
            " — write gpu: none for no GPU",
        ),
        (
            "{gpu: {devices: [{memory: exact}]}}",
            '{0}.gpu.devices[0].memory: expected a value, found "exact" — in a list write {{value: …, policy: exact}}',
        ),
        (
            "{gpu: {devices: [{memory: {policy: 'exact, warn'}}]}}",
            "{0}.gpu.devices[0].memory: expected a value, found a mapping"
            ' — in a list write {{value: …, policy: "exact, warn"}}',
        ),
        (
            "{gpu: {devices: [{driver: 580.10}]}}",
            "{0}.gpu.devices[0].driver: unknown key — perhaps you meant driver next to devices: all GPUs share it",
        ),
        (
            "{gpu: {devices: [{model: A}, {model: {value: B, policy: any}}]}}",
            "{0}.gpu.devices[1].model: a field has one policy for all GPUs: any here,"
            " exact at {0}.gpu.devices[0].model",
        ),
        (
            "{gpu: {model: A, devices: [{model: B}]}}",
            "{0}.gpu.model: is given next to devices — write it into each entry of {0}.gpu.devices",
        ),
    ],
)
def test_each_mistake_has_its_sentence(section: str, expected: str) -> None:
    """A mistake is reported with its field, what was expected and found, and what to write instead."""
    assert problems(f"hardware: {section}") == [expected.format("hardware")]


def test_all_mistakes_are_reported_at_once() -> None:
    """One reading shows every wrong field, each with its line."""
    with pytest.raises(SpecError) as caught:
        parse_spec("name: x\nhardware:\n  cpu: v9\n  gpu:\n    sms: 0\n    driver: at lest\n    ecc: yes\ncuda: x\n")
    assert [(problem.line, problem.path) for problem in caught.value.problems] == [
        (3, "hardware.cpu"),
        (5, "hardware.gpu.sms"),
        (6, "hardware.gpu.driver"),
        (7, "hardware.gpu.ecc"),
        (8, "cuda"),
    ]


@pytest.mark.parametrize("text", ["none", "auto", "12.5", "13", '"12.6"', "12.10"])
def test_cuda_is_a_word_or_a_version(text: str) -> None:
    """A version stays text: 12.10 is not 12.1."""
    assert parse_spec(f"name: x\ncuda: {text}\n").cuda == text.strip('"')


@pytest.mark.parametrize(
    ("rest", "expected"),
    [
        ("cuda: 12.5.1", 'cuda: "12.5.1" is not a version of CUDA — write 12.5'),
        ("cuda: cu126", 'cuda: "cu126" is not a version of CUDA — write 12.6'),
        ("cuda: cuda13", 'cuda: "cuda13" is not a version of CUDA — write 13'),
        ("cuda: latest", 'cuda: "latest" is not a version of CUDA — e.g. none, auto, 12.5 or 13'),
        ("cuda: ", "cuda: expected none, auto or a version such as 12.5, found nothing"),
        ("cuda: auto\ncudnn: v9", 'cudnn: "v9" is not a version of cuDNN — e.g. 9.3'),
        ("cudnn: 9.3", "cudnn: cuDNN comes with CUDA, but cuda is none — write cuda: auto, or leave cudnn out"),
    ],
)
def test_wrong_versions_are_refused(rest: str, expected: str) -> None:
    """Wheel tags and patch releases are turned into what to write; cuDNN alone means nothing."""
    assert problems(rest) == [expected]


def test_every_field_with_a_policy_can_be_written() -> None:
    """Spec, policies and lock speak of the same fields, and each default is a policy the field may have."""
    assert WORDS.keys() == POLICIES.keys()
    assert all(POLICIES[name].removesuffix(", warn") in words for name, words in WORDS.items())
    assert all(matches(HardwareField, name) for name in WORDS)


def test_the_digest_shows_every_change() -> None:
    """Another value, policy or word is another spec; no section is no change."""
    sections = (
        *(
            "{gpu: none}",
            "{gpu: detect}",
            "detect",
            "{kernel: any}",
            "{fingerprint: true}",
            "{cpu: any}",
            "{cpu: exact}",
        ),
        *("{gpu: {ecc: false}}", "{gpu: {ecc: any}}", "{gpu: {ecc: {value: false, policy: any}}}"),
        *("{gpu: {exclusive: true}}", "{gpu: {devices: [{ecc: false}]}}"),
    )
    digests = {spec_digest(parse_spec(f"name: x\nhardware: {section}\n")) for section in sections}
    assert len(digests) == len(sections)
    assert spec_digest(parse_spec("name: x\nhardware: {}\n")) == spec_digest(parse_spec("name: x\n"))
