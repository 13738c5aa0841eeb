"""PyTorch's checkpoints since 1.6: a zip archive with a pickle of the structure and one member for each storage.

The pickle is read by an unpickler that knows no class and no function: every name becomes an inert ``Thing`` that
remembers what it was called with, so that nothing in the file can run. Tensors are the things that PyTorch's own
rebuilding functions would have been called for (https://github.com/pytorch/pytorch/blob/main/torch/_utils.py).
"""

from __future__ import annotations

import pickle

from .archive import Archive, Window
from .contents import SIZES, Contents, UnreadableError, bytes_of, gathered

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

STRUCTURE = "data.pkl"
_PICKLE = 1 << 27
"""Bytes of the structure. One that means more than the reader may hold ends with ``MemoryError``."""
_VOLATILE = ("version", "byteorder", ".format_version", ".storage_alignment", ".data/serialization_id")
"""Members that describe how the file was written, not what it holds."""
_STORAGES = {
    "DoubleStorage": "float64", "FloatStorage": "float32", "HalfStorage": "float16", "BFloat16Storage": "bfloat16",
    "LongStorage": "int64", "IntStorage": "int32", "ShortStorage": "int16", "CharStorage": "int8",
    "ByteStorage": "uint8", "BoolStorage": "bool", "ComplexFloatStorage": "complex64",
    "ComplexDoubleStorage": "complex128", "QInt8Storage": "int8", "QUInt8Storage": "uint8", "QInt32Storage": "int32",
    "UntypedStorage": "uint8",
}  # fmt: skip
_TYPES = {
    "half": "float16", "float": "float32", "double": "float64", "short": "int16", "int": "int32", "long": "int64",
    "cfloat": "complex64", "cdouble": "complex128",
}  # fmt: skip
_REBUILD = "torch._utils._rebuild_"
_FROM_TYPE = "torch._tensor._rebuild_from_type_v2"


class Thing:
    """Stands for an object of any class, or the result of any function, that a pickle names."""

    kind = ""

    def __new__(cls, *arguments: Any, **named: Any) -> Thing:
        """Remember what the class or function was called with."""
        made = super().__new__(cls)
        made.__dict__.update(arguments=arguments, named=named, state=None, items=[])
        return made

    def __init__(self, *arguments: Any, **named: Any) -> None:
        """Do nothing."""

    def __setstate__(self, state: Any) -> None:
        """Remember the state."""
        self.__dict__["state"] = state

    def __setitem__(self, key: Any, value: Any) -> None:
        """Remember an entry."""
        self.__dict__["items"].append((key, value))

    def append(self, value: Any) -> None:
        """Remember a value."""
        self.__dict__["items"].append(value)

    add = append

    def extend(self, values: Any) -> None:
        """Remember values."""
        self.__dict__["items"].extend(values)


class _Ordered(dict):  # type: ignore[type-arg]
    """Stands for ``collections.OrderedDict``, of which state dictionaries are made."""


class _Storage:
    def __init__(self, dtype: str, key: str) -> None:
        self.dtype, self.key = dtype, key


class _Unpickler(pickle.Unpickler):
    """Makes a ``Thing`` of everything that is not plain data."""

    def __init__(self, stream: Any) -> None:
        super().__init__(stream, encoding="utf-8", errors="backslashreplace")
        self._kinds: dict[str, type] = {"collections.OrderedDict": _Ordered}

    def find_class(self, module: str, name: str) -> Any:
        """Return a class of the name that does nothing."""
        kind = f"{module}.{name}"
        if kind not in self._kinds:
            self._kinds[kind] = type("Thing", (Thing,), {"kind": kind})
        return self._kinds[kind]

    def persistent_load(self, identity: Any) -> Any:
        """Return a storage by its number."""
        try:
            word, kind, key = identity[:3]
            name = kind.kind.rpartition(".")[2]
        except (TypeError, ValueError, AttributeError):
            raise pickle.UnpicklingError("a storage without a type") from None
        if word != "storage" or not isinstance(key, str) or name not in _STORAGES:
            raise pickle.UnpicklingError(f"a storage of unknown type {name}"[:80])
        return _Storage(_STORAGES[name], key)


def read(archive: Archive, contents: Contents) -> None:
    """Add every tensor by the keys that lead to it, joined by dots; all else counts as the rest."""
    structure = next(name for name in archive.members if name.rpartition("/")[2] == STRUCTURE)
    root = structure[: -len(STRUCTURE)]
    if archive.members[structure].file_size > _PICKLE:
        raise UnreadableError(f"its structure has more than {_PICKLE} bytes")
    stream = Window(archive.read(structure))
    try:
        value = _Unpickler(stream).load()
    except UnreadableError:
        raise
    except Exception as error:  # the unpickler raises nearly anything for bytes that are no pickle
        raise UnreadableError(f"its structure cannot be read: {type(error).__name__}: {error}"[:200]) from None
    walk = _Walk(archive, root, contents)
    walk.visit(value, "")
    for name in sorted(archive.members):
        inner = name[len(root) :] if name.startswith(root) else name
        if name not in walk.read and name != structure and inner not in _VOLATILE:
            contents.rest(inner, archive.read(name))


