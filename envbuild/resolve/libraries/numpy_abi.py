"""Which releases were compiled for NumPy 1, as far as that is known when locking, before any wheel is there.

A module that was compiled with the headers of NumPy 1 cannot be imported with NumPy 2, and the metadata of old releases
allow any later NumPy. What an index states about a release does not show it, so the table has it: it is derived from
the modules themselves (``python -m tools.numpy_abi``).
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING

import msgspec

from envbuild.core import package_data
from envbuild.core.types import Value
from envbuild.resolve.libraries.imports import is_extension

if TYPE_CHECKING:
    from envbuild.lockfile.model import PythonPackage

FILE = "numpy-abi.toml"
_NUMPY_1, _NUMPY_2 = b"numpy.core._multiarray_umath", b"numpy._core."
_CHECKS_ABI = b"module compiled against ABI version"
"""What ``import_array`` of NumPy's headers puts into a module (generate_numpy_api.py): the name by which it asks for
the C API, two of them from 2.0 on, and its message. NumPy 2 refuses modules that have the first name alone."""
_FOR_PYTHON = re.compile(r"lib\w*python\w*\.so[.0-9]*")
"""Libraries that hold what extension modules share, such as libtorch_python.so and libarrow_python.so."""


class Table(Value, frozen=True, kw_only=True, rename=None):
    """The data file: by normalised name, the first release whose modules NumPy 2 accepts."""

    first: dict[str, str]


@dataclass(frozen=True, kw_only=True, slots=True)
class OfNumpy1:
    """A locked package that the locked NumPy refuses; ``first``: the first release that it accepts."""

    name: str
    version: str
    first: str


@cache
def table() -> Table:
    """Return the checked contents of the data file."""
    return msgspec.toml.decode(package_data.data(FILE), type=Table)


def may_use_numpy(file: str) -> bool:
    """Return whether an object's path in a wheel is one of those that are searched for uses of NumPy's C API."""
    return is_extension(file) or _FOR_PYTHON.fullmatch(file.rsplit("/", 1)[-1]) is not None


def numpy_of(module: bytes) -> int:
    """Return the major version of NumPy that a module was compiled for: 1, 2 (which serves 1 too), 0: for none."""
    if _NUMPY_1 not in module or _CHECKS_ABI not in module:
        return 2 if _NUMPY_2 in module and _CHECKS_ABI in module else 0
    return 2 if _NUMPY_2 in module else 1


def compiled_for_numpy_1(packages: Iterable[PythonPackage], built: Collection[str] = ()) -> Iterator[OfNumpy1]:
    """Yield the wheels that NumPy 2 refuses by the table, if a lock has NumPy 2.

    Args:
        packages: the wheels of a lock.
        built: names of those that were built from source, for whatever NumPy their build had.
    """
    from packaging.version import Version

    versions = {package.name: package.version for package in packages if not package.wheel.name.endswith("-any.whl")}
    if "numpy" not in versions or Version(versions["numpy"]).major < 2:
        return
    for name in sorted(versions.keys() - set(built)):
        first = table().first.get(name)
        if first and Version(versions[name]) < Version(first):
            yield OfNumpy1(name=name, version=versions[name], first=first)
