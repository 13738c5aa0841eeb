"""HDF5 through h5py, and Keras' .keras archives, which hold one; not read where the environment has no h5py.

Short attributes are notes (``Contents.note``), by ``object@key``: files keep times and names of machines there. So are
the values of short lists whose names have a word of measuring.
"""

from __future__ import annotations

import json
import re

from .archive import Archive, Window
from .contents import COUNT, Contents, UnreadableError, blocks

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
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
_LIST = 500
"""Values of a list that are notes."""
_MEASURING = re.compile(
    r"(?:time|timing|dur|elaps|stamp|date|sec|clock|latenc|took|fps|sps|throughput|per_s|speed|rate|mem|rss|load|created"
    r"|start|end|(?:^|[_.])(?:ms|us|ns|s|t|ts|at|pid)(?:$|[_.]))",
    re.IGNORECASE,
)
"""Parts of the names of what may be a measurement: the host judges whether it is."""
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
    """Add every dataset by its path; links, types, attributes and bytes behind the end count as content."""
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
            reader = _Reader(file, contents, h5py)
            reader.attributes("", prefix, file)
            for name in names:
                found = file[name]
                contents.rest(name, type(found).__name__)
                reader.attributes(name, prefix, found)
                if isinstance(found, h5py.Dataset):
                    reader.dataset(f"{prefix}{name}", found)
                elif isinstance(found, h5py.Datatype):
                    contents.rest(reader.type_of(found.dtype))
            reader.links(names)
    except UnreadableError:
        raise
    except Exception as error:  # h5py's own, of many kinds
        raise UnreadableError(f"h5py cannot read it: {error}"[:200]) from None
    if behind := view[_end(view) :]:
        contents.rest("behind the end", behind)


def _end(view: memoryview) -> int:
    """Return where the file ends by its own word: HDF5 file format specification 3.0, II.A, "End of File Address"."""
    place = {0: 40, 1: 44, 2: 28, 3: 28}.get(view[8] if len(view) > 8 else -1)
    eights = place is not None and len(view) >= place + 8 and view[13 if view[8] < 2 else 9] == 8
    if place is None or not eights:
        raise UnreadableError("a superblock of another kind")
    return int.from_bytes(view[place : place + 8], "little")


