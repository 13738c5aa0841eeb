"""``envbuild diff`` over real runs in a real image: the classic story, and the search for the field that flips it."""

from __future__ import annotations

import pytest

from envbuild import cli
from tests.support.cli import Project

pytestmark = [pytest.mark.engine, pytest.mark.network, pytest.mark.both_engines]

TRAIN = """\
import argparse, json, os, random
parser = argparse.ArgumentParser()
parser.add_argument("--learning-rate", type=float, default=0.1)
parser.add_argument("--comment", default="")
options = parser.parse_args()
count = sum(len(files) for _, _, files in os.walk("data"))
scale = float(os.environ.get("SCALE", "1"))
value = random.random() + count * scale
for step in range(3):
    value *= 1 - options.learning_rate
    print(json.dumps({"step": step, "loss": value}))
open("model.txt", "w").write(repr(value))
"""


@pytest.fixture(name="training")
def _training(project: Project, monkeypatch: pytest.MonkeyPatch) -> Project:
    """A project with declared data, locked; diff runs in this process, with that project's store."""
    spec = (project.folder / "spec.yaml").read_text()
    project.write("spec.yaml", spec + "inputs: [data]\n")
    project.write("data/cats/000.png", "a cat")
    project.write("train.py", TRAIN)
    project.must("lock", "--update-inputs")
    monkeypatch.setenv("ENVBUILD_STORE", str(project.store))
    monkeypatch.chdir(project.folder)
    return project


def diff(capsys: pytest.CaptureFixture[str], *names: str, bisect: bool = False) -> tuple[int, str]:
    """Compare two runs; returns exit code and what is shown, but for the lines that name the runs."""
    capsys.readouterr()
    code = cli.main(["diff", *(["--bisect"] if bisect else []), *names])
    lines = capsys.readouterr().out.splitlines()
    return code, "\n".join(line for line in lines if line[:2] not in ("A ", "B ")) + "\n"


def test_the_classic_story(training: Project, capsys: pytest.CaptureFixture[str]) -> None:
    """Images were added and a default was changed: diff names both, first, and what stayed."""
    training.must("run", "-q", "train.py")
    training.must("run", "-q", "train.py")
    code, shown = diff(capsys)
    assert code == 0, shown
    equal = "results   bit-identical (1 output, 1 metric, 3 printed lines)\nsame      data, parameters, "
    assert shown.startswith(equal), shown
    assert "although" not in shown
    for number in range(1, 4):
        training.write(f"data/cats/{number:03}.png", "another")
    training.write("train.py", TRAIN.replace("default=0.1", "default=0.01"))
    training.must("lock", "--update-inputs")
    training.must("run", "-q", "train.py")
    code, shown = diff(capsys, bisect=True)
    assert code == 16
    results, _, rest = shown.partition("because   ")
    assert results.splitlines()[0].split(maxsplit=2)[:2] == ["results", "loss"]
    assert results.splitlines()[0].endswith("  1.195 → 4.502")
    assert '          standard output, line 1  {"step": 0, "loss": ' in results
    causes, _, steps = rest.partition("bisect    ")
    assert causes == (
        "data/          3 files added since A, 0 changed; first: cats/001.png\n"
        "            added  cats/002.png\n"
        "            added  cats/003.png\n"
        "          learning_rate  0.1 (default) → 0.01 (default)\n"
        "          train.py       1 line changed, line 3\n"
        '            - parser.add_argument("--learning-rate", type=float, default=0.1)\n'
        '            + parser.add_argument("--learning-rate", type=float, default=0.01)\n'
        "same      command, seeds, switches, environment, options, packages, host\n"
        "unknown   git (neither was run in a repository)\n"
    )
    *tried, answer = steps.splitlines()
    assert [line.removeprefix("bisect").strip().rpartition("  ")[0].split("  ", 1)[0] for line in tried] == [
        "A again", "A once more", "train.py"
    ]  # fmt: skip
    assert answer == (
        "answer    train.py flips the result: A with it as in B gives B's result; "
        "A does not give its own result any more"
    )


READER = """\
import os, subprocess, sys
lines = sys.stdin.read().split() if "-" in sys.argv else []
tool = subprocess.run(["cat", "params.txt"], capture_output=True, text=True, check=True).stdout
result = [lines, tool.strip(), os.listdir("data"), os.access("tool.sh", os.X_OK)]
open("result.txt", "w").write(repr(result))
"""


