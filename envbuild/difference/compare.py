"""Two runs compared: what differs, ordered by consequence, the most likely cause first. Pure: values in, a value out.

No cause is ever invented: what a record lacks is "not recorded", never equal and never different. A difference that
merely follows from another one (another lock makes another image) is kept apart. Described in docs/how-to/diff.md.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from envbuild.core.text import plain
from envbuild.difference.code import configs, git, modules, objects, reads, script
from envbuild.difference.finding import CERTAIN, NOWHERE, Context, Difference, Finding, Section
from envbuild.difference.inputs import inputs
from envbuild.difference.locks import locks
from envbuild.difference.machine import fingerprint, host, nccl
from envbuild.difference.parameters import command, parameters, standard_input
from envbuild.difference.processes import processes
from envbuild.difference.project import found_before, left_over
from envbuild.difference.results import outcome, results, verdict
from envbuild.difference.settings import engine, environment, options, verified
from envbuild.difference.text import shown
from envbuild.record.compare_printed import compare_printed
from envbuild.record.consistency import contradictions, contradictions_between
from envbuild.record.model import Record
from envbuild.record.printed import STREAMS

NOT_COMPARED = frozenset(
    [
        *("format", "id", "start", "end", "duration", "recipe", "metric_sources"),
        *("same_bits_as", "same_tensors_in", "not_compared", "differs_from", "differs_in", "judged"),
        *("outside_left_out", "verdict_source", "processes_left_out"),
        *("image_index", "supervisor"),
        *("altered", "listed", "reads_beyond"),  # what a proof is about: ``verify --check``
    ]
)
"""Fields of a record that are neither a cause nor a result."""


_CHANGED = "environment_changed."


def compare(a: Record, b: Record, context: Context | None = None, *, left: bool = True) -> Difference:
    """Compare two runs.

    Args:
        a, b: their records; sentences read from A to B.
        context: what is known next to the records, such as the content of the locks; the more of it, the more is named.
        left: look for files that the runs found in their project, if nothing else is reason enough.
    """
    known = context or Context()
    sections = _sections(a, b, known)
    findings = (_following(finding, a, b) for section in sections for finding in section.findings)
    # A framework that was loaded is a package of the lock too.
    found = [*{(each.area, each.what, each.change): each for each in findings}.values()]
    if left and outcome(a, b) == "different" and not any(each.weight >= CERTAIN and not each.follows for each in found):
        found += left_over(a, b)
        found += found_before(a, b, known)
    causes = sorted((each for each in found if each.weight and not each.follows), key=lambda each: -each.weight)
    others = sorted((each for each in found if not each.weight or each.follows), key=lambda each: -each.weight)
    differing = {section.label for section in sections if any(each.weight for each in section.findings)}
    same = [each.label for each in sections if each.label and each.compared and each.label not in differing]
    ended, sentence = outcome(a, b), verdict(a, b, causes)
    edited = _edited(a, b, known)
    if edited and ended == "equal":
        ended, sentence = "unknown", f"not known: {edited[0]}; all else is equal"
    unknown = [*edited, *(phrase for section in sections for phrase in section.unknown)]
    unknown += [*map(plain, (*a.outside_left_out, *b.outside_left_out))]
    unknown += compare_printed(a, b).unknown if ended != "different" else ()
    unknown += _names(known) if ended != "different" else ()
    return Difference(
        a=a.id,
        b=b.id,
        outcome=ended,
        verdict=sentence,
        results=results(a, b, known.lines),
        causes=tuple(causes),
        others=tuple(others),
        same=tuple(dict.fromkeys(same)),
        unknown=tuple(dict.fromkeys(unknown)),
    )


def _edited(a: Record, b: Record, known: Context) -> tuple[str, ...]:
    """Return what shows that a record was edited, a phrase each: what it states proves nothing."""
    own = (
        f"the record of {side} contradicts itself: {each}"
        for side, record in (("A", a), ("B", b))
        for each in contradictions(record)
    )
    kept = (
        f"{STREAMS[stream]} is one by the records, and differs in what was kept of it, line {line.number}: "
        + " → ".join(shown(line.before, line.after))
        for stream, line in known.contradicted.items()
    )
    return (*own, *(f"the records contradict each other: {each}" for each in contradictions_between(a, b)), *kept)


def _names(known: Context) -> Iterator[str]:
    """Yield what was masked as drawn names, and may be none: ``verify`` looks at what a run draws, ``diff`` cannot."""
    for stream, line in known.named.items():
        before, after = shown(line.before, line.after)
        change = f"{before} → {after}; envbuild verify shows if runs draw them"
        yield f"names in {STREAMS[stream]}, line {line.number} ({change})"


def _following(finding: Finding, a: Record, b: Record) -> Finding:
    """Return the area that a finding follows from, if it follows from one and does not name it itself."""
    follows = ""
    if a.options.controls != b.options.controls and _of_the_hook(finding):
        follows = "option controls"  # without controls the hook sets nothing, and notes no framework
    elif finding.what.startswith(_CHANGED):
        name = finding.what.removeprefix(_CHANGED).partition(" in ")[0]
        follows = name if a.environment.get(name) != b.environment.get(name) else ""
    elif finding.what in ("option allow", "verified") and a.options.allow != b.options.allow:
        # What is allowed is reported by itself: the variable, the GPU.
        follows = "what differs from the lock" if finding.what == "option allow" else "option allow"
    return msgspec.structs.replace(finding, follows=follows) if follows and not finding.follows else finding


def _of_the_hook(finding: Finding) -> bool:
    """Whether a finding is about what the hook sets, or notes where it sets something."""
    return finding.area in ("seeds", "switches") or (
        finding.area == "packages" and NOWHERE in (finding.before, finding.after)
    )


def _sections(a: Record, b: Record, known: Context) -> tuple[Section, ...]:
    """Compare area by area, in the order in which people ask."""
    given_parameters = parameters(a, b)
    files = (script(a, b, known.texts), modules(a, b, known.texts), configs(a, b, known.texts), reads(a, b))
    seeds, switches = processes(a, b)
    packages, lock, image = locks(a, b, known)
    machine, gpus = host(a, b)
    given = any("(argument)" in finding.change for finding in given_parameters.findings)
    code_known = bool(a.modules) and bool(b.modules)
    return (
        inputs(a, b, known),
        given_parameters,
        command(a, b, explained=given),
        standard_input(a, b),
        *files,
        git(a, b, known, code_known=code_known, explained=any(section.findings for section in files)),
        objects(a, b),
        seeds,
        switches,
        environment(a, b, known),
        options(a, b),
        packages,
        lock,
        image,
        fingerprint(known.fingerprint_a, known.fingerprint_b),
        machine,
        gpus,
        nccl(a, b),
        verified(a, b),
        engine(a, b),
    )
