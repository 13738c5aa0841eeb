"""Names of measurements: times, rates, memory, and what identifies a run.

They differ between any two runs and are no results.

A name counts by its last words, so that ``time_embedding``, ``learning_rate`` and ``memory_size`` are results. When in
doubt it is a result: a bare ``rate`` or ``speed`` may be an accuracy or a car's.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache
from typing import Literal

from envbuild.core.patterns import lazy

Kind = Literal["time", "rate", "memory", "identity"]


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


_SPLIT = lazy(r"[^A-Za-z0-9]+|(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
_TIME = _words("time times timestamp timestamps elapsed duration durations runtime walltime latency datetime uptime")
_UNITS = _words("s sec secs second seconds ms msec us ns milliseconds mins minutes hours")
"""Without ``min``, which is more often a minimum."""
_RATES = _words("fps sps wps mfu throughput")
_COUNTED = _words(
    "it its iter iters iterations step steps sample samples example examples image images img imgs token tokens "
    "batch batches frame frames row rows seq sequences episode episodes env request requests trial trials fold folds"
)
_DONE_EACH = _words(
    "it its iter iters iteration iterations step steps sample samples example examples image images img imgs token "
    "tokens batch batches frame frames row rows seq sequence sequences epoch epochs round rounds update updates fold "
    "folds"
)
"""What a program does again and again: ``time_per_epoch``, ``ms/step``. What is done a day, or a trial, may be data."""
NUMBERED = _words(
    "steps iterations iters epochs rounds generations episodes samples tokens batches updates frames turns moves ticks "
    "games days weeks months years"
)
"""What is counted: ``steps_elapsed`` is no time, and days that have elapsed are those of a simulation."""
_BEGINNINGS = _words("start started begin beginning restore restart init launch boot")
"""Of a program: ``time_since_start``; the time since a diagnosis is data."""
_STATISTIC = lazy(r"mean|avg|average|median|std|stdev|stddev|max|p\d{1,2}")
"""What is computed of several times: ``latency_p95`` is one, ``fit_time_std`` too. ``min`` is a unit as well."""
_LOAD = (["load", "average"], ["load", "avg"], ["loadavg"])
"""Of the machine, as ``os.getloadavg`` returns it."""
_MEMORY = _words("memory mem rss vram")
_OF_MEMORY = _words(
    "mb gb kb mib gib kib bytes used usage allocated reserved peak max total free available percent cached"
)
_BUSY = _words("percent util utilization")
"""How much of a processor was used: ``cpu_percent``."""
_IDENTITIES = _words("uuid guid pid ppid hostname")
_ALONE = (["host"], ["thread"], ["thread", "id"], ["tid"])
"""Identities, if there is no other word: ``threads`` are a number of them, a ``message thread`` is data."""
_IDENTIFIED = _words("run session experiment trial job process kernel execution")
_WORK = _words(
    "fit refit score train training eval evaluation val validation test epoch step batch iter iteration wall cpu total "
    "load loading data inference predict prediction forward backward compute process run setup wait elapsed exec "
    "compile preprocess postprocess build user system execution optimizer rollout env sampling clock"
)
"""What programs take the time of: a ``…_time`` of anything else, such as survival, is a result."""
_POINTS = _words("start end begin finish started ended real unix epoch total mean avg average per time times")
_DATA = _words(
    "predicted pred predictions survival target label true event arrival departure lap travel trip forecast simulated"
)
"""Quantities that have times, rates and sizes as data do."""
_OF_SYSTEM = _words(
    "gpu cuda mps xpu tpu ram virtual physical resident swap active inactive current system host device"
)
"""Words for parts of a machine that have memory; programs and their work are not among them."""
_NAMES = (
    r"loss(?:es)?|acc|accuracy|score|error|err|reward|return|auc|f1|precision|recall|rmse|mae|mse|mape|bleu"
    r"|rouge|wer|cer|ppl|perplexity|r2|iou|map|psnr|ssim|fid|nll|elbo|logit|prob|weight|grad|seed"
)
_OF_MODEL = r"predicted|forecast|survival|simulated|arrival|departure|lap|travel|trip"
"""What predicts or simulates times has them as its results."""
_RESULT = lazy(rf"(?:^|[^a-z])(?:{_NAMES})\W*$", re.IGNORECASE)
_BEFORE = lazy(
    rf"(?:^|[^a-z])(?:{_NAMES}|(?:{_OF_MODEL})(?:[ _](?:time|duration)s?)?)(?:\W|(?<![a-z])(?:is|was|of)(?![a-z]))*$",
    re.IGNORECASE,
)
_PART = lazy(rf"(?:^|[_/])(?:{_OF_MODEL})_", re.IGNORECASE)


_BARE = _words("time times duration durations latency seconds secs sec s ms timestamp")
"""Names of columns and keys that data have as often as logs."""
_AROUND = _words(
    "this last first so far on in of the and or since until by to from std var sum min max median avg p gpu cuda "
    "device complete completed utc"
)
"""Words of statistics, and those between others, in the names of what programs measure."""


def _words_of(name: str) -> list[str]:
    return [word.lower() for word in _SPLIT.split(name) if word]


@lru_cache(maxsize=4096)
def kind_of(name: str) -> Kind | None:
    """Return what kind of measurement a name is of; None for a result.

    Args:
        name: of a metric, a column or a key, such as ``charts/SPS``, ``train_runtime`` or ``startTime``.
    """
    words = _words_of(name)
    if not words:
        return None
    if _OF_MACHINE.match(name) is not None:
        return "rate"
    last, before = words[-1], words[-2] if len(words) > 1 else ""
    if _DATA & {*words}:
        return None
    if last in _RATES or (last in _UNITS and (before == "per" or before in _COUNTED)):
        return "rate"
    if before in ("cpu", "gpu") and last in _BUSY:
        return "rate"
    if last in ("time", "times"):
        return "time" if not before or (_WORK | _POINTS) & {*words[:-1]} else None
    if last == "elapsed" and before in NUMBERED:
        return None
    if before == "since" and last in _BEGINNINGS:
        of = " ".join(_words_of(name.rpartition("/")[2])[:-2])
        if kind_of(of) == "time":
            return "time"
    if name == "ms":  # as structured logs have it, next to other names; experiments decide
        return "time"
    if last in _DONE_EACH and _is_time_of_each(name, words):
        return "time"
    timed = before in _WORK or (before in _POINTS and _TIME & {*words})
    if last in _TIME or last in ("seconds", "secs") or (last in _UNITS and timed):
        return "time"
    if before in _TIME and last in ("start", "end", "total", "elapsed", "complete", "utc", *_UNITS):
        return "time"
    if last == "took" or words[-2:] == ["time", "taken"]:
        return "time" if NUMBERED.isdisjoint(words) else None
    if before and _STATISTIC.fullmatch(last) is not None:
        known = kind_of(" ".join(words[:-1]))
        if known in ("time", "rate"):
            return known
    if words[-2:] == ["wall", "clock"] or last == "wallclock" or words == ["train", "wall"]:
        return "time"
    if (last in _MEMORY and all(map(_has_memory, words[:-1]))) or (last in _OF_MEMORY and _MEMORY & {*words[:-1]}):
        return "memory"
    if (
        last in _IDENTITIES
        or (last == "id" and before in _IDENTIFIED)
        or (last == "name" and before in ("host", "node"))
    ):
        return "identity"
    return "identity" if words in _ALONE or "".join(words) == "runid" else None


def _is_time_of_each(name: str, words: list[str]) -> bool:
    """Whether a name is how long one of many takes: ``seconds_per_step``, ``s/it``; ``time/epoch`` may be a number."""
    if len(words) > 2 and words[-2] == "per":
        return words[-3] in _TIME or words[-3] in _UNITS
    return len(words) == 2 and "/" in name and words[0] in _UNITS


_OF_MACHINE = lazy(r"system(?:\.|/)(?:cpu|gpu|disk|network|memory|proc|swap|tpu)(?![a-z])")
"""What Weights & Biases and MLflow measure of the machine by themselves (``system.cpu``, ``system/gpu_0_…``)."""
_BARE_MEMORY = frozenset(("rss", "mem", "memory", "ram", "vram"))
"""Names that results have as well: a residual sum of squares, what an animal remembers."""
_KB = 1024


def may_be_memory(name: str, value: float) -> bool:
    """Whether a number may be what its name says, bytes or kilobytes in use; True for other names.

    A bare name decides nothing: under it only whole numbers of some size are memory.
    """
    return name.lower() not in _BARE_MEMORY or (value >= _KB and value % 1 == 0)


def kind_of_metric(name: str) -> Kind | None:
    """Return the kind of measurement that a metric is: as ``kind_of``, but for statistics of what may be simulated.

    Of a series no experiment is made, which would show it of ``latency_p95``.
    """
    words = _words_of(name)
    if len(words) > 1 and _STATISTIC.fullmatch(words[-1]) is not None and name_leaves_doubt(name.rpartition("/")[2]):
        return None
    return kind_of(name)


def is_measured(name: str, values: Iterable[object]) -> bool:
    """Whether a metric is a measurement by its name and, for a bare name of memory, by its values.

    Args:
        name: such as ``train/rss``.
        values: of all steps; texts such as ``nan`` are no memory.
    """
    kind = kind_of_metric(name)
    if name == "ms":  # of a series no experiment is made
        return False
    if kind != "memory":
        return kind is not None
    last = name.rpartition("/")[2]
    return all(isinstance(value, int | float) and may_be_memory(last, value) for value in values)


def _has_memory(word: str) -> bool:
    """Whether a word before ``memory`` leaves it that of a program: a phone's memory is data."""
    word = word.rstrip("0123456789")
    return not word or word in _OF_MEMORY or word in _OF_SYSTEM or names_measuring(word) or word in _AROUND


