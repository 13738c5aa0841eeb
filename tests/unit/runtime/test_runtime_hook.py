"""The hook in real interpreters, with small packages in the place of frameworks."""

from __future__ import annotations

import ast
import json
import os
import random
import subprocess
import sys
import types
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from envbuild.lockfile.model import Determinism
from envbuild.runtime.hook import interruptions, turns, vary
from tests.support.cli import ROOT
from tests.support.runtime import Tree, make_lock, make_tree

if TYPE_CHECKING:
    from collections.abc import Callable

pytestmark = pytest.mark.subprocess

FAKES = {
    "numpy/__init__.py": "__version__ = '9.9'\nfrom . import random\n",
    "numpy/random/__init__.py": (
        "from . import mtrand, bit_generator\nseeds = []\n"
        "def seed(n):\n    seeds.append(n)\n"
        "def get_state():\n    return 'MT19937', [n & 255 for n in seeds[-1:]], 624, 0, 0.0\n"
    ),
    "numpy/random/mtrand.py": (
        "import threading\nclass _rand:\n    class _bit_generator:\n        lock = threading.Lock()\n"
    ),
    "numpy/random/bit_generator.py": "from random import SystemRandom\nrandbits = SystemRandom().getrandbits\n",
    "torch/__init__.py": (
        "__version__ = '2.0'\n"
        "state = {'seed': None, 'algorithms': False, 'threads': 64, 'interop': 64, 'precision': ''}\n"
        "def manual_seed(n): state['seed'] = n\n"
        "def initial_seed(): return state['seed']\n"
        "def set_num_threads(n): state['threads'] = n\n"
        "def get_num_threads(): return state['threads']\n"
        "def set_num_interop_threads(n):\n"
        "    if state['interop'] != 64: raise RuntimeError('twice')\n    state['interop'] = n\n"
        "def get_num_interop_threads(): return state['interop']\n"
        "def use_deterministic_algorithms(on):\n"
        "    import os\n    state['algorithms'] = on and 'BROKEN' not in os.environ\n"
        "def are_deterministic_algorithms_enabled(): return state['algorithms']\n"
        "def set_float32_matmul_precision(word): state['precision'] = word\n"
        "def get_float32_matmul_precision(): return state['precision']\n"
        "class backends:\n"
        "    class cudnn:\n        benchmark = allow_tf32 = True\n        deterministic = False\n"
        "    class cuda:\n        class matmul:\n"
        "            allow_tf32 = allow_fp16_reduced_precision_reduction = True\n"
        "            allow_bf16_reduced_precision_reduction = True\n"
    ),
    "jax/__init__.py": "raise ImportError('no jaxlib')\n",
}


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Tree:
    fakes = tmp_path_factory.mktemp("fakes")
    for name, text in FAKES.items():
        (fakes / name).parent.mkdir(parents=True, exist_ok=True)
        (fakes / name).write_text(text)
    return make_tree(tmp_path_factory.mktemp("tree"), make_lock(), paths=[fakes])


@pytest.fixture(autouse=True)
def _fresh_records(tree: Tree) -> None:
    for path in tree.run.iterdir():
        path.unlink()


def script(tree: Tree, text: str) -> str:
    path = tree.root / "script.py"
    path.write_text(text)
    return str(path)


@pytest.mark.parametrize("flags", [[], ["-I"], ["-E"], ["-B"], ["-O"]])
def test_random_is_seeded(tree: Tree, flags: list[str]) -> None:
    """The script's first number is the root seed's, whatever flags the interpreter got."""
    done = tree.execute(*flags, "-c", "import random; print(random.random())")
    assert float(done.stdout) == random.Random(42).random()


def test_flags_that_ignore_the_hash_seed_are_reported(tree: Tree) -> None:
    """-I and -E switch PYTHONHASHSEED off, which cannot be repaired, so it is reported."""
    message = "this Python was started with -E or -I and ignores PYTHONHASHSEED: the order of sets varies"
    done = tree.execute("-I", "-c", "pass")
    assert done.stderr == f"envbuild: warning: {message}\n"
    assert tree.records()[0]["warnings"] == [message]
    assert tree.execute("-c", "pass").stderr == ""


def test_the_scripts_own_seed_wins(tree: Tree) -> None:
    """Who seeds gets that seed, also when frameworks are imported afterwards."""
    text = "import random; random.seed(7); import numpy, torch, multiprocessing; print(random.random())"
    assert float(tree.execute("-c", text).stdout) == random.Random(7).random()


def test_a_module_that_is_not_there_is_recorded(tree: Tree) -> None:
    """If the program ended for want of it; one that it can do without is not named."""
    tree.execute(script(tree, "try:\n    import nowhere\nexcept ImportError:\n    pass"))
    tree.execute(script(tree, "import somewhere.else_"), check=False)
    found = [record.get("missing_module") for record in tree.records()]
    assert sorted(found, key=str) == [None, "somewhere"]


def test_a_file_that_is_not_there_is_recorded(tree: Tree) -> None:
    """If the program ended for want of it, and its path depends on where the program is started."""
    tree.execute("-c", "open('data/points.csv')", check=False)
    tree.execute("-c", "open('/data/points.csv')", check=False)
    tree.execute("-c", "try:\n    open('points.csv')\nexcept OSError:\n    pass")
    found = [record.get("missing_file") for record in tree.records()]
    assert sorted(found, key=str) == [None, None, "data/points.csv"]


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("raise RuntimeError('no dot') from FileNotFoundError(2, 'No such file', pathlib.Path('dot'))", "dot"),
        ("try:\n    subprocess.run(['dot'])\nexcept OSError:\n    raise RuntimeError('no dot')", "dot"),
        ("raise RuntimeError('x') from ValueError('No working C++ compiler found in cxx')", "C++ compiler"),
        ("raise RuntimeError('Failed to find C compiler. Please specify via CC')", "C compiler"),
        ("raise OSError('x.cpp:52:10: fatal error: Python.h: No such file or directory')", "Python.h"),
        ("try:\n    subprocess.run(['dot'])\nexcept OSError:\n    raise RuntimeError('no dot') from None", None),
        ("raise RuntimeError('no C++ code') from FileNotFoundError(2, 'x', '/data/points.csv')", None),
        ("raise RuntimeError('the C compiler crashed')", None),
    ],
)
def test_a_program_that_is_not_there_is_recorded_behind_other_words(tree: Tree, text: str, found: str | None) -> None:
    """Libraries raise an exception of their own for a program or a compiler that was not there."""
    tree.execute("-c", f"import pathlib, subprocess\n{text}", check=False)
    assert [record.get("missing_file") for record in tree.records()] == [found]


