"""Texts: JSON, notebooks, traces of events, XML, HTML and SVG, metrics, tables, logs."""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

from envbuild.core.patterns import lazy
from envbuild.record.measurements import is_time_of_prediction, kind_of, may_be_memory, name_leaves_doubt, names_result
from envbuild.verification.content import values
from envbuild.verification.content.boosting import TIME_LEFT, is_time_of_iteration
from envbuild.verification.content.canonical import NESTED, Canonical, Leaves, TooMuchError, UnreadableError, below
from envbuild.verification.content.datasets import is_state
from envbuild.verification.content.json_texts import Number, blanks_of, parsed
from envbuild.verification.content.markup import Page, read_fragment, read_xml
from envbuild.verification.content.members import counted_name
from envbuild.verification.content.notebooks import without_times_of_cells
from envbuild.verification.content.page_images import without_images
from envbuild.verification.content.page_names import without_names
from envbuild.verification.content.profiles import (
    is_profile_of_query,
    is_profile_of_samples,
    without_data,
    without_query_times,
    without_samples,
)
from envbuild.verification.content.snakemake import BENCHMARK, UNKNOWN, is_benchmark, is_hash_of_job
from envbuild.verification.content.telemetry import (
    OF_TRACE,
    OWNERS,
    SPENT,
    is_trace,
    may_be_schedule,
    read_metrics,
    without_chance,
)
from envbuild.verification.content.tune import is_experiment, prepared
from envbuild.verification.content.widgets import in_order
from envbuild.verification.masking.masks import BY_CLOCK
from envbuild.verification.masking.printed import rows

Nested = Callable[[Canonical, str, bytes], None]
"""Opens data in a text."""

_DIGITS, _REPEATED = lazy(r"[\d.,]+"), lazy(r"([^\w]|_)\1+")
_CURSOR = lazy(r"\x1b|\x08|\r(?!\n)")
JSON = 8 << 20
"""Bytes of the largest text that is parsed as JSON."""
_TEXT = 8 << 20
"""Bytes of the largest text that is read; a million lines take a minute of a CPU, so that more is not worth it."""
_OWN = frozenset(("ENVBUILD_RUN_ID", "ENVBUILD_PROCESS", "PATH"))
"""Names that are together in the environment of a program alone."""
_SHARED = "shared_object_id"
"""Under which Keras keeps the address of an object that is in several places."""
_OF_DOIT, _CHANGED = frozenset(("checker:", "deps:")), (1e9, 1e10)
"""Keys of what doit notes of each task, next to names of files; their times of change, in seconds since 1970."""
_HEXADECIMAL = lazy(r"800[2-5](?:[0-9a-f]{2})*2e")
"""A pickle: a digest has that form by chance in one of four million cases, and counts by its bytes then."""
_PACKED = lazy(r"[A-Za-z0-9+/\n]{24,}={0,2}\n?")
_PLACES = lazy(r"(?:\[\d+\])+\Z")
_OF_MODEL = lazy(
    r"(?:\A|[\W_])(?:answer|argument|completion|content|generated|generation|hypothesis|hypotheses|label|output|prediction|reply|replies"
    r"|response|summary|target|text|translation)(?:s|_?texts?)?\Z",
    re.IGNORECASE,
)
"""Names of texts that language models write, or are to write."""
_OWN_NAME = lazy(r"""\bid=["']([a-z]{0,8}[0-9a-f]{8,40})["']""")
_PART_OF_NAME = lazy(
    r"""\bid=["'](?:[A-Za-z][A-Za-z]{0,30}[-_]){1,4}((?=[0-9]{0,40}[a-f])[0-9a-f]{8,16}|[1-9](?:[0-9]{7}|[0-9]{11}|[0-9]{15}))"""
    r"""(?:[-_][A-Za-z][A-Za-z0-9]{0,30}){0,4}["']"""
)
"""A drawn part of an element's name between words: ``id="plot-4d7b4d8f-box"``."""
_SURROGATE = lazy("[\ud800-\udfff]")
_OF_COLLECTION = lazy(r"""\bid=["']C[0-9a-f]{1,8}_[0-9a-f]{1,8}_([0-9a-f]{10})["']""")
"""Matplotlib's name of a form of which it draws many, such as the points of a scatter plot, behind two numbers that
count (``draw_path_collection``)."""
_COUNTED = lazy(r"(?:|(?!image)[a-z]{3,8})[0-9]{8,40}")
"""Numbers of what is shown: items, genes. Matplotlib's have one letter before the digits, or ``image``."""
_DIGEST = lazy(r"[a-z]{0,8}?(?![0-9a-f]{12}[12467][0-9a-f]{3}[89ab][0-9a-f]{15}\Z)[0-9a-f]{32,40}")
"""As long as that of a file, and no UUID: what was computed is no name for the moment."""
_NAMED = lazy(r"(?<![0-9a-z])[a-z]{0,8}[0-9a-f]{8,40}(?![0-9a-z])")
_TAG = lazy(r"(<[^<>]*>)")
_BINARY = lazy(r"[\x00-\x06\x0e-\x1a\x1c-\x1f]")
"""Control characters that no text has."""
_PAGE = lazy(r"\s*<(?:!DOCTYPE html|html)\b", re.IGNORECASE)
_OF_STYLER = lazy(r'<table id=\\?"T_([0-9a-f]{5})\\?"')
"""A table that pandas' ``Styler`` wrote: its name, of which those of its cells are made, is drawn (``uuid4()``)."""
_REFIT = lazy(
    r"(\n {0,40}refit_time_: float<br>[^\n]*\n[^<]*</a>\s*</td>\s*<td class=\"fitted-att-type\">float</td>\s*<td>)"
    r"(\d[\d.]*(?:e-?\d+)?)(?=</td>)"
)
"""The row of an attribute of ``GridSearchCV`` and its like (sklearn/utils/_repr_html/fitted_attributes.py)."""
_CELLS = {mark: lazy(rf'("(?:[^"]|"")*"|[^"{mark}]*){mark}') for mark in "\t,;"}
_MARKUP = lazy(r"\s*(?:<\?xml|<!DOCTYPE|<svg|<html)", re.IGNORECASE)


