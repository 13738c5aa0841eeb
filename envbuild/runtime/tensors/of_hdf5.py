"""HDF5 through h5py, and Keras' .keras archives, which hold one; not read where the environment has no h5py.

Short attributes are notes (``Contents.note``), by ``object@key``: files keep times and names of machines there.
"""

from __future__ import annotations

import json
import re

from .archive import Archive, Window
from .contents import COUNT, Contents, UnreadableError, blocks

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

MAGIC = b"\x89HDF\r\n\x1a\n"
CONFIG = "config.json"
_METADATA = "metadata.json"
_WEIGHTS = "model.weights.h5"
_BLOCK = 1 << 24
_TEXT = 1 << 24
"""Bytes of a configuration that is parsed."""
_NOTED, _NOTE = 64, 4096
"""Values of an attribute that is a note, and characters of each."""
_TEXTS = 100_000
"""Texts of variable length that are read of one dataset."""


def read_keras(archive: Archive, contents: Contents, h5py: Any) -> None:
    """Add every weight; the time of saving does not count as content, all other members do."""
    for name in sorted(archive.members):
        if name.endswith(".h5"):
            read(archive.read(name), contents, h5py, "" if name == _WEIGHTS else f"{name}/")
        elif name == _METADATA:
            contents.rest(name, _timeless(archive.text(name, _TEXT)))
        elif name == CONFIG:
            contents.rest(name, _numbered(archive.text(name, _TEXT)))
        else:
            contents.rest(name, archive.read(name))


def _numbered(config: bytes) -> bytes:
    """Number shared objects in order: Keras identifies them by their addresses, which vary from run to run."""
    numbers: dict[bytes, int] = {}

    def number(found: re.Match[bytes]) -> bytes:
        return b"%s%d" % (found[1], numbers.setdefault(found[2], len(numbers)))

    return re.sub(rb"(\"shared_object_id\": )(\d+)", number, config)


def _timeless(metadata: bytes) -> str:
    try:
        table = json.loads(metadata)
        table.pop("date_saved", None)
        return json.dumps(table, sort_keys=True)
    except (ValueError, AttributeError, RecursionError):
        raise UnreadableError(f"{_METADATA} is damaged") from None


def read(view: memoryview, contents: Contents, h5py: Any, prefix: str = "") -> None:
    """Add every dataset by its path; attributes count as content."""
    if h5py is None:
        raise UnreadableError("the environment has no h5py, which reads HDF5")
    import io

    names: list[str] = []

    def visit(name: str) -> bool | None:
        names.append(name)  # an open object would be kilobytes
        return len(names) > 2 * COUNT or None

    try:
        with h5py.File(io.BufferedReader(Window(view)), "r") as file:
            file.visit(visit)  # hard links only, each object once: no cycles, no other files
            if len(names) > 2 * COUNT:
                raise UnreadableError(f"more than {2 * COUNT} objects")
            _attributes("", prefix, file, contents)
            for name in names:
                found = file[name]
                contents.rest(name)
                _attributes(name, prefix, found, contents)
                if isinstance(found, h5py.Dataset):
                    _dataset(f"{prefix}{name}", found, contents)
    except UnreadableError:
        raise
    except Exception as error:  # h5py's own, of many kinds
        raise UnreadableError(f"h5py cannot read it: {error}"[:200]) from None


def _dataset(name: str, dataset: Any, contents: Contents) -> None:
    if dataset.is_virtual or dataset.external:
        raise UnreadableError(f"{name} keeps its values in other files")
    shape, dtype = dataset.shape, dataset.dtype
    if shape is None:
        contents.rest("empty", dtype)
        return
    if dtype.hasobject:
        if dataset.size > _TEXTS:
            raise UnreadableError(f"{name} has more than {_TEXTS} texts")
        contents.rest("texts", shape, *(repr(each) for each in contents.numpy.ravel(dataset[()])))
        return
    word = f">{dtype.name}" if dtype.byteorder == ">" else dtype.name
    pieces = (_bytes(dataset[index], contents.numpy) for index in blocks(shape, dtype.itemsize, _BLOCK))
    contents.add(name, str(word), [int(extent) for extent in shape], pieces, int(dataset.size) * dtype.itemsize)


def _bytes(values: Any, numpy: Any) -> bytes:
    return bytes(numpy.ascontiguousarray(values).tobytes())


def _attributes(name: str, prefix: str, found: Any, contents: Contents) -> None:
    for key in sorted(found.attrs):
        value = contents.numpy.asarray(found.attrs[key])
        contents.rest("attribute", name, key, value.dtype.str[:2], value.shape)
        if _is_note(value):
            for number, each in enumerate(value.ravel().tolist()):
                at = f"[{number}]" if value.shape else ""
                contents.rest(type(each).__name__)
                contents.note(f"{prefix}{name}@{key}{at}", _text(each))
            continue
        texts = (_numbered(repr(each).encode()) for each in value.ravel())
        contents.rest(*(texts if value.dtype.kind in "OUS" else [value.tobytes()]))


def _is_note(value: Any) -> bool:
    """Whether an attribute is text, or one number; an array of numbers may be weights."""
    if value.size > _NOTED:
        return False
    if value.dtype.kind in "OUS":
        return all(isinstance(each, (str, bytes)) and len(each) <= _NOTE for each in value.ravel().tolist())
    return value.dtype.kind in "fiu" and not value.shape and value.dtype.itemsize <= 8


def _text(value: Any) -> str:
    if isinstance(value, bytes):
        value = value.decode("utf-8", "backslashreplace")
    return _numbered(value.encode("utf-8", "backslashreplace")).decode() if isinstance(value, str) else repr(value)
