"""The tables of the run record, made from its JSON Schema.

``python -m tools.record_reference docs/reference/record-schema.md`` writes the page.
"""

from __future__ import annotations

import inspect
import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from envbuild.core.fs import atomic_write
from envbuild.record.model import FORMAT, record_schema

_HEAD = f"""\
# Record schema

<!-- Generated from the structs: python -m tools.record_reference docs/reference/record-schema.md -->

The fields of `record.json`, format {FORMAT}. `envbuild show --schema` prints them as JSON Schema (2020-12). What each
part means, and how it is measured, is in [Run record](record.md). A field without a default is always there. A reader
ignores fields that it does not know.
"""
_ENTRY = re.compile(r"^([a-z0-9_]+(?:, [a-z0-9_]+)*): ")


def document() -> str:
    """Return the page in Markdown."""
    tables = record_schema()["$defs"]
    return "\n".join([_HEAD, *(_section(name, table) for name, table in tables.items())])


def _section(name: str, table: dict[str, Any]) -> str:
    text, meanings = _described(table.get("description", ""))
    lines = [f"## {name}\n", f"{text}\n", "| field | type | default | meaning |", "|---|---|---|---|"]
    required = table.get("required", ())
    for field, schema in table["properties"].items():
        default = "" if field in required else f"`{json.dumps(schema.get('default'))}`"
        lines.append(f"| `{field}` | {_type(schema)} | {default} | {meanings.get(field, '')} |")
    return "\n".join(lines) + "\n"


def _described(docstring: str) -> tuple[str, dict[str, str]]:
    """Return a docstring's text, and what it reports of each attribute."""
    head, _, rest = inspect.cleandoc(docstring).partition("Attributes:\n")
    meanings: dict[str, str] = {}
    names: list[str] = []
    for line in inspect.cleandoc(rest).splitlines():
        if found := _ENTRY.match(line):
            names, line = found[1].split(", "), line[found.end() :]
        for name in names:
            meanings[name] = f"{meanings.get(name, '')} {line.strip()}".strip()
    return _markdown(" ".join(head.split())), {name: _cell(text) for name, text in meanings.items()}


def _type(schema: dict[str, Any]) -> str:
    """Return a schema's type as text: ``list of text``, a link for a table of this page."""
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        return f"[{name}](#{name.lower()})"
    if "anyOf" in schema:
        return " or ".join(dict.fromkeys(_type(one) for one in schema["anyOf"]))
    if "enum" in schema:
        return " or ".join(f"`{json.dumps(one)}`" for one in schema["enum"])
    return "".join(_plain(schema))


def _plain(schema: dict[str, Any]) -> Iterator[str]:
    kind = schema.get("type", "any")
    if kind == "array" and "prefixItems" in schema:
        yield f"[{', '.join(_type(one) for one in schema['prefixItems'])}]"
    elif kind == "array":
        yield f"list of {_type(schema['items'])}" if schema.get("items") else "list"
    elif kind == "object":
        inner = schema.get("additionalProperties")
        yield f"object of {_type(inner)}" if isinstance(inner, dict) and inner else "object"
    else:
        yield str(kind)
        if pattern := schema.get("pattern"):
            yield f" `{_cell(pattern)}`"


def _markdown(text: str) -> str:
    return text.replace("``", "`")


def _cell(text: str) -> str:
    return _markdown(text).replace("|", "\\|")


def main(path: Path) -> None:
    """Write the page."""
    atomic_write(path, document().encode())


if __name__ == "__main__":
    main(Path(sys.argv[1]))
