"""What the hook captures of programs in real interpreters: arguments of argparse, files of the project, objects."""

from __future__ import annotations

import hashlib
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.support.runtime import Tree, make_lock, make_tree

pytestmark = pytest.mark.subprocess

TRAIN = """
import argparse
parser = argparse.ArgumentParser(prog="train.py")
parser.add_argument("--lr", type=float, default=0.1)
parser.add_argument("--epochs", type=int, default=3)
parser.add_argument("--nesterov", action="store_true")
parser.add_argument("--hub-token")
parser.add_argument("data", nargs="*", default=["digits"])
parser.set_defaults(kind="cnn")
"""


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Tree:
    return make_tree(tmp_path_factory.mktemp("tree"), make_lock())


@pytest.fixture(autouse=True)
def _fresh_records(tree: Tree) -> None:
    for path in tree.run.iterdir():
        path.unlink()


def run(tree: Tree, text: str, *arguments: str, **options: Any) -> subprocess.CompletedProcess[str]:
    """Run a script of the tree's folder."""
    (tree.root / "train.py").write_text(text)
    return tree.execute("train.py", *arguments, **options)


def values(record: dict[str, Any], number: int = 0) -> dict[str, tuple[Any, str]]:
    """Return names with value and source of one parser."""
    found = record["parameters"][number]["values"]
    return {name: (entry["value"], entry["source"]) for name, entry in found.items()}


def names(tree: Tree, entries: list[dict[str, Any]]) -> list[str]:
    return [os.path.relpath(entry["path"], tree.root) for entry in entries]


def test_defaults_and_given_values(tree: Tree) -> None:
    """Every value is there with its source; one that was typed is, even if it equals the default."""
    done = run(tree, TRAIN + "print(parser.parse_args().lr)", "--epochs=3", "--lr", "0.5", "--hub-token", "xyzzy")
    assert done.stdout == "0.5\n"
    (record,) = tree.records()
    assert values(record) == {
        "lr": (0.5, "command line"),
        "epochs": (3, "command line"),
        "nesterov": (False, "default"),
        "hub_token": ("***", "command line"),
        "data": (["digits"], "default"),
        "kind": ("cnn", "default"),
    }
    assert record["parameters"][0]["parser"] == "argparse"
    assert record["arguments"][1:] == ["train.py", "--epochs=3", "--lr", "0.5", "--hub-token", "***"]
    assert record["warnings"] == []
    assert not [path for path in tree.run.iterdir() if "xyzzy" in path.read_text()]


def test_a_default_that_changed_shows_in_two_records(tree: Tree) -> None:
    """The classic story: the same command, another default in the script, and the record names the parameter."""
    found = []
    for default in ("0.1", "0.01"):
        run(tree, TRAIN.replace("default=0.1", f"default={default}") + "parser.parse_args()", "--epochs", "5")
        (record,) = tree.records()
        found.append(values(record))
        for path in tree.run.iterdir():
            path.unlink()
    assert {name: [each[name] for each in found] for name in found[0] if found[0][name] != found[1][name]} == {
        "lr": [(0.1, "default"), (0.01, "default")]
    }


PARSES = {
    "parse_known_args": ("print(parser.parse_known_args()[1])", ["--lr", "1", "--other"], {"lr"}),
    "parse_intermixed_args": ("print(parser.parse_intermixed_args())", ["a", "--lr", "1", "b"], {"lr", "data"}),
    "abbreviated": ("print(parser.parse_args())", ["--ep", "4"], {"epochs"}),
    "after two dashes": ("print(parser.parse_args())", ["--", "a"], {"data"}),
    "only two dashes": ("print(parser.parse_args())", ["--"], set()),
    "a flag": ("print(parser.parse_args())", ["--nesterov"], {"nesterov"}),
    "other arguments": ("print(parser.parse_args(['--lr', '2']))", ["--epochs", "9"], {"lr"}),
}


