"""What one more run shows that was made to diagnose: memory that nothing wrote is filled, draws of entropy are watched.

Only those draws are reported that happened first in the step in which the runs diverge, or in a package that is no
framework before the first step: frameworks draw names and keys that no result depends on.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import isnan

from envbuild.difference.finding import Finding
from envbuild.record.model import Record
from envbuild.record.processes import EntropyDraw
from envbuild.trace.divergence import Divergence
from envbuild.trace.file import Trace
from envbuild.verification.causes.evidence import UNWRITTEN, Evidence
from envbuild.verification.causes.proofs import PROVEN
from envbuild.verification.causes.routes import of_project, route
from envbuild.verification.causes.source_causes import places

SURE = 75
"""Causes from this weight on need no further run."""
_FRAMEWORKS = frozenset(
    ["tensorflow", "keras", "tf_keras", "torch", "jax", "jaxlib", "numpy", "scipy", "absl", "google", "h5py", "optree"]
)
_NAMES_ONLY = _FRAMEWORKS | {"sympy"}
"""Packages whose draws at an import no result depends on."""


def worthwhile(evidence: Evidence, causes: Sequence[Finding]) -> bool:
    """Return whether a diagnosing run may show more than was found already."""
    likely = causes[0].weight if causes else 0
    return likely < SURE or bool(_unwritten(evidence) and _torch(evidence))


def diagnosed(
    evidence: Evidence, record: Record, traces: Sequence[Trace] = (), plain: Sequence[Trace] = ()
) -> tuple[Finding, ...]:
    """Return what a diagnosing run adds to the causes.

    Args:
        evidence: what is known of the runs that differ.
        record: of the diagnosing run.
        traces: of its processes; ``plain``: those of a run that differs.
    """
    return (*_of_memory(evidence, record, traces, plain), *_of_entropy_log(evidence, record))


def _of_memory(
    evidence: Evidence, record: Record, traces: Sequence[Trace], plain: Sequence[Trace]
) -> Iterator[Finding]:
    """Yield that values come from memory that nothing wrote, if filling it with NaN brings NaN where there was none."""
    if _nan_in_traces(plain) or not _torch(evidence):
        return
    shown = _nan_in_traces(traces)
    if not shown and _nan_in_metrics(record) and not _nan_in_metrics(evidence.a):
        shown = "what it measured"
    if shown:
        yield Finding(
            area="memory",
            weight=PROVEN,
            what=f"memory that nothing wrote is read: filled with NaN, it shows in {shown}",
            where=_unwritten(evidence),
            attempt="torch.zeros in place of torch.empty, or write all of it before it is read",
        )


def _nan_in_traces(traces: Sequence[Trace]) -> str:
    """Name the first tensor that is no number, and its step; empty if all are."""
    for trace in traces:
        for step in trace.steps:
            for place, tensor in enumerate(step.group.tensors):
                figures = step.figures(place)
                if figures is not None and isnan(figures.norm):
                    return f"{tensor.name} after step {step.step:,}" if step.step else f"{tensor.name} from the start"
    return ""


def _nan_in_metrics(record: Record) -> bool:
    return any(isinstance(v, float) and isnan(v) for points in record.metrics.values() for _, v in points)


def _of_entropy_log(evidence: Evidence, record: Record) -> Iterator[Finding]:
    if "entropy" in evidence.refuted or (evidence.proven and "entropy" not in evidence.proven):
        return
    for process in record.processes:
        for draw in process.entropy or ():
            weight = _weight(draw, evidence.divergence, proven="entropy" in evidence.proven)
            name = draw.module.partition(".")[0]
            if not weight or name == "__main__" or of_project(draw.file) or _harmless(draw):
                continue
            call = f"{draw.call}(){' without a seed' if draw.call == 'random.seed' else ''}"
            when = (
                "before the first step"
                if not _steps(evidence.divergence)
                else f"at step {_steps(evidence.divergence):,}"
            )
            yield Finding(
                area="entropy",
                weight=weight,
                what=f"{call} is reached by no seed, and the package {name} draws from it {when}",
                where=route(draw),
                attempt=f"look for a seed among the options of {name}, or report it there",
            )


def _harmless(draw: EntropyDraw) -> bool:
    """Whether no parameter can depend on a draw.

    No number was drawn from the generator that was seeded; or an installed package drew while it was imported, and no
    number was drawn from its generators later (sympy, which PyTorch imports).
    """
    return draw.used is False or bool(draw.importing and not draw.used)


def _weight(draw: EntropyDraw, divergence: Divergence | None, *, proven: bool) -> int:
    """Judge a draw by when its line drew first; 0 for one that is not reported.

    Args:
        draw: the line.
        divergence: where the parameters first differ.
        proven: runs were equal with the system's entropy fixed.
    """
    step, name = draw.step, draw.module.partition(".")[0]
    if divergence is None or divergence.kind not in ("step", "start"):
        # Nothing ties the draw to the difference but an experiment: packages draw names, keys and ports all the time.
        return 45 if proven and name not in _FRAMEWORKS else 0
    if draw.importing:
        # A package's own generator, seeded at its import and drawn from at any time. What frameworks import draws
        # names: sympy, which PyTorch imports, begins its numbers of symbols at one that it draws.
        return 0 if _NAMES_ONLY.intersection((draw.importing, name)) else 50
    if divergence.kind == "step" and divergence.step > 1:
        return 82 if step == divergence.step - 1 else 0
    return 55 if not step and name not in _FRAMEWORKS else 0


def _steps(divergence: Divergence | None) -> int:
    return divergence.step if divergence is not None and divergence.kind == "step" and divergence.step > 1 else 0


def _torch(evidence: Evidence) -> bool:
    return any("torch" in process.frameworks for process in evidence.a.processes)


def _unwritten(evidence: Evidence) -> str:
    """Name the lines that make tensors of memory that nothing wrote."""
    calls = [call for row in evidence.operations if row.name == UNWRITTEN for call in row.calls]
    return places(calls, evidence.sources or {})
