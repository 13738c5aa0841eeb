"""Files that the image's reader opened: what they note by name is judged as in other formats.

Notes are attributes of HDF5. All else is one entry, by the digest that the reader gave.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress

from envbuild.verification.content import values
from envbuild.verification.content.canonical import Canonical, Content, Leaves
from envbuild.verification.printed import Masks

_REST = "all but its attributes"


def read_noted(bare: str, notes: Mapping[str, str], masks: Masks) -> Content:
    """Return what a file means.

    Args:
        bare: digest of all but the notes.
        notes: texts and numbers by ``object@key``.
        masks: of the run that wrote it.
    """
    out = Canonical(masks=masks)
    _collect(out, bare, notes)
    return out.result()


def leaves_noted(bare: str, notes: Mapping[str, str], masks: Masks) -> list[tuple[str, bytes | str]]:
    """Return what counts in a file, each with its name, as ``reader.leaves`` does."""
    out = Leaves(masks=masks)
    _collect(out, bare, notes)
    return out.found


def _collect(out: Canonical, bare: str, notes: Mapping[str, str]) -> None:
    for path, text in sorted(notes.items()):
        key = path.rpartition("@")[2]
        number = None
        with suppress(ValueError):
            number = float(text)
        if number is None or key.endswith("]"):
            values.string(out, path, key.partition("[")[0], text)
        else:
            values.number(out, path, key, number, text)
    out.add(_REST, bare)
