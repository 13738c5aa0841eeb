"""``verify --cost``: how long one program takes without each switch, and whether its runs are still equal."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Literal

import msgspec

from envbuild.operations.events import CostMeasured, CostPlanned, Events
from envbuild.verification.cost import Arm, Control, Unit, noise, savers, saves, units

if TYPE_CHECKING:
    from envbuild.lockfile.model import Lock
    from envbuild.record.model import Record
    from envbuild.runs.repeat import Repeat, Repeated
    from envbuild.runs.request import RunEngine
    from envbuild.verification.ran import Ran

ALL, SEEDS, NONE = "all on", "level: seeds", "none (--no-controls)"

_AGAIN = "again"


@dataclass(kw_only=True)
class Bench:
    """Runs of one program in several ways, in turn, so that what slows the machine down slows down all of them.

    Attributes:
        plan: what is repeated, alone on the machine.
        ran: the runs of each way by its name.
    """

    plan: Repeat
    engine: RunEngine
    ignore: tuple[str, ...] = ()
    ran: dict[str, list[Ran]] = field(default_factory=dict)

    def run(self, name: str, without: Sequence[str] = (), *, controls: bool = True) -> Record:
        """Run once."""
        from envbuild.operations.verification.session import ran_of
        from envbuild.runs.repeat import repeat

        found: list[Ran] = []

        def each(repeated: Repeated) -> None:
            found.append(ran_of(repeated, self.plan.request.project))
            repeated.discard()

        request = msgspec.structs.replace(self.plan.request, without=tuple(without), controls=controls)
        folder = self.plan.folder / f"{len(self.ran)}-{sum(map(len, self.ran.values()))}"
        repeat(replace(self.plan, request=request, folder=folder), 1, self.engine, each)
        self.ran.setdefault(name, []).extend(found)
        return found[0].record

    def arm(self, name: str, without: Sequence[str] = ()) -> Arm:
        """Return what was measured of one way."""
        from envbuild.verification.judge import judge

        runs = self.ran[name]
        return Arm(
            name=name,
            without=tuple(without),
            seconds=tuple(run.record.duration or 0.0 for run in runs),
            results=len(judge(runs, len(runs), self.ignore).groups),
            failed=not all(run.ended_well for run in runs),
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class CostResult:
    """What was measured.

    Attributes:
        outcome: ``failed``: the program failed with everything on; ``different``: its runs differ with everything on,
            so that there is nothing to save; else ``measured``.
        rounds: runs of each way.
        arms: each way, the one with everything on first.
        noise: by how much times differ for no reason, as a fraction.
        cheapest: the quickest way whose runs were equal; None if nothing that could be left out saves time.
        ops: all that level ``ops`` adds to level ``seeds`` here.
        exit_code: the program's, of its first run.
    """

    outcome: Literal["measured", "failed", "different"]
    rounds: int
    arms: tuple[Arm, ...] = ()
    noise: float = 0.0
    cheapest: Arm | None = None
    ops: tuple[str, ...] = ()
    exit_code: int | None = 0


def measure_cost(plan: Repeat, engine: RunEngine, rounds: int, ignore: tuple[str, ...], events: Events) -> CostResult:
    """Measure what each switch costs, and find the cheapest set that keeps runs equal.

    Args:
        plan: what is repeated.
        engine: runs the containers.
        rounds: runs of each way.
        ignore: patterns of files that are not compared.
        events: receives ``CostPlanned`` before most of the runs, and ``CostMeasured`` after them.
    """
    bench = Bench(plan=replace(plan, slots=("",), trace=False), engine=engine, ignore=ignore)
    first = bench.run(ALL)
    if first.exit_code != 0:
        return CostResult(outcome="failed", rounds=rounds, exit_code=first.exit_code)
    found = units(_present(plan.request.lock, first), _table(gpu=bool(first.gpus)))
    ops = tuple(name for unit in found if unit.level == "ops" for name in unit.members)
    ways = {ALL: (), **({SEEDS: ops} if ops else {}), NONE: (), **{_title(unit): unit.members for unit in found}}
    _run_in_turn(bench, ways, rounds, first, events)
    arms = {name: bench.arm(name, without) for name, without in ways.items()}
    if not arms[ALL].equal:
        return CostResult(outcome="different", rounds=rounds, arms=tuple(arms.values()))
    best = _confirmed(bench, _cheapest(bench, arms, found, rounds), rounds)
    chance = noise(arms.values())
    events.report(CostMeasured(rounds=rounds, noise=chance))
    return CostResult(
        outcome="measured", rounds=rounds, arms=tuple(arms.values()), noise=chance, cheapest=best, ops=ops
    )


def _run_in_turn(bench: Bench, ways: Mapping[str, tuple[str, ...]], rounds: int, first: Record, events: Events) -> None:
    """Run each way once a round, until the runs with everything on differ; its first run was made."""
    total = rounds * len(ways)
    events.report(CostPlanned(runs=total, seconds=(first.duration or 0) * total))
    with events.phase("run", total=total, unit="runs") as advance:
        advance(1)
        for number in range(rounds):
            for name, without in ways.items():
                if number or name != ALL:
                    bench.run(name, without, controls=name != NONE)
                    advance(1)
            if not bench.arm(ALL).equal:
                break


def _cheapest(bench: Bench, arms: dict[str, Arm], found: Sequence[Unit], rounds: int) -> Arm | None:
    """Leave out one saver after the other as long as runs stay equal and get quicker; returns the quickest way."""
    by_name = {_title(unit): unit for unit in found}
    best: Arm | None = None
    chance = noise(arms.values())
    for name in savers(arms[ALL], {name: arms[name] for name in by_name}, chance):
        without = (*(best.without if best else ()), *by_name[name].members)
        if best is None:
            best = arms[name]
            continue
        title = f"without {', '.join(without)}"
        for _ in range(rounds):
            bench.run(title, without)
        tried = bench.arm(title, without)
        if tried.equal and saves(best, tried, chance):
            best = arms[title] = tried
    seeds = arms.get(SEEDS)
    if seeds is not None and seeds.equal and saves(arms[ALL], seeds, chance):
        return seeds if best is None or seeds.median <= best.median * (1 + chance) else best
    return best


def _confirmed(bench: Bench, best: Arm | None, rounds: int) -> Arm | None:
    """Measure the quickest way once more, turn by turn with everything on: a machine may have been busy before."""
    if best is None:
        return None
    for _ in range(rounds):
        bench.run(_AGAIN)
        bench.run(f"{_AGAIN}: {best.name}", best.without)
    base, tried = bench.arm(_AGAIN), bench.arm(f"{_AGAIN}: {best.name}", best.without)
    return tried if tried.equal and saves(base, tried, noise([base, tried])) else None


def _present(lock: Lock, record: Record) -> set[str]:
    """Name what this program runs with and can go without."""
    from envbuild.runtime.guard.variables import HARD, KEPT

    variables = set(lock.environment) & set(HARD) - KEPT
    switches = {switch.name for process in record.processes for switch in process.switches}
    return variables | switches


def _table(*, gpu: bool) -> tuple[Control, ...]:
    """Return the rows of the table of variables and switches that are controls; without a GPU not those for one."""
    from envbuild.determinism.policy import table

    found = table()
    variables = [Control(name=row.name, cause=row.cause, level=row.level) for row in found.variable]
    # Switches of a variable only read back what that did.
    switches = [row for row in found.switch if not row.variable and (gpu or not row.gpu)]
    return (*variables, *(Control(name=row.name, cause=row.cause, level=row.level) for row in switches))


def _title(unit: Unit) -> str:
    return f"without {unit.name}"