def test_nothing_is_imported_for_the_script(tree: Tree) -> None:
    """A program that imports no framework gets none, nor json, re or enum."""
    done = tree.execute(
        "-c", "import sys; print(sorted({'random', 'numpy', 'torch', 'json', 're', 'enum'} & set(sys.modules)))"
    )
    assert done.stdout == "[]\n"


def test_switches_are_set_and_read_back(tree: Tree) -> None:
    """Every switch of a framework is in the record with what was wanted and found."""
    tree.execute("-c", "import numpy, torch")
    (record,) = tree.records()
    assert record["frameworks"] == {"numpy": "9.9", "torch": "2.0"}
    assert record["generators"] == {"numpy": 42, "numpy.entropy": 42, "random": 42, "torch": 42}
    assert [(entry["name"], entry["wanted"], entry["found"], entry["ok"]) for entry in record["switches"]] == [
        ("random.seed", 42, 42, True),
        ("numpy.random.seed", 42, 42, True),
        ("numpy.random.bit_generator.randbits", 42, 42, True),
        ("torch.manual_seed", 42, 42, True),
        ("torch.set_num_threads", 1, 1, True),
        ("torch.set_num_interop_threads", 1, 1, True),
        ("torch.use_deterministic_algorithms", True, True, True),
        ("torch.backends.cudnn.benchmark", False, False, True),
        ("torch.backends.cudnn.deterministic", True, True, True),
        ("torch.backends.cudnn.allow_tf32", False, False, True),
        ("torch.backends.cuda.matmul.allow_tf32", False, False, True),
        ("torch.set_float32_matmul_precision", "highest", "highest", True),
        ("torch.backends.cuda.matmul.allow_fp16_reduced_precision_reduction", False, False, True),
        ("torch.backends.cuda.matmul.allow_bf16_reduced_precision_reduction", False, False, True),
    ]
    assert (record["path"], record["seed"], record["level"], record["warnings"]) == ("", 42, "ops", [])


def test_what_a_run_goes_without_is_left_as_it_comes(tree: Tree) -> None:
    """A switch named in ``ENVBUILD_WITHOUT`` is neither set nor recorded, nor is a variable's absence; others are."""
    text = "import os, torch; os.environ.pop('OMP_NUM_THREADS'); print(torch.backends.cudnn.benchmark)"
    without = "torch.backends.cudnn.benchmark,OMP_NUM_THREADS"
    assert tree.execute("-c", text, variables={"ENVBUILD_WITHOUT": without}).stdout == "True\n"
    (record,) = tree.records()
    names = {entry["name"] for entry in record["switches"]}
    assert "torch.backends.cudnn.benchmark" not in names
    assert "torch.backends.cudnn.deterministic" in names
    assert record["environment_changed"] == {}


def test_what_the_script_changes_is_seen(tree: Tree) -> None:
    """Switches are read again at the end, and locked variables compared."""
    tree.execute("-c", "import os, torch; torch.manual_seed(7); os.environ['OMP_NUM_THREADS'] = '8'")
    (record,) = tree.records()
    assert {entry["name"]: entry["at_exit"] for entry in record["switches"] if "at_exit" in entry} == {
        "torch.manual_seed": 7
    }
    assert record["environment_changed"] == {"OMP_NUM_THREADS": "8"}


def test_a_switch_that_fails_stops_a_strict_run(tree: Tree) -> None:
    """Strict is the default: exit 78, what was wanted and found, and the script's output is not lost."""
    done = tree.execute("-c", "print('before'); import torch; print('after')", variables={"BROKEN": "1"}, check=False)
    assert (done.returncode, done.stdout) == (78, "before\n")
    assert done.stderr == (
        "envbuild: a deterministic switch did not take effect — the program was stopped\n"
        "  torch.use_deterministic_algorithms: wanted True, found False\n"
        "what to do:\n"
        "  set determinism.strict: false in spec.yaml to be warned only, then: "
        "envbuild lock spec.yaml && envbuild build\n"
    )
    assert tree.records()[0]["warnings"] == ["torch.use_deterministic_algorithms: wanted True, found False"]


def test_the_scripts_own_calls_are_kept_and_recorded(tree: Tree) -> None:
    """Seeds that the script gives are in the record, also for generators that report none; threads come late."""
    text = (
        "import random, numpy, torch; random.seed(7); numpy.random.seed(8); random.random()\n"
        "torch.set_num_interop_threads(9); torch.set_num_interop_threads(1); print(torch.get_num_interop_threads())"
    )
    done = tree.execute("-c", text)
    assert done.stdout == "1\n"
    message = "torch.set_num_interop_threads(9) comes too late: the locked 1 stays"
    assert done.stderr == f"envbuild: warning: {message}\n"
    (record,) = tree.records()
    assert {entry["name"]: entry["at_exit"] for entry in record["switches"] if "at_exit" in entry} == {
        "random.seed": 7,
        "numpy.random.seed": 8,
    }
    tree.execute("-c", "import random; random.seed()")
    ends = [entry.get("at_exit") for record in tree.records() for entry in record["switches"]]
    assert "the system's entropy" in ends