@pytest.mark.parametrize("case", PARSES)
def test_every_way_to_parse(tree: Tree, case: str) -> None:
    """What the command line gave is known whatever method parses, and the result is as without the hook."""
    text, arguments, given = PARSES[case]
    done = run(tree, TRAIN + text, *arguments)
    plain = subprocess.run([sys.executable, "train.py", *arguments], cwd=tree.root, capture_output=True, text=True)
    assert (done.stdout, done.stderr) == (plain.stdout, plain.stderr)
    (record,) = tree.records()
    assert len(record["parameters"]) == 1
    assert {name for name, (_, source) in values(record).items() if source == "command line"} == given


def test_subparsers_and_parents(tree: Tree) -> None:
    """A subcommand's parser is no parse of its own: one set holds the names of both."""
    text = TRAIN.replace('parser.add_argument("data", nargs="*", default=["digits"])', "") + (
        "commands = parser.add_subparsers(dest='command')\n"
        "fit = commands.add_parser('fit')\n"
        "fit.add_argument('--steps', type=int, default=7)\n"
        "fit.add_argument('--seed', type=int, default=1)\n"
        "fit.set_defaults(run=print)\n"
        "print(parser.parse_args().run)"
    )
    run(tree, text, "--lr", "1", "fit", "--seed", "1")
    (record,) = tree.records()
    assert len(record["parameters"]) == 1
    found = values(record)
    assert (found["command"], found["seed"]) == (("fit", "command line"), (1, "command line"))
    assert (found["steps"], found["run"]) == ((7, "default"), ("builtins.print", "default"))


def test_two_stages(tree: Tree) -> None:
    """A first parser reads the configuration's name, a second the rest into the same namespace: sources stay."""
    text = (
        "import argparse\nfirst = argparse.ArgumentParser(prog='one', add_help=False)\nfirst.add_argument('--config')\n"
        "space, rest = first.parse_known_args()\nspace.extra = 1\n"
        "second = argparse.ArgumentParser(prog='two')\nsecond.add_argument('--lr', default=1)\n"
        "print(second.parse_args(rest, namespace=space))\n"
    )
    run(tree, text, "--config", "c.yaml", "--lr", "2")
    (record,) = tree.records()
    assert values(record, 0) == {"config": ("c.yaml", "command line")}
    assert values(record, 1) == {
        "config": ("c.yaml", "command line"), "extra": (1, "program"), "lr": ("2", "command line")
    }  # fmt: skip


@pytest.mark.parametrize("arguments", [["--help"], ["--lr", "much"], ["--lr"], ["--unknown"]])
def test_help_and_mistakes_are_untouched(tree: Tree, arguments: list[str]) -> None:
    """Usage, errors and exit codes are to the letter what they are without the hook."""
    done = run(tree, TRAIN + "parser.parse_args()", *arguments, check=False)
    plain = subprocess.run([sys.executable, "train.py", *arguments], cwd=tree.root, capture_output=True, text=True)
    assert plain.stdout + plain.stderr
    assert (done.returncode, done.stdout, done.stderr) == (plain.returncode, plain.stdout, plain.stderr)


def test_exceptions_pass_through(tree: Tree) -> None:
    """What a type function raises reaches the program as it is, and the next parse works."""
    text = TRAIN + (
        "def broken(text): raise RuntimeError('mine')\n"
        "parser.add_argument('--x', type=broken)\n"
        "try: parser.parse_args(['--x', '1'])\n"
        "except RuntimeError as error: print(error)\n"
        "print(parser.parse_args(['--lr', '3']).lr)\n"
    )
    assert run(tree, text).stdout == "mine\n3.0\n"
    (record,) = tree.records()
    assert values(record)["lr"] == (3.0, "command line")


def test_a_value_that_cannot_be_written_is_a_warning(tree: Tree) -> None:
    """Capturing fails soft: the program continues, and the record states that something is missing."""
    text = TRAIN + (
        "class Bad:\n    def __repr__(self): raise RuntimeError('no words')\n"
        "parser.set_defaults(bad=Bad())\nprint(parser.parse_args().lr)\n"
    )
    done = run(tree, text)
    assert done.stdout == "0.1\n"
    assert done.stderr == "envbuild: warning: argparse: RuntimeError: no words\n"
    assert tree.records()[0]["warnings"] == ["argparse: RuntimeError: no words"]


