"""SIGKILL at random moments: two commands at a time on one store, one engine, one registry.

After each kill the same command must succeed and give what an undisturbed one gives; earlier results must still be
there; and nothing may be left behind.
"""

from __future__ import annotations

import math
import os
import random
import shutil
import signal
import statistics
import subprocess
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from envbuild.store.gc import collect
from envbuild.store.inventory import inventory
from envbuild.store.objects import Store
from tests.campaign import leaks
from tests.campaign.workshop import Subject, Workshop
from tests.support.cli import Done, Project, finish
from tests.support.images import forget_images

_EARLIEST = 0.02
GUESS = {
    "lock": 2.0, "fetch": 1.5, "build": 3.0, "output": 3.0, "load": 2.0, "run": 2.0, "verify": 4.0, "push": 1.5,
    "pull": 1.5, "gc": 0.5,
}  # fmt: skip
"""Seconds that a command takes before one has been measured."""
STEPS = ("lock", "fetch", "build", "output", "load", "run", "push", "gc")
"""Commands that are killed, in the order of a user's day."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Engine:
    """An engine to run on: its name for people, the variables that choose it, and where its containers are.

    Attributes:
        address: of a container engine, as DOCKER_HOST has it; empty for the machine's own and where there is none.
    """

    kind: str
    address: str = ""

    @property
    def environ(self) -> dict[str, str]:
        """The variables of a command that uses it."""
        return {"ENVBUILD_ENGINE": self.kind} | ({"CONTAINER_HOST": self.address} if self.address else {})


ENGINES = (Engine(kind="docker"), Engine(kind="local"))
"""The engines of a campaign that names none."""


@dataclass(kw_only=True)
class Tally:
    """What a campaign has found; shared by its workers."""

    count: int
    deadline: float = math.inf
    kills: Counter[str] = field(default_factory=Counter)
    engines: Counter[str] = field(default_factory=Counter)
    late: Counter[str] = field(default_factory=Counter)
    faults: list[str] = field(default_factory=list)
    known: set[leaks.Stamp] = field(default_factory=set)
    seconds: dict[str, list[float]] = field(default_factory=dict)
    lock: threading.Lock = field(default_factory=threading.Lock)

    @property
    def over(self) -> bool:
        """Whether enough commands have been killed, or time is up."""
        return self.kills.total() >= self.count or time.monotonic() > self.deadline

    def typical(self, step: str) -> float:
        """Seconds that a command takes when nobody kills it."""
        return statistics.median(self.seconds.get(step) or [GUESS[step]])

    def fault(self, text: str) -> None:
        """Note a fault."""
        with self.lock:
            self.faults.append(text)
        print(f"  fault: {text}", flush=True)


def campaign(
    shop: Workshop,
    seed: int,
    count: int,
    report: Callable[[str], None],
    engines: Sequence[Engine] = ENGINES,
    minutes: float = math.inf,
    steps: Sequence[str] = STEPS,
) -> Tally:
    """Kill ``count`` commands, one worker for each project; returns what was found.

    Args:
        engines: of which a worker takes the next one with each change of its project.
        steps: the commands of a user's day.
        minutes: after which no more are killed; what is checked at the end is checked all the same.
    """
    tally = Tally(count=count, deadline=time.monotonic() + 60 * minutes)
    workers = [
        Worker.of(shop, subject, tally, seed, report, [*engines[number:], *engines[:number]])
        for number, subject in enumerate(shop.subjects)
    ]
    for worker in workers:
        worker.steps = steps
    threads = [threading.Thread(target=worker.work, name=worker.subject.name) for worker in workers]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for worker in workers:
        worker.settle()
    if left := leaks.mounts(shop.root):
        tally.fault(f"mounts are left: {left}")
    if left := leaks.leftovers(shop.store):
        tally.fault(f"files are left in the store: {left}")
    if wrong := leaks.wrong_bytes(shop.store):
        tally.fault(f"wrong bytes: {wrong}")
    return tally


Kind = TypeVar("Kind", bound="Worker")


@dataclass(kw_only=True)
class Worker:
    """Kills the commands of one project, which run on one engine after the other."""

    shop: Workshop
    subject: Subject
    tally: Tally
    random: random.Random
    report: Callable[[str], None]
    engines: list[Engine]
    steps: Sequence[str] = STEPS
    target: str = ""
    kept: dict[str, str] = field(default_factory=dict)
    pids: list[int] = field(default_factory=list)

    @classmethod
    def of(
        cls: type[Kind],
        shop: Workshop,
        subject: Subject,
        tally: Tally,
        seed: int,
        report: Callable[[str], None],
        engines: Sequence[Engine],
    ) -> Kind:
        """Return the worker of one project, whose moments follow the seed."""
        moments = random.Random(f"{seed} {subject.name}")
        return cls(shop=shop, subject=subject, tally=tally, random=moments, report=report, engines=list(engines))

    def __post_init__(self) -> None:
        self.temporary = self.shop.root / f"tmp-{self.subject.name}"
        self.temporary.mkdir()
        self.mark = f"ENVBUILD_CAMPAIGN={self.subject.name}"

    @property
    def engine(self) -> Engine:
        """The engine now."""
        return self.engines[0]

    @property
    def environ(self) -> dict[str, str]:
        """What all commands of this worker have."""
        return dict([self.mark.split("=")], TMPDIR=str(self.temporary)) | self.engine.environ

    @property
    def project(self) -> Project:
        """The project."""
        return self.subject.project

    def work(self) -> None:
        """Go through a user's day again and again, each command killed a few times before it may end."""
        try:
            while not self.tally.over:
                states = len(self.subject.references)
                state = (self.subject.state + self.random.randrange(1, states)) % states
                self.subject.change(state)
                for step in self.steps:
                    self._step(step)
                    if self.tally.over:
                        break
                self.engines.append(self.engines.pop(0))
        except Exception as error:  # a thread's exception would be lost
            self.tally.fault(f"{self.subject.name}: {type(error).__name__}: {error}")

    def settle(self) -> None:
        """Run what removes the rest, when no other command is at work."""
        for _ in self.engines:
            self._end("run", *self._command("run"))
            if left := leaks.containers(self.pids, self.engine.address):
                self.tally.fault(f"containers are left on {self.engine.kind}: {left}")
            self.engines.append(self.engines.pop(0))
        self._end("gc", *self._command("gc"))
        self._inspect("gc")
        if self.project.must("store", "verify", "--json").json.get("damaged"):
            self.tally.fault("store verify found damage")

    def _step(self, step: str) -> None:
        """Kill one command some times, then let it end, and look what there is."""
        self._prepare(step)
        for _ in range(self.random.choice((1, 1, 2, 3))):
            if self.tally.over:
                break
            self._kill(step, *self._command(step))
        self._end(step, *self._command(step))
        self._inspect(step)

    def _command(self, step: str) -> tuple[Sequence[str], dict[str, str]]:
        """Return a command's words, and the variables that it gets."""
        match step:
            case "output":
                # A folder that is there already is refused, also if the killed command had finished it.
                shutil.rmtree(self.project.folder / "out", ignore_errors=True)
                return ("build", "--output", self.target), self.environ
            case "load":
                return ("build",), self.environ
            case "run":
                return ("run", "train.py"), self.environ
            case "verify":
                return ("verify", "-n", "2", "train.py"), self.environ
            case "push" | "pull":
                return (step, f"{self.shop.registry.host}/campaign/{self.subject.name}"), self.environ
            case "gc":
                return ("store", "gc", "--older-than", "0"), self.environ
            case _:
                return (step,), self.environ

    def _prepare(self, step: str) -> None:
        """Take away what would leave a command nothing to do; what another command uses stays."""
        if step == "output":  # what a killed command left beside a file goes when the next one writes the same file
            self.target = self.random.choice(("oci:out", "oci:out.tar", "docker-archive:out.tar"))
        if step in ("build", "output"):
            store = Store(self.shop.store)
            layers = [entry for entry in inventory(store, {}) if entry.kind in ("layers", "bytecode")]
            # The largest is the operating system's, whose package scripts run in a container or in namespaces.
            whole = self.random.random() < 0.3
            largest = max((entry.size for entry in layers), default=0)
            collect(store, [entry for entry in layers if whole or entry.size < largest // 2])
        if step in ("load", "pull"):
            if self.engine.kind != "local":
                forget_images(f"envbuild/{self.subject.name}", address=self.engine.address)
            store = Store(self.shop.store)
            collect(store, [entry for entry in inventory(store, {}) if entry.kind == "trees"])

    def _kill(self, step: str, words: Sequence[str], environ: dict[str, str]) -> None:
        delay = self.random.uniform(_EARLIEST, 1.15 * self.tally.typical(step))
        whole_group = self.random.random() < 0.5
        process = self.project.start(*words, **environ)
        try:
            process.wait(delay)
        except subprocess.TimeoutExpired:
            (os.killpg if whole_group else os.kill)(process.pid, signal.SIGKILL)
            with self.tally.lock:
                self.tally.kills[step] += 1
                self.tally.engines[self.engine.kind] += 1
            self.pids.append(process.pid)
            _drain(process)
        else:
            done = finish(process)
            self.tally.late[step] += 1
            if done.code != 0:
                self.tally.fault(f"{' '.join(words)} failed before it was killed: {done.code} {done.err}")

    def _end(self, step: str, words: Sequence[str], environ: dict[str, str]) -> None:
        began = time.monotonic()
        done: Done = self.project(*words, **environ)
        with self.tally.lock:
            self.tally.seconds.setdefault(step, []).append(time.monotonic() - began)
        self.report(f"{self.tally.kills.total():4} kills  {self.subject.name}  {self.engine.kind:<6}  {step}")
        if done.code != 0:
            self.tally.fault(f"after a kill: {' '.join(words)}: exit {done.code}\n{done.out}{done.err}")
        if step == "run" and done.out != f"state {self.subject.state + 1}.0\n":
            self.tally.fault(f"the program printed {done.out!r}")

    def _inspect(self, step: str) -> None:
        subject, reference = self.subject, self.subject.reference
        found = {
            "another lock": subject.lock.read_bytes() != reference.lock,
            "another image": subject.record.exists() and subject.record.read_bytes() != reference.record,
            "wrong bytes in the store": leaks.wrong_bytes(self.shop.store, self.tally.known),
            "processes are left": leaks.processes(self.mark, self.project.folder if step == "run" else None),
            "files are left in TMPDIR": leaks.temporary(self.temporary),
            "files are left in the project": leaks.strays(self.project.folder),
        }
        if step in ("build", "load", "run"):
            found["containers are left"] = leaks.containers(self.pids, self.engine.address)
        now = leaks.records(self.project.folder)
        found["records are lost"] = [name for name, digest in self.kept.items() if now.get(name) != digest]
        self.kept = now
        for name, what in found.items():
            if what:
                self.tally.fault(f"after {step} of {subject.name}: {name}: {what}")


def _drain(process: subprocess.Popen[bytes]) -> None:
    """Wait for the killed process alone: what it started may hold its standard output open."""
    process.wait()
    for stream in (process.stdout, process.stderr):
        if stream is not None:
            stream.close()


def figures(tally: Tally) -> list[str]:
    """Return the lines that state what was done."""
    lines = ["command  killed  had ended  median s"]
    for step in STEPS:
        lines.append(f"{step:<8} {tally.kills[step]:>6}  {tally.late[step]:>9}  {tally.typical(step):>8.1f}")
    by_engine = ", ".join(f"{kind} {number}" for kind, number in sorted(tally.engines.items()))
    return [*lines, f"{tally.kills.total()} kills ({by_engine}), {len(tally.faults)} faults"]