_PINS = lazy(r"(?:[A-Za-z0-9][\w.-]*==[\w.+!-]+\n){2,}")
"""Packages and their versions."""
_OF_WANDB = lazy(r"(?m)^wandb==")
"""Weights & Biases writes them, itself among them, as folders list them: the order has no meaning there."""


def read_text(out: Canonical, path: str, data: bytes, nested: Nested) -> None:
    """Read a text of any kind; raises ``UnreadableError`` if it is none."""
    if len(data) > _TEXT:
        raise TooMuchError("a text too large to be read by lines")
    try:
        text = data.decode()
    except UnicodeDecodeError:
        raise UnreadableError("no text") from None
    if _BINARY.search(text) is not None and (_PAGE.match(text[:200]) is None or "\0" in text):
        raise UnreadableError("no text")  # small numbers, byte by byte, are none; plotly.js has some between quotes
    if _PAGE.match(text[:200]) is not None and "sessionData" in text:
        text = without_data(out, path, text)
    if _OF_STYLER.search(text) is not None:
        text = _without_names_of_tables(out, path, text)
    if text.lstrip()[:1] in ("{", "[", "<"):
        text = without_names(out, path, text)
    if "fitted-att-type" in text:
        text = _without_time_of_refit(out, path, text)
    if len(data) <= JSON and text.lstrip()[:1] in ("{", "["):
        table = parsed(text)
        if table is not None:
            _json(out, path, table, nested)
            return
        lines = text.splitlines()
        tables = [parsed(line) for line in lines]
        if tables and all(isinstance(each, dict) for each in tables):
            for at, each in enumerate(tables, 1):
                _json(out, f"{path}[{at}]", each, nested)
            return
    if _OF_WANDB.search(text) is not None and _PINS.fullmatch(text) is not None:
        text = "".join(sorted(text.splitlines(keepends=True)))
    if _MARKUP.match(text[:200]):
        text = _numbered(out, without_images(out, path, text, nested))
    elif read_metrics(out, path, text) or _table(out, path, text):
        return
    if text.lstrip()[:1] == "<" and (read_xml(out, path, text) or read_fragment(out, path, text)):
        return
    _lines(out, path, text)


