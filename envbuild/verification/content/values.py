"""Named values, as JSON, pickles, databases and CSV files hold them: measurements are distinguished from results."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from envbuild.core.patterns import lazy
from envbuild.record.measurements import are_durations, is_time_of_prediction, kind_of, may_be_memory, names_result
from envbuild.verification.content.canonical import Canonical
from envbuild.verification.content.json_texts import Number
from envbuild.verification.masking.masks import common_host, moment_of

MONITOR = frozenset("rlt")
"""Keys of an episode as monitors of Gym and Stable-Baselines3 note it: reward, length, time since the start."""
_OF_SKORCH = frozenset(("epoch", "batches", "train_loss"))
"""Keys of an epoch in skorch's history, which has how long it took under ``dur``."""
_OF_SPACY = frozenset(("token_acc", "token_p", "token_r", "token_f"))
"""Keys next to which spaCy has the words in a second, under ``speed`` (``Language.evaluate``)."""
_PARENT, _PARENTS = "ENVBUILD_PROCESS", lazy(r"\A\d{1,9}(?=:\d*:)")
"""envbuild's own variable, and the number of the process that started this one in it."""
_NUMBERED = ("pid", "ppid", "process_id", "processid", "job_id", "jobid")
"""Identities that are numbers, of processes and of what a scheduler runs; that of a trial may be a result."""
_THREADS = frozenset(("tid", "thread", "thread_id", "threadid", "ident", "thread_ident"))
ADDRESSES = (0x7E0000000000, 0x7FFFFFFFFFFF)
"""Where Linux puts threads, by whose addresses Python numbers them, on x86-64."""
_TOKEN = lazy(r"(?=[^\d]*\d)[0-9a-z_-]{6,64}", re.IGNORECASE)
_COUNTED = lazy(
    r"[a-z]+(?:[_-][a-z]+)*[_-]\d{1,4}|(?:run|trial|exp|experiment|job|session|fold|model|config|candidate)\d{1,4}",
    re.IGNORECASE,
)
_BY_CHANCE = lazy(
    r"(?i:(?=[^a-f]*[a-f])(?=\D*\d)[0-9a-f]{6,8}(?:-[0-9a-f]{4,12}){3,4})"  # CatBoost's have three dashes
    r"|(?:[a-z]{1,20}[-_])?(?=[^a-f]*[a-f])(?=\D*\d)[0-9a-f]{6,64}"
    r"|(?=\D*\d)(?![a-z]+\d+\Z)[0-9a-z]{8}(?<!\d{8})|[0-9a-f]{5}_\d+"
)
"""Identities as UUIDs, digests, Weights & Biases and Ray have them."""
_FIGURES = lazy(r"[0-9]{8}|[0-9]{12}|[0-9]{16}")
"""As one of 43 names of eight hexadecimal digits is, and one of 281 of twelve: without a letter."""
_PARTS = lazy(r"[0-9A-Za-z]{8,64}")
_PIECES = lazy(r"[A-Z]?[a-z]+|[A-Z]+|[0-9]+")
_DRAWN_PIECES = 4
"""Words, capitals and numbers in a part that was drawn; accession numbers (``SRR7000012``) have two."""
_OF_HOSTS = ("host", "name")
_OF_RAY = lazy(r"[0-9a-f]{5}_(\d{5})")
"""What was drawn for the program, and the number of the trial."""
_PREFIXES, _PREFIX = ("uuid_prefix", "_uuid_prefix"), lazy(r"[0-9a-f]{5}_")
"""What Ray Tune draws for an experiment, as its generators of trials keep it."""
_CHOSEN = frozenset(("best", "worst", "top", "chosen", "selected", "winner", "winning", "optimal"))
"""Words of names under which one of many is."""
_LOGGED = lazy(r"(?<=:\d\d),(\d{3})\Z")
"""Behind a time, as ``logging`` writes it; at the end of a line of text it would be a column."""
_LITERAL = lazy(r"(?i)[+-]?(?:\d[\d_]*(?:\.\d*)?|\.\d+)(?:e[+-]?\d+)?|[+-]?inf(?:inity)?|nan|null|none|true|false")
_MARK = "a text"
"""Before one that reads like a value of another type."""
_RUN = frozenset(("run", "session", "experiment", "trial", "job"))
_DRAWN = lazy(r"[0-9a-f]{12}[14][0-9a-f]{3}[89ab][0-9a-f]{15}")
"""A UUID as ``uuid4().hex`` gives it."""
_OF_ANSWERS = lazy(r"(?:chatcmpl|cmpl|resp|msg|req|call|run|gen|embd)[-_](?=[^\d]*\d)[0-9A-Za-z]{20,64}")
"""What servers of language models call an answer, and a request: OpenAI's interface, and those that follow it."""
_CLOCK = lazy(
    r"\d+(?:\.\d+)?\s?(?:s|ms|sec|seconds|min)?|\d{1,3}:\d\d(?::\d\d)?(?:\.\d+)?"
    r"|P(?:\d+D)?T(?:\d+H)?(?:\d+M)?\d+(?:\.\d+)?S"
)
"""Durations in texts, the last as ISO 8601 and pandas have them."""
_MEMINFO = frozenset(("MemTotal", "MemFree", "MemAvailable", "Buffers", "Cached", "SwapCached", "SwapFree", "Active"))
"""First lines of ``/proc/meminfo``."""
_KILOBYTES = lazy(r"\d+ kB")
_BYTES = lazy(r"\d+(?:\.\d+)?\s?(?:[kmgt]i?)?b(?:ytes)?", re.IGNORECASE)
_TIMES = lazy(
    r"(?i)(?:time|date|stamp|created|started|begun|began|modified|saved|updated|finished|ended|completed|acquired|expire[sd]?(?![a-z])|issued|heartbeat|submitted|queued|received|(?:^|_)t[s0]?$|(?:^|_)ts_epoch$|^t_start$|(?:^|_)at$)"
    r"|(?i:(?<![a-z])m?jd(?![a-z])|julian)"
)
_DAYS = lazy(r"(?i)(?<![a-z])(m?)jd(?![a-z])|julian")
"""Names of a number of days since noon of 1 January 4713 BC; modified ones since 17 November 1858."""
_EPOCH, _MODIFIED = 2440587.5, 2400000.5
"""1970 as a Julian day (sqlite.org/lang_datefunc.html), and the first modified one."""


