"""Saved models made byte by byte, without the libraries that write them."""

from __future__ import annotations

import io
import json
import math
import pickle
import struct
import zipfile
from collections.abc import Mapping, Sequence
from typing import Any

Array = tuple[str, Sequence[int], bytes]
"""Type as the format names it, shape, values."""


def npy(descr: Any, shape: Sequence[int], values: bytes, *, fortran: bool = False, version: int = 1) -> bytes:
    """Write an array in NumPy's format."""
    header = (repr({"descr": descr, "fortran_order": fortran, "shape": tuple(shape)}) + "\n").encode()
    length = struct.pack("<H" if version == 1 else "<I", len(header))
    return b"\x93NUMPY" + bytes([version, 0]) + length + header + values


def zipped(members: Mapping[str, bytes], compression: int = zipfile.ZIP_STORED, comment: bytes = b"") -> bytes:
    """Write a zip archive."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", compression) as archive:
        for name, data in members.items():
            archive.writestr(name, data)
        archive.comment = comment
    return buffer.getvalue()


def safetensors(tensors: Mapping[str, Array], metadata: Mapping[str, str] | None = None) -> bytes:
    """Write tensors one after the other."""
    header: dict[str, Any] = {} if metadata is None else {"__metadata__": metadata}
    data = b""
    for name, (dtype, shape, values) in tensors.items():
        header[name] = {"dtype": dtype, "shape": list(shape), "data_offsets": [len(data), len(data) + len(values)]}
        data += values
    written = json.dumps(header).encode()
    return struct.pack("<Q", len(written)) + written + data


class Storage:
    """A storage as torch.save names it: type, key in the archive, number of elements."""

    def __init__(self, kind: str, key: str, count: int) -> None:
        self.identity = ("storage", Global("torch", kind), key, "cpu", count)


class Global:
    """A name that the pickle asks for."""

    def __init__(self, module: str, name: str) -> None:
        self.module, self.name = module, name


class Call:
    """What the pickle calls: a function of another module, with arguments, state and entries."""

    def __init__(self, module: str, name: str, arguments: tuple[Any, ...] = (), state: Any = None) -> None:
        self.function, self.arguments, self.state = Global(module, name), arguments, state


def tensor(storage: Storage, offset: int, shape: Sequence[int], strides: Sequence[int] | None = None) -> Call:
    """Call the function that rebuilds a tensor."""
    steps = tuple(math.prod(shape[axis + 1 :]) for axis in range(len(shape))) if strides is None else tuple(strides)
    arguments = (storage, offset, tuple(shape), steps, False, Call("collections", "OrderedDict"))
    return Call("torch._utils", "_rebuild_tensor_v2", arguments)


def torch_archive(value: Any, storages: Mapping[str, bytes], **others: bytes) -> bytes:
    """Write what torch.save writes."""
    members = {"archive/data.pkl": pickled(value), "archive/byteorder": b"little"}
    members |= {f"archive/data/{key}": data for key, data in storages.items()}
    return zipped(members | {f"archive/{name}": data for name, data in others.items()} | {"archive/version": b"3\n"})


def pickled(value: Any) -> bytes:
    """Write a pickle, protocol 2, without importing what it names."""
    return b"\x80\x02" + _opcodes(value) + b"."


def _opcodes(value: Any) -> bytes:
    if isinstance(value, Global):
        return f"c{value.module}\n{value.name}\n".encode()
    if isinstance(value, Storage):
        return _opcodes(value.identity) + b"Q"
    if isinstance(value, Call):
        state = b"" if value.state is None else _opcodes(value.state) + b"b"
        return _opcodes(value.function) + _opcodes(value.arguments) + b"R" + state
    if isinstance(value, tuple):
        return b"(" + b"".join(map(_opcodes, value)) + b"t"
    if isinstance(value, list):
        return b"](" + b"".join(map(_opcodes, value)) + b"e"
    if isinstance(value, dict):
        return b"}(" + b"".join(_opcodes(key) + _opcodes(part) for key, part in value.items()) + b"u"
    return pickle.dumps(value, 2)[2:-1]
