"""Dask's tasks have numbers of their own, and in an experiment an order (hook/frameworks/for_dask.py, fix_dask.py).

With what Dask has in the places that are replaced; Dask itself is in integration/test_multiprocess.py::test_dask.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
import pickle
import queue
import random
import sys
import threading
import types
import uuid
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from typing import Any

import pytest

from envbuild.runtime.hook import finder, fix_dask
from envbuild.runtime.hook.frameworks import for_dask, for_pools
from envbuild.runtime.hook.tasks import Task


class Process:
    """What the hook's process has of which numbers of tasks are made."""

    def __init__(self) -> None:
        self.main_thread = threading.get_ident()
        self.programs: dict[str, int] = {}
        self.task = self.path = ""
        self.entered: list[str] = []

    def enter_task(self, place: str, _: dict[str, str]) -> None:
        self.entered.append(place)
        self.task, self.programs = place, {}

    def guarded(self, _: str, action: Callable[[], None], **__: Any) -> None:
        action()

    def seed(self) -> int:
        return 7


@pytest.fixture(autouse=True)
def names(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Have each test begin as a process does."""
    monkeypatch.setattr(for_dask._Names, "own", "")
    monkeypatch.setattr(for_dask._Names, "doing", None)
    yield
    assert not for_dask._tasks, "a thread that has done its task does none"


def _module(**members: Any) -> Any:
    module = types.ModuleType("dask.delayed")
    module.__dict__.update(members)
    return module


def _another_run(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setattr(for_dask._Names, "own", "")
    module = _module(uuid=uuid, hashlib=hashlib)
    for_dask.set_up_tokens(module, Process())  # type: ignore[arg-type]
    return module


def test_the_first_half_of_a_name_repeats_and_the_second_is_no_other_processs(monkeypatch: pytest.MonkeyPatch) -> None:
    """So that the task's place repeats, and a scheduler that several runs share does not mix them up."""
    first, second = ([_another_run(monkeypatch).uuid.uuid4(), for_dask._Names.own] for _ in range(2))
    one, two = first[0], second[0]
    assert one.hex[:16] == two.hex[:16]
    assert one.hex[16:] == first[1] != second[1] == two.hex[16:]
    assert (one.version, one.variant) == (4, uuid.RFC_4122)
    assert for_dask.place(f"draw-{one}") == for_dask.place(f"draw-{two}") == for_dask.place(f"draw-{two.hex}")


def test_in_an_experiment_with_an_order_whole_names_repeat(monkeypatch: pytest.MonkeyPatch) -> None:
    """Dask's warnings print keys; processes of one run differ still."""
    monkeypatch.setitem(sys.modules, for_dask.ORDER, types.ModuleType("fix_order"))
    one, two = (_another_run(monkeypatch).uuid.uuid4() for _ in range(2))
    assert one == two
    other = Process()
    other.path = "worker 1"
    assert len({for_dask._own_half(each) for each in (Process(), other)}) == 2  # type: ignore[arg-type]


def test_names_of_one_process_differ(monkeypatch: pytest.MonkeyPatch) -> None:
    """By their number, the task that draws them and the module that does; ``uuid1`` too."""
    module, process = _another_run(monkeypatch), Process()
    other = for_dask._Uuids(uuid, "dask.base", process)  # type: ignore[arg-type]
    drawn = [module.uuid.uuid4(), module.uuid.uuid4(), module.uuid.uuid1(), other.uuid4()]
    process.enter_task("dask task 1", {})
    drawn.append(other.uuid4())
    assert len({for_dask.place(each) for each in drawn}) == 5
    assert module.uuid.UUID is uuid.UUID


def test_another_thread_draws_names_as_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    """When it draws is a race: its names have no number, and take none from those that have."""
    module, again = _another_run(monkeypatch), _another_run(monkeypatch)
    with ThreadPoolExecutor(1) as pool:
        theirs = pool.submit(module.uuid.uuid4).result()
    assert for_dask._Names.own not in theirs.hex
    assert module.uuid.uuid4().hex[:16] == again.uuid.uuid4().hex[:16]


@pytest.mark.parametrize("form", ["{}", "{.hex}"])
def test_a_hash_of_such_a_name_has_two_halves_too(form: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """With dashes or without; a hash of another text is what it was."""
    found = []
    for _ in range(2):
        module = _another_run(monkeypatch)
        text = f"('draw', {form.format(module.uuid.uuid4())})"
        found.append(module.hashlib.md5(text.encode(), usedforsecurity=False).hexdigest())
    assert found[0][:16] == found[1][:16]
    assert found[0][16:] != found[1][16:]
    assert module.hashlib.md5(b"draw").hexdigest() == hashlib.md5(b"draw").hexdigest()
    assert module.hashlib.sha256 is hashlib.sha256


@pytest.mark.parametrize("version", ["2024", "2023"])
def test_tokens_of_older_versions_have_two_halves_too(version: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """``dask.base`` made them: with ``hashlib`` itself, before with a function that kept it, and ``update``."""

    def _md5(data: bytes, kept: Any = hashlib.md5) -> Any:
        return kept(data, usedforsecurity=False)

    found = []
    for _ in range(2):
        monkeypatch.setattr(for_dask._Names, "own", "")
        module = _module(uuid=uuid, **({"hashlib": hashlib} if version == "2024" else {"_md5": _md5}))
        for_dask.set_up_tokens(module, Process())  # type: ignore[arg-type]
        digest = module.hashlib.md5 if version == "2024" else module._md5
        token = digest(b"(1, 2)")
        token.update(f"axis={module.uuid.uuid4()}".encode())
        found.append(token.hexdigest())
        plain = digest(b"(1, 2)")
        plain.update(b"axis=0")
        real = hashlib.md5(b"(1, 2)axis=0")
        assert (plain.hexdigest(), plain.digest()) == (real.hexdigest(), real.digest())
    assert found[0][:16] == found[1][:16]
    assert found[0][16:] != found[1][16:]


def test_a_copy_of_a_hash_has_two_halves_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is added to one of both is not in the other; views of memory are data too."""
    module = _another_run(monkeypatch)
    token = module.hashlib.md5(memoryview(b"(1, 2)"))
    token.update(f"axis={module.uuid.uuid4()}".encode())
    expected = token.hexdigest()
    copy = token.copy()
    assert (copy.hexdigest(), expected[16:]) == (expected, for_dask._Names.own)
    copy.update(b"more")
    assert token.hexdigest() == expected != copy.hexdigest()
    assert copy.hexdigest()[16:] == for_dask._Names.own


def test_many_parts_of_a_hash_take_the_time_of_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """Data of 64 MiB in parts of 256 bytes: copied with each part, that was 8 TiB."""
    token, part = _another_run(monkeypatch).hashlib.md5(), bytes(256)
    for _ in range(1 << 18):
        token.update(part)
    assert token.hexdigest() == hashlib.md5(bytes(1 << 26)).hexdigest()


DASK = sorted({step for step in finder.TASKS.values() if step.startswith("for_dask.")})


@pytest.mark.parametrize("ordered", [False, True])
@pytest.mark.parametrize("step", DASK)
def test_what_a_version_has_not_is_left_alone(step: str, ordered: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whether the module is there without what is replaced in it, or with its classes but without their methods."""
    if ordered:
        monkeypatch.setitem(sys.modules, for_dask.ORDER, types.ModuleType("fix_order"))
    set_up = getattr(for_dask, step.partition(".")[2])
    module = _module()
    before = dict(module.__dict__)
    set_up(module, Process())
    assert module.__dict__ == before
    kinds = {name: type(name, (), {}) for name in ("Client", "as_completed", "LocalCluster")}
    module = _module(uuid=lambda: 1, hashlib=None, wait=None, **kinds)
    before = {name: dict(kind.__dict__) for name, kind in kinds.items() if name != "LocalCluster"}
    set_up(module, Process())
    assert {name: dict(kinds[name].__dict__) for name in before} == before
    assert module.uuid() == 1


def test_the_steps_of_libraries_never_end_the_program() -> None:
    """What they replace is no interface: a version that has it otherwise is warned of."""
    warned, ended = [], []
    process = types.SimpleNamespace(
        guarded=lambda what, action, *, vital: (ended if vital else warned).append(what),
        observer=types.SimpleNamespace(within=lambda path: False),
    )
    for name in finder.TASKS:
        finder.set_up(name, _module(__file__="/site/module.py"), process, finder.TASKS)  # type: ignore[arg-type]
    assert warned == [*finder.TASKS]
    assert not ended
    assert not {"joblib", "ray", "dask", "distributed"}.intersection(name.partition(".")[0] for name in finder.WATCHED)


def test_the_state_of_a_task_may_be_another_thing() -> None:
    """The task is done, without numbers of its own."""
    process, module = Process(), _module(apply_function=lambda *given: given)
    for_dask.set_up_worker(module, process)  # type: ignore[arg-type]
    for given in ((1, 2, 3), (1, 2, 3, "state", "key"), (1, 2, 3, None, "key", 4)):
        assert module.apply_function(*given) == given
    assert process.entered == []


def test_places_differ_by_keys() -> None:
    """Also by what is no name in them: numbers of blocks, and the function's name."""
    name = uuid.uuid4()
    keys = [f"draw-{name}", f"fit-{name}", ("draw", 0), ("draw", 1), f"draw-{uuid.uuid4()}", "draw"]
    assert len({for_dask.place(key) for key in keys}) == 6
    assert for_dask.place("\udc80").startswith("dask task ")


def _worker(threads: int, nanny: str | None = "tcp://1") -> dict[str, Any]:
    return {"worker": types.SimpleNamespace(nanny=nanny, state=types.SimpleNamespace(nthreads=threads))}


@pytest.mark.parametrize(
    ("state", "entered"),
    [(_worker(1), True), (_worker(2), False), (_worker(1, None), False), ({}, False)],
    ids=["alone", "two threads", "in the program's process", "unknown"],
)
def test_a_task_that_has_its_worker_for_itself_seeds_the_generators(state: Any, entered: bool) -> None:
    """What shares a process with other tasks, or with the program, would take their numbers from them."""
    seen = []

    def run(task: Any, data: Any, execution_state: Any, key: Any) -> Any:
        seen.append(for_dask.does_task())
        return task, key

    process, module = Process(), _module(_run_task=run, random=random)
    for_dask.set_up_worker(module, process)  # type: ignore[arg-type]
    assert module._run_task("t", {}, state, "draw-1") == ("t", "draw-1")
    assert process.entered == ([for_dask.place("draw-1")] if entered else [])
    assert seen == [entered]
    assert module.random is not random, "Dask's own threads leave the program's generator alone"


def test_a_task_that_comes_back_has_numbers_of_its_own_again() -> None:
    """Others may have drawn on the same worker meanwhile; a thread that does no task enters none."""
    process = Process()
    threads: Any = _module(rejoin=lambda: process.enter_task("another", {}))
    for_dask.set_up_threads(threads, process)  # type: ignore[arg-type]

    def run(*_: Any) -> None:
        threads.rejoin()
        threads.rejoin()

    module = _module(_run_task=run)
    for_dask.set_up_worker(module, process)  # type: ignore[arg-type]
    module._run_task("t", {}, _worker(1), "draw")
    place = for_dask.place("draw")
    assert process.entered == [place, "another", f"{place} again 1", "another", f"{place} again 2"]
    threads.rejoin()
    assert process.entered[5:] == ["another"]


class Batch:
    """joblib's tasks for one worker."""

    def __init__(self, tasks: Any) -> None:
        self.functions = [task[0] for task in tasks]

    def __call__(self, tasks: Any = None) -> Any:
        return [function(*given, **options) for function, given, options in tasks]


def test_tasks_of_joblib_are_numbered_however_they_are_batched(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each by its number in the call; on workers with several threads they are done as ever."""
    monkeypatch.setattr(for_pools, "JOBLIB", set(for_pools.JOBLIB))
    monkeypatch.setattr(for_dask, "JOBLIB", for_pools.JOBLIB)
    process, module = Process(), _module(Batch=type("Batch", (Batch,), dict(Batch.__dict__)))
    for_dask.set_up_joblib(module, process)  # type: ignore[arg-type]
    assert "DaskDistributedBackend" in for_pools.JOBLIB

    def draw(number: int) -> list[str]:
        return [*process.entered[-1:], str(number)]

    call: Any = types.SimpleNamespace(place="task 3", inherited={})
    tasks = [(Task(draw, call, number), (number,), {}) for number in range(3)]
    plain = module.Batch([*tasks[:1]])
    assert plain.functions == [draw], "what goes to the worker is as joblib made it"
    given = tasks[1:]
    batch = module.Batch(given)
    assert batch(given) == [["1"], ["2"]]
    worker = _module(_run_task=lambda task, data, state, key: batch(tasks=given))
    for_dask.set_up_worker(worker, process)  # type: ignore[arg-type]
    assert worker._run_task(0, 0, _worker(2), "drawn") == [["1"], ["2"]]
    assert worker._run_task(0, 0, _worker(1), "drawn") == [["task 3.1", "1"], ["task 3.2", "2"]]
    del batch._envbuild_places  # its program runs without envbuild
    assert worker._run_task(0, 0, _worker(1), "d") == [[for_dask.place("d"), "1"], [for_dask.place("d"), "2"]]


def test_tasks_of_the_scheduler_of_processes_are_entered_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """However they are batched; not in the process that made the batch."""
    process = Process()
    started = types.ModuleType("startup")
    started.process = process  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "envbuild.runtime.hook.startup", started)
    batch = for_dask.Batch(lambda tasks: [key for key, _ in tasks])
    assert batch([("a", 1), ("b", 2)]) == ["a", "b"]
    assert process.entered == []
    monkeypatch.setattr(os, "getpid", lambda: -1)
    assert batch([("a", 1), ("b", 2)]) == ["a", "b"]
    assert process.entered == [for_dask.place("a"), for_dask.place("b")]


@pytest.mark.parametrize("hooked", [True, False])
def test_a_batch_is_pickled_as_what_dask_gave_for_workers_without_the_hook(
    hooked: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One with the hook gets the batch, with the process that made it."""
    pickled = pickle.dumps(for_dask.Batch(sorted))
    if hooked:
        monkeypatch.setitem(sys.modules, "envbuild.runtime.hook.startup", types.ModuleType("startup"))
    monkeypatch.setattr(os, "getpid", lambda: -1)
    found = pickle.loads(pickled)
    assert (found.run, found.process > 0) == (sorted, True) if hooked else found is sorted


@pytest.mark.parametrize("pool", [ThreadPoolExecutor, ProcessPoolExecutor])
def test_a_pool_of_threads_gets_its_tasks_as_they_are(pool: Any) -> None:
    """Threads share the program's generators."""
    given: list[Any] = []
    module = _module(get_async=lambda submit, number: submit(run, number))

    class Given(pool):  # type: ignore[misc]
        def submit(self, *arguments: Any) -> None:
            given.extend(arguments)

    def run(_: Any) -> None:
        pass

    for_dask.set_up_local(module, Process())  # type: ignore[arg-type]
    module.get_async(Given.__new__(Given).submit, 3)
    assert given[1] == 3
    assert (given[0] is run) == (pool is ThreadPoolExecutor)


class Future:
    """A future of Dask's client by its number."""

    def __init__(self, number: int) -> None:
        self.number = number

    def __repr__(self) -> str:
        return f"future {self.number}"


class AsCompleted:
    """What of ``as_completed`` decides what comes next: those that wait, and the queue of those that are done."""

    def __init__(self, futures: Any = (), *, with_results: bool = False) -> None:
        self.futures: dict[Any, int] = {}
        self.queue: queue.Queue[Any] = queue.Queue()
        self.lock = threading.Lock()
        self.thread_condition = threading.Condition(threading.Lock())
        self.with_results = with_results
        self._deadline = types.SimpleNamespace(expired=False)
        self.update(futures)

    def update(self, futures: Any) -> None:
        self.futures.update(dict.fromkeys(futures, 1))

    def done(self, future: Any) -> None:
        with self.lock:
            del self.futures[future]
            self.queue.put((future, future.number) if self.with_results else future)

    def is_empty(self) -> bool:
        return not self.futures and self.queue.empty()

    def __iter__(self) -> AsCompleted:
        return self

    def __next__(self) -> Any:
        if self.is_empty():
            raise StopIteration
        return self.queue.get(timeout=5)

    async def _anext(self) -> Any:
        return self.queue.get(timeout=5)


def _client() -> Any:
    async def wait(fs: Any, timeout: Any, return_when: str) -> Any:
        done = {each for each in fs if each.number % 2}
        return (done, set(fs) - done) if return_when == "ALL_COMPLETED" else (set(fs), set())

    class Client:
        def wait_for_workers(self, count: int, timeout: Any = None) -> int:
            return count

        def sync(self, function: Any, *arguments: Any) -> Any:
            return function(*arguments)

    return _module(
        as_completed=type("as_completed", (AsCompleted,), dict(AsCompleted.__dict__)),
        Client=Client,
        ALL_COMPLETED="ALL_COMPLETED",
        FIRST_COMPLETED="FIRST_COMPLETED",
        DoneAndNotDoneFutures=lambda done, left: (done, left),
        futures_of=list,
        wait=lambda fs, timeout, return_when: None,
        _wait=wait,
    )


@pytest.fixture
def client() -> Any:
    module = _client()
    fix_dask.client(module, for_dask.does_task)
    return module


@pytest.mark.parametrize("results", [False, True])
def test_futures_come_in_the_order_in_which_they_were_given(client: Any, results: bool) -> None:
    """Whichever is done first; one that is added later comes last."""
    futures = [Future(number) for number in range(4)]
    found = client.as_completed(futures[:3], with_results=results)
    found.update(futures[3:])
    for number in (3, 1, 2):
        found.done(futures[number])
    assert found.next_batch(block=False) == [], "the first one is not done"
    timer = threading.Timer(0.05, found.done, [futures[0]])
    timer.start()
    assert [each[1] if results else each.number for each in found] == [0, 1, 2, 3]
    timer.join()


def test_one_that_was_cleared_is_not_waited_for(client: Any) -> None:
    """It would never come."""
    one, two = Future(1), Future(2)
    found = client.as_completed([one, two])
    del found.futures[one]
    found.done(two)
    assert asyncio.run(found._anext()) is two


def test_futures_of_2022_come_in_order_too() -> None:
    """They had no deadline and no ``_anext``; ``wait_for_workers`` took no number too."""

    async def __anext__(self: Any) -> Any:
        return self.queue.get(timeout=5)

    kept = {name: value for name, value in AsCompleted.__dict__.items() if name not in ("_anext", "__dict__")}
    module = _client()
    module.as_completed = type("as_completed", (), {**kept, "__anext__": __anext__})
    fix_dask.client(module, for_dask.does_task)
    futures = [Future(number) for number in range(3)]
    found = module.as_completed(futures)
    del found._deadline
    for number in (2, 0, 1):
        found.done(futures[number])
    assert [next(found).number, asyncio.run(found.__anext__()).number, next(found).number] == [0, 1, 2]
    assert module.Client().wait_for_workers("no_default") == "no_default"


def test_the_first_that_is_done_is_the_first_that_was_given(client: Any) -> None:
    """And all the others are left, in order."""
    futures = [Future(number) for number in range(20)]
    done, left = asyncio.run(client._wait(iter(futures), return_when="FIRST_COMPLETED"))
    assert (list(done), list(left)) == (futures[:1], futures[1:])
    done, left = asyncio.run(client._wait(futures))
    assert (list(done), list(left)) == (futures[1::2], futures[::2])
    assert futures[1] in done


@pytest.mark.parametrize(("name", "gives_up"), [("_gather", True), ("_result", True), ("_put", False)])
def test_a_task_that_waits_for_others_gives_up_its_place(
    client: Any, name: str, gives_up: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """There is no other worker for them; what else it asks for takes no time, and the next task would overtake it."""
    seen: list[str] = []
    monkeypatch.setitem(sys.modules, "distributed.worker", _module(secede=lambda: seen.append("secede")))
    monkeypatch.setitem(sys.modules, "distributed.threadpoolexecutor", _module(rejoin=lambda: seen.append("rejoin")))

    def function() -> None:
        seen.append("waits")

    function.__name__ = name
    client.Client().sync(function)
    assert seen == ["waits"], "the program itself has no place to give up"
    monkeypatch.setitem(for_dask._tasks, threading.get_ident(), ["draw", 0])
    client.Client().sync(function)
    assert seen[1:] == (["secede", "waits", "rejoin"] if gives_up else ["waits"])
    for_dask._tasks.clear()


def test_a_task_that_gave_up_its_place_itself_comes_back_itself(client: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """``secede`` of one that has no place any more is a ``KeyError`` of the pool's set of threads."""
    monkeypatch.setitem(sys.modules, "distributed.worker", _module(secede=lambda: set().remove(1)))
    monkeypatch.setitem(for_dask._tasks, threading.get_ident(), ["draw", 0])

    def _gather() -> int:
        return 3

    assert client.Client().sync(_gather) == 3
    for_dask._tasks.clear()


def test_a_cluster_has_one_worker() -> None:
    """With one thread; none where none is asked for, and nobody waits for more."""

    class LocalCluster:
        def __init__(
            self, name: Any = None, n_workers: Any = None, threads_per_worker: Any = None, **rest: Any
        ) -> None:
            self.made = (name, n_workers, threads_per_worker, rest)

    module, client = _module(LocalCluster=LocalCluster), _client()
    fix_dask.cluster(module)
    fix_dask.client(client, for_dask.does_task)
    assert module.LocalCluster(n_workers=4, threads_per_worker=2, memory_limit=0).made == (
        None, 1, 1, {"memory_limit": 0},
    )  # fmt: skip
    assert module.LocalCluster("name", 0).made[:3] == ("name", 0, 1)
    assert [client.Client().wait_for_workers(count) for count in (0, 1, 4)] == [0, 1, 1]
