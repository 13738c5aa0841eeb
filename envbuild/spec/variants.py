"""Variants of one spec: which keys each may have of its own, and how they join what all variants have."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from envbuild.core import types
from envbuild.core.text import quote
from envbuild.spec import validators
from envbuild.spec.fields import Field, MapOf, Table, wrong
from envbuild.spec.places import Place
from envbuild.spec.yaml import Mapping as MappingNode
from envbuild.spec.yaml import Node, Report

ADDED = (
    "requirements", "extras", "groups", "packages", "wheels", "sources", "build-packages", "missing-libraries",
)  # fmt: skip
"""Lists: a variant's own items come after those of all variants; a project with other extras replaces it."""
MERGED = ("env", "hardware", "build-requirements", "build-env")
"""Mappings: a variant's own entries replace those of all variants, key by key."""
REPLACED = ("cuda", "cudnn")
_ANY = "all"
"""The item of ``sources`` that makes all others superfluous."""


class _Variants(MapOf):
    """A mapping of names to a spec's own keys, with one variant at least."""

    def read(self, node: Node, path: str, report: Report) -> Any:
        """Read every variant."""
        if isinstance(node, MappingNode) and not node.entries:
            return wrong("at least one variant", node, path, report, " without any — leave variants out")
        return MapOf.read(self, node, path, report)


def variants_field(fields: Mapping[str, Field]) -> Field:
    """Return the field of variants.

    Args:
        fields: all other keys of a spec.
    """
    own = {key: replace(fields[key], default=None) for key in (*ADDED, *REPLACED, *MERGED)}
    return Field(
        kind=_Variants(
            key=_name_problem,
            value=Table(
                fields=own,
                expected="a mapping of keys such as cuda and requirements, or {} for none",
                refused={
                    key: "is the same for all variants — write it at the top of the spec, not in a variant"
                    for key in (*fields, "variants")
                    if key not in own
                },
            ),
            expected="a mapping of names to the keys of each variant",
            rules={"propertyNames": {"pattern": validators.schema_pattern(types.LockName)}, "minProperties": 1},
        ),
        doc="Variants of the project, each with a lock of its own (pylock.NAME-VARIANT.toml). A variant may have "
        f"{', '.join(f'`{key}`' for key in ADDED)}: added to what all have; `cuda`, `cudnn`: instead; `env`, "
        "`hardware`, `build-requirements`, `build-env`: instead, entry by entry.",
        default=None,
        default_doc="none: one lock",
        examples=({"cpu": {}, "cuda12": {"cuda": "12", "requirements": ["triton"]}},),
    )


def joined(common: Mapping[str, Any], own: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values of a variant, in the form that the spec's reader gives.

    Args:
        common: what all variants have.
        own: what the variant states.
    """
    values = {**common, **own}
    for key in ADDED:
        if key in common and key in own:
            replaced = {_project(item) for item in own[key]} - {None}
            kept = (item for item in common[key] if _project(item) not in replaced)
            values[key] = tuple(dict.fromkeys((*kept, *own[key])))
    if _ANY in values.get("sources", ()):
        values["sources"] = (_ANY,)
    for key in MERGED:
        if isinstance(common.get(key), dict) and isinstance(own.get(key), dict):
            values[key] = {**common[key], **own[key]}
    if own.get("cuda") == "none" and "cudnn" not in own:
        values.pop("cudnn", None)
    return values


def _project(item: Any) -> tuple[str, ...] | None:
    """Return which project a requirement names, whatever of it; None if none. Only one of each can be installed."""
    return (item.path, item.git, item.subdirectory) if isinstance(item, Place) else None


def _name_problem(name: str, text: str) -> str:
    """Return what is wrong with a variant's name; empty if nothing is."""
    if types.matches(types.LockName, name):
        return ""
    return f"{quote(name)} is not a variant's name: lower-case letters, digits, - and _, at most 64 — e.g. cuda12"
