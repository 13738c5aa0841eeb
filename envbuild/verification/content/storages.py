"""PyTorch's files of the form before zip archives: five pickles, and the numbers of all tensors behind them.

The pickles are a magic number, the version, facts about the machine, what was saved, and the keys of its storages. A
key is the address of a storage in memory, and storages are written in the order of their keys as texts: both are others
in each run. Here a storage has a number in the order of first mention in what was saved. A file that is not exactly of
this form counts by its bytes.

Source: torch/serialization.py, ``_legacy_save``; torch/csrc/serialization.cpp, ``THPStorage_writeFileRaw``.
"""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import Any

from envbuild.core.patterns import lazy
from envbuild.verification.content.canonical import Canonical, UnreadableError, below
from envbuild.verification.content.nodes import Node
from envbuild.verification.content.pickles import built, count

Nested = Callable[[Canonical, str, bytes], None]
"""Opens what is in a value."""
_MAGIC, _VERSION = 0x1950A86A20F9469CFC6C, 1001
_MAGIC_BYTES, _WITHIN = _MAGIC.to_bytes(10, "little"), 32
"""The magic number as a pickle has it, and the bytes in which it is looked for."""
_STEPS = 2_000_000
_ADDRESS = lazy(r"[1-9][0-9]{0,19}")
_COUNT = 8
"""Bytes of the number of elements before a storage's own."""
_SIZES = {
    "Double": 8, "Float": 4, "Half": 2, "BFloat16": 2, "Long": 8, "Int": 4, "Short": 2, "Char": 1, "Byte": 1, "Bool": 1,
    "ComplexDouble": 16, "ComplexFloat": 8, "QInt32": 4, "QInt8": 1, "QUInt8": 1, "Untyped": 1,
}  # fmt: skip
"""Bytes of an element by the name of the class of its storage."""
_CLASS = lazy(r"torch(?:\.storage)? (\w+)Storage")


def is_storage_file(data: bytes) -> bool:
    """Whether data begin with a pickle of the magic number."""
    return data[:1] == b"\x80" and b"\x8a\x0a" + _MAGIC_BYTES in data[:_WITHIN]


def read_storage_file(out: Canonical, path: str, data: bytes, nested: Nested) -> None:
    """Count what was saved, and the storages by their numbers; raises ``UnreadableError`` for any other form."""
    stream, left = io.BytesIO(data), [_STEPS]
    magic, version, machine, saved, keys = (built(stream, left) for _ in range(5))
    if magic != _MAGIC or version != _VERSION or not isinstance(keys, Node) or keys.kind != "list":
        raise UnreadableError("no file of PyTorch's")
    if not _is_little_endian(machine):
        raise UnreadableError("numbers in the other order of bytes")
    sizes = _numbered(saved)
    if keys.parts != sorted(sizes):
        raise UnreadableError("storages that nothing refers to, or none where one is referred to")
    found: dict[int, bytes] = {}
    for key in keys.parts:
        number, elements, size = sizes[key]
        if elements > len(data):
            raise UnreadableError("a storage beyond the end")
        head = stream.read(_COUNT)
        body = stream.read(elements * size)
        if int.from_bytes(head, "little") != elements or len(head) != _COUNT or len(body) != elements * size:
            raise UnreadableError("a storage of another size")
        found[number] = body
    if stream.read(1):
        raise UnreadableError("something behind the last storage")
    count(out, below(path, "machine"), machine, nested)
    count(out, path, saved, nested)
    for number in sorted(found):
        out.add(below(path, f"storage {number}"), found[number])


def _is_little_endian(machine: Any) -> bool:
    parts = machine.parts if isinstance(machine, Node) and machine.kind == "dict" else []
    return any(key == "little_endian" and value is True for key, value in zip(parts[::2], parts[1::2], strict=False))


def _numbered(saved: Any) -> dict[str, tuple[int, int, int]]:
    """Put numbers in the place of the keys of storages in what was saved.

    Returns number, elements and bytes of an element by key; raises ``UnreadableError`` for a reference of another form.
    """
    found: dict[str, tuple[int, int, int]] = {}
    ways, seen, changed = [saved], set(), set()
    while ways:
        node = ways.pop()
        if not isinstance(node, Node) or id(node) in seen:
            continue
        seen.add(id(node))
        ways.extend(reversed(node.parts))
        if node.kind != "persistent" or _is_source(node):
            continue
        reference = node.parts[0]
        key, elements, size = _reference(reference)
        number = found.setdefault(key, (len(found), elements, size))
        if number[1:] != (elements, size) or id(reference) in changed:
            raise UnreadableError("two references to one storage that differ")
        changed.add(id(reference))
        reference.parts[2] = str(number[0])
    return found


def _is_source(node: Node) -> bool:
    """Whether a reference is to a class, with its source: it has no key."""
    match node.parts:
        case [Node(kind="tuple", parts=["module", *_])]:
            return True
    return False


def _reference(node: Any) -> tuple[str, int, int]:
    """Return key, elements and bytes of an element of a reference to a storage that is no view of another one."""
    match node:
        case Node(
            kind="tuple",
            parts=["storage", Node(kind="global", parts=[str(kind)]), str(key), str(), int(elements), None],
        ):
            name = _CLASS.fullmatch(kind)
            if name is not None and name[1] in _SIZES and elements >= 0 and _ADDRESS.fullmatch(key) is not None:
                return key, elements, _SIZES[name[1]]
    raise UnreadableError("a reference to a storage of another form")