def _without_names_of_tables(out: Canonical, path: str, text: str) -> str:
    """Replace the names that pandas draws for tables by their place in the text, which may be a notebook."""
    numbers = {name: at for at, name in enumerate(dict.fromkeys(_OF_STYLER.findall(text)), 1)}
    out.leave_out(below(path, "names of tables", " "), " ".join(numbers), "identity")
    return re.sub(
        r"(?<![0-9A-Za-z_])T_([0-9a-f]{5})(?![0-9A-Za-z])",
        lambda found: f"T_⟨{numbers[found[1]]}⟩" if found[1] in numbers else found[0],
        text,
    )


def _without_time_of_refit(out: Canonical, path: str, text: str) -> str:
    """Replace how long a search took to fit its best model, in the pages in which scikit-learn shows estimators."""

    def measured(found: re.Match[str]) -> str:
        out.leave_out(below(path, "refit_time_", " "), found[2], "time")
        return f"{found[1]}⟨time⟩"

    return _REFIT.sub(measured, text)


def _lines(out: Canonical, path: str, text: str) -> None:
    """Count lines as a terminal shows them, which is how progress bars mean to be read; but a file keeps all of it.

    So what was written over counts if no time is in it, and blanks at the end of lines do.
    """
    shown, by_clock = _CURSOR.search(text) is not None, 0
    # In experiments cells have names, as in files that are read by their keys.
    page = Page() if isinstance(out, Leaves) and _PAGE.match(text[:200]) is not None else None
    for row in rows(text.encode(), out.masks):
        where = _line(path, row.number - by_clock)
        parts = page.cells(row.text) if page is not None else ()
        if len(parts) == 1 and parts[0][0]:
            where = f"{where}: {parts[0][0]}"
        if BY_CLOCK in row.masked.kinds:  # as on a stream, it may be there or not
            by_clock += 1
            out.leave_out_line(below(path, BY_CLOCK, ", "), row.text)
            continue
        if len(parts) > 1 and not row.masked.kinds:
            for number, (name, part) in enumerate(parts, 1):
                out.add(f"{where}, cell {number}{': ' if name else ''}{name}", part)
        else:
            out.add(where, row.masked.text)
        if row.masked.kinds:
            out.leave_out_of_text(where, row.text, row.masked)
        elif row.blanks and not shown:
            out.add(f"{where}, blanks at its end", row.blanks)
    if shown:
        timed: set[str] = set()
        for number, line in enumerate(text.split("\n"), 1):
            for state in line.rstrip("\r").split("\r")[:-1]:
                form = _REPEATED.sub(r"\1", _DIGITS.sub("0", state))  # progress bars have few
                if not state.strip() or "\x1b" in state or form in timed:
                    continue
                if out.masks.mask(state).kinds:
                    timed.add(form)
                else:
                    out.add(f"{_line(path, number)}, written over", state)
    if not text.endswith("\n"):
        out.add(path, "no line break at the end")


def _line(path: str, number: int) -> str:
    return f"{path}, line {number}" if path else f"line {number}"


def read_value(out: Canonical, path: str, key: str, value: Any, nested: Nested) -> None:
    """Count a value of a JSON text, as ``parsed`` returns it, and what is in it.

    Args:
        out: what collects.
        path: where it is.
        key: its name, by which measurements are known; empty for none.
        value: it.
        nested: opens data in a text.
    """
    _value(out, path, key, value, nested, ())


