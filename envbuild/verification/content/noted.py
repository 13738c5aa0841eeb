"""Files that the image's reader opened: what they note by name is judged as in other formats.

Notes are attributes of HDF5, by ``object@key``, and values of its short lists, by ``path[number]``. All else is one
entry, by the digest that the reader gave.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress

from envbuild.verification.content import values
from envbuild.verification.content.canonical import Canonical, Content, Leaves
from envbuild.verification.masking.masks import Masks

_REST = "all but its attributes"


def read_noted(bare: str, notes: Mapping[str, str], masks: Masks) -> Content:
    """Return what a file means.

    Args:
        bare: digest of all but the notes.
        notes: texts and numbers by ``object@key``, numbers by ``path[number]`` or ``path``.
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
    lists: dict[str, list[tuple[str, str]]] = {}
    for path, text in sorted(notes.items()):
        if "@" not in path:
            lists.setdefault(path.rpartition("[")[0] if path.endswith("]") else path, []).append((path, text))
            continue
        key = path.rpartition("@")[2]
        number = None
        with suppress(ValueError):
            number = float(text)
        if number is None or key.endswith("]"):
            values.string(out, path, key.partition("[")[0], text)
        else:
            values.number(out, path, key, number, text)
    for path, each in lists.items():
        _list(out, path, each)
    out.add(_REST, bare)


def _list(out: Canonical, path: str, texts: Sequence[tuple[str, str]]) -> None:
    """Count numbers by one name, or leave them out as those of lists in other formats."""
    key = path.rpartition("/")[2]
    found = [float(text) for _, text in texts]
    if values.names_moment(key) and all(out.is_moment(values.seconds_of(key, each)) for each in found):
        for name, text in texts:
            out.leave_out(name, text, "time", moment=True)
    elif values.is_durations(key, found):
        for name, text in texts:
            out.leave_out(name, text, "time")
    elif texts[0][0] == path:
        values.number(out, path, key, found[0], texts[0][1])
    else:
        for name, text in texts:
            out.add(name, text)
