"""The JSON Schema and the reference page state what the parser does."""

from __future__ import annotations

import json
import re
import textwrap
from pathlib import Path

import jsonschema
import pytest
import yaml

from envbuild.errors import SpecError, UsageError
from envbuild.spec.fields import MISSING
from envbuild.spec.keys import ROOT
from envbuild.spec.model import Spec, json_schema, parse_spec
from tools import spec_reference

PAGE = Path(__file__).parents[3] / "docs/reference/spec.md"


def test_the_schema_is_valid_and_closed() -> None:
    """The schema is a 2020-12 schema, refuses unknown keys, and explains each key."""
    schema = json_schema()
    jsonschema.Draft202012Validator.check_schema(schema)
    json.dumps(schema, allow_nan=False)
    assert schema["required"] == ["name"]
    assert schema["additionalProperties"] is False
    assert all(entry["title"] == key and entry["description"] for key, entry in schema["properties"].items())


VALID = """
name: x
os: {release: debian-13, snapshot: "2026-07-11"}
python: 3.13
packages: [git, libgl1=1.6.0-1]
requirements: [numpy, {file: more.in}]
cuda: 12.5
cudnn: "9.3"
hardware:
  kernel: ">=5.10"
  cpu: {value: v3, policy: exact}
  cpu-flags: [avx2]
  fingerprint: true
  gpu: {exclusive: true, driver: same branch, devices: [{model: H200, memory: 143771 MiB}, {count: 2, ecc: true}]}
determinism: {seed: 0, threads: 8, level: seeds, strict: false}
env: {A: 1, B: "", C: true}
run: {network: bridge, workspace: ro}
variants: {cpu: {cuda: none}, cuda13: {cuda: 13, requirements: [triton], env: {A: 2}, hardware: {cpu: v3}}}
"""


@pytest.mark.parametrize(
    "text", ["name: digits\npython: '3.11'\n", "name: x\nrequirements: r.txt\nos: bookworm\n", VALID]
)
def test_the_schema_accepts_what_is_valid(text: str) -> None:
    """An editor marks nothing in a valid spec."""
    parse_spec(text)
    jsonschema.validate(yaml.safe_load(text), json_schema(), cls=jsonschema.Draft202012Validator)


@pytest.mark.parametrize(
    "text",
    [
        "name: X",
        "name: x\nvariants: {}",
        "name: x\nvariants: {a: {os: debian-13}}",
        "name: x\nvariants: {A: {}}",
        "nam: x",
        "name: x\nos: {arch: amd64}",
        "name: x\ncuda: cu126",
        "name: x\nhardware: detekt",
        "name: x\nhardware: {gpu: {models: H200}}",
        "name: x\nhardware: {gpu: {sms: same branch}}",
        "name: x\nhardware: {gpu: {memory: 141 GB}}",
        "name: x\nhardware: {gpu: {model: {policy: exact, value: A, why: B}}}",
        "name: x\nhardware: {gpu: {devices: [{driver: 580.10}]}}",
        "name: x\nhardware: {gpu: {devices: [{memory: exact}]}}",
        "name: x\nrun: {network: x}",
        "name: x\ndeterminism: {seed: -1}",
        "name: x\npackages: git",
        "name: x\nenv: {A: [1]}",
        "name: x\npython: 3.9",
    ],
)
def test_the_schema_refuses_what_is_invalid(text: str) -> None:
    """An editor marks what the parser refuses."""
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(yaml.safe_load(text), json_schema(), cls=jsonschema.Draft202012Validator)
    with pytest.raises(SpecError):
        parse_spec(text)


def test_examples_and_defaults_of_the_schema_are_true() -> None:
    """Each example is accepted by the parser, and spelling out each default changes nothing."""
    before = {"python": "os: debian-12\n", "cudnn": "cuda: auto\n", "build-requirements": "sources: all\n"}
    for key, field in ROOT.fields.items():
        for value in field.examples:
            others = before.get(key, "")
            parse_spec(others + yaml.safe_dump({"name": "x", key: value}))
        if field.default is not MISSING and field.default is not None:
            assert parse_spec(yaml.safe_dump({"name": "x", key: field.default})) == Spec(name="x")
        for inner, sub in getattr(field.kind, "fields", {}).items():
            for value in sub.examples:
                parse_spec(yaml.safe_dump({"name": "x", key: {inner: value}}))
            if sub.default is not None:
                assert parse_spec(yaml.safe_dump({"name": "x", key: {inner: sub.default}})) == Spec(name="x")
            for deep, last in getattr(sub.kind, "fields", {}).items():
                for value in last.examples:
                    parse_spec(yaml.safe_dump({"name": "x", key: {inner: {deep: value}}}))


def test_the_reference_page_is_up_to_date() -> None:
    """The page has the table that the code gives: else ``python -m tools.spec_reference docs/reference/spec.md``."""
    page = PAGE.read_text(encoding="utf-8")
    assert spec_reference.updated(page) == page


def test_the_reference_page_names_every_key() -> None:
    """Each key, top-level or nested, has its row."""
    page = PAGE.read_text(encoding="utf-8")
    for key, field in ROOT.fields.items():
        assert f"| `{key}` |" in page
        for inner in getattr(field.kind, "fields", {}):
            assert f"| `{key}.{inner}` |" in page
    assert "| `hardware.gpu.compute-capability` |" in page


def test_the_examples_of_the_reference_page_are_specs() -> None:
    """Every example of the page's section on hardware is accepted."""
    section = PAGE.read_text(encoding="utf-8").partition("## Hardware\n")[2].partition("\n## ")[0]
    blocks = re.findall(r"(?:^    .*\n)+(?:\n(?=    )|)", section, re.M)
    assert len(blocks) == 4
    for block in blocks:
        text = textwrap.dedent(block)
        nested = text if text.startswith("hardware") else "hardware:\n" + textwrap.indent(text, "  ")
        assert parse_spec(f"name: x\n{nested}").hardware != Spec(name="x").hardware


def test_a_page_without_a_generated_part_is_left_alone() -> None:
    """The generator does not guess where its table goes."""
    with pytest.raises(UsageError, match=r"^the page has no generated part$"):
        spec_reference.updated("# Something else\n")