def _json(out: Canonical, path: str, table: Any, nested: Nested) -> None:
    if isinstance(table, dict) and "nbformat" in table and isinstance(table.get("cells"), list):
        in_order(table)
        without_times_of_cells(out, table)
        for number, cell in enumerate(table["cells"]):
            if isinstance(cell, dict) and isinstance(cell.get("id"), str):
                out.leave_out("cells' ids", cell.pop("id"), "identity")
            if isinstance(cell, dict) and isinstance(cell.get("outputs"), list):
                cell["outputs"] = _with_whole_streams(out, cell["outputs"])
                _read_shown(out, below(path, f"cells[{number}]"), cell["outputs"])
    if is_trace(table):
        _trace(out, path, table, nested)
        return
    if is_state(table):
        out.leave_out(below(path, "_fingerprint"), table.pop("_fingerprint"), "identity")
    if is_profile_of_samples(table):
        table = without_samples(out, path, table)
    if is_profile_of_query(table):
        table = without_query_times(out, path, table)
    if is_experiment(table):
        table = prepared(out, path, table)
    _value(out, path, "", table, nested, ())


def _with_whole_streams(out: Canonical, outputs: list[Any]) -> list[Any]:
    """Return a cell's outputs with one for each stream, by lines as they are shown at last.

    A kernel sends what is printed in pieces, by the clock, and those of two streams come in any order.
    """
    texts: dict[str, list[str]] = {}
    rest: list[Any] = []
    for each in outputs:
        if not isinstance(each, dict) or each.get("output_type") != "stream" or not isinstance(each.get("name"), str):
            rest.append(each)
            continue
        text = each.get("text")
        parts = text if isinstance(text, list) else [text]
        texts.setdefault(each["name"], []).extend(part for part in parts if isinstance(part, str))
    streams = [
        {"output_type": "stream", "name": name, "text": [row.text for row in rows("".join(parts).encode(), out.masks)]}
        for name, parts in sorted(texts.items())
    ]
    return [*streams, *rest]


def _read_shown(out: Canonical, path: str, outputs: Sequence[Any]) -> None:
    """Count texts that cells showed whole, as files are, and take them out: columns have their names in other lines.

    A page that is no XML stays as it is.
    """
    for at, each in enumerate(outputs):
        data: object = each.get("data") if isinstance(each, dict) else None
        if not isinstance(data, dict):
            continue
        for kind in ("text/html", "text/plain"):
            text = data.get(kind)
            lines: list[Any] = text if isinstance(text, list) else [text]
            if not all(isinstance(line, str) for line in lines):
                continue
            where, whole = below(path, f"outputs[{at}].data.{kind}"), "".join(lines)
            if _SURROGATE.search(whole) is not None:
                continue  # which JSON can have, and a file cannot
            if kind == "text/plain":
                _lines(out, where, whole)
            elif not read_fragment(out, where, whole):
                continue
            data[kind] = "read" if isinstance(text, str) else ["read"] * len(lines)


def _trace(out: Canonical, path: str, table: Any, nested: Nested) -> None:
    """Count the events of a trace but for when they were and how long they took; threads count by their order."""
    events, doubtful = table, may_be_schedule(table)
    if isinstance(table, dict):
        events = table["traceEvents"]
        for name, each in table.items():
            if name in OF_TRACE and isinstance(each, Number | str):
                text = each if isinstance(each, str) else each.text
                out.leave_out(below(path, name), text, OF_TRACE[name])
            elif name != "traceEvents":
                _value(out, below(path, name), name, each, nested, tuple(table))
        path = below(path, "traceEvents")
    out.add(path, f"[{len(events)}]")
    for at, event in enumerate(events):
        where = below(path, f"[{at}]", "")
        left, threads = without_chance(dict(event))
        out.add(where, " ".join(event))
        if threads is not None:
            out.leave_out(below(where, "threads"), repr(threads), "time", during=True)
        for key, each in event.items():
            if not isinstance(each, Number) or each < 0 or key not in SPENT | OWNERS:
                continue
            out.leave_out(below(where, key), each.text, "time" if key in SPENT else "identity", doubtful=doubtful)
            if key in OWNERS:
                out.add(below(where, key), f"⟨{key} {out.number_of(f'{key} {each.text}')}⟩")
            del left[key]
        _value(out, where, "", left, nested, tuple(left))


