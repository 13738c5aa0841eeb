"""Lines that did not run, by what the records decide."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from envbuild.record.processes import Parameter, ParameterSet
from envbuild.verification.causes.branches import unreached
from envbuild.verification.causes.evidence import Evidence
from envbuild.verification.causes.ranking import rank_causes
from tests.support.records import process, record
from tests.support.runtime import make_lock

ARGUMENTS = "import argparse, os, random, torch\nargs = parse().parse_args()\n"


def evidence(source: str, **changes: Any) -> Evidence:
    """Two runs of a source with the parameters ``seed`` 3 and ``debug`` false."""
    values = {"seed": Parameter(value=3, source="default"), "debug": Parameter(value=False, source="default")}
    sets = (ParameterSet(parser="argparse", program="train.py", values=values),)
    run = record(**{"parameters": sets, "environment": {"MODE": "fast"}, "gpus": "", **changes})
    return Evidence(a=run, b=run, lock=make_lock(), sources={"train.py": source})


@pytest.mark.parametrize(
    "condition",
    [
        "args.seed < 0", "args.seed is None", "args.debug", "not args.seed", "args.debug and unknown()", "False",
        "TYPE_CHECKING", "torch.cuda.is_available()", "os.environ.get('DEBUG_RUN') == '1'",
        "os.environ.get('MODE', 'slow') != 'fast'", "args.seed in (1, 2)", "os.getenv('NOISE')",
    ],
)  # fmt: skip
def test_a_call_in_a_branch_that_did_not_run_is_no_cause(condition: str) -> None:
    """The recorded parameters, the environment and constants decide it."""
    source = f"{ARGUMENTS}if {condition}:\n    random.seed(os.urandom(8))\nelse:\n    random.seed(args.seed)\n"
    assert unreached(evidence(source)) == {"train.py": frozenset({4})}
    assert rank_causes(evidence(source)) == ()


@pytest.mark.parametrize(
    "condition",
    [
        "unknown()", "args.seed == 3", "args.other", "args.debug or unknown()", "model.debug", "args.seed < 'a'",
        "os.environ.get('RANK')", "os.environ.get('HOSTNAME') is None", "args.seed > 0 > unknown",
    ],
)  # fmt: skip
def test_what_is_not_known_may_have_run(condition: str) -> None:
    """Nothing is left out for a condition that is true, or that no record decides."""
    source = f"{ARGUMENTS}if {condition}:\n    random.seed(os.urandom(8))\n"
    assert [cause.where for cause in rank_causes(evidence(source))] == ["train.py:4"]


@pytest.mark.parametrize(
    ("condition", "ran"),
    [
        ("sys.argv[1:] == ['slow']", False),
        ("sys.argv[1] == 'slow'", False),
        ("'slow' in sys.argv", False),
        ("len(sys.argv) < 3", False),
        ("sys.argv[-1] != '3'", False),
        ("sys.argv[1:] == ['fast', '3']", True),
        ("sys.argv[7] == 'slow'", True),
        ("sys.argv[start:] == ['slow']", True),
        ("argv[1] == 'slow'", True),
    ],
)
def test_arguments_decide(condition: str, *, ran: bool) -> None:
    """Of the script, where all processes have the same, and nothing changes them."""
    source = f"import os, random, sys\nif {condition}:\n    random.seed(os.urandom(8))\n"
    command = ("python", "train.py", "fast", "3")
    alone = (process(arguments=command),)
    assert ("train.py", frozenset() if ran else frozenset({3})) in unreached(
        evidence(source, command=command, processes=alone)
    ).items()
    others = {
        "another process": evidence(source, command=command, processes=(*alone, process(arguments=("python", "-c")))),
        "changed": evidence(f"{source}sys.argv[1:] = []\n", command=command, processes=alone),
        "masked": evidence(source, command=("python", "train.py", "***"), processes=()),
        "a command": evidence(source, command=("bash", "train.py", "fast"), processes=()),
    }
    assert {name: unreached(each)["train.py"] for name, each in others.items()} == dict.fromkeys(others, frozenset())


def test_a_value_that_the_program_changes_decides_nothing() -> None:
    """Of parameters, of the environment, and of names that get another value."""
    draws = "    random.seed(os.urandom(8))\n"
    for change in (
        "args.seed = -1\nif args.seed < 0:\n",
        "N = 0\nN = 1\nif N:\n",
        "def f():\n  global M\nM = 0\nif M:\n",
    ):
        assert rank_causes(evidence(f"{ARGUMENTS}{change}{draws}"))
    assert rank_causes(evidence(f"{ARGUMENTS}os.environ['A'] = '1'\nif os.environ.get('A'):\n{draws}"))


def test_a_name_with_one_constant_decides() -> None:
    """The other branch ran."""
    source = f"{ARGUMENTS}DEBUG = 0\nif DEBUG:\n    random.seed(os.urandom(8))\n"
    assert rank_causes(evidence(source)) == ()


def test_a_function_that_nobody_mentions_did_not_run() -> None:
    """Unless the program calls functions by names that it makes, or one is registered by a decorator."""
    function = "import os\ndef noise():\n    return os.urandom(8)\n"
    assert rank_causes(evidence(function)) == ()
    for used in ("noise()\n", "run('noise')\n", "globals()[name]()\n", "table = {1: noise}\n"):
        assert rank_causes(evidence(function + used))
    assert rank_causes(evidence("import os\n@app.command\ndef noise():\n    return os.urandom(8)\n"))


def test_with_a_gpu_its_branch_may_have_run() -> None:
    """Whether PyTorch finds it is not known."""
    source = "import os, torch\nif torch.cuda.is_available():\n    os.urandom(8)\n"
    assert rank_causes(evidence(source, gpus="all"))


def test_what_is_drawn_comes_before_who_comes_first() -> None:
    """Where both are proven together: order alone is first where it is all that is proven."""
    source = (
        "import random, threading\ndraw = random.Random()\ndef work(): print(draw.random())\n"
        "for _ in range(2): threading.Thread(target=work).start()\n"
    )
    given = evidence(source)
    both = rank_causes(replace(given, proven=("order", "entropy")))
    assert [cause.where.partition(",")[0] for cause in both[:2]] == ["train.py:2", "train.py:4"]
    alone = rank_causes(replace(given, proven=("order",)))
    assert alone[0].where == "train.py:4"


def test_what_an_experiment_does_not_reach_is_still_named() -> None:
    """Tasks in order leave workers of a loader as they are: that runs differ then says nothing of what these share."""
    source = "import multiprocessing\ncount = multiprocessing.Value('l', 0)\nrun(count)\n"
    found = rank_causes(replace(evidence(source), refuted=("order",), traced=True))
    assert [cause.where for cause in found] == ["train.py:2"]