class _Reader:
    """Reads the objects of one file.

    Args:
        file: open.
        contents: what collects.
        h5py: the module.
    """

    def __init__(self, file: Any, contents: Contents, h5py: Any) -> None:
        self._file, self._contents, self._h5py = file, contents, h5py

    def dataset(self, name: str, dataset: Any) -> None:
        """Add a dataset: numbers as a tensor, all else as content."""
        contents = self._contents
        if dataset.is_virtual or dataset.external:
            raise UnreadableError(f"{name} keeps its values in other files")
        shape, dtype = dataset.shape, dataset.dtype
        contents.rest(self.type_of(dtype), dataset.maxshape)
        if shape is None:
            contents.rest("empty")
            return
        if dtype.hasobject:
            if dataset.size > _TEXTS:
                raise UnreadableError(f"{name} has more than {_TEXTS} texts")
            contents.rest("texts", shape, *self._parts(contents.numpy.asarray(dataset[()])))
            return
        word = f">{dtype.name}" if dtype.byteorder == ">" else dtype.name
        pieces = (_bytes(dataset[index], contents.numpy) for index in blocks(shape, dtype.itemsize, _BLOCK))
        size = int(dataset.size) * dtype.itemsize
        added = contents.add(name, str(word), [int(extent) for extent in shape], pieces, size)
        if (
            added == name
            and len(shape) < 2
            and 0 < dataset.size <= _LIST
            and dtype.kind in "iuf"
            and dtype.itemsize <= 8
        ):
            self._list(name, dataset)

    def _list(self, name: str, dataset: Any) -> None:
        if _MEASURING.search(name.rpartition("/")[2]) is not None:
            values = self._contents.numpy.asarray(dataset[()]).ravel().tolist()
            if all(value - value == 0 for value in values):  # bits of what is no number are not in its text
                self._contents.listed(name, values)

    def attributes(self, name: str, prefix: str, found: Any) -> None:
        """Add the attributes of an object, by name; short ones as notes."""
        contents = self._contents
        for key in sorted(found.attrs):
            value = found.attrs[key]
            contents.rest("attribute", name, key, self.type_of(found.attrs.get_id(key).dtype))
            if isinstance(value, self._h5py.Empty):
                contents.rest("empty")
                continue
            value = contents.numpy.asarray(value)
            contents.rest(value.shape)
            if _is_note(value):
                for number, each in enumerate(value.ravel().tolist()):
                    at = f"[{number}]" if value.shape else ""
                    contents.rest(type(each).__name__)
                    contents.note(f"{prefix}{name}@{key}{at}", _text(each))
            else:
                contents.rest(*self._parts(value))

    def links(self, names: Sequence[str]) -> None:
        """Add what ``visit`` leaves out: links by name to another place or file, and further names of an object."""
        visited, known = {*names}, {}
        further: list[tuple[str, int]] = []
        h5l = self._h5py.h5l
        for path in ("", *names):
            group = self._file[path] if path else self._file
            if not isinstance(group, self._h5py.Group):
                continue
            for key in sorted(group):
                place = f"{path}/{key}" if path else key
                found = group.id.links.get_info(key.encode("utf-8", "surrogateescape"))
                if found.type == h5l.TYPE_HARD:
                    if place in visited:
                        known[found.u] = place
                    else:
                        further.append((place, found.u))
                    continue
                link = group.get(key, getlink=True)
                if found.type == h5l.TYPE_EXTERNAL:
                    self._contents.rest("link", place, link.filename, link.path)
                elif found.type == h5l.TYPE_SOFT:
                    self._contents.rest("link", place, link.path)
                else:
                    raise UnreadableError(f"{place} is a link of an unknown kind")
        for place, address in further:
            self._contents.rest("another name", place, known.get(address, ""))

    def type_of(self, dtype: Any) -> str:
        """Describe a type: fields, names of values, what vectors and references are of; of texts no length."""
        h5py = self._h5py
        if dtype.subdtype is not None:
            base, shape = dtype.subdtype
            return f"{shape} of {self.type_of(base)}"
        if dtype.names is not None:
            return repr([(name, self.type_of(dtype[name])) for name in dtype.names])
        if (values := h5py.check_enum_dtype(dtype)) is not None:
            return f"{dtype.str} {sorted(values.items())}"
        if h5py.check_string_dtype(dtype) is not None or dtype.kind in "US":
            return "text"
        if (base := h5py.check_vlen_dtype(dtype)) is not None:
            return f"vectors of {self.type_of(base)}"
        if (target := h5py.check_ref_dtype(dtype)) is not None:
            return str(target.__name__)
        return str(dtype.str)

    def _parts(self, value: Any) -> Iterator[object]:
        """Yield what a value with texts, vectors or references in it is made of."""
        numpy, h5py = self._contents.numpy, self._h5py
        if isinstance(value, numpy.ndarray) and value.dtype.hasobject:
            yield value.shape
            for each in value.ravel():
                yield from self._parts(each)
        elif isinstance(value, numpy.ndarray) and value.dtype.kind in "US":
            yield from (_numbered(repr(each).encode()) for each in value.ravel().tolist())
        elif isinstance(value, numpy.void) and value.dtype.names is not None:
            for name in value.dtype.names:
                yield from self._parts(value[name])
        elif isinstance(value, (numpy.ndarray, numpy.generic)) and not isinstance(value, (str, bytes)):
            yield f"{value.dtype.str} {value.shape}"
            yield _bytes(value, numpy)
        elif isinstance(value, h5py.RegionReference):
            raise UnreadableError("it has references to regions, which are not read")
        elif isinstance(value, h5py.Reference):
            yield f"reference {self._file[value].name if value else ''}"
        else:
            yield _numbered(repr(value).encode("utf-8", "backslashreplace"))


def _bytes(values: Any, numpy: Any) -> bytes:
    return bytes(numpy.ascontiguousarray(values).tobytes())


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
