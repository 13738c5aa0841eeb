"""What is made of sources (values that are reported or become seeds, loops over sets), and of a diagnosing run."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import Any

import pytest

from envbuild.difference.finding import Finding
from envbuild.lockfile.model import Determinism
from envbuild.record.model import Record
from envbuild.trace import compare
from envbuild.verification.causes.calls import SET, calls
from envbuild.verification.causes.diagnosis import diagnosed, worthwhile
from envbuild.verification.causes.evidence import Culprit, Evidence, Operation
from envbuild.verification.causes.proofs import PROVEN
from envbuild.verification.causes.ranking import rank_causes
from envbuild.verification.causes.source_causes import in_likely_order, suspects
from envbuild.verification.dataflow.uses import Uses
from tests.support import plants
from tests.support.divergences import diverged
from tests.support.records import process, record
from tests.support.runtime import make_lock
from tests.support.traces import make_trace

STEP = diverged(step=37, ulps=1 << 20, sentence="step 37")
EMPTY = Operation(
    name="a tensor that nothing was written to", framework="torch", device="any", refused=False,
    why="holds what was in memory before", calls=("torch.empty(",), ways=("torch.zeros",),
)  # fmt: skip


def evidence(**changes: Any) -> Evidence:
    """Two runs of PyTorch that differ, and nothing else is known."""
    lock = make_lock(determinism=Determinism(level="ops", seed=42, threads=1))
    return Evidence(**{"a": record(), "b": record(), "lock": lock, **changes})


@pytest.mark.parametrize(
    ("source", "use"),
    [
        ("print(time.time())", "printed"),
        ("print(f'{time.time() - start:.1f} s')", "printed"),
        ("start = time.time()\nprint(time.time() - start)", "printed"),
        ("took = round(time.time() - 1, 2)\nlogger.info('%s', took)", "printed"),
        ("took = (now() - time.time()).total_seconds()\nlogger.info('%s', took)", "printed"),
        ("start = time.time()\nwhile True:\n    if clock() - start > 5: break", "decides"),
        ("while time.time() < ends:\n    step()", "decides"),
        ("ends = time.time() + 5\nwhile clock() < ends:\n    step()", "decides"),
        ("while time.time() < ends:\n    sleep(0.1)", ""),
        ("if time.time() - last > 5:\n    print(step)", ""),
        ("lr = 0.1 * math.exp(-time.time() / 5)", "decides"),
        ("group['lr'] = lr0 / (1 + time.time() - start)", "decides"),
        ("opt.step(lr=time.time() * 1e-9)", "decides"),
        ("def rate():\n    return time.time()\ngroup['lr'] = rate()", "decides"),
        ("class Decay:\n    def __call__(self):\n        return 1 / time.time()", "decides"),
        ("self.start = time.time()\nself.lr = clock() - self.start", "decides"),
        ("self.a, self.start = 1, time.time()\nself.lr = clock() - self.start", "decides"),
        ("self.start, self.a = 1, time.time()\nself.lr = clock() - self.start", ""),
        ("history.append(time.time() - start)", ""),
        ("def now():\n    return time.time()\nrow['seconds'] = now()", ""),
        ("start = time.time()\nprint(start)\nrate = start", ""),
        ("time.time()", ""),
        ("x = time.time()", "unused"),
        ("x = f([time.time()]).clone()\ndel x", "unused"),
        ("x = time.time()\ny = x", ""),
        ("time.sleep(time.time() % 1 / 5)", "waited"),
        ("x = int.from_bytes(time.time())\nsleep(x)", "waited"),
        ("x.y = time.time()", ""),
        ("random.seed(time.time())", "seed"),
        ("np.random.default_rng(int(time.time()) if a else 1)", "seed"),
        ("seed = int(time.time())\nkey = jax.random.PRNGKey(seed)\nprint(seed)", "seed"),
        ("print(f(time.time()))", ""),
    ],
)
def test_what_becomes_of_a_value(source: str, use: str) -> None:
    """Printed, slept or bound and nothing else, a seed whatever else, or anything."""
    tree = ast.parse(source)
    call, *_ = (n for n in ast.walk(tree) if isinstance(n, ast.Call) and ast.unparse(n) == "time.time()")
    assert Uses(tree).of(call) == use


def test_a_printed_time_is_no_cause_in_training() -> None:
    """Where parameters differ it is left out; where nothing but a file does it may be the reason."""
    sources = {"t.py": "import time\nprint(time.time())\n"}
    assert rank_causes(evidence(sources=sources, divergence=STEP, traced=True)) == ()
    assert [cause.where for cause in rank_causes(evidence(sources=sources, traced=True))] == ["t.py:2"]


def test_a_time_that_becomes_a_seed_is_as_bad_as_entropy() -> None:
    """It is weighed as numbers that are drawn otherwise."""
    (cause,) = rank_causes(
        evidence(sources={"t.py": "import time, random\nrandom.seed(time.time())\n"}, divergence=STEP)
    )
    assert (cause.weight, cause.what) == (80, "time.time() is another number in each run, and becomes a seed")


@pytest.mark.parametrize(
    ("source", "lines"),
    [
        ("for x in {a, b}: pass", [1]),
        ("s = set(y)\nz = [f(x) for x in s]", [2]),
        ("s = {x for x in y}\nz = list(s)", [2]),
        ("z = sorted(f(x) for x in set(y))", []),
        ("z = {f(x) for x in set(y)}", []),
        ("z = sorted(list(set(text)))", []),
        ("s = set(y)\nz = sorted(tuple(s), key=str)", []),
        ("z = sorted(list(set(y)), key=lambda o: o.group)", [1]),
        ("s = set(y)\nz = min((o for o in s), key=len)", [2]),
        ("s = set(y)\nz = sorted(s, key=cost)", [2]),
        ("s = set(y)\nz = sorted(s, key=None, reverse=True)", []),
        ("s = set(y)\nz = sorted(zip(s, weights))", [2]),
        ("z = sorted(list(map(f, set(y))))", [1]),
        ("z = x in {a, b}\nfor i in sorted({a, b}): pass", []),
        ("class V:\n def __init__(self, c):\n  self._prev = set(c)\ndef topo(v):\n for c in v._prev: topo(c)", [5]),
        ("class V:\n prev: set['V']\ndef topo(v):\n for c in v.prev: topo(c)", [4]),
        ("class V:\n prev: set[V] = field(default_factory=set)\ndef topo(v):\n return [c for c in v.prev]", [4]),
        ("class V:\n names: set[str] = set()\ndef all(v):\n return [n for n in v.names]", []),
        ("class V:\n def __init__(self, c): self.c = set(c)\n def __repr__(self): return str([x for x in self.c])", []),
        ("self.open = set(a)\nself.open = []\nfor n in self.open: pass", []),
        ("self.open = None\nself.open = set(a)\nfor n in self.open: pass", [3]),
        ("self.open = set(a)\nfor n in sorted(self.open): pass\nz = set(n for n in self.open)", []),
    ],
)
def test_loops_over_sets(source: str, lines: list[int]) -> None:
    """They are found where their order continues, and only there."""
    assert [call.line for call in calls(source) if call.name == SET] == lines


def test_a_text_for_readers_holds_no_address() -> None:
    """``str()`` in ``__repr__`` is none of the calls that may hold one; elsewhere it is."""
    source = (
        "class N:\n def __repr__(self):\n  return ' '.join(str(n) for n in self.all)\n def key(self): return str(self)"
    )
    assert [call.line for call in calls(source) if call.name == "str"] == [4]


def test_a_program_without_a_plant_has_little_to_suspect() -> None:
    """The trainings that differences are planted into have nothing in them that is called likely."""
    for text in plants.SCRIPTS.values():
        assert [
            each for each in rank_causes(evidence(sources={"train.py": text}, divergence=STEP)) if each.weight >= 40
        ] == []


# A diagnosing run


def drew(module: str = "pkg.data", step: int | None = 36, **changes: Any) -> Record:
    """A diagnosing run in which a line drew from the system's entropy."""
    draw = {"call": "os.urandom", "file": "/opt/env/lib/python3.11/site-packages/pkg/data.py", "line": 7}
    entropy = [{**draw, "module": module, "step": step, "count": 1, **changes}]
    return record(processes=(process(entropy=entropy),))


