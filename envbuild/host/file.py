"""The file of a host description: ``host.toml``, written by ``envbuild probe -o``, read by ``envbuild lock --host``.

TOML, so that a person can read it, compare two of them and correct a fact. What is unknown is left out; units are in
comments. Keys that this version does not know are ignored, so that it can read what a later one wrote.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import msgspec
import tomli_w

from envbuild.core.digest import sha256_json
from envbuild.core.fs import read_regular
from envbuild.core.text import quote
from envbuild.core.toml import parse_toml
from envbuild.core.types import without_defaults
from envbuild.errors import Problem, SpecError
from envbuild.host.facts import FORMAT, HostFacts
from envbuild.host.values import of_host

_LARGEST = 1 << 20
"""Bytes of the file."""
_HEADER = "# A host as `envbuild probe` found it. Lock for it anywhere: envbuild lock --host FILE\n"
_AGAIN = "describe the host anew, on it: envbuild probe -o host.toml"
_LINE = re.compile(r"(?P<key>memory|free) = (?P<number>[0-9_]+)")
_MESSAGE = re.compile(r"(?P<what>.*?)(?: - at `\$\.?(?P<path>.*)`)?", re.S)
_MISSING = re.compile(r"Object missing required field `(.*)`")


def dumps(host: HostFacts) -> str:
    """Render a host description; equal descriptions give equal text."""
    lines = [_HEADER.rstrip()]
    table = ""
    # Not splitlines: a name may hold what Unicode takes for the end of a line, and TOML does not.
    for line in tomli_w.dumps({"format": FORMAT, **without_defaults(host)}).rstrip("\n").split("\n"):
        if line.startswith("["):
            table = line
        if found := _LINE.fullmatch(line):
            number = int(found["number"])
            line = f"{found['key']} = {number}  # {_size(number, 'MiB' if table else 'bytes')}"
        lines.append(line)
    return "\n".join(lines) + "\n"


def loads(text: str, source: str = "host.toml") -> HostFacts:
    """Parse a host description.

    Args:
        text: TOML.
        source: what messages call it.

    Raises:
        SpecError: not TOML, of another format, or a fact of another type.
    """
    try:
        table = parse_toml(text)
    except ValueError as error:
        raise _bad(source, "", f"not a TOML file: {error}") from None
    if "format" not in table:
        raise _bad(source, "format", "missing; this is not a host description")
    if table["format"] != FORMAT or isinstance(table["format"], bool):
        raise _bad(source, "format", f"expected {FORMAT}, found {_show(table['format'])}")
    try:
        return msgspec.convert(table, HostFacts)
    except msgspec.ValidationError as error:
        raise _explained(source, str(error), table) from None


def load(path: Path) -> HostFacts:
    """Read a host description's file; raises ``SpecError`` as ``loads`` does, also when it cannot be read."""
    try:
        text = read_regular(path, _LARGEST).decode("utf-8-sig")
    except OSError as error:
        raise _bad(str(path), "", f"cannot be read: {error.strerror}") from None
    except UnicodeDecodeError as error:
        raise _bad(str(path), "", f"not UTF-8 text: byte {error.start}") from None
    return loads(text, path.name)


def digest(host: HostFacts) -> str:
    """Return the SHA-256 of what can be locked of a host.

    Free memory, processes, UUIDs and the container engine do not count, nor does the order of GPUs: a second probe of
    the same machine has the same digest, and so has an equal machine.
    """
    known = of_host(host)
    return sha256_json(
        {
            "kernel": known.kernel,
            "machine": known.machine,
            "cpu": known.cpu,
            "cpu-flags": known.flags,
            "driver": known.driver,
            "devices": msgspec.to_builtins(known.devices),
        }
    )


def _size(number: int, unit: str) -> str:
    gib = number / (1024 if unit == "MiB" else 1 << 30)
    return f"{unit} ({gib:.1f} GiB)"


def _explained(source: str, message: str, table: Any) -> SpecError:
    """Turn msgspec's words into a sentence with the field path and what was found there."""
    match = _MESSAGE.fullmatch(message)
    what, path = (match["what"], match["path"] or "") if match else (message, "")
    if found := _MISSING.fullmatch(what):
        return _bad(source, f"{path}.{found[1]}".lstrip("."), "missing")
    value = table
    try:
        for name, index in re.findall(r"([A-Za-z0-9_-]+)|\[(\d+)\]", path):
            value = value[int(index)] if index else value[name]
    except (KeyError, IndexError, TypeError):
        return _bad(source, path, what)
    expected = re.match(r"Expected `(.*?)`", what)
    kind = {"str": "a text", "int": "a whole number", "bool": "true or false", "array": "a list", "object": "a table"}
    words = " or ".join(kind[name] for name in (expected[1].split(" | ") if expected else ()) if name in kind)
    return _bad(source, path, f"expected {words}, found {_show(value)}" if words else what)


def _show(value: Any) -> str:
    if isinstance(value, str):
        return quote(value)
    if isinstance(value, dict | list):
        return "a table" if isinstance(value, dict) else "a list"
    return str(value).lower() if isinstance(value, bool) else str(value)


def _bad(source: str, path: str, message: str) -> SpecError:
    return SpecError(source, [Problem(path=path, message=message)], _AGAIN)