def _value(
    out: Canonical, path: str, key: str, value: Any, nested: Nested, siblings: Collection[str], depth: int = 0
) -> None:
    if depth > NESTED:
        raise UnreadableError("nested too deep")
    if isinstance(value, dict):
        if values.is_durations(key, tuple(value.values())):  # of a column, as pandas writes it
            out.add(path, repr([*value]))
            out.leave_out(path, repr(list(value.values())), "time")
            return
        if _OWN.issubset(value):  # an environment that was written down, whose order ``verify`` reverses
            value = dict(sorted(value.items()))
        out.add(path, f"{{{len(value)}}}")
        names = value.keys()
        tag = _tag_of(value)
        if values.are_statistics(key, value):
            for name, each in value.items():
                out.add(path, name)
                values.number(out, below(path, f"[{name}]", ""), key, each, each.text)
            return
        for name, each in value.items():
            place = below(path, counted_name(out, path, name, "names of entries", without_uuids=True))
            if tag and isinstance(each, Number) and name.lower() == "value":
                values.number(out, below(place, tag, " "), tag, each, each.text)
                continue
            _value(out, place, name, each, nested, names, depth + 1)
    elif isinstance(value, list):
        if len(value) == 3 and _is_change(key, value[0], siblings):
            out.leave_out(below(path, "time of change"), value[0].text, "time", during=True)
            value = value[1:]
        if values.is_durations(key, value):
            out.add(path, f"[{len(value)}]")
            out.leave_out(path, repr(value), "time")
            return
        out.add(path, f"[{len(value)}]")
        for at, each in enumerate(value):
            _value(out, below(path, f"[{at}]", ""), "", each, nested, (), depth + 1)
    elif isinstance(value, Number) and key == _SHARED and value.text.isdigit():
        out.add(path, f"⟨object {out.number_of(value.text)}⟩")
        out.leave_out(path, value.text, "identity")
    elif isinstance(value, Number) and is_hash_of_job(key, siblings):
        out.leave_out(path, value.text, "addresses")
    elif _is_change(key, value, siblings):
        out.leave_out(path, value.text, "time", during=True)
    elif isinstance(value, Number) and value >= 0 and is_time_of_iteration(key, siblings):
        out.leave_out(path, value.text, "time")
    elif isinstance(value, Number):
        values.number(out, path, key, value, value.text, siblings)
    elif isinstance(value, str):
        data = _packed(value)
        if data is not None:
            if value.startswith("800"):
                out.add(path, "hexadecimal digits")
            nested(out, path, data)
        elif value.startswith("{") and (table := parsed(value)) is not None:
            if _may_be_opened(path, key):
                out.add(path, f"JSON {blanks_of(value)}")
                _value(out, path, key, table, nested, siblings, depth + 1)
            else:
                values.string(out, path, key, value, typed=True, doubtful=True)
        else:
            values.string(out, path, key, value, typed=True)
    else:
        out.add(path, repr(value))


def _may_be_opened(path: str, key: str) -> bool:
    """Whether JSON in a text may be read by its keys: not what a model wrote, for which they are words like others."""
    name = key or _PLACES.sub("", path).rpartition(".")[2]
    return not names_result(name) and _OF_MODEL.search(name) is None


def _is_change(key: str, value: Any, siblings: Collection[str]) -> bool:
    """Whether a value is when a file was changed, as doit notes it of what a task needs, by name (dependency.py)."""
    if not isinstance(value, Number) or "." not in value.text or not _CHANGED[0] <= value < _CHANGED[1]:
        return False
    return not key.endswith(":") and all(each in siblings for each in _OF_DOIT)


