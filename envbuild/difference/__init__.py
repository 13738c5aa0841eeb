"""Two runs compared: what differs, ordered by consequence, the most likely cause first. Pure: values in, a value out.

No cause is ever invented: what a record lacks is "not recorded", never equal and never different. A difference that
merely follows from another one (another lock makes another image) is kept apart. Described in docs/diff.md.
"""

from __future__ import annotations

from envbuild.difference.code import configs, git, modules, objects, script
from envbuild.difference.finding import Difference as Difference
from envbuild.difference.finding import Evidence as Evidence
from envbuild.difference.finding import Finding as Finding
from envbuild.difference.finding import Section
from envbuild.difference.finding import Tree as Tree
from envbuild.difference.inputs import inputs
from envbuild.difference.locks import locks
from envbuild.difference.machine import fingerprint, host
from envbuild.difference.parameters import command, parameters
from envbuild.difference.processes import processes
from envbuild.difference.results import outcome, results, verdict
from envbuild.difference.settings import engine, environment, options, verified
from envbuild.record import Record

NOT_COMPARED = frozenset(
    [
        *("format", "id", "start", "end", "duration", "recipe", "metric_sources"),
        *("same_bits_as", "same_tensors_in", "differs_from", "differs_in"),
    ]
)
"""Fields of a record that are neither a cause nor a result."""


def compare(a: Record, b: Record, evidence: Evidence | None = None) -> Difference:
    """Compare two runs.

    Args:
        a, b: their records; sentences read from A to B.
        evidence: what is known beside the records, such as the content of the locks; the more of it, the more is named.
    """
    known = evidence or Evidence()
    sections = _sections(a, b, known)
    found = [finding for section in sections for finding in section.findings]
    causes = sorted((each for each in found if each.weight and not each.follows), key=lambda each: -each.weight)
    others = sorted((each for each in found if not each.weight or each.follows), key=lambda each: -each.weight)
    differing = {section.label for section in sections if any(each.weight for each in section.findings)}
    same = [each.label for each in sections if each.label and each.compared and each.label not in differing]
    return Difference(
        a=a.id,
        b=b.id,
        outcome=outcome(a, b),
        verdict=verdict(a, b, causes=bool(causes)),
        results=results(a, b),
        causes=tuple(causes),
        others=tuple(others),
        same=tuple(dict.fromkeys(same)),
        unknown=tuple(dict.fromkeys(phrase for section in sections for phrase in section.unknown)),
    )


def _sections(a: Record, b: Record, known: Evidence) -> tuple[Section, ...]:
    """Compare area by area, in the order in which people ask."""
    told = parameters(a, b)
    files = (script(a, b, known.texts), modules(a, b, known.texts), configs(a, b, known.texts))
    seeds, switches = processes(a, b)
    packages, lock, image = locks(a, b, known)
    machine, gpus = host(a, b)
    given = any("(argument)" in finding.change for finding in told.findings)
    code_known = bool(a.modules) and bool(b.modules)
    return (
        inputs(a, b, known),
        told,
        command(a, b, explained=given),
        *files,
        git(a, b, code_known=code_known, explained=any(section.findings for section in files)),
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
        verified(a, b),
        engine(a, b),
    )
