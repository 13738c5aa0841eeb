"""What ``verify`` found, as text or JSON values: verdicts, attestations that were checked, what switches cost."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from envbuild.cli.render.advice import advice, without_colours
from envbuild.cli.render.diff import divergence_json, divergence_sentence, divergence_values
from envbuild.cli.render.run import missing_command, missing_file
from envbuild.core.text import plain, plural
from envbuild.difference.finding import Finding
from envbuild.difference.text import shown
from envbuild.trace.divergence import Divergence
from envbuild.verification.cost import Arm
from envbuild.verification.masking.lines import TextDifference, excerpts
from envbuild.verification.nodes import NodeRow, NodeTable
from envbuild.verification.verdict import Verdict

if TYPE_CHECKING:
    from envbuild.operations.verification.attestation import AttestationCheck, HostDifference
    from envbuild.operations.verification.cost import CostResult
    from envbuild.operations.verification.verify import Verification

_LIKELY = 40
"""Causes below this weight are possible, no more."""
_OTHERS = 3
"""Number of causes that are reported in addition to the likeliest."""
_WIDTH = 19
_SHORT = 10
_LAST_LINES = 12
"""Lines of a failed program's standard error that are shown."""
_STACKS = 60
"""The same for one that hung: the stacks of its threads."""
_SHORT_RUN = 5.0
"""Seconds below which the container's start is a good part of a run."""
_NODES, _RUNS = 16, 8
"""Nodes, and runs of a node, that are listed."""
_LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
_HOST_WORDS = {"cpu": "CPU", "level": "CPU level", "gpus": "GPUs", "driver": "driver"}


def as_json(result: Verification) -> dict[str, Any]:
    """Return all of it as JSON values."""
    verdict, ids = result.verdict, [run.record.id for run in result.runs]
    table = {
        **msgspec.to_builtins(verdict),
        "compared": list(verdict.compared),
        "masked": list(verdict.masked),
        "volatile": list(verdict.volatile),
        "differs": list(verdict.differs),
        "agrees": list(verdict.agrees),
        "differing_files": list(verdict.differing_files),
        "identical": verdict.outcome == "identical",
        "ids": ids,
        "groups": [[ids[index] for index in group] for group in verdict.groups],
        "side_by_side": result.at_once,
        "first": divergence_json(result.divergence),
        "varied": list(result.varied),
        "causes": [_cause_as_json(cause) for cause in result.causes],
    }
    if result.world > 1:
        table["world"] = result.world
    if result.nodes is not None:
        rows = result.nodes.rows
        kind = result.nodes.kind.lower()
        table[f"{kind}s"] = [
            {kind: row.node, "runs": [ids[at] for at in row.runs], "results": list(row.results)} for row in rows
        ]
        table[f"{kind}_decides"] = result.nodes.conclusion
    if verdict.outcome == "identical":
        table["attestation"] = result.attestation.name if result.attestation is not None else None
    elif verdict.outcome == "different":
        table |= {
            "kept": list(result.kept),
            "withdrawn": list(result.withdrawn),
            "printed": [msgspec.to_builtins(text) for text in result.printed],
        }
    return table


def proved(result: Verification) -> Iterator[tuple[str, ...]]:
    """Yield label and columns of each line about runs that are equal."""
    first, *others = identical(result.verdict)
    yield "result", first + (f"; of each of {result.world} ranks" if result.world > 1 else "")
    for line in (*others, *_doubts(result), *only_errors(result.verdict.compared)):
        yield "", line
    for label, line in _by_node(result):
        yield label, line
    if result.varied:
        yield "varied", ", ".join(result.varied)
    network = result.runs[0].record.options.network
    if network != "none":
        yield "network", _fetched(network)
    if (path := result.attestation) is not None:
        yield "wrote", path.name, f"signed: {path.name}.sig" if result.signed else ""


