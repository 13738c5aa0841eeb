"""Experiments that Comet and Neptune keep on disk until they are uploaded.

What the program gave them counts: parameters, values of metrics by the metric's name, texts, files. What they note of
the machine while they wait does not, nor do identities, times, and numbers of messages, which count that too. What the
program printed counts by lines, as it does where it was printed: they keep each write. Messages of one kind, or for one
field, are in their order; several threads write those of different ones. Sources: comet_ml/messages.py and
offline_utils.py; neptune/internal/operation.py and core/components/queue/disk_queue.py.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from envbuild.core.patterns import lazy
from envbuild.verification.content.canonical import Canonical, UnreadableError, below
from envbuild.verification.content.documents import read_value
from envbuild.verification.content.json_texts import Number, parsed
from envbuild.verification.content.values import ADDRESSES
from envbuild.verification.masking.masks import BY_CLOCK

Nested = Callable[[Canonical, str, bytes], None]
"""Opens what is in a value."""
OF_COMET = frozenset(("experiment.json", "messages.json"))
"""Members of each archive that Comet makes; the others are files that the program gave it."""
_MESSAGES, _EXPERIMENT = "messages.json", "experiment.json"
_OF_MACHINE = lazy(
    r"sys\.(?:cpu\.percent\.(?:avg|\d+)|load\.avg|compute\.(?:overall|utilized)|gpu\.\d+\.[a-z_.]+"
    r"|ram\.(?:total|used|available|percent\.used)|disk\.(?:(?:read|write)_bps|root\.(?:percent\.)?used)"
    r"|network\.(?:send|receive)_bps)|process duration"
)
"""Metrics that Comet takes of the machine (comet_ml/system), every so many seconds, and at the end how long the program
took; others with such a beginning are the program's."""
_PAIRS = {"metric_msg": ("metric", "metricName", "metricValue"), "parameter_msg": ("param", "paramName", "paramValue")}
"""Messages that have the name of a value next to it: where both are, and their keys."""
_OUTPUT, _UPLOAD = "standard_output", "file_upload"
_IDENTITY = lazy(rb"(?<![0-9a-f])[0-9a-f]{32}(?![0-9a-f])")
_OWN = "COMET "
"""How messages of Comet begin; those that come by the clock are left out, as they are where they were printed."""
_HEXADECIMAL = lazy(r"[0-9a-f]{32}")
_BEGIN = lazy(rb'\{"obj": \{"type": "[A-Z]\w+", "path": \[".*\}, "version": \d+, "at": \d+\.\d+\}\n')
_MONITORED, _NAMESPACE = "monitoring", lazy(r"[0-9a-f]{8}")
"""The part of a run that has the machine and what is printed, and below it the name of a process, which is a digest."""
_USED = lazy(r"cpu|memory|gpu(?:_memory|_power)?(?:_\d+)?")
_SERIES = frozenset(("ClearFloatLog", "ConfigFloatSeries", "LogFloats"))
"""Fields of how much of the machine is used, every so many seconds, and what is done with them."""
_STREAMS = ("stdout", "stderr")
_STAMPED = lazy(r"(.*-)\d{10}\.\d{1,6}-\d{4}-\d\d-\d\d_\d\d\.\d\d\.\d\d\.\d{6}(\.\w*)")
"""The name that a file gets which the program gave as a text: of the field, the time, and the time once more."""
_SETS = ("AddStrings", "RemoveStrings", "DeleteFiles")
"""Operations with a set of texts, which comes in any order."""
COUNTERS = ("last_put_version",)
"""Files next to a log of operations that hold nothing but the number of the last one."""
_KNOWN = frozenset(("obj", "version", "at"))
_COUNT = lazy(r"\d{1,18}")
_OF_PROCESS = "hostname"
"""A field that Neptune has next to those of the machine, whatever the process is called: others are the program's."""


@dataclass(frozen=True, kw_only=True)
class Experiment:
    """What an archive of Comet has.

    Attributes:
        facts: of the experiment; ``messages``: what they have, by their kinds; ``files``: modes and contents by name.
    """

    facts: dict[str, Any]
    messages: dict[str, list[dict[str, Any]]]
    files: dict[str, tuple[int, bytes]]


def experiment_of(members: Mapping[str, tuple[int, bytes]]) -> Experiment | None:
    """Return what an archive of Comet has; None if it is none.

    Args:
        members: modes and contents by name.
    """
    try:
        members = _without_identities(members)
        messages = _messages(members[_MESSAGES][1])
        facts = parsed(_text(members[_EXPERIMENT][1]))
    except UnreadableError:
        return None
    if not isinstance(facts, dict) or "offline_id" not in facts:
        return None
    files = {name: member for name, member in members.items() if name not in OF_COMET}
    return Experiment(facts=facts, messages=messages, files=files)


