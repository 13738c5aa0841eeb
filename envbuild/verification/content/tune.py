"""What Ray Tune notes of an experiment (``experiment_state-⟨date⟩.json``): trials in any order, texts within texts.

Sources: ray/tune/execution/tune_controller.py (``save_to_dir``, ``_get_trial_checkpoints``: a set decides the order of
trials), ray/tune/experiment/trial.py (``get_json_state``, ``_TrialMetadata``), ray/tune/utils/serialization.py.
"""

from __future__ import annotations

import io
from typing import Any

from envbuild.core.patterns import lazy
from envbuild.record.measurements import kind_of
from envbuild.verification.content.canonical import Canonical, UnreadableError, below
from envbuild.verification.content.json_texts import Number, parsed
from envbuild.verification.content.nodes import Node
from envbuild.verification.content.pickles import built
from envbuild.verification.masking.doubtful import key_leaves_doubt

_TRIALS, _RUNNER = "trial_data", "runner_data"
_OF_RUNNER = {
    "_earliest_stopping_actor": "time",
    "_total_time": "time",
    "_start_time": "time",
    "_iteration": "passes of a loop",
}
"""What the process that runs the trials notes of itself; its loop asks for results as often as there is time."""
_ALWAYS, _TAG = frozenset(("_total_time", "_iteration")), '"experiment_tag"'
_OF_TRIAL = ("start_time", "last_result_time")
_LATEST = "metric_n_steps"
"""The newest values of each metric, pickled."""
_NUMBER = lazy(r"(\d{1,9})(?:_|\Z)")
_PICKLED, _STEPS = lazy(r"80(?:0[2-5])(?:[0-9a-f]{2}){1,16384}2e"), 20_000
_PAIR = 2


def is_experiment(table: Any) -> bool:
    """Whether a JSON text is what Ray Tune notes of an experiment; a program of its own may have such keys as well."""
    if not isinstance(table, dict) or not isinstance(table.get(_RUNNER), dict):
        return False
    trials = table.get(_TRIALS)
    if not isinstance(trials, list) or not trials or not table[_RUNNER].keys() >= _ALWAYS:
        return False
    return all(
        isinstance(each, list)
        and len(each) == _PAIR
        and all(isinstance(text, str) for text in each)
        and _TAG in each[0]
        for each in trials
    )


def prepared(out: Canonical, path: str, table: dict[str, Any]) -> dict[str, Any]:
    """Return the table with trials by their numbers, opened, and without what is measured of the work on them."""
    runner, stats = {**table[_RUNNER]}, table.get("stats")
    for name, kind in _OF_RUNNER.items():
        _without(out, below(path, _RUNNER), runner, name, kind)
    if isinstance(stats, dict):
        stats = {**stats}
        _without(out, below(path, "stats"), stats, "start_time", "time")
    trials = [[parsed(text) for text in pair] for pair in table[_TRIALS]]
    if not all(isinstance(each, dict) for pair in trials for each in pair):
        return {**table, _RUNNER: runner}
    tags = [str(first.get("experiment_tag")) for first, _ in trials]
    out.unordered = not path  # in an archive there are others
    out.leave_out(below(path, "order of trials", " "), " ".join(tags), "order")
    trials.sort(key=lambda pair: _order(str(pair[0].get("experiment_tag"))))
    for at, (first, noted) in enumerate(trials):
        where = below(path, f"{_TRIALS}[{at}]")
        last = noted.get("last_result")
        if first.get("status") == "TERMINATED" and isinstance(last, dict) and isinstance(last.get("done"), bool):
            # The trial's function has ended, whether or not its last report was known to be that.
            out.leave_out(below(where, "last_result.done"), repr(last.pop("done")), "state")
        for name in _OF_TRIAL:
            _without(out, where, noted, name, "time")
        if isinstance(latest := noted.get(_LATEST), dict):
            noted[_LATEST] = {
                metric: _latest(out, below(below(where, _LATEST), metric), metric, values)
                for metric, values in latest.items()
            }
    found = {**table, _TRIALS: trials, _RUNNER: runner}
    return {**found, "stats": stats} if "stats" in table else found


def _order(tag: str) -> tuple[int, str]:
    """Return by what trials are sorted: their number, with which the tag begins."""
    found = _NUMBER.match(tag)
    return (int(found[1]) if found is not None else -1, tag)


def _without(out: Canonical, where: str, table: dict[str, Any], name: str, kind: str) -> None:
    value = table.get(name)
    if isinstance(value, Number) and value >= 0:
        out.leave_out(below(where, name), value.text, kind, during=True)
        table[name] = f"⟨{kind}⟩"


def _latest(out: Canonical, where: str, metric: str, values: Any) -> Any:
    """Return the newest values of a metric without those of a measurement; how many there are counts."""
    kind = kind_of(metric)
    if kind not in ("time", "rate", "memory") or not isinstance(values, dict):
        return values
    found = {}
    for name, each in values.items():
        numbers = _numbers(each)
        if numbers is None:
            found[name] = each
            continue
        doubtful = key_leaves_doubt(metric)
        out.leave_out(below(where, name), repr(numbers), str(kind), packed=True, doubtful=doubtful)
        found[name] = f"[{len(numbers)}]"
    return found


def _numbers(value: Any) -> list[float] | None:
    """Return the numbers in a pickled ``deque``; None for anything else."""
    text = value.get("value") if isinstance(value, dict) else None
    if not isinstance(text, str) or _PICKLED.fullmatch(text) is None:
        return None
    try:
        node = built(io.BytesIO(bytes.fromhex(text)), [_STEPS])
    except UnreadableError:
        return None
    match node:
        case Node(kind="object", parts=[Node(kind="global", parts=["collections deque"]), Node(), *numbers]):
            if all(type(each) in (int, float) and each >= 0 for each in numbers):
                return numbers
    return None