@pytest.mark.parametrize(
    ("end", "code"),
    [
        ("raise SystemExit(3)", 3),
        ("raise RuntimeError", 1),
        ("import os; os._exit(4)", 4),
        ("import os, signal; os.kill(os.getpid(), signal.SIGKILL)", -signal.SIGKILL),
    ],
)
def test_however_a_program_ends(tree: Tree, end: str, code: int) -> None:
    """Parameters and script are on disk right after parsing: also of a program that is killed."""
    done = run(tree, TRAIN + f"parser.parse_args()\n{end}\n", "--lr", "2", check=False)
    assert done.returncode == code
    (record,) = tree.records()
    assert values(record)["lr"] == (2.0, "command line")
    assert names(tree, record["modules"]) == ["train.py"]


def test_a_program_that_is_killed_at_once(tree: Tree) -> None:
    """Even before it parses anything the file reports which script it was."""
    text = "import os; os.kill(os.getpid(), 9)"
    run(tree, text, check=False)
    (record,) = tree.records()
    digest = hashlib.sha256(text.encode()).hexdigest()
    path = str(tree.root / "train.py")
    assert record["modules"] == [{"path": path, "size": len(text), "sha256": digest}]
    assert "objects" not in record


PROJECT = {
    "lib/__init__.py": "",
    "lib/model.py": "SIZE = 3\n",
    "space/part.py": "X = 1\n",  # a namespace package: no __init__
    "conf/base.yaml": "lr: 0.1\n",
    "conf/extra.py": "y = 2\n",
    "never.json": "{}",
}


@pytest.fixture
def project(tree: Tree) -> None:
    for name, text in PROJECT.items():
        (tree.root / name).parent.mkdir(exist_ok=True)
        (tree.root / name).write_text(text)


@pytest.mark.usefixtures("project")
def test_files_of_the_project(tree: Tree) -> None:
    """Script, imported modules and files read as configuration, as they were when they were read."""
    text = (
        "import json, pathlib, lib.model, space.part\n"
        "pathlib.Path('lib/model.py').write_text('SIZE = 4')\n"
        "pathlib.Path('conf/base.yaml').read_text()\n"
        "exec(open('conf/extra.py').read())\n"
        "json.dump({}, open('history.json', 'w'))\njson.load(open('history.json'))\n"
        "try: open('missing.json')\nexcept FileNotFoundError as error: print(error.filename)\n"
    )
    assert run(tree, text).stdout == "missing.json\n"
    (record,) = tree.records()
    assert names(tree, record["modules"]) == ["train.py", "lib/__init__.py", "lib/model.py", "space/part.py"]
    assert names(tree, record["configs"]) == ["conf/base.yaml", "conf/extra.py"]
    digests = {name: entry["sha256"] for entry in record["modules"] for name in names(tree, [entry])}
    assert digests["lib/model.py"] == hashlib.sha256(PROJECT["lib/model.py"].encode()).hexdigest()
    assert record["objects"]["others"] == []
    assert record["objects"]["locked"] > 3


@pytest.mark.usefixtures("project")
@pytest.mark.parametrize("flags", [["-m", "lib.model"], ["-c", "import lib.model"], ["-I", "lib/model.py"]])
def test_other_ways_to_start(tree: Tree, flags: list[str]) -> None:
    """A module run with -m, code of -c and an isolated script report their files too."""
    tree.execute(*flags)
    (record,) = tree.records()
    assert "lib/model.py" in names(tree, record["modules"])
    assert record["configs"] == []


@pytest.mark.usefixtures("project")
def test_a_module_with_bytecode(tree: Tree) -> None:
    """A module that comes from its __pycache__ is known by its source."""
    on = {"PYTHONDONTWRITEBYTECODE": ""}
    for _ in range(2):
        tree.execute("-c", "import lib.model", variables=on)
    for record in tree.records():
        assert names(tree, record["modules"]) == ["lib/__init__.py", "lib/model.py"]


