"""Why runs that should be equal may differ: what the records, the trace and the sources show, most likely first.

Each cause rests on something that was found; nothing is guessed from a difference alone. Two facts sharpen the order:
values that are equal but for rounding were computed in another order, and values that are not were drawn, or read,
otherwise; parameters that differ before the first step were drawn before it.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Sequence

import msgspec
from msgspec import UNSET

from envbuild.core.notebooks import in_cells
from envbuild.core.patterns import lazy
from envbuild.difference.finding import CERTAIN, NOWHERE, Finding
from envbuild.record.compare_printed import only_order_differs
from envbuild.record.model import Record
from envbuild.record.printed import STREAMS
from envbuild.record.processes import ProcessRecord, SwitchRecord
from envbuild.verification.causes.evidence import SUSPECTS, UNWRITTEN, Evidence
from envbuild.verification.causes.foreign import of_foreign
from envbuild.verification.causes.partings import acting, with_parting
from envbuild.verification.causes.proofs import (
    ALSO,
    BESIDE_PROVEN,
    LIMIT,
    LISTED,
    PROVEN,
    REFUTED,
    STARTED,
    THINGS,
    of_experiments,
    of_programs,
)
from envbuild.verification.causes.source_causes import LIMITED, of_operations, of_sources
from envbuild.verification.masking.ignoring import ignoring
from envbuild.verification.masking.lines import difference_of, short

_LEVEL = "set determinism: {level: ops} in spec.yaml, then: envbuild lock && envbuild build"
_ORDER = 22
"""Weight of lines in another order: what puts them there comes before."""
_CONSEQUENCE = 24
"""Weight of what follows from another cause, in case that no other is found."""
_SIGNALLED = 128
"""Exit codes from here on are those of programs that a signal ended."""
_HARD_TO_REACH = frozenset((LIMITED, "limits", "order", "threads", "collection", "memory", "addresses"))
"""Suspects of which not all can be fixed in runs that are followed."""
_UNSEEN = 12
"""Weight of what was not looked into: everything that was found comes before."""


def rank_causes(evidence: Evidence) -> tuple[Finding, ...]:
    """Return what may have made two runs differ, most likely first; none if nothing is found that could."""
    if cut_off := list(_of_a_limit(evidence)):
        return tuple(cut_off)  # what it had not come to yet differs: calls of the clock, say, did not make that
    called, foreign = (
        [_after_a_draw(evidence, *each) for each in of_sources(evidence) if not _is_disproved(evidence, *each)],
        list(of_foreign(evidence)),
    )
    causes = [
        *evidence.found,
        *_of_the_run(evidence),
        *_of_processes(evidence),
        *_of_texts(evidence),
        *(() if evidence.proven else _of_order(evidence.a, evidence.b)),
        *foreign,
        *(finding for finding, _ in called if not _is_of_table(finding, foreign)),
        *(each for each in of_operations(evidence) if not evidence.proven or each.weight >= PROVEN - 1),
        *(() if evidence.proven else _of_the_lock(evidence)),
        *(() if evidence.proven else _of_gpus(evidence)),
    ]
    started = [*of_programs(evidence, causes)]
    causes = [*started, *(each for each in causes if not any(each.what == other.what for other in started))]
    if any(cause.area == "memory" for cause in causes):  # the same, found in the sources
        causes = [cause for cause in causes if not cause.what.startswith(f"{UNWRITTEN}:")]
    named = {suspect for finding, suspect in called if finding.weight >= PROVEN - 1}
    shown = list(of_experiments(evidence, causes, named))
    # What lists is named with what it lists where that is proven.
    said = {each.where for each in shown if " → " in each.where or "listings" in evidence.proven}
    written = {output.path for record in (evidence.a, evidence.b) for output in record.outputs}
    listed = {each.where for each in shown if LISTED in each.what}
    causes = [
        each
        for each in causes
        if each.where not in said
        and not _is_listing_of(each, listed)
        and not _is_own_by_another_name(each, written)
        and not _is_limit_of(each, shown)
    ]
    own = [each for each in causes if _is_own_file(each, written) and not evidence.in_place]
    causes = [*shown, *(_demoted(each, written) for each in causes if each not in own)]
    if evidence.proven:
        causes = [each for each in causes if each in shown or not _follows(each, written)]
        causes = [
            each
            if each.weight >= PROVEN - 1 or each.weight <= BESIDE_PROVEN
            else msgspec.structs.replace(each, weight=BESIDE_PROVEN)
            for each in causes
        ]
    sources = {path: text for path, text in (evidence.sources or {}).items() if path.endswith(".ipynb")}
    if sources:
        causes = [msgspec.structs.replace(each, where=in_cells(each.where, sources)) for each in causes]
    causes.sort(key=lambda cause: -cause.weight)
    refuted = {finding.what for finding, _ in called if finding.weight <= REFUTED}
    if causes and causes[0].what in refuted:
        # Runs differ with it fixed: something else makes the difference, and no cause is better than this one.
        causes = [each for each in causes if each.what not in refuted]
    if evidence.parting:
        of_it = _about(evidence, called, shown) if evidence.proven else _unreached(called, foreign)
        proven = bool(evidence.proven)
        causes = with_parting(causes, evidence.parting, of_it, evidence.sources or {}, proven=proven)
    return tuple(causes)


def _about(evidence: Evidence, called: Sequence[tuple[Finding, str]], shown: Sequence[Finding]) -> frozenset[str]:
    """Return the sentences about what was proven and shows where runs part."""
    name = acting(evidence)
    names = {name, ALSO.get(name, name)}
    things = tuple(THINGS[each] for each in names if each in THINGS)
    return frozenset(
        (
            *(finding.what for finding, suspect in called if suspect in names and finding.weight >= PROVEN - 1),
            *(each.what for each in shown if things and each.what.startswith(things)),
        )
    )


def _unreached(called: Sequence[tuple[Finding, str]], foreign: Sequence[Finding]) -> frozenset[str]:
    """Return the sentences about what may make runs differ that have all fixed which experiments reach for certain."""
    least = dict.fromkeys(_HARD_TO_REACH, REFUTED + 1) | {"": CERTAIN}  # what nothing fixes, such as a port
    tried = (finding.what for finding, suspect in called if finding.weight >= least.get(suspect, PROVEN))
    return frozenset((*tried, *(each.what for each in foreign if each.weight >= CERTAIN)))


def _is_listing_of(cause: Finding, listed: Collection[str]) -> bool:
    """Whether a cause says nothing but that lines list a folder, and each of them is named as proven."""
    return cause.what.endswith(f"files {LISTED}") and {*cause.where.split(", ")} <= {*listed}


def _is_limit_of(cause: Finding, shown: Sequence[Finding]) -> bool:
    """Whether a cause is the limit of time of a line of which that is proven."""
    lines = {each.where.partition(" → ")[0] for each in shown if each.what.startswith(LIMIT)}
    return cause.what.startswith(LIMIT) and cause.where in lines


def _is_disproved(evidence: Evidence, cause: Finding, suspect: str) -> bool:
    """Whether runs were equal though a suspect was left as it is: it cannot be what makes them differ."""
    if not evidence.proven or cause.weight >= PROVEN - 1 or suspect not in SUSPECTS:
        return False
    return suspect not in evidence.proven and suspect not in {ALSO.get(each) for each in evidence.proven}


def _after_a_draw(evidence: Evidence, cause: Finding, suspect: str) -> tuple[Finding, str]:
    """Return a cause, and put the order of tasks behind what was drawn, where both are proven.

    Whoever prints or writes in any order adds to each difference, and what was drawn is there without it.
    """
    if suspect == "order" and cause.weight >= PROVEN and {"order", "entropy"} <= {*evidence.proven}:
        return msgspec.structs.replace(cause, weight=PROVEN - 1), suspect
    return cause, suspect


def _is_own_by_another_name(cause: Finding, written: Collection[str]) -> bool:
    """Whether one run alone read a file of this name, which it wrote itself: folders of runs are named by the time."""
    return cause.area in ("configs", "reads") and NOWHERE in (cause.before, cause.after) and cause.what in written


def _is_own_file(cause: Finding, written: Collection[str]) -> bool:
    """Whether what differs is a file that each run wrote, and read then: it had none of an earlier run."""
    return cause.area in ("configs", "reads") and cause.what.partition(":")[0] in written


def _is_of_table(finding: Finding, foreign: Sequence[Finding]) -> bool:
    """Whether the table of calls names a program that is named with more."""
    program = finding.what.partition(STARTED)[0] if STARTED in finding.what else ""
    return bool(program) and any(each.where == finding.where and program.strip("$") in each.what for each in foreign)


def _of_order(a: Record, b: Record) -> Iterator[Finding]:
    """Yield streams that have the same lines in another order: what is known where no call shows why."""
    for stream in STREAMS:
        one, other = ((record.printed or {}).get(stream) for record in (a, b))
        if one is not None and other is not None and only_order_differs(one, other):
            yield Finding(
                area="results",
                weight=_ORDER,
                what=f"{stream} has the same lines in another order, as if threads print, or a set is gone through",
                attempt="have libraries print nothing from their threads (verbose=0, n_jobs=1); sort what has no order",
            )


def _demoted(cause: Finding, written: Collection[str]) -> Finding:
    """Lower what follows from another cause, in case that no other is found; ``written`` as for ``_follows``."""
    weight = min(cause.weight, _CONSEQUENCE) if _follows(cause, written) else cause.weight
    return msgspec.structs.replace(cause, weight=weight)


def _follows(cause: Finding, written: Collection[str]) -> bool:
    """Whether something follows from another cause, as far as is known: runs that began alike end with other seeds.

    Args:
        cause: what was found.
        written: files that the runs left: one that the program read was its own.
    """
    if cause.area in ("seeds", "switches") and "(at exit)" in cause.what:
        return True
    if cause.area == "parameters":  # all runs have the same command: the program computes it, such as a default
        return True
    # A worker that its pool killed leaves no record: which one, nobody decides.
    if cause.area == "processes" and NOWHERE in (cause.before, cause.after):
        return True
    return cause.area in ("configs", "reads") and cause.what.partition(":")[0] in written


def _of_the_run(evidence: Evidence) -> Iterator[Finding]:
    """Yield what is in the records of the runs themselves."""
    options = evidence.a.options
    for record in (evidence.a, evidence.b):
        for change in record.input_changes:
            yield Finding(
                area="inputs",
                weight=95,
                what=f"input data changed during a run: {change}",
                attempt="leave it alone meanwhile",
            )
    if not options.controls:
        what = "the controls were off: no seeds, no deterministic operations"
        yield Finding(area="options", weight=90, what=what, attempt="leave out --no-controls")
    if evidence.a.out_of_memory != evidence.b.out_of_memory:
        yield Finding(
            area="results", weight=95, what="one run ran out of memory", attempt="run one at a time: --jobs 1"
        )
    if evidence.in_place and (files := [output.path for output in evidence.a.outputs]):
        what = f"the runs shared one folder: each found the files of the run before ({', '.join(files[:2])})"
        yield Finding(
            area="options", weight=52, what=what, attempt="leave out --in-place, or have the script start from nothing"
        )
    if options.network != "none":
        what = f"the network was on ({options.network}): what is fetched may change"
        yield Finding(
            area="options",
            weight=20,
            what=what,
            attempt="declare what it fetches as inputs, and run with --network none",
        )


def _of_a_limit(evidence: Evidence) -> Iterator[Finding]:
    """Yield that one run alone was ended at the limit of time that the user or ``verify`` set."""
    limits = [each.timed_out for each in (evidence.a, evidence.b) if each.timed_out is not None]
    if len(limits) == 1:
        yield Finding(
            area="results",
            weight=95,
            what=f"one run was ended by its time limit of {limits[0]:.0f} s, before it was done: it was slower, or "
            "waited for something",
            attempt=f"allow more time: --timeout {max(1, round(limits[0] / 6))}m; if it ends there too, the note has "
            "the line where it was",
        )


def _of_processes(evidence: Evidence) -> Iterator[Finding]:
    """Yield what the hook found in the processes."""
    fewer = [
        {_changed(switch) for process in record.processes for switch in process.switches if _has_fewer_threads(switch)}
        for record in (evidence.a, evidence.b)
    ]
    # Workers of PyTorch's DataLoader have one thread in each run, and Dask's another seed of hashes: no causes.
    # A run that a signal ended has no record of its end.
    ended = any((record.exit_code or 0) >= _SIGNALLED for record in (evidence.a, evidence.b))
    sentence = (fewer[0] | fewer[1] if ended else fewer[0] & fewer[1]) | (
        _chosen(evidence.a.processes) & _chosen(evidence.b.processes)
    )
    gpus = bool(evidence.a.gpus)
    for process in (*evidence.a.processes, *evidence.b.processes):
        for cause in _of_process(process, controlled=evidence.a.options.controls, gpus=gpus):
            if cause.what not in sentence:
                sentence.add(cause.what)
                yield cause


_OF_PLACES = ("LANG", "LC_ALL", "TZ")
"""Variables of language and time zone: without them a program has others, the same ones in each run."""
_WITHOUT_CHANCE = lazy(r"precision|tf32|tensor_float_32")
"""In the names of switches that change results, though to the same ones in each run."""
_OF_GPUS = lazy(r"cuda|cudnn")
"""In the names of switches that nothing asks where there is no GPU."""


def _of_process(process: ProcessRecord, *, controlled: bool, gpus: bool) -> Iterator[Finding]:
    """Yield switches that are not as they should be."""
    leave = "let the script leave it alone, or set determinism.strict: true to have it refused"
    for switch in process.switches:
        name, wanted = switch.name, switch.wanted
        if not switch.ok:
            what = f"{name} did not take effect: wanted {wanted}, found {switch.found}"
            yield Finding(
                area="switches", weight=85, what=what, attempt="see the warnings of the run: envbuild show RUN"
            )
        elif switch.at_exit is not UNSET and "seed" not in name and not _is_idle(name, gpus=gpus):
            yield Finding(area="switches", weight=75, what=_changed(switch), attempt=leave)
    for name, value in process.environment_changed.items() if controlled else ():
        if name == "PYTHONUNBUFFERED" or (name.endswith("_NUM_THREADS") and value == "1"):
            continue
        drawn = name == "PYTHONHASHSEED" and (value is None or not value.isdecimal())
        yield Finding(area="environment", weight=55 if drawn else 45, what=_unlocked(name, value), attempt=leave)


def _unlocked(name: str, value: str | None) -> str:
    return f"{name} is locked, and the program {'removed it' if value is None else f'set it to {value}'}"


def _chosen(processes: Iterable[ProcessRecord]) -> set[str]:
    """Return how programs changed variables whose values give the same in each run: not what hashes are drawn by."""
    return {
        _unlocked(name, value)
        for process in processes
        for name, value in process.environment_changed.items()
        if name in _OF_PLACES or (name == "PYTHONHASHSEED" and value is not None and value.isdecimal())
    }


def _is_idle(name: str, *, gpus: bool) -> bool:
    return _WITHOUT_CHANCE.search(name) is not None or (not gpus and _OF_GPUS.search(name) is not None)


def _changed(switch: SwitchRecord) -> str:
    return f"the program changed {switch.name}: {switch.wanted} at the start, {switch.at_exit} at the end"


def _has_fewer_threads(switch: SwitchRecord) -> bool:
    """Whether a process had fewer threads at its end than it may have."""
    end, wanted = (int(text) if text.isdecimal() else 0 for text in (str(switch.at_exit), str(switch.wanted)))
    return "threads" in switch.name and 0 < end < wanted


_SEED = lazy(r"\bseed\b[^\w\n]{0,12}(?:is|to|of|=)?[^\w\n]{0,3}(\d+)", re.IGNORECASE)
"""How programs print the seed that they have taken: ``Using random seed 1795902399``."""
_SHOWN_SEED = 46
"""Weight of such a line: the call that draws the seed comes before."""


def _of_texts(evidence: Evidence) -> Iterator[Finding]:
    """Yield files that differ only by what is different in every run, and lines with the seed of a run.

    A time in one file does not explain another file, nor parameters, that differ.
    """
    kinds = {text.path: difference_of(text.before, text.after) for text in evidence.texts}
    other = {each.path: each.sha256 for each in evidence.b.outputs}
    differing = {each.path for each in evidence.a.outputs if other.get(each.path, each.sha256) != each.sha256}
    explained = evidence.divergence is None and all(kinds.get(path) for path in differing)
    for text in evidence.texts:
        one, two = _SEED.search(text.before), _SEED.search(text.after)
        if one is not None and two is not None and one[1] != two[1]:
            yield Finding(
                area="results",
                weight=BESIDE_PROVEN if evidence.proven else _SHOWN_SEED,
                what=f"{text.path} shows another seed in each run: {short(text.before)!r} → {short(text.after)!r}",
                where=f"{text.path}:{text.line}",
                attempt="give the program a fixed seed, by an option such as --seed or in its configuration",
            )
        elif kind := kinds[text.path]:
            yield Finding(
                area="results",
                weight=60 if explained else _CONSEQUENCE,
                what=f"{text.path} holds {kind}: {short(text.before)!r} → {short(text.after)!r}",
                where=f"{text.path}:{text.line}",
                attempt=f"leave it out of the file, or out of the comparison: {ignoring(text.path)}",
            )


def _of_the_lock(evidence: Evidence) -> Iterator[Finding]:
    """Yield what the lock leaves open."""
    determinism, divergence = evidence.lock.determinism, evidence.divergence
    computed = any(process.frameworks for process in evidence.a.processes)
    rounding = divergence is not None and divergence.rounding is True
    if determinism.level == "seeds" and computed:
        what = "deterministic operations are off in this lock (level: seeds)"
        yield Finding(area="lock", weight=80 if rounding else 35, what=what, attempt=_LEVEL)
    if determinism.threads > 1 and rounding:
        what = f"the runs differ by rounding alone, and sums run on {determinism.threads} threads"
        attempt = "set determinism: {threads: 1} to see whether it is the threads"
        yield Finding(area="lock", weight=40, what=what, attempt=attempt)


def _of_gpus(evidence: Evidence) -> Iterator[Finding]:
    """Yield a GPU in whose kernels nothing here looks: nobody else can name what they do."""
    computed = any(process.frameworks for process in evidence.a.processes)
    if evidence.a.gpus and not computed:
        yield Finding(
            area="gpu",
            weight=_UNSEEN,
            what="what the program computes on the GPU: no framework was loaded whose operations repeat with this lock",
            attempt="add in a fixed order in kernels of your own, not with atomics; or compute on the CPU, to compare",
        )