@pytest.mark.parametrize(
    ("text", "op", "line"),
    [
        (
            'import torch\ndef train():\n    raise RuntimeError("put_ does not have a deterministic implementation, '
            "but you set 'torch.use_deterministic_algorithms(True)'. You can …\")\ntrain()\n",
            "torch.Tensor.put_",
            3,
        ),
        (
            "import torch\ntry:\n    raise RuntimeError('histc2 does not have a deterministic implementation, but …')\n"
            "except RuntimeError as error:\n    raise ValueError('step failed') from error\n",
            "histc2",
            3,
        ),
        (
            "import threading, torch\ndef work():\n"
            "    raise RuntimeError('put_ does not have a deterministic implementation')\n"
            "thread = threading.Thread(target=work); thread.start(); thread.join()\n",
            "torch.Tensor.put_",
            3,
        ),
    ],
)
def test_a_refused_operation_is_named(tree: Tree, text: str, op: str, line: int) -> None:
    """After the program's own traceback come the operation, the line of the script and ways out; the code stays."""
    path = script(tree, text)
    done = tree.execute(path, check=False)
    thread = "threading" in text
    assert done.returncode == (0 if thread else 1)
    own, ours = done.stderr.split("envbuild: ")
    assert own.rstrip().splitlines()[-1].startswith(("RuntimeError", "ValueError"))
    lines = ours.splitlines()
    assert lines[0] == f"{op} is not deterministic and was refused"
    assert lines[1].startswith(f"  at    {path}:{line}   raise RuntimeError(")
    (refused,) = tree.records()[0]["refused_ops"]
    assert (refused["op"], refused["file"], refused["line"]) == (op, path, line)
    assert f"  try   {refused['ways'][0]}" in lines if refused["ways"] else "  try   run it on the CPU" in lines


def test_other_errors_are_none_of_ours(tree: Tree) -> None:
    """What is not about determinism is left without a word."""
    done = tree.execute("-c", "import torch; raise RuntimeError('CUDA out of memory')", check=False)
    assert done.stderr.rstrip().endswith("RuntimeError: CUDA out of memory")
    assert tree.records()[0]["refused_ops"] == []


DRAWS = """
import os, random, secrets, tempfile, uuid
import plain
os.urandom(2); uuid.uuid4(); secrets.token_hex(2); random.SystemRandom().random()
random.Random(); random.seed(); random.seed(1); random.Random(1); random.random()
for _ in range(3): plain.draw()
tempfile.NamedTemporaryFile().close()
"""


def test_draws_are_kept_while_diagnosing(tree: Tree) -> None:
    """Each line that draws from the system's entropy, once with a count; not what seeds reach, nor file names."""
    (tree.root / "plain.py").write_text("import os\ndef draw():\n    return os.urandom(1)\n")
    path = script(tree, DRAWS)
    tree.execute(path, variables={"ENVBUILD_DIAGNOSE": "1"})
    (record,) = tree.records()
    found = [(each["call"], Path(each["file"]).name, each["line"], each["count"]) for each in record["entropy"]]
    name = Path(path).name
    assert found == [
        ("os.urandom", name, 4, 4), ("random.seed", name, 5, 2), ("os.urandom", "plain.py", 3, 3)
    ]  # fmt: skip
    assert {each["step"] for each in record["entropy"]} == {None}
    assert {each["importing"] for each in record["entropy"]} == {""}
    tree.execute(path)
    assert all("entropy" not in each for each in tree.records() if each["pid"] != record["pid"])


LISTS = """
import glob, json, os, pathlib, shutil, sys
folder = sys.argv[1]
names = [
    os.listdir(folder),
    [entry.name for entry in os.scandir(folder)],
    [os.path.basename(path) for path in glob.glob(folder + "/*")],
    [path.name for path in pathlib.Path(folder).iterdir()],
    next(os.walk(folder))[2],
    sorted(os.listdir(folder)),
]
print(json.dumps([names, list(os.environ)[::-1], len(os.listdir(os.path.dirname(os.__file__)))]))
shutil.rmtree(folder)
"""


def _varied(number: str) -> str:
    number, _, more = number.partition(",")
    return f"{number}:listings,environment,{more}"


def test_less_load_is_reported(tree: Tree, monkeypatch: pytest.MonkeyPatch) -> None:
    """Hardly more than there is, for a program may wait until there is little; only where it is varied."""
    path = script(tree, "import os; print(type(os.getloadavg).__name__)")
    found = [
        tree.execute(path, variables={"ENVBUILD_VARY": each}).stdout.split() for each in ("0:load", "1:", "1:load")
    ]
    assert found == [["builtin_function_or_method"]] * 2 + [["function"]]
    monkeypatch.setattr(os, "getloadavg", lambda: (8.0, 4.0, 0.0))
    vary.lower_load(1)
    assert os.getloadavg() == pytest.approx((4.01, 2.01, 0.01))


THREADS = """
import os, threading
for _ in range(5):
    order = []
    threads = [threading.Thread(target=order.append, args=(number,)) for number in range(5)]
    for each in threads: each.start()
    for each in threads: each.join()
    print(order, threads[0]._started.__dict__.get("set"), threading._limbo)
child = os.fork()
if not child: os._exit(3)
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""


def test_the_threads_that_begin_first_wait_longer(tree: Tree) -> None:
    """In a varied run alone; some of five tries at least, on a busy machine too. Nothing of it stays."""
    path = script(tree, THREADS)
    for number in ("0", "1", "2"):
        *found, child = tree.execute(path, variables={"ENVBUILD_VARY": f"{number}:turns"}).stdout.splitlines()
        assert child == "3"
        assert all(each.endswith("] None {}") and sorted(each[1:14:3]) == [*"01234"] for each in found)
        if number == "1":
            assert not all(each.startswith("[0, 1, 2, 3, 4]") for each in found)


def test_how_long_threads_wait() -> None:
    """None in the first run, the earlier ones longer in the second, any of them later; the first 32 alone."""
    assert [turns.Turns(0).next() for _ in range(3)] == [0.0] * 3
    second, third = turns.Turns(1), turns.Turns(2)
    assert [second.next() for _ in range(6)] == [0.004, 0.003, 0.002, 0.001, 0.0, 0.004]
    found = [third.next() for _ in range(40)]
    assert {*found[:32]} == {0.0, 0.001, 0.002, 0.003, 0.004}
    assert {*found[32:]} == {0.0}


TAKERS = """
import cProfile, os, sys, threading
from concurrent.futures import ThreadPoolExecutor
for _ in range(9):
    got = []
    with ThreadPoolExecutor(4) as pool: list(pool.map(got.append, range(12)))
    print(*got)
    reader, writer = os.pipe()
    children = []
    for number in range(2):
        children.append(os.fork())
        if not children[-1]:
            for _ in range(9): len(str(number))
            os.write(writer, str(number).encode())
            os._exit(0)
    for child in children: os.waitpid(child, 0)
    print(os.read(reader, 9).decode())
