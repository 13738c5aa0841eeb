"""``diff``: two recorded runs compared: their results, where training diverges, and what may have made them differ."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from envbuild.core.fs import read_regular
from envbuild.core.text import script_in
from envbuild.difference.compare import compare
from envbuild.errors import UsageError
from envbuild.lockfile.discovery import STATE_FOLDER
from envbuild.operations.contents import renamed_files, with_contents, with_names_of
from envbuild.operations.run_context import Side, gather_context
from envbuild.operations.traces import first_divergence
from envbuild.record import history
from envbuild.record.model import RecordError, loads
from envbuild.record.select_runs import earlier_of, newest_two

if TYPE_CHECKING:
    from envbuild.difference.finding import Difference
    from envbuild.trace.divergence import Divergence


@dataclass(frozen=True, kw_only=True, slots=True)
class DiffResult:
    """Two runs compared.

    Attributes:
        a, b: the runs; findings read from A to B.
        difference: what differs, the most likely cause first.
        divergence: where their step traces first differ; None if they do not, or if one run left none.
        renamed: files and folders of B that were compared with others of A, whose names hold the time or were drawn.
    """

    a: Side
    b: Side
    difference: Difference
    divergence: Divergence | None
    renamed: Mapping[str, str] = field(default_factory=dict)

    @property
    def equal(self) -> bool:
        """Whether the results are known to be equal."""
        return self.difference.outcome == "equal"


def diff(a: Side, b: Side) -> DiffResult:
    """Compare two runs by all that was kept of them."""
    renamed = renamed_files(a.record, b.record)
    a, b = with_contents(a, b, renamed)
    divergence, _ = first_divergence((a.project, a.record), (b.project, b.record), asked=False)
    difference = compare(a.record, with_names_of(b.record, renamed), gather_context(a, b))
    return DiffResult(a=a, b=b, difference=difference, divergence=divergence, renamed=renamed)


def select_pair(names: Sequence[str], project: Path) -> tuple[Side, Side]:
    """Return the runs to compare.

    Args:
        names: identities or their beginnings, or paths of records; one: compared with an earlier run of its program,
            which comes first; none: the two newest of one program.
        project: the folder that holds the lock.

    Raises:
        RecordError: a run is not there, or its record is damaged.
        UsageError: one run is compared with itself, or there is nothing to compare with.
    """
    found = [find_side(name, project) for name in names]
    if len(found) == 2:
        if found[0].record.id == found[1].record.id:
            raise UsageError(f"run {found[0].record.id} cannot be compared with itself", "list them: envbuild runs")
        return found[0], found[1]
    if found:
        return _with_earlier(found[0])
    records = history.list_runs(project)
    if len(records) < 2:
        program = shlex.join(records[0].command).removeprefix("python ") if records else script_in(project)
        number = "1 run" if records else "no runs"
        raise UsageError(
            f"nothing to compare: {project} has {number}",
            f"run {'again' if records else 'twice'}: envbuild run {program}",
        )
    older, newer = newest_two(records)
    return Side(record=older, project=project), Side(record=newer, project=project)


def find_side(name: str, project: Path) -> Side:
    """Return a run by the beginning of its identity, or by the path of its record or of its folder.

    Raises:
        RecordError: there is none, there are several, or the record is damaged.
    """
    path = Path(name)
    if "/" not in name and not name.endswith(".json"):
        return Side(record=history.find_run(project, name), project=project)
    file = path / "record.json" if path.is_dir() else path
    try:
        record = loads(read_regular(file, history.LIMIT), str(file))
    except OSError as error:
        raise RecordError(f"cannot read {file}: {error.strerror}", "name a run, or the folder of one") from None
    parents = file.absolute().parents
    own = len(parents) > 3 and parents[2].name == STATE_FOLDER
    return Side(record=record, project=parents[3] if own else parents[0])


def _with_earlier(side: Side) -> tuple[Side, Side]:
    """Pair a run with an earlier one, else with the newest."""
    records = [record for record in history.list_runs(side.project) if record.id != side.record.id]
    if not records:
        raise UsageError(f"nothing to compare run {side.record.id} with in {side.project}", "name another run")
    earlier = earlier_of(side.record, records)
    if earlier is None:
        return side, Side(record=records[0], project=side.project)
    return Side(record=earlier, project=side.project), side