def names_measuring(word: str) -> bool:
    """Whether a word is one of measuring: of time, of what is done and counted meanwhile, of units."""
    return word in _SAID or word in _WORK or word in _POINTS or word in _UNITS or word in _COUNTED or word in NUMBERED


_OF_QUEUES = _words("request requests query queries call calls job jobs task tasks packet packets message messages")
"""What is served: ``requests_per_second`` is a rate of a queue that is simulated as well as of a program."""
_SIMULATED = _words(
    "wait waiting throughput latency setup process system user service queue response uptime run runtime"
)
"""What simulations of queues and factories have times and rates of as well as programs do."""
_STATISTICS = _POINTS | _TIME | _UNITS | _AROUND
_OF_TRACKERS = frozenset(("_runtime", "_timestamp"))
"""Names that Weights & Biases gives."""


def may_be_simulated(words: Iterable[str], *, queues: bool = True) -> bool:
    """Whether words of a name, in lower case, are of nothing but what is simulated too: ``mean wait time``.

    ``queues``: rates of what queues serve are, too, such as ``requests_per_second``.
    """
    words = [*words]
    if queues and "per" in words and not _OF_QUEUES.isdisjoint(words):
        return True
    core = [word for word in words if word in _SIMULATED or word not in _STATISTICS]
    return bool(core) and _SIMULATED.issuperset(core)