@pytest.mark.usefixtures("project")
def test_children_tell_of_their_own(tree: Tree) -> None:
    """Forked and spawned workers write files of their own; a fork does not repeat what its parent has read."""
    text = (
        "import argparse, multiprocessing, lib.model\n"
        "def work(name):\n    open(name).close()\n    import space.part\n"
        "if __name__ == '__main__':\n"
        "    parser = argparse.ArgumentParser()\n    parser.add_argument('--lr', default=1)\n    parser.parse_args()\n"
        "    for method in ('fork', 'spawn'):\n"
        "        with multiprocessing.get_context(method).Pool(1) as pool:\n"
        "            pool.map(work, ['conf/base.yaml'])\n            pool.close()\n            pool.join()\n"
    )
    run(tree, text)
    found = {record["path"]: record for record in tree.records()}
    assert names(tree, found[""]["modules"]) == ["train.py", "lib/__init__.py", "lib/model.py"]
    assert [len(found[path]["parameters"]) for path in ("", "pool worker 1", "pool worker 2")] == [1, 0, 0]
    assert names(tree, found["pool worker 1"]["modules"]) == ["space/part.py"]
    spawned = names(tree, found["pool worker 2"]["modules"])
    assert spawned == ["train.py", "lib/__init__.py", "lib/model.py", "space/part.py"]
    for path in ("pool worker 1", "pool worker 2"):
        assert names(tree, found[path]["configs"]) == ["conf/base.yaml"]


def test_arguments_from_files(tree: Tree) -> None:
    """A file of arguments (@file) is listed by digest whatever its name, its arguments as given."""
    (tree.root / "given.txt").write_text("--lr\n2\n")
    text = TRAIN.replace('prog="train.py"', 'fromfile_prefix_chars="@"') + "parser.parse_args()"
    run(tree, text, "@given.txt")
    (record,) = tree.records()
    assert names(tree, record["configs"]) == ["given.txt"]
    assert values(record)["lr"] == (2.0, "command line")


def test_an_object_compiled_by_the_user(tree: Tree, tmp_path: Path) -> None:
    """A library preloaded or opened from outside the locked folders is listed with its digest."""
    source, library = tmp_path / "own.c", tmp_path / "own.so"
    source.write_text("int own(void) { return 7; }\n")
    subprocess.run(["cc", "-shared", "-fPIC", "-o", library, source], check=True)
    done = run(tree, f"import ctypes; print(ctypes.CDLL({str(library)!r}).own())")
    assert done.stdout == "7\n"
    (record,) = tree.records()
    digest = hashlib.sha256(library.read_bytes()).hexdigest()
    assert record["objects"]["others"] == [
        {"path": str(library), "size": library.stat().st_size, "sha256": digest}
    ]  # fmt: skip


def test_without_controls_all_is_recorded_too(tree: Tree) -> None:
    """A run that shows what the controls do can be compared with one that has them."""
    done = run(tree, TRAIN + "import random; parser.parse_args()", variables={"ENVBUILD_CONTROLS": "off"})
    assert done.stderr == ""
    (record,) = tree.records()
    assert values(record)["lr"] == (0.1, "default")
    assert (record["generators"], record["switches"]) == ({}, [])


def test_nothing_is_imported_by_the_capture(tree: Tree) -> None:
    """The hook brings no parser, no re, no json and no pathlib into a program that has none, not even at its end."""
    heavy = {"argparse", "json", "re", "pathlib", "hashlib", "subprocess", "typing", "click", "yaml"}
    (tree.root / "train.py").write_text("pass")
    done = tree.execute("-X", "importtime", "train.py")
    imported = {line.rpartition("|")[2].strip() for line in done.stderr.splitlines()}
    assert "_envbuild.hook.observer" in imported
    assert heavy & imported == set()
    assert tree.records()[0]["modules"]
