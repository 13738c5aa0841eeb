"""A cause is called proven only if it is: experiments on programs whose causes are known, with luck of any kind."""

from __future__ import annotations

import ast
import contextlib
import random
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import msgspec
import pytest

from envbuild.core.digest import sha256_bytes
from envbuild.lockfile.model import Determinism
from envbuild.operations.verification import laboratory as module
from envbuild.operations.verification.experiments import _culprits, experiment
from envbuild.operations.verification.laboratory import Laboratory
from envbuild.record.model import Output
from envbuild.record.processes import Asked, Listing
from envbuild.runs.request import RunRequest
from envbuild.verification.causes.evidence import ON_DEMAND, SUSPECTS, Evidence
from envbuild.verification.causes.odds import Luck, luck_of
from envbuild.verification.causes.proofs import PROVEN
from envbuild.verification.causes.ranking import rank_causes
from envbuild.verification.ran import Ran
from tests.support.records import process, record
from tests.support.runtime import make_lock

if TYPE_CHECKING:
    from envbuild.runs.repeat import Variation
    from envbuild.verification.content import Content

VARIED: tuple[Variation, ...] = ("host", "times", "environment")


class World:
    """What one run of a program meets.

    Attributes:
        fixed: the suspects that are fixed.
        real: the lines that get what is real.
        varied: what is another one than in a first run.
        time: seconds; runs take one each.
        chance: what nobody controls.
    """

    def __init__(self, variables: Mapping[str, str], varied: frozenset[str], time: int, chance: random.Random) -> None:
        text, _, real = variables.get("ENVBUILD_FIX", "").partition("!")
        self.real = frozenset(real.split(";"))
        self.fixed = frozenset(filter(None, (each.partition("=")[0] for each in text.partition("@")[0].split(","))))
        self.fixed |= {"memory"} & ({"memory"} if "MALLOC_PERTURB_" in variables else set())
        self.varied, self.time, self.chance = varied, time, chance
        self.moved = "ENVBUILD_SHIFT" in variables
        self.filled = int(variables.get("MALLOC_PERTURB_", "0"))

    def drawn(self, suspect: str, line: int = 0) -> float:
        """Return what a suspect gives to a line."""
        if suspect in self.fixed and f"/workspace/train.py:{line}" not in self.real:
            return self.filled / 256 if suspect == "memory" else 0.5
        return self.chance.random()


Program = Callable[[World], object]
"""Returns the result of one run."""


class Bench(Laboratory):
    """A laboratory whose containers are functions; what it concludes from runs is the real one's."""

    def __init__(
        self, program: Program, seed: int, asked: Sequence[Asked] = (), listings: Sequence[Listing] = ()
    ) -> None:
        nothing: Any = None
        super().__init__(session=nothing, engine=nothing, events=nothing, limit=60, ends=1e18)
        self.listings = tuple(listings)
        self.program, self.chance, self.asked = program, random.Random(seed), asked
        self.time, self.count, self.second = seed * 1001, 0, 0
        self.first = [self.run({}, frozenset([f"{number}"] if number else [])) for number in range(3)]

    def run(self, variables: Mapping[str, str], varied: frozenset[str]) -> Ran:
        """Run once."""
        self.time += 1
        self.count += 1
        result = self.program(World(variables, varied, self.time, self.chance))
        listings = self.listings if varied else ()  # what is not varied is not noted
        processes = (process(asked=tuple(self.asked), listings=listings),)
        return Ran(record=record(outputs=(), metrics={}, processes=processes), trace=repr(result), steps=1)

    @property
    def runs_before(self) -> Sequence[Ran]:
        return self.first

    def later(self) -> None:
        self.second += 1

    def equal(self, *groups: Sequence[Ran]) -> bool:
        return all(groups) and len({each.trace for group in groups for each in group}) == 1

    def differing(self, runs: Sequence[Ran]) -> frozenset[tuple[str, str]]:
        """Return the places of a result of several parts, or the one of any other."""
        found = [ast.literal_eval(each.trace) if each.trace[:1] == "(" else (each.trace,) for each in runs]
        other = next((each for each in found if each != found[0]), ())
        pairs = zip(found[0], other, strict=False)
        return frozenset(("files", str(at)) for at, (mine, theirs) in enumerate(pairs) if mine != theirs)

    def sizes(self, runs: Sequence[Ran]) -> list[int]:
        return [*Counter(each.trace for each in runs).values()]

    def _runs(
        self, count: int, purpose: str, variables: Mapping[str, str], varied: Sequence[Variation] = (), **_: object
    ) -> list[Ran]:
        return [self.run(variables, frozenset(varied)) for _ in range(count)]