_ENDS = _BARE | _words(
    "start end begin finish started ended real total mean avg average std var sum min max median p of to from per by"
)


def are_ends(words: Iterable[str]) -> bool:
    """Whether words say no more than that it is a time: ``start_time`` of a segment of speech, ``total_time``."""
    return _ENDS.issuperset(words)


def name_leaves_doubt(name: str, *, queues: bool = True) -> bool:
    """Whether a name is one that data have as well: of times that is bare, or with what no program does.

    Such as ``call_duration`` or ``valve_throughput``, or what is simulated too.
    """
    kind = kind_of(name)
    if kind not in ("time", "rate") or name in _OF_TRACKERS:
        return False
    words = [word for each in _SPLIT.split(name) if (word := each.lower().rstrip("0123456789"))]
    if may_be_simulated(words, queues=queues) or (kind == "time" and are_ends(words)):
        return True
    return not all(names_measuring(word) or word in _AROUND or word in _BEGINNINGS for word in words)


_OF_EVALUATION = frozenset(("fit_time", "len_train_window"))


def is_time_of_prediction(name: str, names: Iterable[str]) -> bool:
    """Whether a column is how long sktime's ``evaluate`` took to predict; elsewhere ``pred_time`` is a predicted time.

    Args:
        name: of the column; ``names``: of all columns, which are looked at for that name alone.
    """
    return name == "pred_time" and {*names} >= _OF_EVALUATION


