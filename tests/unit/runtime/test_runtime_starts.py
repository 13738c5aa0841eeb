"""Programs and processes that a program starts: their numbers, and what interrupts the start of one."""

from __future__ import annotations

import json

import pytest

from envbuild.runtime.hook import lineage
from envbuild.runtime.hook.frameworks import starts
from tests.support.runtime import Tree, make_lock, make_tree

pytestmark = pytest.mark.subprocess


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Tree:
    return make_tree(tmp_path_factory.mktemp("tree"), make_lock())


OWN = """
import json, os, random, subprocess, sys
draw = "import os, random; print(random.random(), {str(n) for n in range(40)}, len(os.environ))"
words = [sys.executable, "-c", draw]
def output(start):
    reader, writer = os.pipe()
    os.set_inheritable(writer, True)
    sys.stdout.flush()
    start(writer)
    os.close(writer)
    with os.fdopen(reader) as stream:
        return stream.read()
def spawn(function, environment):
    return output(lambda to: function(words[0], words, environment, file_actions=[(os.POSIX_SPAWN_DUP2, to, 1)]))
def become(call):
    def start(to):
        if os.fork() == 0:
            os.dup2(to, 1)
            call()
    return output(start)
found = [random.random()]
without = {name: value for name, value in os.environ.items() if name != "ENVBUILD_PROCESS"}
for _ in range(2):
    for environment in ({}, {"A": "1"}, without, {b"B": b"2"}):
        found.append(subprocess.run(words, env=environment, check=True, stdout=-1, text=True).stdout)
        for function in (os.posix_spawn, os.posix_spawnp):
            found.append(spawn(function, environment))
        found.append(become(lambda: os.execve(words[0], words, environment)))
        found.append(become(lambda: os.execvpe(words[0], words, environment)))
    os.environ.clear()
    found.append(subprocess.run(words, check=True, stdout=-1, text=True).stdout)
    found.append(become(lambda: os.execv(words[0], words)))
print(json.dumps(found))
"""


def test_pythons_with_an_environment_of_their_own_draw_other_numbers_and_the_same_each_run(tree: Tree) -> None:
    """However they are started; sets have one order, and the program sees no variable that it was not given."""
    first, second = (json.loads(tree.execute("-W", "ignore", "-c", OWN).stdout) for _ in range(2))
    assert first == second
    numbers = [str(each).split()[0] for each in first]
    assert len(set(numbers)) == len(numbers)
    assert len({each.split("{")[1].split("}")[0] for each in first[1:]}) == 1
    sizes = [int(each.split()[-1]) for each in first[1:6]]
    plain = tree.execute("-S", "-c", "import subprocess, sys; subprocess.run([sys.executable, '-Sc', 'import os; "
                         "print(len(os.environ))'], env={})").stdout  # fmt: skip
    assert sizes == [int(plain) + 1] * 5, "ENVBUILD_PROCESS is seen, as in all processes"


CHOSEN = """
import os, subprocess, sys
words = [sys.executable, "-c", "import os; print(os.environ.get('PYTHONHASHSEED'), hash('a text'))"]
for environment in ({"PYTHONHASHSEED": "7"}, {b"PYTHONHASHSEED": b"8"}):
    print(subprocess.run(words, env=environment, check=True, stdout=-1, text=True).stdout, end="", flush=True)
    number = os.posix_spawn(words[0], words, environment)
    os.waitpid(number, 0)
"""


def test_a_program_chooses_the_order_of_sets_of_a_python_that_it_starts(tree: Tree) -> None:
    """``PYTHONHASHSEED`` in an environment of its own is not replaced by the run's."""
    assert tree.execute("-c", CHOSEN).stdout == tree.execute("-S", "-c", CHOSEN).stdout != ""


def test_a_python_that_no_python_started_is_not_the_main_process(tree: Tree) -> None:
    """A shell may give it an empty environment: its place is that of its arguments."""
    draw = f"env -i {tree.python} -c 'import random, sys; print(random.random())'"
    program = (
        f"import random, subprocess; print(random.random()); subprocess.run(['sh', '-c', {f'{draw} 1; {draw} 2'!r}])"
    )
    first, second = (tree.execute("-c", f"import sys\n{program}").stdout for _ in range(2))
    assert first == second
    assert len(set(first.splitlines())) == 3


def test_a_process_that_becomes_a_python_with_an_empty_environment_goes_on(tree: Tree) -> None:
    """No process is left whose environment has the guard's marker; numbers are those of a re-exec."""
    again = "import os, random, sys; print(random.random(), sorted(os.environ), flush=True);"
    again += "len(sys.argv) > 1 and os.execve(sys.executable, [sys.executable, '-c', sys.argv[1], *sys.argv[2:]], {})"
    done = tree.execute("-c", again, again, again).stdout.splitlines()
    assert len(done) == 3
    assert len({line.split()[0] for line in done}) == 1
    assert "ENVBUILD_GUARD" not in done[1] + done[2]
    assert "LENT" not in done[1] + done[2]


