"""The hook with the real libraries that parse arguments: what each gives the program, and that it gives the same.

The libraries come from ``tests.support.environments``.
"""

from __future__ import annotations

import json
import os
import subprocess
from typing import Any

import pytest

from tests.support.environments import environment
from tests.support.runtime import Tree, make_lock, make_tree

pytestmark = pytest.mark.network

FILES = {
    "conf/config.yaml": "defaults:\n  - _self_\n  - model: mlp\nlr: 0.1\nlayers: [1, 2]\nroot: ${oc.env:HOME}\n",
    "conf/model/mlp.yaml": "dim: 3\n",
    "conf/model/cnn.yaml": "dim: 4\n",
    "given.flags": "--lr=0.5\n",
    "n.yaml": "n: 9\n",
    "n.conf": "n = 9\n",
}

ABSL = """
from absl import app, flags
FLAGS = flags.FLAGS
flags.DEFINE_float("lr", 0.1, "rate")
flags.DEFINE_integer("n", 3, "number", short_name="k")
flags.DEFINE_list("names", ["a"], "names")
flags.DEFINE_string("api_key", "", "key")
def main(argv):
    print(FLAGS.lr, FLAGS.n, argv[1:])
app.run(main)
"""
CLICK = """
import click
@click.group()
@click.option("--verbose/--quiet", default=False)
def cli(verbose): pass
@cli.command()
@click.option("--lr", default=0.1, envvar="LR")
@click.option("--pin", hide_input=True, default="1234")
@click.option("--n", default=3)
@click.argument("data", default="digits")
def fit(**values): print(values)
cli(prog_name="train.py")
"""
TYPER = """
import typer
def main(lr: float = 0.1, n: int = typer.Option(3, envvar="N"), data: str = typer.Argument("digits")):
    print(lr, n, data)
typer.run(main)
"""
HYDRA = """
import hydra
@hydra.main(version_base=None, config_path="conf", config_name="config")
def main(cfg): print(cfg)
main()
"""
OMEGACONF = """
from omegaconf import OmegaConf
print(OmegaConf.merge(OmegaConf.load("conf/config.yaml"), OmegaConf.from_cli()))
"""
FIRE = """
import fire
def main(a, lr=0.1, *, n=3): print(a, lr, n)
fire.Fire(main)
"""
TYRO = """
import dataclasses, tyro
@dataclasses.dataclass
class Optimiser:
    lr: float = 0.1
@dataclasses.dataclass
class Options:
    optim: Optimiser = dataclasses.field(default_factory=Optimiser)
    n: int = 3
    batch_size: int = 32
print(tyro.cli(Options))
"""
TYRO_FUNCTION = "import tyro\ndef main(n: int = 3, lr: float = 0.1): print(n, lr)\ntyro.cli(main)\n"
SIMPLE = """
import dataclasses
from simple_parsing import ArgumentParser
@dataclasses.dataclass
class Options:
    lr: float = 0.1
    n: int = 3
parser = ArgumentParser()
parser.add_arguments(Options, dest="options")
parser.add_argument("--seed", default=1)
print(parser.parse_args())
"""
JSONARGPARSE = """
from jsonargparse import ArgumentParser
parser = ArgumentParser()
parser.add_argument("--config", action="config")
parser.add_argument("--optim.lr", type=float, default=0.1)
parser.add_argument("--n", type=int, default=3)
parser.add_argument("--m", type=int, default=4)
print(parser.parse_args())
"""
CONFIGARGPARSE = """
import configargparse
parser = configargparse.ArgParser(default_config_files=["n.conf"])
parser.add_argument("--lr", default=0.1, env_var="LR")
parser.add_argument("--n", default=3)
parser.add_argument("--m", default=4)
print(parser.parse_args())
"""

