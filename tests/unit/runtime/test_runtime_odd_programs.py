"""Programs that look at what the hook replaces, or load it again, behave as they do without the hook."""

from __future__ import annotations

import importlib.machinery
import sys
import types
from pathlib import Path

import pytest

from envbuild.runtime.hook import finder
from envbuild.runtime.hook.observer import Observer
from tests.support.runtime import Tree, make_lock, make_tree

pytestmark = pytest.mark.subprocess

PROGRAMS = {
    "subprocess loaded again": """
import importlib, subprocess, sys
importlib.reload(subprocess)
print(subprocess.check_output(["echo", "1"]))
del sys.modules["subprocess"]
import subprocess
print(subprocess.check_output(["echo", "2"], env={"A": "1"}))
""",
    "a handler that starts a program while one is started": """
import signal, subprocess
def handler(*_):
    assert subprocess.check_output(["echo", "handler"]) == b"handler\\n"
class Word:
    def __fspath__(self):
        signal.raise_signal(signal.SIGUSR1)
        return "program"
signal.signal(signal.SIGUSR1, handler)
print(subprocess.check_output(["echo", Word()]))
""",
    "functions that are handed to a pool": """
import concurrent.futures, multiprocessing, os, pickle, random, subprocess, tempfile
if __name__ == "__main__":
    for function in (os._exit, os.posix_spawn, random.seed, random.random, tempfile.mkstemp, subprocess.run):
        print(pickle.loads(pickle.dumps(function)).__name__)
    with concurrent.futures.ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool:
        print(repr(pool.submit(os._exit, 1).exception())[:20])
    print(random.seed.__self__ is random._inst)
""",
    "an environment that was cleared": """
import multiprocessing, os, subprocess
def show():
    print(dict(os.environ), flush=True)
os.environ.clear()
if os.fork() == 0:
    show()
    os._exit(0)
os.wait()
print(subprocess.check_output(["/usr/bin/env"]))
process = multiprocessing.get_context("fork").Process(target=show)
process.start()
process.join()
""",
    "children and workers with an environment of their own": """
import multiprocessing, os, subprocess, sys
if __name__ == "__main__":
    code = "import os, subprocess, sys; print(sorted(set(os.environ) - {'ENVBUILD_PROCESS'}));"
    code += " sys.argv[1:] and subprocess.run([sys.executable, '-c', sys.argv[1]])"
    for environment in ({}, {"A": "1"}):
        print(subprocess.check_output([sys.executable, "-c", code, code], env=environment))
    print(subprocess.check_output(["env", "-i", sys.executable, "-c", code]))
    os.environ.clear()
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        print(pool.map(abs, [-1]))
""",
    "tests that count calls": """
import builtins, json, os
from unittest import mock
for name in ("a.json", "b.json", "c.json"):
    with open(name, "w") as file:
        file.write("{}")
if os.fork() == 0:
    os.execv(os.sys.executable, [os.sys.executable, "-c", '''
import builtins, os, time
from unittest import mock
read = open
for path in ("builtins.open", "os.getcwd", "os.path.abspath", "os.stat", "os.rename", "os.open"):
    owner, _, name = path.rpartition(".")
    with mock.patch(path, wraps=getattr(eval(owner), name)) as patched:
        for file in ("a.json", "b.json"):
            with read(file):
                pass
        print(name, patched.call_count)
'''])
os.wait()
""",
    "modules of its own under watched names": """
import os, pathlib, subprocess, sys
names = ["random", "keras", "torch", "jax", "numpy", "tempfile", "argparse", "fire"]
for name in names:
    pathlib.Path(f"{name}.py").write_text(f"name = {name!r}")
pathlib.Path("own.py").write_text(f"import {', '.join(names)}\\nprint({', '.join(f'{name}.name' for name in names)})")
os.execv(sys.executable, [sys.executable, "own.py"])
""",
    "stand-ins for libraries": """
import importlib.abc, importlib.machinery, os, sys, types
class StandIn(types.ModuleType):
    __file__ = os.devnull
    def __getattr__(self, name):
        return StandIn(name)
class Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    def find_spec(self, name, path, target=None):
        return importlib.machinery.ModuleSpec(name, self) if name in ("torch", "jax") else None
    def create_module(self, spec):
        return StandIn(spec.name) if spec.name == "torch" else None
    def exec_module(self, module):
        module.found = True
sys.meta_path.append(Finder())
sys.path[:] = [path for path in sys.path if "site-packages" not in path]
import jax, torch
print(jax.found, torch.found, type(torch.cuda).__name__)
""",
    "random loaded again": """
import copy, importlib, pickle, random
state = pickle.loads(pickle.dumps(random.getstate()))
first = random.random()
random.setstate(state)
print(first == random.random() != random.random(), copy.deepcopy(random._inst).random() == random.random())
before = random.Random
importlib.reload(random)
print(before is random.Random, random.seed.__module__)
""",
}


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Tree:
    return make_tree(tmp_path_factory.mktemp("tree"), make_lock())