def failed(result: Verification, arguments: Sequence[str], command: str) -> tuple[str, str]:
    """Return message and hint about a program that did not run to a good end.

    Args:
        result: of its runs.
        arguments: the program's command line.
        command: runs it once, with the same options.
    """
    record, runs = result.runs[0].record, len(result.runs)
    if result.verdict.outcome == "refused":
        message = result.last_words.rstrip("\n")
        return f"the guard refused to start the program; nothing was compared\n{message}", ""
    words = without_colours(result.last_words)
    ended = "ran out of memory" if record.out_of_memory else f"failed with exit {record.exit_code}"
    lines = _LAST_LINES
    if record.timed_out is not None:
        ended, lines = f"was ended after {record.timed_out:g} s, its time limit (--timeout)", _STACKS
    number = "" if runs == 1 else f" in all {plural(runs, 'run')} that were started"
    shown = "\n".join(f"  {line}" for line in words.rstrip("\n").splitlines()[-lines:])
    lacks = missing_file(record, arguments, Path()) or missing_command(record, arguments, Path())
    again = f"fix it first: {command}"
    if (there := result.in_the_way) is not None:
        which = "it" if len(there.files) == 1 else "them"
        again = (
            f"run {there.run[:_SHORT]} of the same command wrote {_some(there.files, 2)}, and each run finds a copy: "
            f"remove {which}, then verify again"
        )
    return (
        f"the program {ended}{number}; there is nothing to compare\n{shown}".rstrip("\n"),
        lacks or f"{do}; else {again}" if (do := advice(words, record, Path())) else again,
    )


def _doubts(result: Verification) -> Iterator[str]:
    """Yield what the proof does not cover."""
    if (doubts := result.doubts) is None:
        return
    if doubts.untraced:
        loaded = ", ".join(doubts.untraced)
        yield f"{loaded} loaded, and no step of an optimiser seen: only what the program left was compared"
    if doubts.controls_off:
        yield "the controls were off, which proves nothing about this lock: no attestation was written"
    if doubts.host_unverified:
        yield "the host was not verified against the lock"
    if (done := doubts.done) is not None:
        yield (
            f"not made again: {_some(done.files, 2)}, which run {done.run[:_SHORT]} of the same command wrote and the "
            "program found in the project. To prove what makes them, remove them and verify again"
        )


def only_errors(compared: Sequence[str]) -> Iterator[str]:
    """Report that nothing but standard error was compared, where programs show progress: that is hardly the result."""
    if compared and all(" of standard error" in phrase for phrase in compared):
        yield (
            "nothing but standard error was compared: have the program print its results, or write them into the "
            "project; plt.show() does neither"
        )


_MEASURES = {"memory": "a measure of memory", "identity": "a drawn name"}
"""Kinds of measurements that are not of the clock, in words."""


def identical(verdict: Verdict) -> tuple[str, ...]:
    """Report that all runs were equal, what was compared, and what was not."""
    lines = [f"bit-identical {verdict.runs}/{verdict.asked}: {', '.join(verdict.compared)}"]
    lines += _same_content(verdict)
    lines += _measured(verdict)
    if verdict.undecided:
        lines.append(f"not decided, left out as measurements or luck: {_some(verdict.undecided, 2)}")
    channels = (verdict.channel("files"), verdict.channel("outside"))
    if unseen := [phrase for channel in channels if channel is not None for phrase in channel.masked]:
        lines.append(f"not compared: {'; '.join(unseen)}")
    if verdict.ignored:
        lines.append(f"not compared, as asked: {_some(verdict.ignored)}")
    return tuple(lines)


def _measured(verdict: Verdict) -> Iterator[str]:
    """Yield what follows the clock, and how that is known."""
    if verdict.measured:
        more = "" if _MEASURES.keys().isdisjoint(each.kind for each in verdict.measured) else ", entropy and figures"
        yield f"measurements, proven by {plural(verdict.experiments, 'run')} with other clocks{more}: " + "; ".join(
            f"{path} ({_some(places, 2)})" for path, places in _by_path(verdict).items()
        )


def _by_path(verdict: Verdict) -> dict[str, list[str]]:
    """Return by file the places that follow the clock, each with its kind."""
    found: dict[str, list[str]] = {}
    for each in verdict.measured:
        kind = _MEASURES.get(each.kind, f"a {each.kind}")
        found.setdefault(each.path, []).append(f"{each.where}: {kind}" if each.where else kind)
    return found


def _same_content(verdict: Verdict) -> Iterator[str]:
    """Yield why files in other bytes and under other names count as equal."""
    files = [f"{each.path} ({each.why})" for each in verdict.same_content]
    if files:
        yield f"same content, other bytes: {_some(files, 3)}"
    if verdict.renamed:
        yield f"equal under another name: {_some(verdict.renamed, 3)}"