def concluded(
    program: Program, seed: int, sources: str = "", asked: Sequence[Asked] = (), listings: Sequence[Listing] = ()
) -> Evidence:
    """Return what experiments conclude of a program; one whose runs are equal by luck has nothing to conclude."""
    bench = Bench(program, seed, asked, listings)
    sizes = bench.sizes(bench.first)
    first, second = bench.first[0].record, bench.first[-1].record
    lock = make_lock(determinism=Determinism(level="ops", seed=42, threads=2))
    evidence = Evidence(a=first, b=second, lock=lock, sources={"train.py": sources})
    if len(sizes) == 1:
        return evidence
    varied = (*VARIED, *(("listings",) if listings else ()))
    return experiment(bench, evidence, luck_of(sizes), varied)[0]


def line(number: int, suspect: str = "entropy", call: str = "os.urandom") -> Asked:
    """A line of the program that asks for a suspect."""
    file = "/workspace/train.py"
    return Asked(
        suspect=suspect, call=call, file=file, line=number, module="__main__", place=f"{file}:{number}", count=1
    )


WITHOUT_A_LINE = {
    suspect: Asked(suspect=suspect, call="getrandom of the C library", file="", line=0)
    for suspect in ("entropy", "clock")
}
"""What a thread of a library asks for that runs no Python."""
CALLS = "import os, time, random, threading\nos.urandom(1)\ntime.time()\nid(open)\nthreading.Thread(target=print)\n"


def calls_for(suspect: str) -> str:
    """Sources; for a suspect that is tried only if they call for it, such ones."""
    further = {
        "collection": "import weakref\nweakref.WeakSet()\n",
        "limits": "import queue\nqueue.Queue().get(timeout=limit)\n",
        "threads": "from implicit.bpr import BayesianPersonalizedRanking as B\nB()\n",
    }
    assert further.keys() == ON_DEMAND
    return CALLS + further.get(suspect, "")


@pytest.mark.parametrize("results", [2, 3, 5])
def test_luck_proves_nothing(results: int) -> None:
    """A program of few possible results, which nothing that can be fixed or varied decides, has no proven cause."""
    tries = 100
    proven = [concluded(lambda world: world.chance.randrange(results), seed, CALLS).proven for seed in range(tries)]
    assert sum(map(bool, proven)) <= tries * 0.03


def test_a_result_that_is_seldom_another_one_has_no_proven_cause() -> None:
    """A race that one run in ten loses is not taken for what was varied or fixed meanwhile."""
    tries = 120
    proven = [concluded(lambda world: world.chance.random() < 0.1, seed, CALLS).proven for seed in range(tries)]
    assert sum(map(bool, proven)) <= tries * 0.03