@pytest.mark.parametrize("arguments", ["'none', ['none'], {}", "sys.executable, [], {}", "sys.executable, 5, {}"])
def test_faults_of_a_start_are_those_of_the_call(tree: Tree, arguments: str) -> None:
    """The same exception as without the hook."""
    program = f"""
import os, sys
for function in (os.execve, os.posix_spawn):
    function = getattr(function, "__wrapped__", function) if len(sys.argv) > 1 else function
    try:
        function({arguments})
    except Exception as error:
        print(type(error).__name__, error)
"""
    assert tree.execute("-c", program).stdout == tree.execute("-c", program, "plain").stdout != ""


def test_entries_are_replaced_in_both_forms() -> None:
    """A mapping of texts or bytes, and a list of entries."""
    added = {"A": "2"}
    assert starts._with([b"A=1", b"B=1"], added) == [b"B=1", b"A=2"]
    assert starts._with({b"A": b"1", b"B": b"1"}, added) == {b"B": b"1", "A": "2"}
    assert starts._names({b"A": 1, "B": 2}) == starts._names([b"A=1", b"B=a=b"]) == {"A", "B"}
    assert starts._names(5) == set()


POOL = """
import concurrent.futures, json, multiprocessing, os, random, sys, time
def draw(out=None):
    number = random.random()
    if out is None:
        return number
    out.put(number)
def nested(_):
    context = multiprocessing.get_context("fork")
    out = context.SimpleQueue()
    child = context.Process(target=draw, args=(out,))
    child.start()
    child.join()
    return out.get()
def of_a_process(method):
    context = multiprocessing.get_context(method)
    out = context.SimpleQueue()
    child = context.Process(target=draw, args=(out,))
    child.start()
    child.join()
    return out.get()
def main():
    found = []
    with multiprocessing.get_context("fork").Pool(2, maxtasksperchild=1) as pool:
        for _ in range(int(sys.argv[1])):
            pool.apply(abs, (1,))
        time.sleep(0.3)
    for method in ("fork", "spawn"):
        found.append(of_a_process(method))
    if os.fork() == 0:
        with open("forked", "w") as file:
            file.write(str(of_a_process("fork")))
        os._exit(0)
    os.wait()
    found.append(open("forked").read())
    found.append(of_a_process("fork"))
    with concurrent.futures.ProcessPoolExecutor(3, mp_context=multiprocessing.get_context("fork")) as pool:
        found += pool.map(nested, range(6))
    print(json.dumps([str(each) for each in found]))
if __name__ == "__main__":
    main()
"""


def test_workers_of_pools_do_not_count_for_other_processes(tree: Tree) -> None:
    """How many a pool had by then is a race, and so is which of them takes a task that starts a process."""
    (tree.root / "pool.py").write_text(POOL)
    first, second, third = (tree.execute("pool.py", number).stdout for number in ("1", "4", "4"))
    rest = [json.loads(each) for each in (first, second, third)]
    assert [each[:4] for each in rest] == [rest[0][:4]] * 3
    assert rest[1] == rest[2]
    assert all(len(set(each)) == len(each) == 10 for each in rest)


INTERRUPTED = """
import os, random, signal, sys
class Stop(Exception): pass
def handler(*_):
    raise {kind}("of the program")
signal.signal(signal.SIGUSR1, handler)
parent, before, end = os.getpid(), sys.gettrace(), "went on"
{where}
try:
    if os.fork():
        pass
except BaseException as error:
    end = type(error).__name__
print("parent" if os.getpid() == parent else "child", end, random.random(), sys.gettrace() is before, flush=True)
if os.getpid() == parent:
    try:
        os.wait()
    except ChildProcessError:
        pass
"""
IN_THE_PARENT = """
state, done = random.getstate, []
def getstate():
    if not done:
        done.append(1)
        signal.raise_signal(signal.SIGUSR1)
    return state()
random.getstate = getstate
"""
IN_THE_CHILD = """
class Generator(random.Random):
    def seed(self, *arguments):
        if os.getpid() != parent and not done:
            done.append(1)
            signal.raise_signal(signal.SIGUSR1)
        super().seed(*arguments)
done = []
random._inst.__class__ = Generator
"""