class _Walk:
    """Goes through the structure once, in its own order."""

    def __init__(self, archive: Archive, root: str, contents: Contents) -> None:
        self.archive, self.contents = archive, contents
        self.root = root
        self.big = f"{root}byteorder" in archive.members and archive.text(f"{root}byteorder", 16) == b"big"
        self.seen: dict[int, tuple[int, str]] = {}
        self.read: set[str] = set()

    def visit(self, value: Any, name: str) -> None:
        """Add the tensors of a value, and its words to the rest."""
        rest = self.contents.rest
        if value is None or isinstance(value, (bool, int, float, complex, str, bytes, bytearray)):
            rest(type(value).__name__, value if isinstance(value, bytes) else repr(value))
            return
        if isinstance(value, type):
            rest("name", getattr(value, "kind", value.__name__))
            return
        if id(value) in self.seen:
            number, first = self.seen[id(value)]
            rest("again", number)
            if first:
                self.contents.repeat(name, first)
            return
        self.seen[id(value)] = (len(self.seen), "")
        if isinstance(value, dict):
            rest(type(value).__name__, len(value))
            for key, part in value.items():
                self.visit(key, "")
                self.visit(part, _below(name, key))
            self._attributes(value, name)
        elif isinstance(value, (list, tuple, set, frozenset)):
            rest(type(value).__name__, len(value))
            for index, part in enumerate(value):
                self.visit(part, _below(name, index))
        elif isinstance(value, Thing):
            self._thing(value, name)
        elif isinstance(value, _Storage):
            rest("storage", value.dtype, self._storage(value))
        else:
            rest(type(value).__name__)

    def _storage(self, storage: _Storage) -> memoryview:
        name = f"{self.root}data/{storage.key}"
        self.read.add(name)
        return self.archive.read(name)

    def _attributes(self, value: Any, name: str) -> None:
        for key, part in getattr(value, "__dict__", {}).items():
            self.contents.rest("attribute", key)
            self.visit(part, _below(name, key))

    def _thing(self, thing: Any, name: str) -> None:
        kind, arguments = thing.kind, thing.arguments
        if kind == _FROM_TYPE and len(arguments) >= 3 and isinstance(arguments[0], type):
            self.contents.rest(kind, getattr(arguments[1], "kind", ""))
            kind, arguments = getattr(arguments[0], "kind", ""), (*arguments[2], *arguments[3:])
        self.contents.rest("thing", kind)
        if kind.startswith(_REBUILD) and arguments and isinstance(arguments[0], _Storage):
            added = self._tensor(kind[len(_REBUILD) :], arguments, name)
            self.seen[id(thing)] = (self.seen[id(thing)][0], added)
            return
        if kind.startswith(f"{_REBUILD}parameter") and arguments:
            self.visit(arguments[0], name)
            arguments = arguments[1:]
        for index, part in enumerate(arguments):
            self.visit(part, _below(name, index))
        for key, part in thing.named.items():
            self.visit(part, _below(name, key))
        self._items(thing.items, name)
        if isinstance(thing.state, dict):
            self.visit(list(thing.state), "")
            for key, part in thing.state.items():
                self.visit(part, _below(name, key))
        elif thing.state is not None:
            self.visit(thing.state, name)

    def _items(self, items: list[Any], name: str) -> None:
        for index, item in enumerate(items):
            if isinstance(item, tuple) and len(item) == 2:
                self.visit(item[0], "")
                self.visit(item[1], _below(name, item[0]))
            else:
                self.visit(item, _below(name, index))

    def _tensor(self, how: str, arguments: tuple[Any, ...], name: str) -> str:
        """Add one tensor: storage, offset, shape, strides and more; return its name."""
        if not how.startswith(("tensor", "qtensor")) or len(arguments) < 4:
            raise UnreadableError(f"{name}: tensors of the kind {how[:40]} are not known")
        storage, offset, shape, strides = arguments[:4]
        dtype = storage.dtype
        for each in arguments[4:]:
            if isinstance(each, type):
                word = getattr(each, "kind", "").rpartition(".")[2]
                dtype = _TYPES.get(word, word)
            elif not isinstance(each, _Ordered) or each:  # backward hooks: an empty one
                self.visit(each, "")
        if dtype not in SIZES:
            raise UnreadableError(f"{name}: tensors of type {dtype[:40]} are not known")
        if not isinstance(shape, tuple) or not isinstance(strides, tuple) or not isinstance(offset, int):
            raise UnreadableError(f"{name}: a tensor without a shape")
        size = bytes_of(shape, SIZES[dtype])
        data = self._storage(storage)
        pieces = gathered(data, SIZES[dtype], offset, shape, strides, self.contents.numpy)
        return self.contents.add(name, f">{dtype}" if self.big else dtype, shape, pieces, size)


def _below(name: str, key: Any) -> str:
    word = key if isinstance(key, str) else repr(key) if isinstance(key, (int, float, bytes)) else type(key).__name__
    return f"{name}.{word}" if name else word