def are_durations(name: str) -> bool:
    """Whether a name is certainly of durations, or of the load, so that a list of numbers may be left out too."""
    words = [word.lower() for word in _SPLIT.split(name) if word]
    if words in _LOAD:
        return True
    return kind_of(name) == "time" and (bool(_WORK & {*words[:-1]}) or words[-1] == "elapsed")


def names_result(text: str) -> bool:
    """Whether a text ends in the name of a result, such as ``loss: ``: what follows is one, whatever it looks like."""
    return _RESULT.search(text) is not None


_CLAUSES = lazy(r"[,;|()\[\]{}\t]|\d|\. ")
_ASSIGNED = lazy(r"(?:\s*[:=]\s*|\s(?:is|was)\s+)$")
_WORD = lazy(r"[a-z]+", re.IGNORECASE)
_PARTS_OF_LINES = lazy(r"[,;|(){}\t]|\. ")
_SAID = _TIME | _RATES | _MEMORY | _words("ups took takes latency eta remaining left speed rate in after per ram wall")
"""Words of measurements anywhere in a clause."""
_RESULTS = frozenset(name for name in _NAMES.replace("(?:es)?", "").split("|") if name.isalpha())
_WORKING = lazy(r"(?:evaluat|comput|calculat|load|scor|measur|sav|read|writ|tim)ing$", re.IGNORECASE)


def assigns_result(before: str) -> bool:
    """Whether a text in front of a number gives it to a result in more words: ``error on the test set: ``.

    Not if its last word is one of time (``score computation time: ``), nor if something is being done.
    """
    words = _assigned(_CLAUSES.split(before)[-1])
    if not words or words[-1] in _SAID or any(map(_WORKING.match, words)):
        return False
    return not _RESULTS.isdisjoint(words)


def assigns_unknown(before: str) -> bool:
    """Whether a text in front of a number gives it to something with a name that may be a result's.

    Such as ``fold 2: `` or ``best time: ``.
    """
    words = _assigned(_PARTS_OF_LINES.split(before)[-1])
    if len(words) > 1 and words[-1] in ("time", "times"):
        return kind_of(" ".join(words[-2:])) is None
    return bool(words) and _SAID.isdisjoint(words) and kind_of(" ".join(words)) is None


def _assigned(text: str) -> list[str]:
    """Return the words to which a number behind a text is given, in lower case; none if it is not."""
    end = _ASSIGNED.search(text)
    return _WORD.findall(text[: end.start()].lower()) if end is not None else []


@lru_cache(maxsize=4096)
def is_result(name: str, before: str) -> bool:
    """Whether a number in a text that looks like a time is a result.

    Args:
        name: by which it looks like one, such as ``survival_time: ``; may be empty.
        before: the text in front of it, such as ``predicted time: `` or ``mean absolute error is ``.
    """
    return _PART.search(name) is not None or _BEFORE.search(before) is not None
