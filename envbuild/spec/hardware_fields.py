"""The kinds of fields that the ``hardware`` section of a spec is made of: a value, a policy, or both."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from envbuild.core.text import either, nearest, quote
from envbuild.errors import Problem
from envbuild.lockfile.hardware import POLICIES
from envbuild.spec.fields import MISSING, Choice, Field, Kind, ListOf, Schema, Table, wrong
from envbuild.spec.hardware import Requirement
from envbuild.spec.yaml import Items, Node, Report, Scalar
from envbuild.spec.yaml import Mapping as MappingNode

WORDS: Mapping[str, tuple[str, ...]] = {
    **dict.fromkeys(POLICIES, ("exact", "any")),
    **dict.fromkeys(
        ("cpu", "cpu.flags", "gpu.count", "gpu.compute-capability", "gpu.sms", "gpu.memory"),
        ("exact", "at least", "any"),
    ),
    "gpu.driver": ("exact", "same branch", "at least", "any"),
}
"""Policies that mean something, by field: only versions have branches; numbers, versions and sets have an order."""

_MEMORY = re.compile(r"([0-9]{1,7}(?:\.[0-9]{1,3})?)[ ]?(GiB|MiB)")


@dataclass(frozen=True, kw_only=True, slots=True)
class PolicyWord:
    """Reads a policy of one field, perhaps followed by ``, warn``."""

    field: str

    @property
    def words(self) -> list[str]:
        """Every policy that the field may have; what is not compared cannot warn."""
        return [word for plain in WORDS[self.field] for word in (plain, f"{plain}, warn") if word != "any, warn"]

    def read(self, node: Node, path: str, report: Report) -> Any:
        """Return the policy in the lock's spelling."""
        words = either(WORDS[self.field])
        if not isinstance(node, Scalar) or node.is_null:
            return wrong(f"a policy: {words}", node, path, report)
        text = policy_in(node.text)
        if text in self.words:
            return text
        if text:
            report.add(path, f"{quote(node.text)} is no value of this field — write {words}", node.line)
            return MISSING
        near = nearest(node.text, self.words)
        return wrong(f"{words}", node, path, report, f" — perhaps you meant {near}" if near else "")

    def schema(self) -> Schema:
        """Return an enumeration."""
        return {"enum": self.words}


@dataclass(frozen=True, kw_only=True, slots=True)
class Graded:
    """Reads a value, a policy, or ``{value: …, policy: …}`` as a ``Requirement``.

    Attributes:
        field: name in ``hardware.POLICIES``.
        kind: reads the value.
        alone: a policy without a value will do: the host description has the value.
    """

    field: str
    kind: Kind
    alone: bool = True

    def read(self, node: Node, path: str, report: Report) -> Any:
        """Return a ``Requirement``."""
        policy = PolicyWord(field=self.field)
        if isinstance(node, MappingNode):
            return self._both(node, path, report)
        is_policy = isinstance(node, Scalar) and policy_in(node.text) and not self._is_value(node)
        found = policy.read(node, path, report) if is_policy else self._value(node, path, report)
        if found is MISSING:
            return MISSING
        requirement = Requirement(policy=found) if is_policy else Requirement(value=found)
        return self._complete(requirement, node, path, report)

    def schema(self) -> Schema:
        """Return the three forms."""
        policy = {"description": "How strictly the value is meant.", **PolicyWord(field=self.field).schema()}
        value = self.kind.schema()
        both: Schema = {
            "type": "object",
            "properties": {"value": value, "policy": policy},
            "additionalProperties": False,
            "minProperties": 1,
        }
        if not self.alone:
            return {"anyOf": [value, {**both, "required": ["value"]}]}
        return {"anyOf": [value, policy, both]}

    def _both(self, node: MappingNode, path: str, report: Report) -> Any:
        table = Table(
            fields={
                "value": Field(kind=self.kind, doc="", default=None),
                "policy": Field(kind=PolicyWord(field=self.field), doc="", default=None),
            },
            expected="a mapping with value or policy",
            elsewhere={"warn": 'a policy in quotes, such as "exact, warn"'},
        )
        before = len(report.problems)
        found = table.read(node, path, report)
        if len(report.problems) > before:
            return MISSING
        if not found:
            return wrong(table.expected, node, path, report, " with neither")
        return self._complete(Requirement(**found), node, path, report)

    def _value(self, node: Node, path: str, report: Report) -> Any:
        """Read the value; what is wrong may also have been meant as a policy."""
        before = len(report.problems)
        found = self.kind.read(node, path, report)
        if found is MISSING and isinstance(node, Scalar) and len(report.problems) == before + 1:
            near = nearest(node.text, PolicyWord(field=self.field).words)
            problem = report.problems[before]
            if near:
                message = f"{problem.message.partition(' — ')[0]} — perhaps you meant {near}"
                report.problems[before] = Problem(path=path, message=message, line=problem.line)
        return found

    def _is_value(self, node: Scalar) -> bool:
        """Return whether a word is also a value of the field, as ``any`` is a level of CPUs."""
        return isinstance(self.kind, Choice) and node.text in self.kind.values

    def _complete(self, requirement: Requirement, node: Node, path: str, report: Report) -> Any:
        """Refuse a policy without a value where no host description could report which GPU is meant."""
        if requirement.value is None and not self.alone:
            word = requirement.policy
            return wrong("a value", node, path, report, f" — in a list write {{value: …, policy: {_quoted(word)}}}")
        return requirement