def different(result: Verification) -> str:
    """Describe how runs differ, where first, why that may be, and what to try."""
    verdict, ids = result.verdict, [run.record.id for run in result.runs]
    notes = [*result.notes, *(f"{name} was taken away: it is not true any more" for name in result.withdrawn)]
    rows = [
        ("results", _sizes(verdict)),
        ("differs", "; ".join(verdict.differs)),
        ("agrees", "; ".join(filter(None, (", ".join(verdict.agrees), *_same_content(verdict))))),
        *_by_node(result),
        ("varied", ", ".join(result.varied)),
        *((label, _printed(text)) for label, text in zip(("printed", ""), result.printed, strict=False)),
        *_first(result.divergence),
        *_because(result.causes, result.at_once, threads=_may_be_threads(result), logs=_only_logs(verdict)),
        *(("note", note) for note in notes),
        *(("files" if not at else "", folder) for at, folder in enumerate(result.kept)),
        ("compare", "envbuild diff {} {}".format(*(ids[at][:_SHORT] for at in verdict.pair))),
    ]
    head = f"not identical: {len(verdict.groups)} different results in {verdict.runs} runs"
    if verdict.training_equal:
        head = f"training identical; only this differs: {'; '.join(verdict.differs)}"
    return "\n".join([head, *(f"  {label:<{_WIDTH}}{text}".rstrip() for label, text in rows if text)])


def _by_node(result: Verification) -> Iterator[tuple[str, str]]:
    """Yield label and text of each line about results by node, and what they show."""
    if (table := result.nodes) is None:
        return
    label, several = f"{table.kind}s", len({each for row in table.rows for each in row.results}) > 1
    for row in table.rows[:_NODES]:
        yield label, f"{row.node}: {_results(row) if several else plural(len(row.runs), 'run')}"
        label = ""
    if len(table.rows) > _NODES:
        yield "", f"… and {len(table.rows) - _NODES} more: --json"
    yield "", _conclusion(table)


def _results(row: NodeRow) -> str:
    """Describe which runs of a node gave which result, results by letters: ``result A in runs 1, 3; B in run 5``."""
    texts = []
    for number in dict.fromkeys(row.results):
        runs = [str(run + 1) for run, each in zip(row.runs, row.results, strict=True) if each == number]
        name = _LETTERS[number] if number < len(_LETTERS) else str(number + 1)
        shown = ", ".join(runs[:_RUNS]) + (" …" if len(runs) > _RUNS else "")
        texts.append(f"result {name} in run{'s' * (len(runs) > 1)} {shown}")
    return "; ".join(texts)


def _conclusion(table: NodeTable) -> str:
    """Say whether the bits depend on the node."""
    odds = f"by chance in 1 of {int(1 / table.chance):,}"
    own = next((row.node for row in table.rows if len(set(row.results)) > 1), "")
    if table.kind == "CPU":
        return _conclusion_on_cpus(table, odds, own)
    # A row of runs of several ranks has the names of all their nodes.
    same = "the same nodes" if " + " in table.rows[0].node else "one node"
    return {
        "one node": f"all runs were on {same}: whether others give the same bits was not seen",
        "equal": f"the same bits on {plural(len(table.rows), 'node')}",
        "depends": f"the bits depend on the node: each gives one result, and not the same ({odds})",
        "perhaps": f"each node gave one result, and not the same; so few runs do that {odds}: more runs: -n",
        "within": f"the node does not decide: {own} gave different results by itself",
        "unknown": "no two runs were on one node: whether the bits depend on the node was not seen",
    }[table.conclusion]


def _conclusion_on_cpus(table: NodeTable, odds: str, own: str) -> str:
    """Say whether the bits depend on the CPU."""
    return {
        "equal": f"the same bits on {plural(len(table.rows), 'CPU')}",
        "depends": f"the bits depend on the CPU: each gives one result, and not the same ({odds})",
        "perhaps": f"each CPU gave one result, and not the same; so few runs do that {odds}: more runs: -n",
        "within": f"the CPU does not decide: {own} gave different results by itself",
    }.get(table.conclusion, "whether the bits depend on the CPU was not seen")


def _sizes(verdict: Verdict) -> str:
    """Describe which runs agree."""
    if len(verdict.groups) == verdict.runs:
        return "no two runs agree" if verdict.runs > 2 else ""
    if len(verdict.groups) > 4:
        return f"at most {max(map(len, verdict.groups))} runs agree"
    words = [", ".join(str(index + 1) for index in group) for group in verdict.groups]
    return " | ".join(
        f"run{'s' if len(group) > 1 else ''} {word}" for group, word in zip(verdict.groups, words, strict=True)
    )


def _first(found: Divergence | None) -> Iterator[tuple[str, str]]:
    if found is None:
        return
    yield "first difference", divergence_sentence(found)
    if values := divergence_values(found):
        yield "", values