def read_comet(out: Canonical, path: str, experiment: Experiment, nested: Nested) -> None:
    """Count an experiment of Comet; members of its archive come in the order of a listing."""
    out.add(path, "an experiment of Comet")
    facts = dict(experiment.facts)
    if isinstance(drawn := facts["offline_id"], str) and _HEXADECIMAL.fullmatch(drawn):
        out.leave_out(below(path, f"{_EXPERIMENT}: offline_id"), facts.pop("offline_id"), "identity")
    read_value(out, below(path, _EXPERIMENT, ": "), "", facts, nested)
    where, left = below(path, _MESSAGES, ": "), dict(experiment.files)
    for kind, messages in sorted(experiment.messages.items()):
        if kind == _OUTPUT:
            _comet_output(out, where, messages, nested)
            continue
        given = messages
        if kind == "metric_msg":
            given = [each for each in messages if not _is_of_machine(each)]
            own = json.dumps([each for each in messages if _is_of_machine(each)], default=str)
            out.leave_out(below(where, "metrics of the machine"), own, "machine")
        elif kind == _UPLOAD:
            given = sorted(messages, key=_file_name)
        for number, each in enumerate(given):
            _message(out, below(where, f"{kind}[{number}]"), kind, each, left, nested)
    for name, (mode, data) in sorted(left.items()):
        out.text(path, f"{name} {mode:o}")
        nested(out, below(path, name, ": "), data)


def _without_identities(members: Mapping[str, tuple[int, bytes]]) -> dict[str, tuple[int, bytes]]:
    """Put numbers in the places of identities that were drawn for files, also in files that refer to others."""
    found = [identity for _, _, identity in sorted(_identities(members[_MESSAGES][1]))]
    numbers = {each.encode(): f"⟨file {at}⟩".encode() for at, each in enumerate(dict.fromkeys(found))}
    return {
        name: (mode, _IDENTITY.sub(lambda found: numbers.get(found[0], found[0]), data))
        for name, (mode, data) in members.items()
    }


def _identities(data: bytes) -> Iterator[tuple[str, int, str]]:
    """Yield identities of files with their names and places."""
    for at, payload in enumerate(_messages(data).get(_UPLOAD, ())):
        parameters = payload.get("additional_params")
        identity = parameters.get("assetId") if isinstance(parameters, dict) else None
        if isinstance(identity, str) and _HEXADECIMAL.fullmatch(identity):
            yield _file_name(payload), at, identity


def _file_name(payload: dict[str, Any]) -> str:
    """Return the name of a file that the program gave; a whole folder comes in the order of a listing."""
    parameters = payload.get("additional_params")
    return str(parameters.get("fileName")) if isinstance(parameters, dict) else ""


def _messages(data: bytes) -> dict[str, list[dict[str, Any]]]:
    """Return what messages have, by their kinds, in the order of their numbers."""
    found: dict[str, list[dict[str, Any]]] = {}
    for line in _text(data).splitlines():
        message = parsed(line)
        if not isinstance(message, dict) or {*message} != {"payload", "type"}:
            raise UnreadableError("no message of Comet")
        payload, kind = message["payload"], message["type"]
        if not isinstance(payload, dict) or not isinstance(kind, str) or "message_id" not in payload:
            raise UnreadableError("no message of Comet")
        del payload["message_id"]
        found.setdefault(kind, []).append(payload)
    return found


def _message(
    out: Canonical,
    where: str,
    kind: str,
    payload: dict[str, Any],
    files: dict[str, tuple[int, bytes]],
    nested: Nested,
) -> None:
    """Count a message and the file that it names, which is taken out of those that are left."""
    place, name_key, value_key = _PAIRS.get(kind, ("", "", ""))
    pair = payload.get(place)
    if isinstance(pair, dict) and isinstance(name := pair.get(name_key), str) and value_key in pair:
        read_value(out, below(where, name), name, pair.pop(value_key), nested)
    if isinstance(file := payload.get("file_path"), str) and file in files:
        mode, data = files.pop(file)
        payload["file_path"] = ""
        out.leave_out(below(where, "file_path"), file, "identity")
        out.add(where, f"a file {mode:o}")
        nested(out, below(where, "the file"), data)
    read_value(out, where, "", payload, nested)


def _is_of_machine(payload: dict[str, Any]) -> bool:
    """Whether a message has a metric that was taken of the machine; how many there are depends on the time."""
    pair = payload.get("metric")
    name = pair.get("metricName") if isinstance(pair, dict) else None
    if not isinstance(pair, dict) or not isinstance(name, str):
        return False
    return _OF_MACHINE.fullmatch(name) is not None and isinstance(pair.get("metricValue"), Number)


def _comet_output(out: Canonical, where: str, payloads: Sequence[dict[str, Any]], nested: Nested) -> None:
    texts: dict[str, list[str]] = {}
    for payload in payloads:
        text, errors = payload.get("output"), payload.get("stderr")
        if not isinstance(text, str) or not isinstance(errors, bool):
            read_value(out, below(where, _OUTPUT), "", payload, nested)
            continue
        texts.setdefault("stderr" if errors else "stdout", []).append(text)
    _printed(out, where, texts, nested)


