"""Sheets of workbooks (.xlsx): columns of measurements, by the names in their first row, as in other tables.

All other numbers below such names count under the name of their column, by which experiments know what they may be. A
sheet of two columns whose first row has no second name has names in its first column.

Source: ECMA-376, part 1, 18.3 (worksheets), 18.4 (shared strings).
"""

from __future__ import annotations

import re
from xml.sax.saxutils import unescape

from envbuild.core.patterns import lazy
from envbuild.record.measurements import kind_of, may_be_memory
from envbuild.verification.content.canonical import Canonical, below

WORKBOOK = "xl/workbook.xml"
SHARED = "xl/sharedStrings.xml"
SHEET = lazy(r"xl/worksheets/[^/]+\.xml\Z")
_ROW = lazy(r"<row\b[^>]*>.*?</row>", re.DOTALL)
_CELL = lazy(r'<c r="([A-Z]{1,3})\d{1,7}"([^>]*[^>/])?>([^<]*(?:<(?!c[ >]|/c>)[^<]*)*)</c>')
"""No cell is in another one: looked for up to the end of the sheet, one that is not closed would cost as much."""
_TYPE = lazy(r'\bt="(\w+)"')
_VALUE = lazy(r"<v>([^<]*)</v>")
_STRING, _TEXT = lazy(r"<si>([^<]*(?:<(?!si>|/si>)[^<]*)*)</si>|<si/>"), lazy(r"<t\b[^>]*>([^<]*)</t>")
_MOMENT = lazy(r"\d{4}-\d\d-\d\d|\d\d:\d\d")
"""In what is no name, such as the second cell of ``exported_at  2026-11-29T15:52:10``."""
_PAIR = 2
_NUMBER = lazy(r"-?\d+(?:\.\d*)?(?:[eE][+-]?\d+)?")


def strings_of(text: str) -> list[str]:
    """Return the texts that a workbook's cells have by number."""
    return [_text(found[1] or "") for found in _STRING.finditer(text)]


def without_measurements(out: Canonical, path: str, text: str, strings: list[str]) -> str:
    """Return a sheet without the numbers in columns with names: measurements are left out, others count by these.

    Args:
        out: what collects.
        path: of the sheet.
        text: its XML.
        strings: as ``strings_of`` returns them.
    """
    head = _ROW.search(text)
    if head is None:
        return text
    names = {found[1]: _named(found, strings) for found in _CELL.finditer(head[0])}
    names = {at: "" if _MOMENT.search(name) is not None else name for at, name in names.items()}
    kinds = {at: kind_of(name) for at, name in names.items()}
    if len(names) == _PAIR and not [*names.values()][1]:
        return _without_pairs(out, path, text, strings)
    if len({*names.values()}) < len(names):
        return text

    def apart(found: re.Match[str]) -> str:
        name = names.get(found[1])
        return _apart(out, path, found, name, kinds[found[1]]) if name else found[0]

    return text[: head.end()] + _CELL.sub(apart, text[head.end() :])


def _without_pairs(out: Canonical, path: str, text: str, strings: list[str]) -> str:
    """Return a sheet of names and values, ``elapsed (s)  0.021``, without the numbers next to a name."""

    def apart(row: re.Match[str]) -> str:
        cells = [*_CELL.finditer(row[0])]
        name = _named(cells[0], strings) if len(cells) == _PAIR else ""
        if not name or _MOMENT.search(name) is not None:
            return row[0]
        value = _apart(out, path, cells[1], name, kind_of(name))
        return row[0][: cells[1].start()] + value + row[0][cells[1].end() :]

    return _ROW.sub(apart, text)


def _apart(out: Canonical, path: str, cell: re.Match[str], name: str, kind: str | None) -> str:
    """Return a cell without its number, which counts by a name, or is left out for what that is."""
    value, of_type = _VALUE.fullmatch(cell[3]), _TYPE.search(cell[2] or "")
    if value is None or (of_type is not None and of_type[1] != "n") or _NUMBER.fullmatch(value[1]) is None:
        return cell[0]
    if kind in ("time", "rate", "memory") and float(value[1]) >= 0 and may_be_memory(name, float(value[1])):
        out.leave_out(below(path, name), value[1], kind)
        return cell[0].replace(value[0], f"<v>⟨{kind}⟩</v>")
    out.add(below(path, name), value[1])
    return cell[0].replace(value[0], "<v>⟨number⟩</v>")


def _named(cell: re.Match[str], strings: list[str]) -> str:
    """Return the text of a cell of the first row; empty if it has none."""
    of_type, value = _TYPE.search(cell[2] or ""), _VALUE.search(cell[3])
    if of_type is None:
        return ""
    if of_type[1] == "inlineStr":
        return _text(cell[3])
    if of_type[1] == "s" and value is not None and value[1].isdecimal() and int(value[1]) < len(strings):
        return strings[int(value[1])]
    return value[1] if of_type[1] == "str" and value is not None else ""


def _text(xml: str) -> str:
    return unescape("".join(_TEXT.findall(xml)))