def _printed(found: TextDifference) -> str:
    """Quote the first line at which a stream differs."""
    before, after = shown(*excerpts(found.before, found.after))
    return f"{found.path} line {found.line:,}: {before} → {after}"


def _may_be_threads(result: Verification) -> bool:
    """Whether threads of a library may be what makes runs differ: it computes, and no step trace speaks against it."""
    if result.divergence is not None:
        return result.divergence.rounding is not False
    return any(process.frameworks and not run.steps for run in result.runs for process in run.record.processes)


def _only_logs(verdict: Verdict) -> bool:
    """Whether nothing but standard error differs, where programs log: a warning may depend on the time."""
    return {channel.kind for channel in verdict.channels if channel.differs} == {"stderr"}


def _because(
    causes: Sequence[Finding], at_once: int, *, threads: bool = False, logs: bool = False
) -> Iterator[tuple[str, str]]:
    if not causes:
        yield "likely cause", "none found: the records agree, and nothing known in the sources makes the difference"
        if logs:
            yield (
                "try",
                "if that is no result, leave it out: --ignore stderr, or lines with a word: --ignore stderr:WORD",
            )
        elif threads:
            first = "run one at a time (--jobs 1), then with " if at_once > 1 else ""
            yield "try", f"{first}determinism: {{threads: 1}} in spec.yaml, then: envbuild lock && envbuild build"
        else:
            first = "run one at a time (--jobs 1); " if at_once > 1 else ""
            yield "try", f"{first}leave parts of the program out until runs are equal: that part makes them differ"
        return
    chief, *others = _said_once(causes)
    yield "likely cause" if chief.weight >= _LIKELY else "possible cause", _cause(chief)
    if chief.attempt:
        yield "try", chief.attempt
    for each in others[:_OTHERS]:
        yield "or" if each.weight >= _LIKELY else "or perhaps", _cause(each)
    if len(others) > _OTHERS:
        yield "", f"… and {len(others) - _OTHERS} less likely; all of them: --json"


def _said_once(causes: Sequence[Finding]) -> list[Finding]:
    """Leave out what reads as one before it: a place that several processes, or paths through a package, reach."""
    found: dict[str, Finding] = {}
    for each in causes:
        found.setdefault(_cause(each), each)
    return list(found.values())


def _cause(cause: Finding) -> str:
    return f"{cause.sentence}  ({where})" if (where := _where(cause)) else cause.sentence


def _where(cause: Finding) -> str:
    return cause.where or "; ".join(cause.details[:2])


def _cause_as_json(cause: Finding) -> dict[str, Any]:
    return {
        "area": cause.area,
        "weight": cause.weight,
        "what": cause.sentence,
        "where": _where(cause),
        "attempt": cause.attempt,
    }


def _some(names: Sequence[str], count: int = 4) -> str:
    return ", ".join(names[:count]) + (f" and {len(names) - count} more" if len(names) > count else "")


_UNKNOWN_THERE = "large files, packages, which files there were, and what was read by other means than Python's open"


def checked(found: AttestationCheck) -> Iterator[tuple[str, ...]]:
    """Yield label and columns of each line about an attestation that still holds."""
    proof = found.statement.predicate
    yield "verified", f"bit-identical {proof.runs}/{proof.runs} on {proof.date[:10]}: {', '.join(proof.compared)}"
    yield "", unchanged(len(proof.files), len(proof.data) + (found.mounted or 0), inputs=found.inputs)
    if proof.undigested or proof.more_undigested:
        count = len(proof.undigested) + proof.more_undigested
        named = f" ({plain(proof.undigested[0])})" if proof.undigested else ""
        yield "", f"not known: {plural(count, 'file')} that it read and that were large, or too many{named}"
    if proof.mounted and found.mounted is None:
        many = f"{plural(len(proof.mounted), 'file')} of mounted folders ({plain(min(proof.mounted))})"
        yield "", f"not compared: {many}; no record here shows where they were"
    if found.has_mounts:
        yield "", f"not known of mounted folders: {_UNKNOWN_THERE}"
    if found.shown:
        yield "", f"not known: what it read in {', '.join(found.shown)}"
    if proof.network:
        yield "", f"its runs had a network: {_fetched(plain(proof.network))}"
    for difference in found.host_differences:
        yield "", _host_difference(difference)
    yield "records", _records(found.records, proof.runs)
    yield "signed", found.signer or "not at all"