def _printed(out: Canonical, where: str, texts: Mapping[str, Sequence[str]], nested: Nested) -> None:
    for stream, parts in sorted(texts.items()):
        lines = "".join(parts).splitlines(keepends=True)
        kept = (line for line in lines if not line.startswith(_OWN) or BY_CLOCK not in out.masks.mask(line).kinds)
        nested(out, below(where, stream), "".join(kept).encode("utf-8", "surrogatepass"))


def is_operations(data: bytes) -> bool:
    """Whether data begin as the log of operations of a run of Neptune does."""
    return data.startswith(b'{"obj": {"type": "') and _BEGIN.match(data) is not None


def read_operations(out: Canonical, path: str, data: bytes, nested: Nested) -> int:
    """Read the log of operations of a run of Neptune and return the number of its last operation.

    Raises ``UnreadableError`` if it has other lines.
    """
    fields: dict[tuple[str, ...], list[dict[str, Any]]] = {}
    last = 0
    for line in _text(data).splitlines():
        entry = parsed(line)
        if not isinstance(entry, dict) or {*entry} != _KNOWN or not _is_numbered(entry):
            raise UnreadableError("no operation of Neptune")
        operation, last = entry["obj"], int(entry["version"].text)
        place = operation.get("path") if isinstance(operation, dict) else None
        if not isinstance(place, list) or not place or not all(isinstance(part, str) for part in place):
            raise UnreadableError("no operation of Neptune")
        fields.setdefault(tuple(place), []).append(operation)
    out.add(path, "operations of Neptune")
    own = {place[:2] for place in fields if place[0] == _MONITORED and place[2:] == (_OF_PROCESS,)}
    for place in sorted(fields, key=lambda each: _common(out, path, each)):
        _field(out, path, place, fields[place], nested, of_process=place[:2] in own)
    return last


def _is_numbered(entry: dict[str, Any]) -> bool:
    """Whether an operation has the number and the time that Neptune gives it, which do not count."""
    version, at = entry["version"], entry["at"]
    return isinstance(version, Number) and _COUNT.fullmatch(version.text) is not None and isinstance(at, Number)


def _common(out: Canonical, path: str, place: tuple[str, ...]) -> str:
    """Return the name of a field without what is drawn in it."""
    if len(place) > 2 and place[0] == _MONITORED and _NAMESPACE.fullmatch(place[1]):
        number = out.number_of(place[1])
        out.leave_out(below(path, _MONITORED), place[1], "identity")
        return "/".join((_MONITORED, f"⟨process {number}⟩", *place[2:]))
    return "/".join(place)


def _field(
    out: Canonical,
    path: str,
    place: tuple[str, ...],
    operations: Sequence[dict[str, Any]],
    nested: Nested,
    *,
    of_process: bool,
) -> None:
    name = _common(out, path, place)
    where = below(path, name)
    if of_process and len(place) == 3:
        if _USED.fullmatch(place[2]) and {str(each.get("type")) for each in operations} <= _SERIES:
            out.leave_out(where, json.dumps(operations, default=str), "machine")
            return
        if place[2] in _STREAMS:
            _neptune_output(out, below(path, "/".join(name.split("/")[:2])), place[2], operations, nested)
            return
    for operation in operations:
        kind = operation.get("type")
        out.add(where, str(kind))
        for key, value in operation.items():
            if key in ("type", "path"):
                continue
            if key == "value" and place[0] == _MONITORED and place[2:] == ("tid",) and _is_address(value):
                out.leave_out(where, value, "addresses")
            elif key == "tmp_file_name" and isinstance(value, str) and (named := _STAMPED.fullmatch(value)):
                out.add(below(where, key), f"{named[1]}⟨date⟩{named[2]}")
                out.leave_out(below(where, key), value, "identity")
            elif key == "value":
                read_value(out, where, name, value, nested)
            elif key == "values" and isinstance(value, list):
                _values(out, where, name, sorted(value, key=str) if kind in _SETS else value, nested)
            else:
                read_value(out, below(where, key), key, value, nested)


def _values(out: Canonical, where: str, name: str, values: Sequence[Any], nested: Nested) -> None:
    """Count points of a series, each value by the name of the series."""
    out.add(where, f"[{len(values)}]")
    for each in values:
        if not isinstance(each, dict) or "value" not in each:
            read_value(out, where, "", each, nested)
            continue
        read_value(out, where, name, each["value"], nested)
        for key, value in each.items():
            if key != "value":
                read_value(out, below(where, key), key, value, nested)


def _neptune_output(
    out: Canonical, where: str, stream: str, operations: Sequence[dict[str, Any]], nested: Nested
) -> None:
    parts: list[str] = []
    for operation in operations:
        values = operation.get("values", [])
        for each in values if isinstance(values, list) else [values]:
            if isinstance(each, dict) and isinstance(each.get("value"), str):
                parts.append(each["value"])
            else:
                read_value(out, below(where, stream), "", each, nested)
    _printed(out, where, {stream: parts}, nested)


def _is_address(value: Any) -> bool:
    return isinstance(value, str) and value.isdecimal() and ADDRESSES[0] <= int(value) <= ADDRESSES[1]


def _text(data: bytes) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError:
        raise UnreadableError("no text") from None