def _packed(value: str) -> bytes | None:
    """Return what a text holds: an image or a pickle in base64, a pickle in hexadecimal digits; None if neither."""
    if value.startswith("800") and _HEXADECIMAL.fullmatch(value) is not None:
        return bytes.fromhex(value)
    if not value.startswith(("gA", "iVBOR", "H4sI")) or _PACKED.fullmatch(value) is None:
        return None
    try:
        data = base64.b64decode(value)
    except (ValueError, binascii.Error):
        return None
    pickled = data[:1] == b"\x80" and data[1:2] <= b"\x05" and data[-1:] == b"."
    return data if pickled or data[:4] == b"\x89PNG" or data[:2] == b"\x1f\x8b" else None


def _numbered(out: Canonical, text: str) -> str:
    """Replace identities that were drawn for elements of a page by their place in it."""
    found = [name for name in _OWN_NAME.findall(text) if _DIGEST.fullmatch(name) is None]
    names = dict.fromkeys(name for name in found if _COUNTED.fullmatch(name) is None)
    names |= dict.fromkeys(_OF_COLLECTION.findall(text))
    parts = [name for name in _PART_OF_NAME.findall(text) if name not in names]
    out.note_glued(parts)  # a computed one may have this form, which an experiment shows
    names |= dict.fromkeys(parts)
    out.note_names([*names])
    known = {name: f"⟨id {at}⟩" for at, name in enumerate(names)}
    if not known:
        return text
    parts, hidden = _TAG.split(text), ""
    for at, part in enumerate(parts):
        if at % 2:
            name = part[1:].lstrip("/").partition(">")[0].split(None, 1)[:1]
            if name and name[0].lower() in ("script", "style") and not part.endswith("/>"):
                hidden = "" if part.startswith("</") else name[0]
        elif not hidden:
            continue  # what is shown is data
        parts[at] = _NAMED.sub(lambda found: known.get(found[0], found[0]), part)
    return "".join(parts)


def _table(out: Canonical, path: str, text: str) -> bool:
    """Read a table with names in its first line, one column of which is a measurement; False for other texts."""
    head, newline, _ = text.partition("\n")
    comment = head.startswith("#")  # Stable-Baselines3's monitor: a line of JSON, then the table
    start = text.partition("\n")[2] if comment else text
    first = start.partition("\n")[0].rstrip("\r")
    mark = next((mark for mark in ("\t", ",", ";") if mark in first), "")
    if not newline or not mark:
        return False
    lines = start.splitlines()
    table = [_cells(line, mark) for line in lines if line.strip()]
    if not all(table):
        return False
    names = [_plain(name).strip() for name in table[0]]
    if len(names) != len({*names}) or any(_is_number(name) for name in names):
        return False
    tag, value = _long(names)
    labelled = {at for at, row in enumerate(table[1:], 2) if not names[0] and _is_row_of_measurements(row)}
    benchmark = is_benchmark(names)
    if (
        all(name != "t" and kind_of(name) is None and not values.names_days(name) for name in names)
        and not benchmark
        and tuple(names) != TIME_LEFT
        and value < 0
        and not labelled
    ):
        return False
    cells = table[1:]
    # In experiments a time in one run and none in another one would be another place: there its values are shown.
    by_values = {at for at, name in enumerate(names) if name.lower() in _BY_VALUES}
    shown = by_values if isinstance(out, Leaves) else set[int]()
    left_out = {at for at, name in enumerate(names) if at not in shown and _is_column(name, names, cells, at)}
    days = {at for at, name in enumerate(names) if values.names_days(name)}
    if not (left_out or shown or days or labelled or value >= 0) or any(len(row) != len(names) for row in cells):
        return False
    if comment:
        _comment(out, path, head)
    out.add(path, first)
    for number, row in enumerate(cells, 2):
        for at, cell in enumerate(row):
            of_row = number in labelled and at > 0
            name = _plain(row[tag]) if at == value else _plain(row[0]) if of_row else names[at]
            where = f"{_line(path, number)}: {name}"
            measured = at in left_out or of_row or (at == value and _is_measured(name))
            if benchmark and at < len(BENCHMARK) and (cell in UNKNOWN or _is_of_clock(cell)):
                out.leave_out(name, cell, "machine")
            elif measured and _is_number(plain := _plain(cell)) and float(plain) >= 0:
                out.leave_out(name, cell, kind_of(name) or "time")
                if plain != cell:
                    out.add(where, "quoted")
            elif at in days and _is_number(cell):
                values.number(out, where, name, float(cell), cell)
            else:
                out.text(where, cell)
    return True