def _fetched(network: str) -> str:
    """Describe what a proof leaves open where runs had a network."""
    return f"{network}; what was fetched is in no record, and may be other next time"


def _records(here: int, runs: int) -> str:
    """Describe how far the records of the runs bear out an attestation."""
    if not here:
        return "none of its runs has one here: what they left is this file's word alone"
    return f"{'those' if here == runs else f'{here} of those'} of its {plural(runs, 'run')} are here and state the same"


def unchanged(files: int, data: int = 0, *, inputs: bool) -> str:
    """Describe what is as it was when it was proved; data that nobody declared may be any."""
    code = f"{plural(files, 'file')} of code" if files else ""
    read = f"{plural(data, 'file')} that it read" if data else ""
    *some, last = (word for word in ("lock", "image", code, read, "inputs" if inputs else "") if word)
    return f"{', '.join(some)} and {last} are as they were then" + ("" if inputs else "; no inputs are declared")


def _host_difference(found: HostDifference) -> str:
    there, here = (
        ", ".join(value) or "none" if isinstance(value, tuple) else value or "none"
        for value in (found.there, found.here)
    )
    return f"{_HOST_WORDS[found.name]}: {there} there, {here} here"


def cost_lines(result: CostResult) -> Iterator[tuple[str, ...]]:
    """Yield label and columns of each line about what was measured: each way to run, and the cheapest."""
    base, *others = result.arms
    shown = list(rows(base, others, result.noise))
    widths = [max(len(row[at]) for row in shown) for at in range(4)]
    for name, seconds, change, outcome in shown:
        yield "", f"{name:<{widths[0]}}", f"{seconds:>{widths[1]}}", f"{change:>{widths[2]}}", outcome
    if base.median < _SHORT_RUN:
        yield "", "runs this short are mostly the start of the container: measure a longer one"
    first, *more = conclusion(result.cheapest, result.ops)
    yield "cheapest", first
    for line in more:
        yield "", line


def cost_as_json(result: CostResult) -> dict[str, Any]:
    """Return what was measured as JSON values."""
    arms = [
        {"name": arm.name, "without": list(arm.without), "seconds": list(arm.seconds), "median": arm.median,
         "results": arm.results, "failed": arm.failed}
        for arm in result.arms
    ]  # fmt: skip
    return {"arms": arms, "cheapest": list(result.cheapest.without) if result.cheapest else []}


def not_measured(result: CostResult) -> str:
    """Explain why nothing was measured."""
    if result.outcome == "failed":
        return f"the program failed with exit {result.exit_code}; there is nothing to measure"
    runs = plural(len(result.arms[0].seconds), "run")
    return f"{result.arms[0].results} different results in {runs} with everything on: see why first, without --cost"


def rows(base: Arm, arms: Sequence[Arm], chance: float) -> Iterator[tuple[str, str, str, str]]:
    """Yield name, time, difference and outcome of each arm."""
    for arm in (base, *arms):
        yield arm.name, f"{arm.median:.2f} s", "" if arm is base else _difference(base, arm, chance), _outcome(arm)


def conclusion(best: Arm | None, ops: Collection[str]) -> tuple[str, ...]:
    """Describe what the cheapest sufficient set is, and how to write it in a spec if that can be written.

    Args:
        best: the quickest arm whose runs were equal; None if none saves anything for sure.
        ops: all that level ``ops`` adds to level ``seeds`` here.
    """
    if best is None:
        return ("everything on: nothing that could be left out saves time here beyond chance",)
    lines = [
        f"without {', '.join(best.without)}: {best.median:.2f} s, measured twice, equal in {len(best.seconds)} runs"
    ]
    if set(best.without) == set(ops):
        lines.append("in spec.yaml: determinism: {level: seeds}")
    else:
        lines.append("spec.yaml leaves out levels, not single switches: this is for your information")
    lines.append("equal in a few runs on this machine is no proof: envbuild verify -n 10 is stronger evidence")
    return tuple(lines)


def _difference(base: Arm, arm: Arm, chance: float) -> str:
    if not arm.median or not base.median:
        return ""
    change = arm.median / base.median - 1
    if abs(change) <= chance:
        return "within noise"
    return f"{change:+.0%}".replace("-", "−").replace("%", " %")


def _outcome(arm: Arm) -> str:
    if arm.failed:
        return "fails"
    return f"{len(arm.seconds)}/{len(arm.seconds)} equal" if arm.results == 1 else f"{arm.results} different"
