"""Tasks of pools: their numbers do not depend on the worker that takes them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.support.runtime import Tree, make_lock, make_tree

pytestmark = pytest.mark.subprocess

# The pauses differ in every run, and so does which of two workers takes which task.
POOLS = """
import concurrent.futures, json, multiprocessing, multiprocessing.pool, random, sys, time
wait = random.SystemRandom().random
def draw(number):
    time.sleep(wait() / 200)
    return random.random()
def fails(number):
    raise LookupError(number)
def broken():
    yield 1
    raise KeyError("mine")
def main():
    found = []
    for method in sys.argv[2:]:
        context = multiprocessing.get_context(method)
        with context.Pool(2, initializer=random.seed) as pool:
            found += pool.map(draw, range(8), chunksize=2)
            found += pool.imap(draw, range(4))
            found += [result.get() for result in [pool.apply_async(draw, (n,)) for n in range(4)]]
            try:
                pool.apply(fails, (7,))
            except LookupError as error:
                assert error.args == (7,)
            try:
                list(pool.imap(draw, broken()))
            except KeyError as error:
                assert error.args == ("mine",)
            pool.close()  # a worker that had no task yet is not killed before it could write its record
            pool.join()
        with concurrent.futures.ProcessPoolExecutor(2, mp_context=context) as executor:
            found += executor.map(draw, range(8), chunksize=2)
            found += [future.result() for future in [executor.submit(draw, n) for n in range(4)]]
    with multiprocessing.pool.ThreadPool(1) as pool:
        assert pool.apply(draw, (0,)) == random.Random(sys.argv[1]).random()
    print(json.dumps(found))
if __name__ == "__main__":
    random.seed(sys.argv[1])
    main()
"""


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Tree:
    tree = make_tree(tmp_path_factory.mktemp("tree"), make_lock())
    (tree.root / "pools.py").write_text(POOLS)
    return tree


def draws(tree: Tree, *arguments: str) -> list[float]:
    found: list[float] = json.loads(tree.execute("pools.py", *arguments).stdout)
    return found


def test_numbers_belong_to_the_task(tree: Tree) -> None:
    """Five runs give each task the same numbers, whoever takes it and whatever an initialiser seeds."""
    runs = [draws(tree, "7", "fork") for _ in range(5)]
    assert all(run == runs[0] for run in runs)
    assert len(set(runs[0])) == len(runs[0]) == 28


def test_every_start_method(tree: Tree) -> None:
    """Spawn and forkserver give the numbers that fork gives: the task decides, not how its worker was started."""
    forked = draws(tree, "7", "fork")
    assert draws(tree, "7", "spawn") == draws(tree, "7", "forkserver") == forked


def test_the_scripts_own_seed_decides(tree: Tree) -> None:
    """Another seed in the script gives every task other numbers."""
    assert not set(draws(tree, "7", "fork")) & set(draws(tree, "8", "fork"))


def test_workers_without_the_hook_do_their_tasks(tree: Tree, tmp_path: Path) -> None:
    """A pool may start another Python, or ``python -S``: tasks are pickled as what the program gave."""
    plain, script = tmp_path / "python", tmp_path / "plain.py"
    plain.write_text(f'#!/bin/sh\nexec {tree.python} -I -S "$@"\n')
    plain.chmod(0o755)
    script.write_text("""
import concurrent.futures, multiprocessing, sys
def hooked(number):
    return number, any(name.endswith("hook.startup") for name in sys.modules)
if __name__ == "__main__":
    context = multiprocessing.get_context("spawn")
    context.set_executable(sys.argv[1])
    with concurrent.futures.ProcessPoolExecutor(1, mp_context=context) as executor:
        print(list(executor.map(hooked, range(2))))
    with context.Pool(1) as pool:
        print(pool.map(hooked, range(2)), pool.apply(hooked, (2,)))
""")
    found = tree.execute(str(script), str(plain), timeout=60).stdout.splitlines()
    assert found == ["[(0, False), (1, False)]", "[(0, False), (1, False)] (2, False)"]


def test_without_the_hook_they_differ(tree: Tree) -> None:
    """The control off: no two runs agree."""
    startup = tree.site / "00-envbuild.pth"
    disabled = startup.rename(tree.root / "disabled")
    try:
        assert not set(draws(tree, "7", "fork")) & set(draws(tree, "7", "fork"))
    finally:
        disabled.rename(startup)


def test_fixed_entropy_belongs_to_the_task(tree: Tree, tmp_path: Path) -> None:
    """In an experiment a task draws the same from the system, whichever worker takes it."""
    script = tmp_path / "entropy.py"
    script.write_text("""
import json, multiprocessing, time, uuid
def draw(number):
    time.sleep(time.perf_counter_ns() % 97 / 10_000)
    return [uuid.uuid4().hex, uuid.uuid4().hex]
if __name__ == "__main__":
    with multiprocessing.Pool(2) as pool:
        print(json.dumps(pool.map(draw, range(20), chunksize=1)))
""")
    runs = [json.loads(tree.execute(str(script), variables={"ENVBUILD_FIX": "entropy"}).stdout) for _ in range(3)]
    assert runs[0] == runs[1] == runs[2]
    assert len({name for names in runs[0] for name in names}) == 40


def test_records_do_not_tell_who_took_what(tree: Tree) -> None:
    """A worker's record holds its own seed, equal in every run, and no change by a task."""

    def records() -> dict[str, Any]:
        for path in tree.run.iterdir():
            path.unlink()
        draws(tree, "7", "fork")
        return {record["path"]: record for record in tree.records()}

    first, second = records(), records()
    assert set(first) == set(second) == {"", *(f"pool worker {number}" for number in range(1, 5))}
    for path, record in first.items():
        for key in ("seed", "generators", "switches", "warnings"):
            assert record[key] == second[path][key]
        assert record["switches"][0]["wanted"] == record["generators"]["random"]
        assert path == "" or "at_exit" not in record["switches"][0]
    assert len({record["seed"] for record in first.values()}) == 5


def test_a_task_in_a_task(tree: Tree, tmp_path: Path) -> None:
    """What a task starts is numbered below the task: programs, forks, and pools of its own."""
    script = tmp_path / "nested.py"
    script.write_text("""
import concurrent.futures as futures, json, os, random, subprocess, sys, time
def inner(number):
    return random.random()
def outer(number):
    time.sleep(random.SystemRandom().random() / 100)
    program = subprocess.run([sys.executable, "-c", "import random; print(random.random())"], capture_output=True)
    reader, writer = os.pipe()
    if os.fork() == 0:
        os.write(writer, repr(random.random()).encode())
        os._exit(0)
    forked = float(os.read(reader, 99))
    with futures.ProcessPoolExecutor(1) as executor:
        return [*executor.map(inner, range(2)), float(program.stdout), forked, random.random()]
if __name__ == "__main__":
    with futures.ProcessPoolExecutor(2) as executor:
        print(json.dumps(sum(executor.map(outer, range(4)), [])))
""")
    first, second = (json.loads(tree.execute(str(script)).stdout) for _ in range(2))
    assert first == second
    assert len(set(first)) == 20