def test_a_draw_in_the_step_where_runs_part() -> None:
    """The package, the line and the step; drawn for the first time right there, it is a likely cause."""
    assert diagnosed(evidence(divergence=STEP), drew()) == (
        Finding(
            area="entropy",
            weight=82,
            what="os.urandom() is reached by no seed, and the package pkg draws from it at step 37",
            where="pkg/data.py:7",
            attempt="look for a seed among the options of pkg, or report it there",
        ),
    )


@pytest.mark.parametrize(
    "other",
    [
        drew(step=0),
        drew(step=37),
        drew(step=None),
        drew(file="/workspace/lib/data.py"),
        drew(module="__main__"),
        record(),
    ],
)
def test_other_draws_are_not_accused(other: Record) -> None:
    """Draws in other steps did not matter there; the project's own lines are named from its sources."""
    assert diagnosed(evidence(divergence=STEP), other) == ()


def test_frameworks_draw_names_before_the_first_step() -> None:
    """Other packages may have drawn initial values."""
    start = diverged("start", ulps=1 << 20)
    assert diagnosed(evidence(divergence=start), drew(module="keras.src.saving", step=0)) == ()
    (cause,) = diagnosed(evidence(divergence=start), drew(step=0))
    assert (cause.weight, cause.what.rpartition(" draws ")[2]) == (55, "from it before the first step")