def number(out: Canonical, path: str, key: str, value: float, text: str, siblings: Iterable[str] = ()) -> None:
    """Count a number, or leave it out if its key shows that it is a measurement.

    Args:
        out: what collects.
        path: where it is.
        key: its own name; empty for one in a list.
        value: as a number; ``text``: as it is written.
        siblings: the keys next to it.
    """
    kind = kind_of(key) if key else None
    if kind == "identity" and not (_is_process(key) and out.masks.may_be_process(value)):
        kind = None
    if kind == "memory" and not may_be_memory(key, value):
        kind = None
    if kind is None and key == "t" and {*siblings} >= MONITOR:
        kind = "time"
    if kind is None and is_time_of_prediction(key, siblings):
        kind = "time"
    if kind is None and key == "ups" and "wps" in siblings:  # fairseq's updates per second; elsewhere votes
        kind = "rate"
    if kind is None and key == "dur" and {*siblings} >= _OF_SKORCH:
        kind = "time"
    if kind is None and key == "speed" and {*siblings} >= _OF_SPACY:
        kind = "rate"
    if kind is None and value >= 0 and _is_of_disk(path, key):  # of a disk that is simulated, it is a result: quoted
        out.leave_out(path, text, "memory")
        out.note_strange(path, text)
        return
    seconds = seconds_of(key, value)
    if out.is_moment(seconds) and (kind == "time" or names_moment(key)):
        out.note_moment(path, text, seconds)
    if _is_thread(path, key) and ADDRESSES[0] <= value <= ADDRESSES[1]:
        out.leave_out(path, text, "addresses")
    elif kind is not None and value >= 0:
        out.leave_out(path, text, kind, during=kind == "time" and out.is_during(seconds))
    elif key and names_moment(key) and out.is_moment(seconds):
        out.leave_out(path, text, "time", moment=True, during=out.is_during(seconds))
    else:
        out.add(path, text)


def _is_of_disk(path: str, key: str) -> bool:
    """Whether a name is of how full a disk is: ``used`` below ``disk``, as Weights & Biases writes it of ``/``."""
    return key in ("used", "free") and ".disk." in f".{path}"


def _is_thread(path: str, key: str) -> bool:
    """Whether a name is that of a thread's number; loguru has ``thread.id``."""
    return key.lower() in _THREADS or (key == "id" and path.endswith("thread.id"))