@dataclass(frozen=True, kw_only=True, slots=True)
class Memory:
    """Reads an amount of memory as MiB: ``141 GiB``, ``143771 MiB`` or a whole number of MiB."""

    def read(self, node: Node, path: str, report: Report) -> Any:
        """Return MiB."""
        expected = 'an amount such as "143771 MiB", "16 GiB" or a number of MiB'
        if not isinstance(node, Scalar) or node.is_null:
            return wrong(expected, node, path, report)
        if re.fullmatch(r"[1-9][0-9]{0,8}", node.text):
            return int(node.text)
        found = _MEMORY.fullmatch(node.text)
        size = float(found[1]) * (1024 if found[2] == "GiB" else 1) if found else 0.0
        if size >= 1 and size.is_integer():
            return int(size)
        other = re.fullmatch(r"([0-9.]+) ?(?:[GMgm]i?b?|[GMgm]B)", node.text)
        more = f" — nvidia-smi prints MiB: write {other[1]} MiB, or {other[1]} GiB" if other else ""
        return wrong(expected, node, path, report, more)

    def schema(self) -> Schema:
        """Return a number or a text with a unit."""
        pattern = r"^[0-9]{1,7}(\.[0-9]{1,3})? ?(GiB|MiB)$"
        return {"anyOf": [{"type": "integer", "minimum": 1}, {"type": "string", "pattern": pattern}]}


@dataclass(frozen=True, kw_only=True, slots=True)
class Flags:
    """Reads CPU flags, at least one."""

    list: ListOf

    def read(self, node: Node, path: str, report: Report) -> Any:
        """Return the flags as written."""
        if isinstance(node, Items) and not node.nodes:
            return wrong(self.list.expected, node, path, report, " without any — write any to compare none")
        return self.list.read(node, path, report)

    def schema(self) -> Schema:
        """Return an array schema."""
        return {**self.list.schema(), "minItems": 1}


@dataclass(frozen=True, kw_only=True, slots=True)
class Devices:
    """Reads kinds of GPU by hand, one mapping each; a field has one policy for all of them."""

    table: Table

    def read(self, node: Node, path: str, report: Report) -> Any:
        """Return one mapping of requirements per kind."""
        if not isinstance(node, Items) or not node.nodes:
            more = " without any — write gpu: none for no GPU" if isinstance(node, Items) else ""
            return wrong("a list of mappings, one for each kind of GPU", node, path, report, more)
        policies: dict[str, tuple[str, str]] = {}
        found = []
        for index, child in enumerate(node.nodes):
            here = f"{path}[{index}]"
            report.lines[here] = child.line
            device = self.table.read(child, here, report)
            if device is MISSING:
                continue
            found.append(device)
            for key, requirement in device.items():
                word = requirement.policy or POLICIES[f"gpu.{key}"]
                first, where = policies.setdefault(key, (word, f"{here}.{key}"))
                if first != word:
                    report.add(f"{here}.{key}", f"a field has one policy for all GPUs: {word} here, {first} at {where}")
        return tuple(found)

    def schema(self) -> Schema:
        """Return an array schema."""
        return {"type": "array", "items": self.table.schema(), "minItems": 1}


def policy_in(text: str) -> str:
    """Return a policy in the lock's spelling, or an empty text if this is none: ``Same-Branch`` is ``same branch``."""
    word, comma, warn = (part.strip() for part in text.lower().replace("-", " ").replace("_", " ").partition(","))
    if word not in {plain for plains in WORDS.values() for plain in plains} or warn != ("warn" if comma else ""):
        return ""
    return f"{word}, warn" if comma else word


def _quoted(word: str) -> str:
    return quote(word) if "," in word else word