@pytest.mark.parametrize("step", [0, 36])
@pytest.mark.parametrize(
    "facts",
    [
        {"importing": "torch", "module": "sympy.core.random", "used": False},
        {"importing": "torch", "module": "sympy.core.random", "used": None},
        {"importing": "torch", "module": "sympy.core.symbol", "used": True},
        {"importing": "botorch", "module": "sympy.core.symbol", "used": True},
        {"importing": "wandb", "module": "wandb.names"},
        {"importing": "", "used": False},
    ],
)
def test_draws_that_reach_no_parameter_are_no_cause(facts: dict[str, Any], step: int) -> None:
    """A package that draws while it is imported, and a generator that gives no number, make nothing another value."""
    start = diverged("start", ulps=1 << 20)
    for first in (STEP, start):
        assert diagnosed(evidence(divergence=first), drew(step=step, **facts)) == ()


def test_a_draw_in_a_package_is_named_with_the_calls_that_led_there() -> None:
    """From the project's line on; a generator that a package made at its import, and draws from, stays possible."""
    chain = [
        {"file": "/workspace/train.py", "line": 6, "function": "train"},
        {"file": "/opt/env/lib/python3.11/site-packages/pkg/data.py", "line": 7, "function": "draw"},
    ]
    (cause,) = diagnosed(evidence(divergence=STEP), drew(chain=chain))
    assert cause.where == "train.py:6 → pkg/data.py:7"
    (cause,) = diagnosed(evidence(divergence=STEP), drew(chain=chain[1:], importing="pkg", used=True, step=0))
    assert (cause.weight, cause.where) == (50, "pkg/data.py:7")


def test_a_seed_that_envbuild_replaces_is_no_cause() -> None:
    """``numpy.random.seed()`` takes its seed from a stream that envbuild has seeded; ``random.seed()`` does not."""
    assert rank_causes(evidence(sources={"t.py": "import numpy as np\nnp.random.seed()\n"}, divergence=STEP)) == ()
    assert rank_causes(evidence(sources={"t.py": "import random\nrandom.seed()\n"}, divergence=STEP))


def filled(folder: Path, value: float) -> tuple[compare.Trace, ...]:
    """A trace of one tensor, two steps, with a value in the last."""
    make_trace(folder, [{"w": [1.0, 2.0]}, {"w": [1.0, 3.0]}, {"w": [1.0, value]}])
    return tuple(compare.read_run(folder))