print(sys.getprofile())
own = threading.Thread(target=lambda: print(cProfile.Profile().runcall(sorted, [2, 1]), sys.getprofile()))
threading.setprofile(lambda *_: None)
own.start()
own.join()
"""


def test_short_tasks_of_a_pool_are_interrupted(tree: Tree) -> None:
    """In varied runs tasks that take no time end in another order, and so do forks that write into one pipe."""
    path = script(tree, TAKERS)
    for number in range(3):
        *found, of_main, own = tree.execute(path, variables={"ENVBUILD_VARY": f"{number}:turns"}).stdout.splitlines()
        assert of_main == "None"
        assert own == "[1, 2] None"
        assert all(sorted(map(int, each.split())) == [*range(12)] for each in found[::2])
        assert {*found[1::2]} <= {"01", "10"}
        if number:
            assert len({*found[::2]}) > 1
            assert "10" in found[1::2]


def test_threads_are_interrupted_at_some_calls(monkeypatch: pytest.MonkeyPatch) -> None:
    """More and more seldom, at others by each number, at none in a first run, where all else is the same."""
    found: dict[int, list[float]] = {}
    kept: list[Callable[..., None] | None] = []
    monkeypatch.setattr(sys, "setprofile", kept.append)
    for seed in (0, 1, 2):
        found[seed] = events = []
        interruptions.Interruptions(seed, events.append).begin()
        event = kept.pop()
        assert event is not None
        while not kept:
            event(sys._getframe(), "call", None)
            events.append(-1)  # an event that ends
        assert kept.pop() is None
    waits = {seed: [each for each in events if each >= 0] for seed, events in found.items()}
    assert {*waits[0]} == {0.0}
    assert all(0 < each <= 0.002 for each in (*waits[1], *waits[2]))
    assert all(len(each) == 25 for each in waits.values())
    assert all(sum(each >= 0 for each in events[:35]) >= 3 for events in found.values())
    assert found[1] != found[2]
    calls = found[1].index(next(each for each in found[1] if each >= 0))
    own, waits_now = types.SimpleNamespace(f_code=interruptions.Interruptions.begin.__code__), list[float]()
    interruptions.Interruptions(1, waits_now.append).begin()
    event = kept.pop()
    assert event is not None
    for _ in range(calls + 9):
        event(own, "call", None)
    assert waits_now == []
    event(sys._getframe(), "call", None)
    assert len(waits_now) == 1


def test_listings_come_in_another_order(tree: Tree, tmp_path: Path) -> None:
    """Reversed, then shuffled; all ways to list agree, and each line of the project that lists is recorded once."""
    path, found = script(tree, LISTS), {}
    for number in ("", "1", "2", "2,pids", "0", "x"):
        folder = tmp_path / "some"
        folder.mkdir()
        for name in "cabfedhg":
            (folder / name).touch()
        done = tree.execute(path, str(folder), variables={"ENVBUILD_VARY": _varied(number)} if number else {})
        assert not folder.exists()
        (*names, in_order), environment, _ = json.loads(done.stdout)
        assert in_order == sorted("abcdefgh")
        assert names == [names[0]] * 5
        found[number] = "".join(names[0]), environment
    assert found["1"][0] == "hgfedcba"
    assert found["2"][0] == found["2,pids"][0] not in ("abcdefgh", "hgfedcba")
    assert found["0"][0] == found["x"][0] == found[""][0]
    lists = [each["listings"] for each in tree.records() if "listings" in each]
    assert len(lists) == 3
    for entries in lists:
        places = [(each["call"], each["line"]) for each in entries]
        assert [line for _, line in places] == [5, 6, 7, 8, 9, 10, 13]
        assert {line: call for call, line in places}[7] == "glob.glob"
        assert {each["module"] for each in entries if each["line"] == 13} == {"shutil"}


PACKAGE = {
    "outer/__init__.py": "import inner\ndef draw():\n    return helper()\ndef helper():\n    return inner.token()\n",
    "inner.py": (
        "import os, random\nidle, busy = random.Random(), random.Random()\nkey = os.urandom(4)\n"
        "def token():\n    return os.urandom(4), busy.random()\n"
    ),
}


def test_draws_hold_what_ranks_them(tree: Tree) -> None:
    """Recorded with a draw: the package whose import drew, the calls that led there, and whether it matters."""
    for name, text in PACKAGE.items():
        (tree.site / name).parent.mkdir(exist_ok=True)
        (tree.site / name).write_text(text)
    path = script(
        tree,
        "import random, outer\nrandom.seed()\nrandom.seed(3); random.random()\nlone = random.Random()\n"
        "def train():\n    outer.draw()\ntrain()\ndel lone\n",
    )
    tree.execute(path, variables={"ENVBUILD_DIAGNOSE": "1"})
    (record,) = tree.records()
    found = [
        (each["call"], Path(each["file"]).name, each["line"], each["importing"], each.get("used", ""))
        for each in record["entropy"]
    ]
    assert found == [
        ("random.seed", "inner.py", 2, "outer", True),
        ("os.urandom", "inner.py", 3, "outer", ""),
        ("random.seed", "script.py", 2, "", False),
        ("random.seed", "script.py", 4, "", None),
        ("os.urandom", "inner.py", 5, "", ""),
    ]
    functions = [(Path(call["file"]).name, call["line"], call["function"]) for call in record["entropy"][4]["chain"]]
    assert functions == [
        ("script.py", 6, "train"), ("__init__.py", 3, "draw"), ("__init__.py", 5, "helper"), ("inner.py", 5, "token")
    ]  # fmt: skip
    imported = [(Path(call["file"]).name, call["line"]) for call in record["entropy"][0]["chain"]]
    assert imported == [("script.py", 1), ("__init__.py", 1), ("inner.py", 2)]


def test_the_table_and_the_code_have_the_same_switches() -> None:
    """Each row is set by code, and no code sets what has no row."""
    from envbuild.runtime.hook import table_switches
    from envbuild.runtime.hook.frameworks import (
        for_jax,
        for_keras,
        for_libc,
        for_lightgbm,
        for_numba,
        for_numpy,
        for_polars,
        for_sqlite3,
        for_tensorflow,
        for_torch,
        standard,
    )

    code = {
        "python": {*standard.ACCESS},
        "numpy": {*for_numpy.SEEDS, *for_numpy.LIBRARIES, for_numpy.ENTROPY},
        "sqlite3": {*for_sqlite3.ACCESS},
        "numba": {*for_numba.ACCESS},
        "polars": {*for_polars.ACCESS},
        "lightgbm": {*for_lightgbm.ACCESS},
        "libc": {*for_libc.ACCESS},
        "tensorflow": {*for_tensorflow.ACCESS},
        "keras": {*for_keras.ACCESS},
        "torch": {*for_torch.ACCESS},
        "jax": {*for_jax.ACCESS},
    }
    assert code == {name: {row[0] for row in rows} for name, rows in table_switches.SWITCHES.items()}
    hook = Path(table_switches.__file__).parent
    callers = {path.name for path in hook.rglob("*.py") if ".switch(" in path.read_text()}
    assert callers == {"switching.py"}


def test_not_strict_and_only_seeds(tmp_path: Path) -> None:
    """Without strict a failing step is one warning; level seeds sets no deterministic algorithms."""
    (tmp_path / "fakes" / "torch").mkdir(parents=True)
    broken = FAKES["torch/__init__.py"].replace("state['threads'] = n", "raise RuntimeError('no threads')")
    (tmp_path / "fakes" / "torch" / "__init__.py").write_text(broken)
    environment = {"OMP_NUM_THREADS": "1", "PYTHONHASHSEED": "3"}
    controls = Determinism(level="seeds", seed=3, threads=1, strict=False)
    lock = make_lock(determinism=controls, environment=environment)
    tree = make_tree(tmp_path / "tree", lock, paths=[tmp_path / "fakes"])
    done = tree.execute("-c", "import torch; print(torch.state, torch.backends.cudnn.benchmark)")
    assert done.stdout == "{'seed': 3, 'algorithms': False, 'threads': 64, 'interop': 1, 'precision': ''} True\n"
    assert done.stderr == ("envbuild: warning: torch.set_num_threads: wanted 1, found 'RuntimeError: no threads'\n")


def test_modules_stay_what_they_are(tree: Tree) -> None:
    """Loader, spec, source, resources, package walks, pickles and reloads work as without the hook."""
    text = """