D, C, E, F = "default", "command line", "environment", "config file"
Case = tuple[str, list[str], dict[str, str], list[tuple[str, str, dict[str, tuple[Any, str]]]], list[str]]
CASES: dict[str, Case] = {
    "absl": (
        ABSL, ["--lr=0.2", "-k", "3", "--api_key=abc", "rest"], {},
        [("absl", "train.py", {
            "api_key": ("***", C), "lr": (0.2, C), "n": (3, C), "names": (["a"], D),
        })], [],
    ),
    "absl, flags from a file": (
        ABSL, ["--flagfile=given.flags"], {},
        [("absl", "train.py", {
            "api_key": ("", D), "lr": (0.5, C), "n": (3, D), "names": (["a"], D),
        })], ["given.flags"],
    ),
    "click": (
        CLICK, ["fit", "--n", "3"], {"LR": "0.5"},
        [
            ("click", "train.py", {"verbose": (False, D)}),
            ("click", "train.py fit", {"n": (3, C), "data": ("digits", D), "lr": (0.5, E), "pin": ("***", D)}),
        ], [],
    ),
    "typer": (
        TYPER, ["--lr", "0.2"], {"N": "7"},
        [("typer", "train.py", {"lr": (0.2, C), "data": ("digits", D), "n": (7, E)})], [],
    ),
    "hydra": (
        HYDRA, ["lr=0.2", "model=cnn", "+new.x=1", "hydra.run.dir=.", "hydra.output_subdir=null"], {},
        [("hydra", "train.py", {
            "model": ("cnn", C), "lr": (0.2, C), "layers": ([1, 2], F), "root": ("${oc.env:HOME}", F),
            "model.dim": (4, C), "new.x": (1, C),
        })], ["conf/config.yaml", "conf/model/cnn.yaml"],
    ),
    "omegaconf": (
        OMEGACONF, ["lr=0.2"], {},
        [("omegaconf", "train.py", {
            "defaults": (["_self_", {"model": "mlp"}], F), "lr": (0.2, C), "layers": ([1, 2], F),
            "root": ("${oc.env:HOME}", F),
        })], ["conf/config.yaml"],
    ),
    "fire": (FIRE, ["5", "--n", "3"], {}, [("fire", "train.py main", {"a": (5, C), "lr": (0.1, D), "n": (3, C)})], []),
    "tyro": (
        TYRO, ["--optim.lr", "0.2", "--batch-size", "64"], {},
        [("tyro", "train.py", {"optim.lr": (0.2, C), "n": (3, D), "batch_size": (64, C)})], [],
    ),
    "tyro, a function": (TYRO_FUNCTION, ["--n", "4"], {}, [("tyro", "train.py", {"n": (4, C), "lr": (0.1, D)})], []),
    "simple-parsing": (
        SIMPLE, ["--n", "3"], {},
        [("argparse", "train.py", {"seed": (1, D), "options.lr": (0.1, D), "options.n": (3, C)})], [],
    ),
    "jsonargparse": (
        JSONARGPARSE, ["--config", "n.yaml", "--optim.lr", "0.1"], {},
        [("jsonargparse", "train.py", {
            "config": (["n.yaml"], C), "optim.lr": (0.1, C), "n": (9, F), "m": (4, D),
        })], ["n.yaml"],
    ),
    "ConfigArgParse": (
        CONFIGARGPARSE, ["--m", "5"], {"LR": "3"},
        [("argparse", "train.py", {"lr": ("3", E), "n": ("9", F), "m": ("5", C)})], ["n.conf"],
    ),
}  # fmt: skip
"""Script, arguments, variables; then parser, program and values; then configuration files."""

HELP = {
    "absl": (ABSL, ["--help"]),
    "absl, a mistake": (ABSL, ["--lr=much"]),
    "click": (CLICK, ["fit", "--help"]),
    "click, a mistake": (CLICK, ["fit", "--lr", "much"]),
    "typer": (TYPER, ["--help"]),
    "hydra": (HYDRA, ["--help"]),
    "hydra, a mistake": (HYDRA, ["nothing=1"]),
    "fire": (FIRE, ["--help"]),
    "tyro": (TYRO, ["--help"]),
    "jsonargparse, a mistake": (JSONARGPARSE, ["--n", "much"]),
}


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Tree:
    tree = make_tree(tmp_path_factory.mktemp("tree"), make_lock(), paths=[environment("arguments")])
    for name, text in FILES.items():
        (tree.root / name).parent.mkdir(parents=True, exist_ok=True)
        (tree.root / name).write_text(text)
    return tree


def both(
    tree: Tree, text: str, arguments: list[str], variables: dict[str, str]
) -> list[subprocess.CompletedProcess[str]]:
    """Run a script with the hook and without it."""
    (tree.root / "train.py").write_text(text)
    for path in tree.run.iterdir():
        path.unlink()
    hooked = tree.execute("train.py", *arguments, variables=variables, check=False)
    startup = tree.site / "00-envbuild.pth"
    disabled = startup.rename(tree.root / "disabled")
    try:
        return [hooked, tree.execute("train.py", *arguments, variables=variables, check=False)]
    finally:
        disabled.rename(startup)


@pytest.mark.parametrize("case", CASES)
def test_defaults_and_given_values(tree: Tree, case: str) -> None:
    """Each library's values are recorded with their sources; output and exit code are what they are without."""
    text, arguments, variables, parsers, configs = CASES[case]
    hooked, plain = both(tree, text, arguments, variables)
    assert (hooked.returncode, hooked.stdout, hooked.stderr) == (plain.returncode, plain.stdout, plain.stderr)
    assert plain.returncode == 0
    (record,) = tree.records()
    found = [
        (each["parser"], each["program"], {
            name: (_relative(tree, entry["value"]), entry["source"]) for name, entry in each["values"].items()
        })
        for each in record["parameters"]
    ]  # fmt: skip
    assert found == parsers
    assert [os.path.relpath(entry["path"], tree.root) for entry in record["configs"]] == configs
    assert record["warnings"] == []
    assert "abc" not in json.dumps(record["parameters"])


@pytest.mark.parametrize("case", HELP)
def test_help_and_mistakes_are_untouched(tree: Tree, case: str) -> None:
    """What a user reads, and the exit code, are the same to the letter."""
    hooked, plain = both(tree, *HELP[case], {"COLUMNS": "100"})
    assert plain.stdout + plain.stderr
    assert (hooked.returncode, hooked.stdout, hooked.stderr) == (plain.returncode, plain.stdout, plain.stderr)
    (record,) = tree.records()
    assert record["warnings"] == []


def _relative(tree: Tree, value: Any) -> Any:
    """Take the temporary folder off paths."""
    if isinstance(value, list):
        return [_relative(tree, part) for part in value]
    return value.removeprefix(f"{tree.root}/") if isinstance(value, str) else value