def test_memory_that_nothing_wrote(tmp_path: Path) -> None:
    """Filled with NaN it shows; NaN that is there anyway reports nothing."""
    nan, plain = filled(tmp_path / "filled", float("nan")), filled(tmp_path / "plain", 3.0)
    known = evidence(divergence=STEP, sources={"t.py": "x = 1\ny = torch.empty(3)\n"}, operations=(EMPTY,))
    (cause,) = diagnosed(known, record(), nan, plain)
    assert cause.what == "memory that nothing wrote is read: filled with NaN, it shows in w after step 2"
    assert (cause.where, cause.weight) == ("t.py:2", PROVEN)
    assert diagnosed(known, record(), plain, plain) == ()
    assert diagnosed(known, record(), nan, nan) == ()
    damaged = record(metrics={"loss": ((0, float("nan")),)})
    assert diagnosed(known, damaged)[0].what.endswith("it shows in what it measured")


def test_a_diagnosing_run_is_made_where_it_may_tell_more() -> None:
    """Not where a cause is sure already, but always where memory may be read that nothing wrote."""
    sure = [Finding(area="sources", weight=80, what="os.urandom()")]
    assert worthwhile(evidence(), [])
    assert worthwhile(evidence(), [Finding(area="sources", weight=40, what="a race")])
    assert not worthwhile(evidence(), sure)
    assert worthwhile(evidence(sources={"t.py": "torch.empty(3)"}, operations=(EMPTY,)), sure)


TWO_TIMES = "import random, time\nbegin = time.time()\nrng = random.Random(time.time_ns())\nprint(begin)\n"


def culprit(place: str, call: str = "time.time_ns", **changes: Any) -> Culprit:
    """A line that makes runs differ."""
    path, _, line = place.rpartition(":")
    table: dict[str, Any] = {"suspect": "clock", "call": call, "module": "__main__", "place": place}
    return Culprit(**{**table, "file": path, "line": int(line), **changes})


def test_of_several_lines_the_one_that_makes_the_difference_is_proven() -> None:
    """The others that ask for the same are no causes any more."""
    known = evidence(
        sources={"t.py": TWO_TIMES},
        proven=("clock",),
        culprits=(culprit("/workspace/t.py:3"),),
        cleared=("/workspace/t.py:2",),
    )
    first, other = rank_causes(known)
    assert (first.where, first.weight) == ("t.py:3", PROVEN)
    assert first.what == (
        "time.time_ns() is another number in each run, and becomes a seed; "
        "proven: runs are equal when the clock is fixed, and differ if that is so but for this line"
    )
    assert (other.where, other.weight) == ("t.py:2", 18)
    assert in_likely_order(known, ["/workspace/t.py:2", "/workspace/t.py:3"]) == [
        "/workspace/t.py:3",
        "/workspace/t.py:2",
    ]


def test_a_proven_line_that_the_table_does_not_know() -> None:
    """A call inside a package is named with the package and with the line of the project that leads to it."""
    known = evidence(
        sources={"t.py": "import net\nnet.train()\n"},
        proven=("clock",),
        culprits=(culprit("/workspace/t.py:2", file="/opt/env/site-packages/net/a.py", line=7, module="net.a"),),
    )
    (cause,) = rank_causes(known)
    assert cause.where == "t.py:2 → net/a.py:7"
    assert cause.what.startswith(
        "time.time_ns() returns the time, which is never the same, and the package net calls it"
    )
    (without,) = rank_causes(evidence(proven=("addresses",)))
    assert without.what.startswith("the result depends on addresses of objects")
    assert not without.where


def test_a_seed_that_is_none_when_the_program_runs() -> None:
    """The source has an argument, the experiment shows that the call drew from the system's entropy: it had no seed."""
    known = evidence(
        sources={"t.py": "import random\nseed = None\nrandom.seed(seed)\n"},
        proven=("entropy",),
        culprits=(culprit("/workspace/t.py:3", "random.seed", suspect="entropy"),),
    )
    (cause,) = rank_causes(known)
    assert (cause.where, cause.weight) == ("t.py:3", PROVEN)
    assert cause.what.startswith("random.seed() without a seed seeds the generator from the system's entropy; proven")
    assert cause.attempt.startswith("give it a seed")