import importlib, importlib.resources, importlib.util, inspect, pickle, pkgutil, sys
assert importlib.util.find_spec("numpy.random").name == "numpy.random"
import numpy, torch
for module in (numpy, numpy.random, torch):
    assert type(module.__loader__).__name__ == "SourceFileLoader", module.__loader__
    assert module.__spec__.loader is module.__loader__
    assert "exec_module" not in vars(module.__loader__)
    assert inspect.getsource(module)
    assert importlib.resources.files(module).joinpath("__init__.py").is_file()
assert pickle.loads(pickle.dumps(torch.manual_seed)) is torch.manual_seed
assert [m.name for m in pkgutil.iter_modules(numpy.__path__)] == ["random"]
numpy.random.seed(5)
importlib.reload(numpy.random)
assert numpy.random.seeds == [42], numpy.random.seeds
try:
    import jax
except ImportError as error:
    assert str(error) == "no jaxlib"
else:
    raise AssertionError
assert "jax" not in sys.modules
try:
    import tensorflow
except ModuleNotFoundError as error:
    assert error.name == "tensorflow"
"""
    assert tree.execute(script(tree, text)).stderr == ""


def test_module_from_a_zip_and_lazy_loader(tree: Tree) -> None:
    """A shared loader (zip) is put back, and importlib's lazy loader sets up at first use."""
    text = """
import importlib.util, sys, zipfile
with zipfile.ZipFile("torch.zip", "w") as archive:
    archive.writestr("torch.py", open(importlib.util.find_spec("torch").origin).read())
    archive.writestr("other.py", "")
sys.path.insert(0, "torch.zip")
import torch, other
assert type(torch.__loader__).__name__ == type(torch.__spec__.loader).__name__ == "zipimporter"
assert torch.state["seed"] == 42
sys.path.pop(0)
del sys.modules["torch"]
spec = importlib.util.find_spec("torch")
spec.loader = importlib.util.LazyLoader(spec.loader)
module = importlib.util.module_from_spec(spec)
sys.modules["torch"] = module
spec.loader.exec_module(module)
assert module.state["seed"] == 42
"""
    assert tree.execute(script(tree, text)).stderr == ""


CHILDREN = """
import multiprocessing, os, random, subprocess, sys
def draw(_=None):
    return random.random()
def main():
    numbers = [random.random()]
    for method in ("fork", "spawn", "forkserver"):
        context = multiprocessing.get_context(method)
        for _ in range(2):
            with context.Pool(1) as pool:
                numbers += pool.map(draw, [0])
    for _ in range(2):
        reader, writer = os.pipe()
        if os.fork() == 0:
            os.write(writer, repr(draw()).encode())
            os._exit(0)
        os.close(writer)
        numbers.append(float(os.read(reader, 99)))
    for argument in "ab":
        command = [sys.executable, "-c", "import random; print(random.random())", argument]
        numbers.append(float(subprocess.run(command, capture_output=True, check=True).stdout))
    numbers.append(random.random())
    print(numbers)
if __name__ == "__main__":
    if len(sys.argv) > 1:
        random.seed(int(sys.argv[1]))
    main()
"""


def test_children_draw_other_numbers_and_the_same_each_run(tree: Tree) -> None:
    """Fork, spawn, forkserver, os.fork and subprocess: streams differ between processes and repeat between runs."""
    path = script(tree, CHILDREN)
    first, second = (json.loads(tree.execute(path).stdout) for _ in range(2))
    assert first == second
    assert len(set(first)) == len(first) == 12
    generator = random.Random(42)
    assert (first[0], first[-1]) == (generator.random(), generator.random())


