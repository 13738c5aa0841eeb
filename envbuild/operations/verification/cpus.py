"""Whether the bits depend on the CPU: after runs on this machine's, one on each of other CPUs, emulated."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import msgspec

from envbuild.operations.events import Events, MoreRuns
from envbuild.runs.repeat import Repeated, repeat
from envbuild.runs.time_limit import TimeLimit

if TYPE_CHECKING:
    from envbuild.engine.protocol import Emulator
    from envbuild.operations.load_lock import LoadedLock
    from envbuild.operations.verification.session import Session
    from envbuild.runs.request import RunEngine
    from envbuild.verification.nodes import NodeTable
    from envbuild.verification.verdict import Verdict

LEAST, FACTOR = 600.0, 200.0
"""Seconds that an emulated run may take at least, and times that it may take what one on the machine's own CPU took."""
_AGAIN = 3
"""Further runs on a CPU that gave another result, so that chance is distinguished from the CPU."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Cpu:
    """A CPU to emulate.

    Attributes:
        model: its name, as QEMU has it.
        emulator: starts programs on it; ``name``: of the emulator, for records.
    """

    model: str
    emulator: Emulator
    name: str


def find_cpus(loaded: LoadedLock, models: Sequence[str], events: Events, *, offline: bool) -> tuple[Cpu, ...]:
    """Return CPUs by their names; the emulator is fetched if the store lacks it. Nothing is built for that.

    Raises:
        UsageError: a name is not known.
        BuildError: the lock has no emulator.
        EngineError: the engine is not the local one.
        IntegrityError: the emulator does not arrive.
    """
    from envbuild.operations.emulation import cpu_emulators, require_emulator
    from envbuild.operations.engines import connect
    from envbuild.operations.fetch import fetch_emulators
    from envbuild.store.objects import Store

    store, engine = Store(), connect()
    require_emulator(loaded.lock, engine, store)
    fetch_emulators(loaded, store, events, offline=offline)
    found = cpu_emulators(loaded.lock, store, models)
    return tuple(
        Cpu(model=model, emulator=emulator, name=name) for model, (emulator, name) in zip(models, found, strict=True)
    )


def compare_cpus(
    session: Session, cpus: Sequence[Cpu], engine: RunEngine, events: Events, *, asked: float | None, again: bool
) -> tuple[Verdict, NodeTable]:
    """Run on each CPU, and judge these runs together with those that were made on this machine's own.

    Args:
        session: runs that are equal; the emulated ones are added to them.
        cpus: which.
        engine: the local one.
        events: receives ``MoreRuns``.
        asked: seconds that a run may take, as asked; None for a limit by the first run.
        again: run three times more on CPUs that give another result.
    """
    from envbuild.operations.verification.session import ran_of
    from envbuild.verification.cpus import cpu_table

    native = len(session.done)
    places = [""] * native
    longest = max(ran.record.duration or 0.0 for ran in session.runs)
    limit = TimeLimit(asked or max(LEAST, FACTOR * longest))

    def run_on(cpu: Cpu, count: int) -> None:
        """Run in turn on one CPU; a program that fails there has another result, and others are still tried."""
        start = len(places)
        request = msgspec.structs.replace(session.plan.request, emulator=(cpu.emulator, cpu.name))
        folder = session.plan.folder / "cpus" / str(start)
        plan = replace(session.plan, request=request, folder=folder, number=0, vary=frozenset(), limit=limit)
        with events.phase(f"run on {cpu.model}", total=count, unit="runs") as advance:

            def each(found: Repeated) -> None:
                number = len(places)
                places.append(cpu.model)
                session.done[number] = replace(found, number=number)
                session.ran[number] = ran_of(found, session.plan.request.project)
                session.open_files()
                advance(1)
                session.forget()

            repeat(plan, count, engine, each)
        events.report(MoreRuns(purpose=f"on {cpu.model}", count=count))

    for cpu in cpus:
        session.asked += 1
        run_on(cpu, 1)
    verdict = session.judge()
    if verdict.outcome == "different" and again:
        same = set(verdict.groups[0])
        for cpu in [cpu for cpu in cpus if places.index(cpu.model) not in same]:
            session.asked += _AGAIN
            run_on(cpu, _AGAIN)
        verdict = session.judge()
    session.note_contents()
    return verdict, cpu_table(verdict.groups, places, session.plan.request.lock.determinism.level)