def _is_row_of_measurements(row: Sequence[str]) -> bool:
    """Whether a row has the name of a measurement and nothing but numbers behind it, as transposed frames have."""
    label, *cells = map(_plain, row)
    return bool(cells) and _is_measured(label) and all(_is_number(each) and float(each) >= 0 for each in cells)


def _is_of_clock(cell: str) -> bool:
    """Whether a cell is a number of at least zero, or hours, minutes and seconds."""
    return _is_number(cell.replace(":", "")) and not cell.startswith("-")


def _cells(line: str, mark: str) -> list[str]:
    """Split a row into cells with their quotes (RFC 4180); empty if a cell goes on in the next line."""
    if '"' not in line:
        return line.split(mark)
    line += mark
    found, at = [], 0
    while at < len(line):
        cell = _CELLS[mark].match(line, at)
        if cell is None:
            return []
        found.append(cell[1])
        at = cell.end()
    return found


def _plain(cell: str) -> str:
    return cell[1:-1] if len(cell) > 1 and cell[0] == cell[-1] == '"' else cell


def _comment(out: Canonical, path: str, head: str) -> None:
    """Read the first line of a monitor's table."""
    table = parsed(head.lstrip("# "))
    if table is None:
        out.text(path, head)
    else:
        _value(out, path, "", table, lambda out, path, data: out.add(path, data), ())


def _long(names: Sequence[str]) -> tuple[int, int]:
    """Return the columns of names and of values of a table with a row for each value; -1 if it is none."""
    tags = [at for at, name in enumerate(names) if name.lower() in ("tag", "metric")]
    values = [at for at, name in enumerate(names) if name.lower() == "value"]
    return (tags[0], values[0]) if len(tags) == len(values) == 1 else (-1, -1)


def _tag_of(entry: Mapping[str, Any]) -> str:
    """Return the name of what an entry of a list of metrics has as its value, if that is measured for certain."""
    names = [*entry]
    tag, value = _long(names)
    name = entry[names[tag]] if value >= 0 else ""
    return name if isinstance(name, str) and _is_measured(name) else ""


def _is_measured(name: str) -> bool:
    """Whether a metric is one of time, of a rate or of memory for certain, such as ``charts/SPS``."""
    return kind_of(name) in ("time", "rate", "memory") and not name_leaves_doubt(name.rpartition("/")[2], queues=False)


_BY_VALUES = frozenset(("time", "times", "timestamp", "datetime"))
"""Names of columns that are measurements if their values look like it."""
_MACHINE = "hostname"


def _is_column(name: str, names: list[str], cells: list[list[str]], at: int) -> bool:
    """Whether a column is a measurement: a bare ``time`` only if it never goes back, as that of data may."""
    if name == "t":
        return {*names} >= values.MONITOR
    if tuple(names) == TIME_LEFT:
        return at > 0
    if is_time_of_prediction(name, names):
        return True
    kind = kind_of(name)
    if name == "pid":  # of the process that wrote it, with its machine; alone it may be a patient's
        return _MACHINE in names and len({row[at] for row in cells if at < len(row)}) == 1
    if kind is None or kind == "identity":
        return False
    if kind == "memory" and not all(
        may_be_memory(name, float(row[at])) for row in cells if at < len(row) and _is_number(row[at])
    ):
        return False
    if name.lower() in _BY_VALUES:
        found = [float(row[at]) for row in cells if at < len(row) and _is_number(row[at])]
        return len(found) == len(cells) and len(found) > 1 and found == sorted(found)
    return True


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