VOLATILE = """
import asyncio, concurrent.futures, json, os, subprocess, sys, tempfile, uuid
draw = "import random; print(random.random())"
def run(*command, **options):
    return subprocess.run([*map(str, command)], capture_output=True, check=True, text=True, **options).stdout
def python(number):
    return run(sys.executable, "draw.py", number, f"/run/kernel-{uuid.uuid4()}.json")
async def later():
    process = await asyncio.create_subprocess_exec(
        sys.executable, "draw.py", str(uuid.uuid4()), stdout=asyncio.subprocess.PIPE
    )
    return (await process.communicate())[0].decode()
found = [run(sys.executable, "-c", draw, tempfile.mkdtemp()) for _ in range(2)]
found += [run(sys.executable, "draw.py", uuid.uuid4(), env=env) for env in (None, dict(os.environ))]
found += [run(sys.executable, "draw.py", os.getpid(), close_fds=False)]
found += [
    subprocess.check_output(f"{sys.executable} draw.py {number} {uuid.uuid4()}; true", shell=True, text=True)
    for number in range(2)
]
found.append(asyncio.run(later()))
with concurrent.futures.ThreadPoolExecutor(3) as pool:
    found += pool.map(python, range(3))
reader, writer = os.pipe()
if os.posix_spawn(sys.executable, [sys.executable, "draw.py", str(uuid.uuid4())], os.environ,
                  file_actions=[(os.POSIX_SPAWN_DUP2, writer, 1)]):
    os.close(writer)
    found.append(os.read(reader, 99).decode())
print(json.dumps(found))
"""


def test_volatile_arguments_change_no_seed(tree: Tree) -> None:
    """Temporary folders, UUIDs and process numbers among arguments leave a child's numbers what they were."""
    (tree.root / "draw.py").write_text("import random; print(random.random())")
    path = script(tree, VOLATILE)
    first, second = (json.loads(tree.execute(path).stdout) for _ in range(2))
    assert first == second
    assert len(set(first)) == len(first) == 12
    assert not [record["warnings"] for record in tree.records() if record["warnings"]]


TEMPORARY = """
import json, os, sys, tempfile, threading
tempfile.tempdir = sys.argv[1]  # not /tmp: what others left there would be skipped
def names():
    with tempfile.NamedTemporaryFile() as one, tempfile.TemporaryDirectory() as two:
        return [one.name, two, tempfile.mkdtemp(dir=sys.argv[1]), tempfile.mkstemp(dir=os.fsencode(sys.argv[1]))[1]]
found = names()
thread = threading.Thread(target=lambda: found.extend(names())); thread.start(); thread.join()
reader, writer = os.pipe()
if os.fork() == 0:
    os.write(writer, json.dumps([os.fsdecode(name) for name in names()]).encode())
    os._exit(0)
found += json.loads(os.read(reader, 9999))
print(json.dumps([os.path.basename(os.fsdecode(name)) for name in found]))
"""


def test_temporary_names_repeat(tree: Tree, tmp_path: Path) -> None:
    """Names of temporary files are the same in every run and differ between processes and threads of a run."""
    path = script(tree, TEMPORARY)
    runs = []
    for number in range(2):
        (tmp_path / str(number)).mkdir()
        runs.append(json.loads(tree.execute(path, str(tmp_path / str(number))).stdout))
    assert runs[0] == runs[1]
    assert len(set(runs[0])) == len(runs[0]) == 12


def test_temporary_names_never_collide(tree: Tree, tmp_path: Path) -> None:
    """In a folder with the files of many earlier runs new names are found; ``mktemp`` keeps its random names."""
    text = (
        f"import sys, tempfile; print(tempfile.mktemp())\nfor _ in range(60): tempfile.mkstemp(dir={str(tmp_path)!r})"
    )
    asked = {tree.execute("-c", text).stdout for _ in range(3)}
    assert len(asked) == 3
    assert len(list(tmp_path.iterdir())) == 180


def test_forked_children_follow_the_scripts_own_seed(tree: Tree) -> None:
    """A script that seeds itself decides its forked children's numbers too."""
    path = script(tree, CHILDREN)
    seven, again, eight = (json.loads(tree.execute(path, seed).stdout) for seed in ("7", "7", "8"))
    assert seven == again
    assert not set(seven[1:3] + seven[7:9]) & set(eight[1:3] + eight[7:9])