@pytest.mark.parametrize("kind", ["KeyboardInterrupt", "SystemExit", "Stop"])
@pytest.mark.parametrize(("where", "who"), [(IN_THE_PARENT, "parent"), (IN_THE_CHILD, "child")])
def test_what_interrupts_a_fork_reaches_the_program(tree: Tree, kind: str, where: str, who: str) -> None:
    """Python drops what callbacks of ``os.fork`` raise; children have their numbers all the same."""

    def ends(where: str) -> dict[str, list[str]]:
        done = tree.execute("-c", INTERRUPTED.format(kind=kind, where=where))
        assert "Exception ignored" not in done.stderr
        return {name: rest for name, *rest in map(str.split, done.stdout.splitlines())}

    plain, found = ends(""), ends(where)
    assert found.pop(who)[0] == kind
    assert found.items() <= {name: ["went", "on", *rest[2:]] for name, rest in plain.items()}.items()
    if who == "child":
        assert ends(where)["child"][1:] == plain["child"][2:]


def test_a_process_that_an_experiment_starts_anew_hides_what_it_was_lent(tree: Tree) -> None:
    """With addresses or memory fixed, a child with an environment of its own sees what its parent gave it."""
    program = (
        "import subprocess, sys\n"
        'names = \'import os; print(sorted(set(os.environ) - {"LC_CTYPE", "GLIBC_TUNABLES"}))\'\n'
        "print(subprocess.run([sys.executable, '-c', names], env={'A': '1'}, stdout=-1, text=True, check=True).stdout)"
    )
    for fixed in ("addresses", "memory"):
        assert (
            tree.execute("-c", program, variables={"ENVBUILD_FIX": f"{fixed}@60"}).stdout.split("\n")[0]
            == "['A', 'ENVBUILD_PROCESS']"
        ), fixed


BARE = """
import os, subprocess, sys
names = "import os; print(sorted(set(os.environ) - {'LC_CTYPE'}), *{str(n) for n in range(9)})"
for words in (["-S", "-c", names], ["-sS", "-c", names], ["-W", "ignore", "-S", "-c", names], ["-W-S", "-c", names]):
    print(subprocess.run([sys.executable, *words], env={"A": "1"}, stdout=-1, text=True, check=True).stdout, end="")
"""


def test_a_python_without_start_up_files_is_lent_the_order_of_sets_alone(tree: Tree) -> None:
    """Nothing in it takes the others out of its environment."""
    *bare, usual = tree.execute("-c", BARE).stdout.splitlines()
    assert {line.partition("]")[0] for line in bare} == {"['A', 'PYTHONHASHSEED'"}
    assert usual.partition("]")[0] == "['A', 'ENVBUILD_PROCESS'"
    assert len({line.partition("]")[2] for line in [*bare, usual]}) == 1


@pytest.mark.parametrize(
    ("words", "bare"),
    [
        ("python", False),
        ("python -S", True),
        ("python -uS x.py", True),
        ("python x.py -S", False),
        ("python -c -S", False),
        ("python -mS", False),
        ("python -W -S x.py", False),
        ("python -WS -S x.py", True),
        ("python - -S", False),
    ],
)
def test_which_pythons_read_no_start_up_files(words: str, bare: bool) -> None:
    """``-S`` counts where the interpreter itself reads it."""
    assert lineage.is_bare(words.split()) is bare


WAITS = """
import os, subprocess, sys
ask = (
    "import os, sys; (found,) = [each for name, each in sys.modules.items() if name.endswith('.hook.startup')];"
    "print(round(1000 * found.process.own_wait), 'ENVBUILD_LATE' in os.environ, end=' ')"
)
for environment in (None, {}, {"A": "1"}, None, None, None):
    subprocess.run([sys.executable, "-c", ask], env=environment, check=True)
subprocess.run([sys.executable, "-S", "-c", "import os; print('ENVBUILD_LATE' in os.environ)"], env={}, check=True)
"""


def test_pythons_that_are_started_wait_in_further_runs(tree: Tree) -> None:
    """The earlier ones longer in the second run, any of them later; none in the first, and no program sees it."""
    of_runs = [
        tree.execute("-c", WAITS, variables={"ENVBUILD_VARY": f"{number}:turns"}).stdout.split() for number in range(3)
    ]
    assert all({*each[1::2], each[-1]} == {"False"} for each in of_runs)
    first, second, third = ([int(each) for each in of_run[:-1:2]] for of_run in of_runs)
    assert first == [0] * 6
    assert second == [40, 30, 20, 10, 0, 40]
    assert len({*third}) > 1
    assert {*third} <= {*second}


def test_who_begins_first_moves_no_object(tree: Tree) -> None:
    """With addresses fixed, an experiment's runs differ in nothing but that, whichever number they have."""
    program = "import sys; print([hex(id(type('C', (), {})())) for _ in range(5)], hex(id(object())))"
    fixed = [{"ENVBUILD_FIX": "addresses@60", "ENVBUILD_VARY": f"{number}:turns"} for number in (0, 1, 1, 0)]
    tree.execute("-c", program, variables=fixed[0])  # which compiles modules
    found = [tree.execute("-c", program, variables=each).stdout for each in fixed]
    assert found[1] == found[2], "addresses are not fixed here at all"
    assert len({*found}) == 1