@pytest.mark.parametrize("name", PROGRAMS)
def test_it_behaves_as_without_the_hook(name: str, tree: Tree, tmp_path: Path) -> None:
    """The same output and the same exit code."""

    def run(folder: str) -> tuple[int, str, str]:
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "program.py").write_text(PROGRAMS[name])
        done = tree.execute("program.py", check=False, folder=tmp_path / folder, timeout=60)
        return done.returncode, done.stdout, done.stderr

    hooked = run("hooked")
    startup = tree.site / "00-envbuild.pth"
    disabled = startup.rename(tree.root / "disabled")
    try:
        plain = run("plain")
    finally:
        disabled.rename(startup)
    assert hooked == plain
    assert plain[0] == 0


RACE = """
import os, random, sys, threading
def child():
    read, write = os.pipe()
    if os.fork() == 0:
        os.write(write, repr(random.random()).encode())
        os._exit(0)
    os.wait()
    return os.read(read, 100).decode()
for _ in range(int(sys.argv[1])):
    thread = threading.Thread(target=child)
    thread.start()
    thread.join()
print(child())
"""


def test_forks_of_threads_do_not_count_for_the_main_thread(tree: Tree) -> None:
    """How many there were by then is a race."""
    assert len({tree.execute("-c", RACE, number).stdout for number in ("0", "1", "3")}) == 1


def test_names_of_a_module_of_before_are_seeded_in_children(tree: Tree) -> None:
    """``from random import random``, then the module is loaded again: both names repeat."""
    program = """
import importlib, os, random
from random import random as before
importlib.reload(random)
if os.fork() == 0:
    print(before(), random.random(), flush=True)
    os._exit(0)
os.wait()
"""
    assert tree.execute("-c", program).stdout == tree.execute("-c", program).stdout


AT_ONCE = """
import os, random, sys, threading
sys.setswitchinterval(1e-6)
children = []
def fork(name):
    for _ in range(15):
        read, write = os.pipe()
        child = os.fork()
        if child == 0:
            os.write(write, repr(random.random()).encode())
            os._exit(0)
        os.close(write)
        children.append((name, os.read(read, 100).decode()))
        os.close(read)
        os.waitpid(child, 0)
threads = [threading.Thread(target=fork, args=(name,)) for name in "abcde"]
for thread in threads:
    thread.start()
fork("main")
for thread in threads:
    thread.join()
print(len({number for _, number in children}), [number for name, number in children if name == "main"])
"""


@pytest.mark.filterwarnings("ignore:.*multi-threaded")
def test_threads_that_fork_at_once(tree: Tree) -> None:
    """No two children have the same numbers, and those of the main thread repeat."""
    first, second = (tree.execute("-W", "ignore", "-c", AT_ONCE, timeout=60).stdout for _ in range(2))
    assert first == second
    assert first.startswith("90 ")


@pytest.mark.parametrize(
    ("name", "file", "version", "importing", "merely"),
    [
        ("random", "random.py", "", False, True),
        ("torch", "torch.py", "", False, True),
        ("dask", "dask/__init__.py", "1", False, False),
        ("dask.base", "dask/base.py", "", True, False),
        ("dask.base", "dask/base.py", "", False, True),
        ("multiprocessing.process", "multiprocessing/process.py", "1", True, True),
        ("dask.base", "", "1", False, True),
        ("dask.base", "/opt/env/dask/base.py", "", False, False),
    ],
)
def test_modules_of_the_project_with_names_of_libraries(
    name: str, file: str, version: str, importing: bool, merely: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A library developed there is one, also while it is imported and has no version yet."""
    package = types.ModuleType(name.partition(".")[0])
    package.__spec__ = importlib.machinery.ModuleSpec(package.__name__, None)
    package.__spec__._initializing = importing  # type: ignore[attr-defined]
    if version:
        package.__dict__["__version__"] = version
    monkeypatch.setitem(sys.modules, package.__name__, package)
    module = types.SimpleNamespace(__file__=file and f"/{'' if file[0] == '/' else 'workspace/'}{file.lstrip('/')}")
    process = types.SimpleNamespace(observer=Observer(lambda: None, "/workspace"))
    assert finder._merely_named(name, module, process) is merely  # type: ignore[arg-type]


def test_what_is_varied_reaches_a_python_with_an_environment_of_its_own(tree: Tree, tmp_path: Path) -> None:
    """Else the order of a folder would seem to be no cause there; the program sees nothing of it."""
    for number in range(9):
        (tmp_path / f"{number}").touch()
    lists = "import os; print(os.listdir('.'), [name for name in os.environ if 'VARY' in name])"
    program = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {lists!r}], env={{}}, check=True)"

    def printed(varied: str) -> str:
        return tree.execute("-c", program, variables={"ENVBUILD_VARY": varied}, folder=tmp_path).stdout

    assert len({printed(f"{number}:listings") for number in (1, 2, 3)}) == 3
    assert "VARY" not in printed("1:listings")