def test_data_that_is_read_is_listed(tree: Tree, tmp_path: Path) -> None:
    """A file of parameters by its relative name, one below a folder, and none that is written or elsewhere."""
    for name in ("params.txt", "data/a.bin", "train.py"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("1")
    (tmp_path / "train.py").write_text(
        "import os, pathlib\nopen('params.txt').read(); pathlib.Path('data', 'a.bin').read_bytes()\n"
        "open(os.path.abspath('params.txt')).read(); open('out.txt', 'w').write('x'); open('out.txt').read()\n"
        "open('/etc/hostname').read()\n"
    )
    tree.execute("train.py", folder=tmp_path)
    (record,) = tree.records()
    assert [(Path(each["path"]).name, each["size"]) for each in record["reads"]] == [("params.txt", 1), ("a.bin", 1)]
    assert record["configs"] == []


def test_ranks_draw_other_numbers(tree: Tree) -> None:
    """Processes of a distributed job differ; rank 0 has the root seed."""
    text = "import random; print(random.random())"
    numbers = [tree.execute("-c", text, variables={"RANK": str(rank)}).stdout for rank in range(3)]
    assert float(numbers[0]) == random.Random(42).random()
    assert len(set(numbers)) == 3
    assert [record["path"] for record in tree.records()] == ["", "rank 1", "rank 2"]


def test_no_record_without_a_folder(tree: Tree, tmp_path: Path) -> None:
    """Without a writable record folder the program runs as ever."""
    moved = tree.run.rename(tmp_path / "moved")
    try:
        assert tree.execute("-c", "import torch; print(torch.state['seed'])").stdout == "42\n"
    finally:
        moved.rename(tree.run)


WRITES = """
import socket, subprocess, sys
ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
subprocess.run([sys.executable, *sys.argv[1:-1], '-c', sys.argv[-1]], stdout=theirs)
theirs.close()
while data := ours.recv(1000):
    print(data.decode())
"""
"""Prints what another process writes, a paragraph for each of its writes."""


def test_lines_reach_a_pipe_whole(tree: Tree) -> None:
    """A line is one write, however many parts it is printed in; what comes before a fork comes once."""
    unbuffered = {"PYTHONUNBUFFERED": "1"}
    program = "import os\nprint('a', 1)\nprint('b', end='')\nif os.fork(): os.wait()\nprint('c', flush=True)"
    writes = tree.execute("-c", WRITES, program, variables=unbuffered).stdout
    assert writes == "a 1\n\nb\nc\n\nc\n\n"
    writes = tree.execute(
        "-c", WRITES, "print('50 %', end='\\r'); print('.', end='', flush=True)", variables=unbuffered
    )
    assert writes.stdout == "50 %\n.\n"  # the carriage return is a line break of the text that is read here
    asked = tree.execute("-c", WRITES, "-u", "print('a', 1)", variables=unbuffered).stdout
    assert asked == "a\n \n1\n\n\n"
    plain = tree.execute("-c", WRITES, "print('a', 1); print('b')").stdout
    assert plain == "a 1\nb\n\n"


def test_second_gate(tree: Tree) -> None:
    """Without the marker of this container the checks are made at start-up: nothing of the program runs."""
    done = tree.execute("-c", "print('ran')", variables={"OMP_NUM_THREADS": "8"}, marked=False, check=False)
    assert (done.returncode, done.stdout) == (78, "")
    assert "  environment.OMP_NUM_THREADS   " in done.stderr
    verdict = json.loads((tree.run / "verdict.json").read_text())
    assert (verdict["ok"], verdict["gate"]) == (False, "startup")
    forged = tree.execute(
        "-c", "print('ran')", variables={"OMP_NUM_THREADS": "8", "ENVBUILD_GUARD": "1/other"}, marked=False, check=False
    )
    assert (forged.returncode, forged.stdout) == (78, "")


def test_damaged_hook_fails_closed(tree: Tree) -> None:
    """An image whose hook cannot be imported runs nothing."""
    finder = tree.root / "opt" / "envbuild" / "lib" / "_envbuild" / "hook" / "finder.py"
    text = finder.read_text()
    finder.write_text("raise RuntimeError('damaged')\n")
    try:
        done = tree.execute("-c", "print('ran')", check=False)
    finally:
        finder.write_text(text)
    assert (done.returncode, done.stdout) == (78, "")
    assert done.stderr == (
        "envbuild: the start-up hook of this image failed: RuntimeError('damaged') — nothing was run\n"
    )


def test_controls_off(tree: Tree) -> None:
    """Without controls the checks are made as ever, then nothing is seeded and the locked switches are unset."""
    text = "import os, random, torch; print(random.random(), torch.state['seed'], os.environ.get('PYTHONHASHSEED'))"
    off = {"ENVBUILD_CONTROLS": "off"}
    first, second = (tree.execute("-c", text, variables=off, marked=False) for _ in range(2))
    assert first.stdout.split()[1:] == ["None", "None"]
    assert first.stdout != second.stdout
    assert first.stderr == "envbuild: the controls are off: no seeds, no deterministic operations\n"
    assert json.loads((tree.run / "verdict.json").read_text())["controls"] is False
    wrong = tree.execute("-c", text, variables={**off, "OMP_NUM_THREADS": "8"}, marked=False, check=False)
    assert wrong.returncode == 78


FIXED = """
import datetime, os, random, secrets, threading, time, uuid
open("x", "w").close()
found = [os.urandom(3).hex(), secrets.token_hex(3), str(uuid.uuid4()), random.SystemRandom().random(), random.Random()
         .random(), open("/dev/urandom", "rb").read(2).hex(), open("/proc/sys/kernel/random/uuid").read()]
random.seed(); found.append(random.random())
thread = threading.Thread(target=lambda: found.append(os.urandom(2).hex())); thread.start(); thread.join()
times = [time.time(), time.monotonic(), time.perf_counter_ns(), time.process_time(), time.strftime("%c"),
         str(datetime.datetime.now()), str(datetime.datetime.now(datetime.timezone.utc)),
         time.ctime(), uuid.uuid1().time]
threading.Event().wait(0.02)
begin = time.time(); time.sleep(0.25); took = time.time() - begin
assert isinstance(datetime.datetime.now(), datetime.datetime), took
print([found, times, took])
"""


LINES = """
import os, random, time
first = [os.urandom(3).hex(), time.time(), random.Random().random(), open("/dev/urandom", "rb").read(2).hex(), time.strftime("%Y"), time.asctime(), os.stat("/").st_ino]
second = [os.urandom(3).hex(), time.time(), random.Random().random(), open("/dev/urandom", "rb").read(2).hex(), time.time_ns(), time.asctime(), os.stat("/etc").st_ino]
print([first, second])
"""  # noqa: E501


def test_a_line_that_is_not_fixed_leaves_the_others_alone(tree: Tree) -> None:
    """What one line gets for real moves nothing of what the others get."""
    path = script(tree, LINES)

    def outputs(real: str) -> list[list[object]]:
        fixed = f"entropy,clock,figures@60{real}"
        return list(ast.literal_eval(tree.execute(path, variables={"ENVBUILD_FIX": fixed}).stdout))

    plain, one = outputs("!-"), outputs(f"!{path}:3")
    assert all(before != after for before, after in zip(plain[0][:6], one[0][:6], strict=True))
    assert plain[1] == one[1]


DATES = """
import datetime, pickle, sys, warnings
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    naive = datetime.datetime.utcnow()
assert [each.filename for each in caught] == [__file__] * (sys.version_info >= (3, 12)), caught
class Later(datetime.datetime): pass
now = datetime.datetime.now()
assert pickle.loads(pickle.dumps(now)) == now
assert type(Later.now()) is type(Later.today()) is Later and type(now) is datetime.datetime
assert datetime.datetime.__basicsize__ == datetime.datetime.__base__.__basicsize__ + 16, "C code warns of another size"
print(naive, now, datetime.datetime.now(datetime.timezone.utc), datetime.datetime.today(), Later.utcnow(),
      datetime.date.today())
"""


def test_dates_of_a_fixed_clock_are_those_of_datetime(tree: Tree) -> None:
    """They can be pickled, derived classes work, and C code finds the type that it was compiled for."""
    path = script(tree, DATES)
    first, second = (tree.execute(path, variables={"ENVBUILD_FIX": "clock"}).stdout for _ in range(2))
    assert first == second
    assert tree.execute(path).stdout != first


ATTRIBUTES = """
import logging, sys, time
class Timer:
    clock, text, wait, parts = time.perf_counter, time.strftime, time.sleep, time.gmtime
timer = Timer()
timer.wait(0)
logging.basicConfig(format="%(asctime)s %(relativeCreated)d %(message)s", stream=sys.stdout, level="INFO")
logging.info("%s %s %s", timer.clock(), timer.text("%Y"), timer.parts(0).tm_year)
"""


def test_functions_of_a_fixed_clock_are_no_methods(tree: Tree) -> None:
    """They may be attributes of classes, as those of C may: ``logging.Formatter.converter``."""
    path = script(tree, ATTRIBUTES)
    first, second = (tree.execute(path, variables={"ENVBUILD_FIX": "clock"}) for _ in range(2))
    assert first.stdout.endswith(" 2023 1970\n")
    assert first.stdout == second.stdout
    assert "Error" not in first.stderr


MAPPED = """
import os
lines = open("/proc/self/maps").read().splitlines()
paths = {line.split(maxsplit=5)[5] for line in lines if line.endswith(".so") or ".so." in line}
assert paths and all(os.path.exists(path) for path in paths), paths
assert sum(line.startswith("VmRSS:") for line in open("/proc/self/status")) == 1
print(sorted({line.split()[0] for line in lines}), open("/proc/self/smaps").read().split()[6:9])
print(open("/proc/self/cmdline").read())
"""


def test_fixed_figures_leave_names_of_files_alone(tree: Tree) -> None:
    """Where libraries are mapped is the same in all runs; their names are those they have: NumPy's check loads one."""
    path = script(tree, MAPPED)
    found = tree.execute(path, variables={"ENVBUILD_FIX": "figures"}).stdout
    assert found == tree.execute(path, variables={"ENVBUILD_FIX": "figures"}).stdout
    assert found.startswith("['1-1'] ['Size:', '1', 'kB']\n")
    assert str(path) in found


def test_what_moves_objects_in_memory_is_not_seen(tree: Tree) -> None:
    """The variable that makes the environment larger is no part of what the program finds in it."""
    path = script(tree, "import os, subprocess, sys\nprint(sorted(os.environ), os.getenvb(b'ENVBUILD_SHIFT'))\n")
    moved = tree.execute(path, variables={"ENVBUILD_SHIFT": "x" * 300}).stdout
    assert moved == tree.execute(path).stdout


ENTRIES = """
import os, shutil, tempfile
top = tempfile.mkdtemp(dir=os.getcwd())
os.mkdir(f"{top}/below")
for name in ("a", "below/b"):
    open(f"{top}/{name}", "w").close()
with os.scandir(top) as entries:
    found = sorted((e.name, e.is_dir(), e.inode(), e.stat().st_mtime, os.path.relpath(e, top)) for e in entries)
same = all(os.path.samestat(e.stat(), os.stat(e)) for e in os.scandir(top))
walked = [(len(folders), files) for _, folders, files in os.walk(top)]
shutil.rmtree(top)
print(found, same, walked, os.path.exists(top))
"""


def test_figures_of_entries_of_folders_are_fixed(tree: Tree) -> None:
    """Inode numbers and times; what goes through folders by them still works."""
    path = script(tree, ENTRIES)
    fixed = [tree.execute(path, variables={"ENVBUILD_FIX": "figures"}).stdout for _ in range(2)]
    assert fixed[0] == fixed[1]
    assert "True [(1, ['a']), (0, ['b'])] False" in fixed[0]
    assert tree.execute(path).stdout != tree.execute(path).stdout


MOVED = """
import sys
from envbuild.runtime.hook import vary
if sys.argv[1:]:
    vary.move_objects()
class Item:
    def __init__(self, n): self.n = n
print([item.n for item in sorted([Item(n) for n in range(500)], key=id)])
"""


def test_objects_moved_in_memory_have_another_order(tmp_path: Path) -> None:
    """The same one in each such run: so a result that depends on addresses differs, and no other one."""
    # Who compiles a module, or finds its bytecode, has other objects: here all compile, whatever other tests leave.
    fixed = ["setarch", "-R", sys.executable, "-B", "-X", f"pycache_prefix={tmp_path}", "-c", MOVED]
    if subprocess.run([*fixed[:2], "true"], check=False, capture_output=True).returncode:
        pytest.skip("addresses are drawn for each process here")
    plain, again, moved, repeated = (
        subprocess.run([*fixed, *more], check=True, capture_output=True, cwd=ROOT).stdout
        for more in ([], [], ["moved"], ["moved"])
    )
    assert plain == again
    assert moved == repeated != plain


def test_a_suspect_is_fixed(tree: Tree) -> None:
    """Entropy or the clock, each alone, give the same in all runs; only both make all the same."""
    path = script(tree, FIXED)

    def outputs(fixed: str) -> list[list[object]]:
        runs = [tree.execute(path, variables={"ENVBUILD_FIX": fixed}).stdout for _ in range(2)]
        return [ast.literal_eval(text) for text in runs]

    first, second = outputs("entropy@60")
    assert first[0] == second[0]
    assert first[1] != second[1]
    first, second = outputs("clock")
    assert first[0] != second[0]
    assert first[1:] == second[1:]
    assert 0.25 <= first[2] < 0.26  # type: ignore[operator]
    first, second = outputs("entropy,clock@60")
    assert first == second


def test_pythons_of_a_pool_are_interrupted_for_longer(monkeypatch: pytest.MonkeyPatch) -> None:
    """As they take longer to start than threads: else the first has done all short tasks before others are there."""
    waited: list[float] = []
    kept: list[tuple[int, Callable[[float], None]]] = []

    def interrupted(seed: int, waits: Callable[[float], None]) -> types.SimpleNamespace:
        kept.append((seed, waits))
        return types.SimpleNamespace(begin=lambda: None)

    monkeypatch.setattr(turns, "wait", waited.append)
    monkeypatch.setattr(turns, "Interruptions", interrupted)
    varied = turns.Turns(2)
    varied.interrupt_own("worker 3")()
    varied.begin()()
    ((own, of_own), (thread, of_thread)) = kept
    assert own // turns._MOST == thread // turns._MOST == 2
    waited.clear()
    of_own(0.002)
    of_thread(0.002)
    assert waited == [0.02, 0.002]