def test_what_was_varied_and_made_a_difference() -> None:
    """The name of the host with the line that asks for it; addresses where anything that moves objects did it."""
    (cause,) = rank_causes(
        evidence(sources={"t.py": "import socket\nx = socket.gethostname()\ny = x\n"}, proven=("host",))
    )
    assert (cause.where, cause.weight) == ("t.py:2", PROVEN - 1)
    (cause,) = rank_causes(evidence(sources={"t.py": "order = sorted(items, key=id)\n"}, proven=("layout",)))
    assert cause.what.startswith(
        "id() is an address, another one in each run; proven: runs are equal when nothing moves"
    )


def test_draws_of_packages_are_no_causes_once_refuted() -> None:
    """With the system's entropy fixed runs differed still: what draws from it is not named."""
    drawn = {"call": "os.urandom", "file": "/x/site-packages/p/a.py", "line": 3, "module": "p", "step": 0}
    found = record(processes=(process(entropy=[drawn]),))
    assert diagnosed(evidence(proven=("entropy",)), found)
    assert diagnosed(evidence(), found) == (), "without a step trace nothing ties it to the difference"
    assert diagnosed(evidence(refuted=("entropy",)), found) == ()
    assert diagnosed(evidence(proven=("addresses",)), found) == ()


def test_functions_that_are_given_to_others() -> None:
    """``key=id`` is a use of id; a variable of that name is none."""
    source = "import time\nsorted(a, key=id)\nmap(hash, b)\nfield(default_factory=time.time)\n"
    assert [call.name for call in calls(source)] == ["sorted", "id", "map", "hash", "field", "time.time"]
    assert [call.name for call in calls("for id in a:\n    f(id)\ndef g(str): h(str)\n")] == ["f", "h"]


def test_what_is_nearly_always_harmless_is_named_only_if_proven() -> None:
    """``str()`` of an object may hold its address: no cause without an experiment, nor next to a likelier call."""
    sources = {"t.py": "random.seed(str(x))\n"}
    assert rank_causes(evidence(sources=sources)) == ()
    assert suspects(evidence(sources=sources)) == ()
    assert [cause.where for cause in rank_causes(evidence(sources=sources, proven=("addresses",)))] == ["t.py:1"]
    sources = {"t.py": "a = str(x)\nb = threading.get_ident()\nf(a, b)\n", "u.py": ""}
    first, *_ = rank_causes(
        evidence(sources={**sources, "t.py": f"import threading\n{sources['t.py']}"}, proven=("addresses",))
    )
    assert first.where == "t.py:3"


def test_a_worker_without_a_record_is_no_cause() -> None:
    """A pool kills its workers: which of them wrote a record is chance."""
    missing = Finding(area="processes", weight=30, what="process worker", before="1", after="(not there)")
    (cause,) = rank_causes(evidence(found=(missing,)))
    assert cause.weight == 24
    sources = {"t.py": "import weakref\nfor x in weakref.WeakSet(y):\n    print(x)\n"}
    first, _ = rank_causes(evidence(found=(missing,), sources=sources))
    assert first.where == "t.py:2"


def test_names_that_are_made_of_each_other_take_no_time() -> None:
    lines = [f"v{at} = v{at - 1} + v{at - 2}" for at in range(2, 80)]
    text = "\n".join(["import time", "v0 = time.time()", "v1 = v0 + 1", *lines])
    assert [call.use for call in calls(f"{text}\n")] == [""]
    assert next(call.use for call in calls(f"{text}\nprint(v79)\n")) == "printed"
    assert next(call.use for call in calls(f"{text}\nlr = v79\n")) == "decides"
    assert next(call.use for call in calls(f"{text}\nrandom.seed(v79)\n")) == "seed"