@pytest.mark.parametrize("seconds", [3, 4, 7])
def test_what_changes_slowly_is_not_taken_for_what_was_varied(seconds: int) -> None:
    """Runs that share a minute are equal, and those of the next minute are not, whatever is varied between them."""
    for seed in range(40):
        evidence = concluded(lambda world: "clock" in world.fixed or (world.time // seconds), seed, CALLS)
        assert {*evidence.proven} <= {"clock"}


@pytest.mark.parametrize("suspect", SUSPECTS)
def test_what_is_the_cause_is_proven(suspect: str) -> None:
    """Continuous values that one suspect decides."""
    for seed in range(20):
        assert concluded(lambda world: world.drawn(suspect), seed, calls_for(suspect)).proven == (suspect,)


@pytest.mark.parametrize("suspect", SUSPECTS)
def test_the_cause_of_one_of_two_results_is_proven(suspect: str) -> None:
    """Where luck may be, more runs are made, and the right cause is proven with them."""
    found = [concluded(lambda world: world.drawn(suspect) < 0.6, seed, calls_for(suspect)) for seed in range(40)]
    differing = [each.proven for each in found if each.proven or each.refuted]
    assert {*differing} <= {(suspect,), ()}
    assert len([each for each in differing if each]) > len(differing) * 0.7


@pytest.mark.parametrize("variation", VARIED)
def test_what_was_varied_is_proven(variation: str) -> None:
    """A result that depends on one thing that was varied; the first runs differ by it."""

    def program(world: World) -> object:
        return variation in world.varied or sorted(world.varied & {"0", "1", "2"})

    for seed in range(5):
        assert concluded(program, seed, CALLS).proven == (variation,)


@pytest.mark.parametrize("sources", ["", CALLS])
def test_another_order_of_the_environment_is_no_cause_where_it_only_moves_objects(sources: str) -> None:
    """A result that is another one wherever objects are elsewhere depends on their addresses."""

    def program(world: World) -> int:
        return world.moved + 2 * bool(world.varied - {"host", "times"})

    for seed in range(10):
        assert concluded(program, seed, sources).proven == ("layout",)


@pytest.mark.parametrize("collected", [True, False])
def test_a_moved_collection_of_garbage_is_named_and_no_address(*, collected: bool) -> None:
    """One variable more makes objects more: what follows when garbage is collected differs, addresses or not."""

    def program(world: World) -> object:
        return (world.moved or bool(world.varied - {"host", "times"})) and not (
            collected and "collection" in world.fixed
        )

    for seed in range(5):
        found = concluded(program, seed, calls_for("collection"))
        assert found.proven == (("collection",) if collected else ("layout",))


@pytest.mark.parametrize("moves", [True, False])
def test_an_order_of_the_environment_that_only_moves_threads_is_proven_as_addresses(*, moves: bool) -> None:
    """Their stacks are not where they were, which a larger environment does not do; else the order itself is it."""

    def program(world: World) -> object:
        return "environment" in world.varied and not (moves and "addresses" in world.fixed)

    for seed in range(5):
        bench = Bench(program, seed)
        bench.first = [bench.run({}, frozenset(each)) for each in ((), ("environment",), ("environment",))]
        first, second = bench.first[0].record, bench.first[-1].record
        sources = {"train.py": "import random, threading\nrandom.Random(threading.get_ident())\n"}
        evidence = Evidence(a=first, b=second, lock=make_lock(), sources=sources)
        found, _ = experiment(bench, evidence, luck_of([1, 2]), VARIED)
        assert found.proven == (("addresses",) if moves else ("environment",))


def test_an_order_of_the_environment_that_moves_small_objects_is_no_cause_of_its_own() -> None:
    """Addresses are proven, and texts in another order leave other places for objects where those begin."""
    for seed in range(5):
        found = concluded(lambda world: (world.drawn("addresses"), "environment" in world.varied), seed, CALLS)
        assert found.proven == ("addresses",)


def test_times_that_move_objects_now_and_then_are_no_cause_besides_addresses() -> None:
    """A time of more digits takes more memory: with addresses fixed, one pair of runs in eight differs nevertheless."""

    def program(world: World) -> object:
        return (world.drawn("addresses"), world.drawn("clock", 9) > 15 / 16)

    found = Counter(concluded(program, seed).proven for seed in range(40))
    assert found["addresses",] >= 33  # 25 without more tries


def test_two_causes_are_both_named_and_no_third() -> None:
    """Where only both together make runs equal, the suspects that are not needed for it are not called proven."""
    for seed in range(20):
        evidence = concluded(lambda world: (world.drawn("entropy", 2), world.drawn("clock", 3)), seed, CALLS)
        assert {*evidence.proven} == {"entropy", "clock"}
        assert not {*evidence.proven} & {*evidence.refuted}


def test_two_causes_that_the_sources_do_not_show_are_found() -> None:
    """What no call suggests may be two things as well."""
    for seed in range(10):
        evidence = concluded(lambda world: (world.drawn("figures"), world.drawn("memory")), seed)
        assert {*evidence.proven} == {"figures", "memory"}


@pytest.mark.parametrize(
    ("causes", "most"), [(("figures",), 20), (("entropy", "clock"), 24), (("order", "memory"), 26)]
)
def test_causes_that_the_sources_do_not_show_cost_few_runs(causes: tuple[str, ...], most: int) -> None:
    """Of seven suspects halves are left out at once; each question is asked once."""
    bench = Bench(lambda world: [world.drawn(each) for each in causes], 1)
    first, second = bench.first[0].record, bench.first[-1].record
    evidence = Evidence(a=first, b=second, lock=make_lock(), sources={"train.py": ""})
    found, _ = experiment(bench, evidence, luck_of([1, 1, 1]), VARIED)
    assert {*found.proven} == {*causes}
    assert not {*found.proven} & {*found.refuted}
    assert bench.count <= most


def test_a_file_that_a_run_left_before_is_not_read_again(tmp_path: Path) -> None:
    """Where runs leave the same bytes, they have the same content; of other bytes it is read."""
    data = b'{"loss": 0.5}'
    outputs = tuple(
        Output(path="a.json", change="created", size=len(each), sha256=sha256_bytes(each)) for each in (data, b"[1]")
    )
    known: dict[tuple[str, str], Content] = {}
    ran = [Ran(record=record(outputs=(each,))) for each in (outputs[0], *outputs)]
    found = cast("Any", SimpleNamespace(files=tmp_path, outside=tmp_path))
    (tmp_path / "a.json").write_bytes(data)
    first = module.opened(found, ran[0], known)
    (tmp_path / "a.json").unlink()
    again, other = (module.opened(found, each, known) for each in ran[1:])
    assert again.contents["a.json"] == first.contents["a.json"]
    assert not other.contents


def test_experiments_end_after_so_many_runs() -> None:
    """What looks like the cause may take as many again, once; nothing is run then, and no runs are equal."""
    nothing = cast("Any", None)
    laboratory = Laboratory(session=nothing, engine=nothing, events=nothing, limit=60, runs_left=0)
    assert not laboratory.refused
    assert laboratory.pair(("entropy",)) == []
    assert laboratory.refused
    assert not laboratory.equal(laboratory.pair())
    laboratory.take_time()
    laboratory.take_time()
    assert laboratory.runs_left == module.RUNS


def test_the_line_is_found_where_its_value_decides_between_two_results() -> None:
    """A line that draws for one of two results is not cleared by one run that is equal by luck."""
    cleared, named = 0, 0
    for seed in range(80):
        evidence = concluded(
            lambda world: world.drawn("entropy", 2) < 0.6, seed, "import os\nos.urandom(1)\n\nos.urandom(2)\n",
            (line(2), line(4)),
        )  # fmt: skip
        cleared += "/workspace/train.py:2" in evidence.cleared
        named += [each.place for each in evidence.culprits] == ["/workspace/train.py:2"]
        assert all(each.place == "/workspace/train.py:2" for each in evidence.culprits)
    assert cleared <= 80 * 0.12
    assert named > 20


def test_lines_that_all_make_no_difference_are_not_blamed() -> None:
    """What is drawn where no line of the program is known is proven as such, and no line is named for it."""
    asked = (line(2), line(3), WITHOUT_A_LINE["entropy"])
    sources = "import os\nos.urandom(1)\nos.urandom(2)\n"
    evidence = concluded(lambda world: world.drawn("entropy", 99), 3, sources, asked)
    assert evidence.proven == ("entropy",)
    assert not evidence.culprits
    assert {*evidence.cleared} == {"/workspace/train.py:2", "/workspace/train.py:3"}


@pytest.mark.parametrize("suspect", ["entropy", "clock", "figures"])
def test_what_an_experiment_does_besides_proves_nothing(suspect: str) -> None:
    """A race that nobody loses where an experiment takes time is not what was fixed: all that asked may have it."""

    def program(world: World) -> float:
        return 0.5 if suspect in world.fixed else world.chance.random()

    sources = "import os, time\nos.urandom(1)\ntime.time()\n"
    for seed in range(5):
        found = concluded(program, seed, sources, (line(2, suspect), line(3, suspect)))
        assert suspect not in found.proven
        assert suspect in found.refuted
    ended = f"{sources}import multiprocessing\nwith multiprocessing.Pool(2) as pool: pass\n"
    assert concluded(program, 1, ended, (line(2, suspect), line(3, suspect))).proven == (suspect,)


def test_filled_memory_whose_numbers_do_not_matter_proves_nothing() -> None:
    """Runs are equal because filling takes time, or moves objects: with other numbers they are equal too."""
    for seed in range(5):
        found = concluded(lambda world: "memory" in world.fixed or world.chance.random(), seed, CALLS)
        assert "memory" not in found.proven
        assert "memory" in found.refuted


def test_filled_memory_is_not_proven_where_no_run_was_left_to_show_that_it_is_read() -> None:
    """A run that fails with other numbers shows it; one that was not made shows nothing."""

    class Ended(Bench):
        def filled_with(self, byte: int, fixed: Sequence[str]) -> list[Ran]:
            self.refused = refused
            return []

    for refused in (False, True):
        bench = Ended(lambda world: "memory" in world.fixed or world.chance.random(), 1)
        first = record(outputs=(), metrics={}, processes=(process(frameworks={"torch": "2.13.0"}),))
        evidence = Evidence(a=first, b=bench.first[-1].record, lock=make_lock(), sources={"train.py": CALLS})
        found, _ = experiment(bench, evidence, luck_of([1, 1, 1]), VARIED)
        assert ("memory" in found.proven) is not refused


class Polled(Bench):
    """A program with a thread that asks for the time now and then."""

    def run(self, variables: Mapping[str, str], varied: frozenset[str]) -> Ran:
        self.asked = (line(3, "clock"), msgspec.structs.replace(line(4, "clock"), count=self.count))
        return super().run(variables, varied)


def test_what_lies_in_memory_that_nothing_wrote_is_not_blamed_where_runs_differ_each_time() -> None:
    """A tensor that holds an address and a time of before: filling its memory is enough, and is the nearer cause."""

    def program(world: World) -> object:
        left = (world.drawn("clock"), world.drawn("addresses"))
        return world.filled if "memory" in world.fixed else left

    for arrays, proven in (({"torch": "2.13.0"}, {"memory"}), ({}, {"clock", "addresses"})):
        bench = Bench(program, 2)
        second = bench.first[-1].record
        first = record(outputs=(), metrics={}, processes=(process(frameworks=arrays),))
        evidence = Evidence(a=first, b=second, lock=make_lock(), sources={"train.py": "import torch\n"})
        found, _ = experiment(bench, evidence, luck_of([1, 1, 1]), VARIED)
        assert {*found.proven} == proven


def test_a_clock_that_others_move_has_a_time_for_each_line() -> None:
    """Threads that ask now and then, as kernels of notebooks do, move a common time: runs differ though it is fixed."""

    def program(world: World) -> object:
        moved = world.chance.random() if "clock" in world.fixed and "-" not in world.real else 0
        return world.drawn("clock", 3), moved

    bench = Polled(program, 4)
    first, second = bench.first[0].record, bench.first[-1].record
    evidence = Evidence(a=first, b=second, lock=make_lock(), sources={"train.py": "import time\n\ntime.time()\n"})
    found, _ = experiment(bench, evidence, luck_of([1, 1, 1]), VARIED)
    assert found.proven == ("clock",)
    assert [each.place for each in found.culprits] == ["/workspace/train.py:3"]


def test_a_line_among_many_is_found_in_few_runs() -> None:
    """The likeliest lines are left as they are alone, then several at a time: a program may ask at many."""
    sources = "import os\n" + "os.urandom(1)\n" * 30
    asked = [line(number) for number in range(2, 32)]
    for at in (2, 3, 9, 20, 31):
        bench = Bench(lambda world: world.drawn("entropy", at), at, asked)  # noqa: B023 - called in this turn
        first, second = bench.first[0].record, bench.first[-1].record
        evidence = Evidence(a=first, b=second, lock=make_lock(), sources={"train.py": sources})
        found, _ = experiment(bench, evidence, luck_of([1, 1, 1]), VARIED)
        assert [each.place for each in found.culprits] == [f"/workspace/train.py:{at}"]
        assert bench.count <= 36
        assert f"/workspace/train.py:{at}" not in found.cleared


def test_two_lines_that_make_runs_differ_hide_none() -> None:
    """Of several lines at a time it is one, and the likeliest of them is named; the others are not cleared."""
    sources = "import os\n" + "os.urandom(1)\n" * 30
    asked = [line(number) for number in range(2, 32)]
    found = concluded(lambda world: (world.drawn("entropy", 12), world.drawn("entropy", 27)), 1, sources, asked)
    assert [each.place for each in found.culprits] == ["/workspace/train.py:12"]
    assert not {"/workspace/train.py:12", "/workspace/train.py:27"} & {*found.cleared}


def test_lines_that_make_runs_differ_together_alone_are_named_together() -> None:
    """What was put into a cache at one line is too old at another: with one real time it always is, or never."""
    sources = "import time\n" + "time.time()\n" * 3

    def aged(world: World) -> object:
        put, got, printed = (world.drawn("clock", number) for number in (2, 3, 4))
        return (got - put if 0.5 not in (put, got) else (put == 0.5, got == 0.5)), printed == 0.5

    asked = [line(number, "clock", "time.time") for number in (2, 3, 4)]
    found = concluded(aged, 1, sources, asked)
    assert found.proven == ("clock",)
    assert {each.place for each in found.culprits} == {"/workspace/train.py:2", "/workspace/train.py:3"}


def test_a_clock_of_whole_seconds_is_found_though_two_runs_see_the_same_one() -> None:
    """An archive has the second at which it was made; runs of the experiments follow one another more closely."""

    def packed(world: World) -> object:
        real = world.drawn("clock", 2) != 0.5
        return (bench.second if real else None) if "clock" in world.fixed else world.time

    bench = Bench(lambda world: world.time, 1, [line(2, "clock", "gzip.GzipFile.__init__")])
    bench.program = packed
    first, second = bench.first[0].record, bench.first[-1].record
    evidence = Evidence(a=first, b=second, lock=make_lock(), sources={"train.py": "import time\npacked()\n"})
    found, _ = experiment(bench, evidence, luck_of([1, 1, 1]), VARIED)
    assert found.proven == ("clock",)
    assert [each.place for each in found.culprits] == ["/workspace/train.py:2"]


def test_the_time_of_a_log_is_named_only_where_there_is_no_other() -> None:
    """A package that logs and writes archives is one line of the program: by the archives' times runs differ."""
    log, archive = line(2, "clock", "logging.Logger.info"), line(2, "clock", "gzip.GzipFile.__init__")
    for asked, expected in (((log, archive), "gzip.GzipFile.__init__"), ((log,), "logging.Logger.info")):
        evidence = concluded(lambda world: world.drawn("clock", 2), 3, "import package\npackage.run()\n", asked)
        assert [each.call for each in evidence.culprits] == [expected]


def test_what_start_up_files_ask_for_is_no_line_of_the_program() -> None:
    """With a fixed clock the hook imports logging, which remembers when that was: it was named as proven."""
    start = msgspec.structs.replace(
        line(5, "clock", "asyncio.<module>"), file="<string>", module="site", place="<string>:5"
    )
    own = line(3, "clock", "time.perf_counter")
    evidence = concluded(
        lambda world: world.chance.random() if start.place in world.real else world.drawn("clock", 4),
        3,
        "",
        (own, start, WITHOUT_A_LINE["clock"]),
    )
    assert evidence.proven == ("clock",)
    assert not evidence.culprits
    assert evidence.cleared == (own.place,)


def test_a_line_that_draws_a_name_is_the_last_to_be_named() -> None:
    """A run's identity is printed by many programs: where more than it makes runs differ, that comes first."""
    sources = "import time, uuid\nname = uuid.uuid4()\nx = time.time()\n"
    asked = (line(2, call="uuid.uuid4"), line(3, "clock", "time.time"))
    for seed in range(10):
        both = concluded(lambda world: (world.drawn("entropy", 2), world.drawn("clock", 3)), seed, sources, asked)
        assert {*both.proven} == {"entropy", "clock"}
        assert [each.place for each in both.culprits] == ["/workspace/train.py:3"]
        alone = concluded(lambda world: world.drawn("entropy", 2), seed, sources, asked)
        assert [each.place for each in alone.culprits] == ["/workspace/train.py:2"]
        order = concluded(lambda world: (world.drawn("entropy", 2), world.drawn("order")), seed, sources, asked[:1])
        assert {*order.proven} == {"entropy", "order"}
        assert not order.culprits
        assert order.cleared == ("/workspace/train.py:2",)


def test_a_line_of_an_order_is_not_cleared_by_what_cannot_reach_it() -> None:
    """Which line takes results in the order of completion, no experiment shows: none is cleared."""
    sources = "import os\nfrom concurrent.futures import as_completed\nx = os.urandom(4)\n"
    sources += "for each in as_completed(tasks):\n    w = x\n"
    for seed in range(5):
        evidence = concluded(
            lambda world: (world.drawn("entropy", 3), world.drawn("order", 4)), seed, sources, (line(3),)
        )
        assert {*evidence.proven} == {"entropy", "order"}
        assert "/workspace/train.py:4" not in evidence.cleared
        assert [each.place for each in evidence.culprits] == ["/workspace/train.py:3"]


def test_few_runs_never_show_that_luck_is_impossible() -> None:
    """Four equal runs are wanted where all results differ, more where some were equal."""
    assert luck_of([1, 1, 1]) == Luck(3, 0)
    assert luck_of([1, 1, 1]).runs_that_prove() == 5
    assert (luck_of([1, 1, 1]) + luck_of([1, 1, 1, 1])).runs_that_prove() == 4
    assert (luck_of([2, 1]) + luck_of([2, 2])).runs_that_prove() == 8
    assert luck_of([9, 1]).runs_that_prove() > 20
    assert Luck(0, 0).runs_that_clear() >= 1


def test_time_is_given_once_to_prove_what_looks_like_the_cause(monkeypatch: pytest.MonkeyPatch) -> None:
    """Experiments end: what confirms a cause may take as long again, and not more."""
    nothing = cast("Any", None)
    laboratory = Laboratory(session=nothing, engine=nothing, events=nothing, limit=60, ends=100.0)
    laboratory.take_time()
    laboratory.take_time()
    assert laboratory.ends == 100.0 + module.LONGEST


def test_a_figure_that_is_the_same_in_all_runs_proves_nothing() -> None:
    """A fixed process number may keep a signal from where it was sent: the number itself never was another one."""
    same = msgspec.structs.replace(line(2, "figures"), call="os.getpid", values="5d41402a")
    found = [
        concluded(lambda world: world.drawn("figures", 2), seed, "import os\nos.getpid()\n", (same,)) for seed in (1, 2)
    ]
    assert [(each.proven, each.culprits) for each in found] == [((), ())] * 2
    assert all("figures" in each.refuted for each in found)
    other = msgspec.structs.replace(same, values="")
    assert concluded(lambda world: world.drawn("figures", 2), 1, "import os\nos.getpid()\n", (other,)).proven == (
        "figures",
    )


class Started(Bench):
    """A program that starts others; each gives what ``outputs`` has for the run's number."""

    outputs: Sequence[Sequence[tuple[str, str, str]]] = ()

    def run(self, variables: Mapping[str, str], varied: frozenset[str]) -> Ran:
        self.asked = tuple(
            msgspec.structs.replace(line(number, "programs"), call=call, given=given, values=values)
            for number, (call, given, values) in enumerate(self.outputs[self.count % len(self.outputs)], 1)
        )
        return super().run(variables, varied)


def test_a_program_that_gives_another_output_for_the_same_is_named() -> None:
    """What a program was given may differ already; if only its output does, it is named, below what is proven."""
    bench = Started.__new__(Started)
    bench.outputs = [
        [("cut", "a", "1"), ("xargs -P 8", "b", "2"), ("sort", "c", "3")],
        [("cut", "a", "1"), ("xargs -P 8", "b", "4"), ("sort", "d", "5")],
    ]
    bench.__init__(lambda world: world.chance.random(), 3)  # type: ignore[misc]
    first, second = bench.first[0].record, bench.first[-1].record
    evidence = Evidence(a=first, b=second, lock=make_lock(), sources={"train.py": ""})
    evidence, _ = experiment(bench, evidence, luck_of([1, 1, 1]), VARIED)
    assert [(each.call, each.place) for each in evidence.programs] == [("xargs -P 8", "/workspace/train.py:2")]
    (cause,) = [each for each in rank_causes(evidence) if "xargs" in each.what]
    assert cause.where == "train.py:2"
    assert cause.weight < PROVEN


def test_a_line_that_makes_some_results_alone_differ_is_not_the_cause_of_all() -> None:
    """Where one reading of the clock is how long something took, and another one a seed that decides the rest."""

    def program(world: World) -> object:
        took, seed = world.drawn("clock", 19), world.drawn("clock", 20)
        return took + seed, seed

    found = concluded(program, 3, _TWO_CLOCKS, [line(19, "clock", "time.time"), line(20, "clock", "time.time")])
    assert found.proven == ("clock",)
    assert [each.place for each in found.culprits] == ["/workspace/train.py:20"]
    alone = concluded(lambda world: (world.drawn("clock", 19), 0.0), 3, _TWO_CLOCKS, [line(19, "clock", "time.time")])
    assert [each.place for each in alone.culprits] == ["/workspace/train.py:19"]


_TWO_CLOCKS = "import time\n" + "\n" * 17 + "took = time.time()\nseed = time.time()\n"


def test_two_causes_are_both_proven() -> None:
    """A program that draws without a seed and depends on the host's name has two causes, each in its own right."""

    def program(world: World) -> object:
        return world.drawn("entropy", 2), "host" in world.varied

    found = concluded(program, 1, CALLS + "import socket\nsocket.gethostname()\n", [line(2)])
    assert set(found.proven) == {"entropy", "host"}
    named = [cause for cause in rank_causes(found) if cause.weight >= PROVEN - 1]
    assert [cause.where for cause in named] == ["train.py:2", "train.py:7"]
    assert all("the host has the same name" in cause.what and "entropy is fixed" in cause.what for cause in named)


def listing(call: str, module: str, line: int) -> Listing:
    """A line that lists the project's folder."""
    return Listing(call=call, file="/workspace/train.py", line=line, module=module, folder="/workspace")


@pytest.mark.parametrize("own", [False, True])
def test_a_listing_of_imports_that_only_moves_objects_is_no_cause(*, own: bool) -> None:
    """A folder listed in another order is put elsewhere in memory; the program's own listing may be a cause besides."""

    def program(world: World) -> object:
        return world.drawn("addresses", 4), world.moved or "environment" in world.varied or "listings" in world.varied

    listed = [listing("importlib._bootstrap._find_and_load", "importlib.metadata", 1)]
    listed += [listing("os.listdir", "__main__", 6)] * own
    found = concluded(program, 2, CALLS + "os.listdir()\n", [line(4, "addresses", "id")], listed)
    assert set(found.proven) == {"addresses", "layout", *(["listings"] * own)}
    named = [cause.where for cause in rank_causes(found) if cause.weight >= PROVEN - 1]
    assert "train.py:4" in named
    assert ("train.py:6" in named, "train.py:1" in named) == (own, False)


@pytest.mark.parametrize(
    ("source", "suspect", "proven"),
    [
        ("", "addresses", {"addresses"}),
        ("os.getloadavg()\n", "addresses", {"addresses"}),
        ("os.getloadavg()\n", "entropy", {"entropy", "load"}),
        ("", "entropy", {"entropy"}),
    ],
)
def test_another_load_that_only_moves_objects_is_no_cause(source: str, suspect: str, proven: set[str]) -> None:
    """To vary it takes memory; only a program that asks for it can depend on it."""
    bench = Bench(lambda world: (world.drawn(suspect, 4), "load" in world.varied), 2, [line(4, suspect, "id")])
    first, second = bench.first[0].record, bench.first[-1].record
    evidence = Evidence(a=first, b=second, lock=make_lock(), sources={"train.py": CALLS + source})
    found, _ = experiment(bench, evidence, luck_of([1, 1, 1]), (*VARIED, "load"))
    assert {*found.proven} == proven


def test_what_is_varied_is_no_second_cause_without_an_effect() -> None:
    """A program whose draws alone make runs differ has one cause."""
    found = concluded(lambda world: world.drawn("entropy", 2), 1, CALLS, [line(2)])
    assert found.proven == ("entropy",)


def test_a_rest_of_luck_is_seldom_taken_for_what_was_varied() -> None:
    """With entropy fixed such a program has two results by chance, as often as a coin; 29 were before."""
    found = [
        set(concluded(lambda world: (world.drawn("entropy", 2), world.chance.random() < 0.5), seed, CALLS).proven)
        for seed in range(400)
    ]
    assert sum("entropy" in each and not {"host", "times", "environment"}.isdisjoint(each) for each in found) < 8


def test_two_things_that_were_varied_are_both_proven() -> None:
    """Runs with nothing varied are equal; the host's name and times of files make them differ, each alone."""
    found = concluded(lambda world: [*map(world.varied.__contains__, ("host", "times", "0", "1", "2"))], 1)
    assert set(found.proven) == {"host", "times"}


def test_an_order_and_a_draw_are_both_named_as_proven() -> None:
    """Each of two suspects that have to be fixed together has its line, the likeliest one of each."""

    def program(world: World) -> object:
        return world.drawn("entropy", 2), world.drawn("order")

    found = concluded(program, 3, CALLS, [line(2)])
    named = [cause.where for cause in rank_causes(found) if cause.weight >= PROVEN - 1]
    assert set(named) == {"train.py:2", "train.py:5"}


def test_libraries_have_one_thread_in_an_experiment(tmp_path: Path) -> None:
    """By the locked variables, which the guard lets be, and without the switches that would set the locked number."""
    lock = make_lock(environment={"OMP_NUM_THREADS": "4", "POLARS_MAX_THREADS": "4", "OMP_DYNAMIC": "FALSE"})
    request = RunRequest(
        lock_path=tmp_path / "l", lock=lock, image="t:1", config="ab" * 32, arguments=("train.py",), directory=tmp_path
    )
    changed = module.with_one_thread(request)
    assert changed.own_variables == {"OMP_NUM_THREADS": "1", "POLARS_MAX_THREADS": "1"}
    assert changed.allow == ("environment.OMP_NUM_THREADS", "environment.POLARS_MAX_THREADS")
    assert "torch.set_num_threads" in changed.without


def test_pools_in_rust_do_one_task_after_another_where_order_is_fixed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The hook reaches no pool of rayon's: its variable does, unless the lock has another value for it."""
    given: list[Mapping[str, str]] = []
    monkeypatch.setattr(module, "run_again", lambda session, count, variables, *rest, **more: given.append(variables))
    for environment, fixed in (({}, "order"), ({}, "clock"), ({"RAYON_NUM_THREADS": "4"}, "order")):
        request = SimpleNamespace(lock=make_lock(environment=environment), project=tmp_path)
        nothing: Any = None
        session: Any = SimpleNamespace(plan=SimpleNamespace(request=request))
        with contextlib.suppress(TypeError):  # no run is made
            Laboratory(session=session, engine=nothing, events=nothing, limit=60).pair((fixed,))
    assert [each.get("RAYON_NUM_THREADS") for each in given] == ["1", None, None]


def test_whether_a_file_is_there_is_no_figure_where_the_line_asks_for_one() -> None:
    """A package that looks for a file before it reads it is named by what it reads; alone, that counts."""
    place = "/workspace/train.py:3"
    there, read = (
        Asked(suspect="figures", call=call, file="np.py", line=1, module="numpy", place=place, count=1)
        for call in ("genericpath.exists", "reading /proc/self/schedstat")
    )
    assert [each.call for each in _culprits([there, read], place)] == [read.call]
    assert [each.call for each in _culprits([there], place)] == [there.call]


def test_lines_that_ask_a_clock_are_compared_with_a_run_in_which_each_has_its_own() -> None:
    """No line of that run gets what is real: the hook gives all lines times of their own where there is a ``!``."""
    asked: list[str] = []
    laboratory = cast(
        Any, SimpleNamespace(_variables=lambda fixed, real: {"ENVBUILD_FIX": f"{','.join(fixed)}!{';'.join(real)}"})
    )
    laboratory._runs = lambda count, purpose, variables: asked.append(f"{purpose}: {variables['ENVBUILD_FIX']}") or []
    Laboratory.with_real(laboratory, ("clock",), ())
    Laboratory.with_real(laboratory, ("clock",), ("/workspace/train.py:3",))
    assert asked == [
        "a fixed clock for each line: clock!-",
        "one line not fixed: train.py:3: clock!/workspace/train.py:3",
    ]


@pytest.mark.parametrize(
    ("call", "filled", "proven"),
    [
        ("numpy.empty(3)", True, ("memory",)),
        ("numpy.empty(3)", False, ("layout",)),  # it is the address itself that is used
        ("id(open)", True, ("layout",)),  # nothing calls for more experiments
    ],
)
def test_what_is_left_in_memory_is_not_blamed_for_who_reads_it(
    call: str, filled: bool, proven: tuple[str, ...]
) -> None:
    """Where addresses lie in memory that nothing wrote, filling that makes runs equal: it is the nearer cause."""

    def program(world: World) -> object:
        moved = world.moved + 2 * bool(world.varied - {"host", "times"})
        return -world.filled if filled and "memory" in world.fixed else moved

    for seed in range(5):
        assert concluded(program, seed, f"import numpy\n{call}\n").proven == proven