def test_what_no_open_of_python_shows(
    project: Project, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Standard input; what a child reads, what is only listed, and permissions. The result of the first run is none."""
    monkeypatch.setenv("ENVBUILD_STORE", str(project.store))
    monkeypatch.chdir(project.folder)
    for name, text in {"data/0.png": "", "params.txt": "lr 0.1\n", "tool.sh": "", "in": "1 2\n"}.items():
        project.write(name, text)
    project.write("read.py", READER)

    def run_with(stdin: str) -> None:
        project.must("run", "-q", "read.py", "-", prefix=("sh", "-c", 'exec "$@" < "$0"', stdin))

    def reasons() -> list[str]:
        code, shown = diff(capsys)
        assert code == 16, shown
        return [line[10:] for line in shown[shown.index("\nbecause ") + 1 : shown.index("\nsame ")].splitlines()]

    run_with("/dev/null")
    project.write("params.txt", "lr 0.2\n")
    run_with("/dev/null")
    nothing, file, left = reasons()
    assert nothing.startswith("nothing recorded is reason enough: ")
    assert file.split(maxsplit=3)[3].startswith("params.txt written again, of the same size (")
    assert left.startswith("result.txt at the start ")
    assert left.endswith("(an earlier run left it; Python's open did not read it)")
    project.write("data/1.png", "")
    (project.folder / "tool.sh").chmod(0o755)
    run_with("/dev/null")
    files = reasons()[1]
    assert files.split(maxsplit=3)[3].startswith("data/1.png only in B, tool.sh mode "), files
    run_with("in")
    (given,) = reasons()
    assert given.startswith("standard input  none → a file of 4 bytes, sha256 "), given


MOUNTED = """\
import json, sys
sys.path.insert(0, "/shared/code")
import helper
rate = json.load(open("/shared/conf.json"))["rate"]
print("loss", sum(map(float, open("/data/x.csv"))) * rate * helper.FACTOR)
open("/shared/scratch", "w").write("1")
open("/shared/scratch").read()
"""


def test_what_is_mounted_is_known(
    project: Project, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Data, configuration and code outside the project: what a program reads there is named when it changed."""
    monkeypatch.setenv("ENVBUILD_STORE", str(project.store))
    monkeypatch.chdir(project.folder)
    outside = project.folder.parent / "outside"
    (outside / "shared" / "code").mkdir(parents=True)
    files = {"x.csv": "1\n2\n", "shared/conf.json": '{"rate": 0.5}', "shared/code/helper.py": "FACTOR = 1\n"}
    for name, text in files.items():
        (outside / name).write_text(text)
    project.write("mounted.py", MOUNTED)
    mounts = ("--mount", f"{outside}/x.csv:/data/x.csv:ro", "--mount", f"{outside}/shared:/shared")

    def reason() -> str:
        project.must("run", "-q", *mounts, "mounted.py")
        code, shown = diff(capsys)
        assert code == 16, shown
        return shown[shown.index("\nbecause ") + 1 : shown.index("\nsame ")].removeprefix("because").strip()

    project.must("run", "-q", *mounts, "mounted.py")
    (outside / "x.csv").write_text("1\n3\n")
    data = reason()
    assert data.startswith("/data/x.csv  sha256 "), data
    assert "\n" not in data
    (outside / "shared" / "conf.json").write_text('{"rate": 0.25}')
    assert reason().startswith("/shared/conf.json  1 line changed, line 1")
    (outside / "shared" / "code" / "helper.py").write_text("FACTOR = 2\n")
    assert reason().startswith("/shared/code/helper.py  1 line changed, line 1")


def test_bisect_of_programs_that_print(
    project: Project, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Runs whose files are equal and whose printed lines are not: the field that flips the lines, and no other one."""
    monkeypatch.setenv("ENVBUILD_STORE", str(project.store))
    monkeypatch.chdir(project.folder)
    project.write("data/0.png", "")
    project.write("train.py", TRAIN.replace("write(repr(value))", "write('done')").replace("json.dumps", "str"))
    project.must("run", "-q", "train.py")
    project.must("run", "-q", "-e", "OTHER=1", "train.py", "--comment=x", "--learning-rate", "0.2")
    second, first = (record["id"] for record in project.must("runs", "--json").json)
    code, shown = diff(capsys, first, second, bisect=True)
    assert code == 16
    assert shown.startswith("results   standard output, line 1  {'step': 0, 'loss': "), shown
    assert shown.endswith("answer    --learning-rate flips the result: A with it as in B gives B's result\n"), shown


def test_bisect_names_the_one_of_two_fields(
    project: Project, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """An argument that matters, one that does not, and a variable: found by runs that leave the project alone."""
    monkeypatch.setenv("ENVBUILD_STORE", str(project.store))
    monkeypatch.chdir(project.folder)
    project.write("train.py", TRAIN)
    project.write("data/0.png", "")
    project.must("run", "-q", "train.py")
    project.must("run", "-q", "train.py", "--comment=x", "--learning-rate", "0.2")
    project.must("run", "-q", "-e", "SCALE=2", "train.py", "--comment=x", "--learning-rate", "0.2")
    third, second, first = (record["id"] for record in project.must("runs", "--json").json)
    before = {path: path.read_bytes() for path in project.folder.rglob("*") if path.is_file()}
    code, shown = diff(capsys, first, second, bisect=True)
    assert code == 16
    assert shown.endswith("answer    --learning-rate flips the result: A with it as in B gives B's result\n"), shown
    code, shown = diff(capsys, first, third, bisect=True)
    assert shown.endswith(
        "answer    --learning-rate and variable SCALE flip the result together: none does it alone\n"
    ), shown
    assert {path: path.read_bytes() for path in project.folder.rglob("*") if path.is_file()} == before