def string(out: Canonical, path: str, key: str, value: str, *, typed: bool = False, doubtful: bool = False) -> None:
    """Count a text but for what is masked in it; under the name of a result nothing is.

    Args:
        out: what collects.
        path: where it is.
        key: its own name; empty for one in a list.
        value: the text.
        typed: the format has types, so that ``"1"`` is another value than ``1``.
        doubtful: times in it may be results, whatever the words around them.
    """
    mark = typed and _LITERAL.fullmatch(value) is not None
    if key and names_result(key):
        if mark:
            out.add(path, _MARK)
        out.add(path, value)
        return
    value = _LOGGED.sub(r".\1", common_host(value))
    if key == _PARENT:
        value = _PARENTS.sub(lambda found: out.masks.parent_process(found[0]), value)
    kind = kind_of(key) if key else None
    if key in _MEMINFO and _KILOBYTES.fullmatch(value):
        kind = "memory"
    if kind is None and value.isdecimal() and _is_of_disk(path, key):
        number(out, path, key, float(value), value)
        return
    if key in _PREFIXES and _PREFIX.fullmatch(value) is not None:
        out.leave_out(path, value, "identity")
        return
    if (key.lower() in _RUN and is_drawn(value)) or (key == "id" and _OF_ANSWERS.fullmatch(value) is not None):
        out.leave_out(path, value, "identity")
        return
    of_host = kind == "identity" and key.lower().endswith(_OF_HOSTS) and out.masks.on_several_hosts
    identity = kind == "identity" and (
        (of_host and _is_token(value) and not _is_chosen(path, key, value))
        or (key.lower().endswith(("id", *_OF_HOSTS)) and _is_by_chance(value))
    )
    if kind == "identity" and _is_process(key) and value.isdecimal():
        identity = out.masks.may_be_process(int(value))
    if kind == "identity" and not identity and _may_be_figures(path, key, value):
        out.leave_out(path, value, kind)
        out.note_strange(path, value)
        return
    measured = {"time": _CLOCK, "memory": _BYTES}.get(kind or "")
    if kind is not None and (identity or (measured is not None and measured.fullmatch(value))):
        out.leave_out(path, value, kind)
        if (trial := _OF_RAY.fullmatch(value)) is not None:
            out.add(path, trial[1])
    else:
        if mark:
            out.add(path, _MARK)
        for at, line in enumerate(value.split("\n")):
            out.text(f"{path}:{at + 1}" if at else path, line, doubtful=doubtful)


def _may_be_figures(path: str, key: str, value: str) -> bool:
    """Whether a text may be a drawn identity that has figures alone by luck; where runs differ in it, it is quoted."""
    chosen = not _CHOSEN.isdisjoint(re.split(r"[^a-z]+", path.lower()))
    return key.lower().endswith("id") and not _is_process(key) and not chosen and _FIGURES.fullmatch(value) is not None


def names_identity(key: str) -> bool:
    """Whether ``string`` may leave a text out under this name as an identity."""
    return kind_of(key) == "identity" or key.lower() in _RUN


def is_drawn(value: str) -> bool:
    """Whether a text is a UUID without dashes."""
    return _DRAWN.fullmatch(value) is not None


def names_moment(key: str) -> bool:
    """Whether a name is one of a date or time, such as ``created_at``."""
    return _TIMES.search(key) is not None and not names_result(key)


def names_days(key: str) -> bool:
    """Whether a name is one of Julian days, such as ``jd`` or ``mjd_end``."""
    return _DAYS.search(key) is not None and not names_result(key)


def seconds_of(key: str, value: float) -> float:
    """Return a moment in seconds since 1970: of a Julian day by its name, else of what ``moment_of`` takes."""
    days = _DAYS.search(key)
    if days is None:
        return moment_of(value)
    return of_julian_day(value + _MODIFIED if days[1] else value)


def of_julian_day(value: float) -> float:
    """Return a Julian day, as SQLite's ``julianday()`` and astronomers have it, in seconds since 1970."""
    return (value - _EPOCH) * 86400


def is_durations(key: str, values: Sequence[Any]) -> bool:
    """Whether a list is one of durations."""
    return (
        bool(values)
        and are_durations(key)
        and all(isinstance(each, int | float) and not isinstance(each, bool) and each >= 0 for each in values)
    )


_STATISTICS = lazy(r"min|max|avg|mean|median|std|stdev|sum|last(?:-\d{1,3}-avg)?|p\d{1,2}")
"""What is computed of several values of one thing; the latter also as Ray Tune names them."""


def are_statistics(key: str, table: Mapping[str, Any]) -> bool:
    """Whether a table has nothing but statistics of a time or a rate, by its name.

    Of memory ``max`` would be taken for a word that says whose memory it is.
    """
    return (
        kind_of(key) in ("time", "rate")
        and bool(table)
        and all(_STATISTICS.fullmatch(name) is not None for name in table)
        and all(isinstance(each, Number) and each >= 0 for each in table.values())
    )


def _is_process(key: str) -> bool:
    return key.lower() in _NUMBERED or key.lower().endswith(("_pid", "_ppid"))


def _is_chosen(path: str, key: str, value: str) -> bool:
    """Whether an identity is a result: one that was counted and not drawn, or the best one's unless it was drawn."""
    if key.lower().endswith("id") and _COUNTED.fullmatch(value) is not None:
        return True
    return not _CHOSEN.isdisjoint(re.split(r"[^a-z]+", path.lower())) and not _is_by_chance(value)


def _is_by_chance(value: str) -> bool:
    """Whether an identity looks drawn: hexadecimal digits, or letters and digits in no order."""
    if _BY_CHANCE.fullmatch(value) is not None:
        return True
    return any(
        len(_PIECES.findall(part)) >= _DRAWN_PIECES and re.search("[0-9]", part) is not None
        for part in _PARTS.findall(value)
    )


def _is_token(value: str) -> bool:
    return _TOKEN.fullmatch(value) is not None
