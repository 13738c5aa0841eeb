"""What is typed as the program of ``run`` and ``verify``, and what is stated where something else was meant."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from envbuild import cli
from envbuild.cli.app import whole
from envbuild.cli.commands.program import check_program, misplaced, search_start
from envbuild.cli.render.advice import _missing_module, advice, after_failure
from envbuild.cli.render.run import lacking, missing_command, missing_file, missing_module
from envbuild.cli.render.verify import only_errors
from envbuild.errors import EngineError, UsageError
from envbuild.operations.run import RunOptions, prefer_guard_error
from envbuild.record.model import Script
from envbuild.record.printed import Stream
from envbuild.record.processes import ProcessRecord, ReadFile
from envbuild.verification import attestation
from tests.support.records import record
from tests.support.runtime import make_lock

whole()  # registers the commands, whose options are asked for


@pytest.mark.parametrize(
    ("typed", "reported"),
    [
        (["run", "--mem", "8g", "fit.py"], "run has no option --mem — perhaps you meant --memory\n  → see them all: "),
        (["verify", "--controlls", "fit.py"], "verify has no option --controlls — perhaps you meant --controls\n"),
        (["verify"], "nothing to run\n  → name a script: envbuild verify fit.py\n"),
        (["run"], "nothing to run\n  → name a script: envbuild run fit.py; or open a shell: envbuild run --shell\n"),
        (
            ["verify", "fitt.py"],
            "no script fitt.py here — perhaps you meant fit.py\n"
            "  → name a file; for another program: envbuild verify -- PROGRAM\n",
        ),
        (["verify", "-m"], "nothing to run after -m\n  → name a module: envbuild verify -m MODULE\n"),
    ],
)
def test_the_next_command_is_that_of_the_verb(
    typed: list[str], reported: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """``verify`` hints at ``verify``, with a script that is there; a misspelt option or script has its near name."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "fit.py").touch()
    assert cli.main(typed) == 2
    assert capsys.readouterr().err.startswith(f"envbuild: {reported}")


@pytest.mark.parametrize("command", ["run", "verify"])
def test_a_folder_that_was_removed_is_named(
    command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """In place of the script, which nobody could put there."""
    (gone := tmp_path / "gone").mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    assert cli.main([command, "t.py"]) == 2
    assert capsys.readouterr().err == (
        "envbuild: the current folder does not exist any more\n  → cd into one that does\n"
    )


def test_an_attestation_that_is_not_there(tmp_path: Path) -> None:
    """The hint names a script of the project."""
    (tmp_path / "fit.py").touch()
    with pytest.raises(Exception, match="there is no attestation") as caught:
        attestation.load(tmp_path / "pylock.t.verified.json")
    assert getattr(caught.value, "hint", "") == "make one: envbuild verify fit.py"


@pytest.mark.parametrize(
    ("command", "changes", "reported"),
    [
        (("t.py", "-n", "2"), {"parameters": (), "exit_code": 2}, "-n went to t.py"),
        (("t.py", "-n", "2"), {"exit_code": 2}, "-n went to t.py"),
        (("t.py", "--no-controls", "--jobs=3", "x"), {"parameters": ()}, "--no-controls, --jobs went to t.py"),
        (("-m", "pkg.fit", "--in-place"), {"parameters": ()}, "--in-place went to pkg.fit"),
        (("t.py", "-n", "2"), {}, ""),  # its parser took it
        (("t.py", "--epochs", "2", "--help"), {"parameters": (), "exit_code": 2}, ""),
        (("ls", "-n"), {"parameters": ()}, ""),
        (("argv.py", "-n"), {"parameters": ()}, ""),  # it reads them itself
        (("argv.py", "-n"), {"parameters": (), "exit_code": 2}, "-n went to argv.py"),
        (("t.py", "-n", "2"), {"parameters": (), "exit_code": 1}, ""),  # it failed before it read them, perhaps
        ((), {"parameters": ()}, ""),  # a shell
        (("t.py", "-n", "2"), {"parameters": (), "state": "refused"}, ""),
    ],
)
def test_an_option_behind_the_script(
    command: tuple[str, ...], changes: dict[str, Any], reported: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It went to the script: reported if the script seems not to know it, never for options that a parser took."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "argv.py").write_text("import sys\nprint(sys.argv)\n")
    text = misplaced(command, record(**changes), "verify")
    first, _, where = reported.partition(" went to ")
    name = f"-m {where}" if command[:1] == ("-m",) else where
    right = f"envbuild's own options come before the script, as in envbuild verify {first.split(',')[0]} … {name}"
    assert text == (f"{reported}: {right}" if reported else "")


def test_a_package_that_is_missing(tmp_path: Path) -> None:
    """A program that ends for lack of a module gets the way out before the general advice; others do not."""
    text = "Traceback …\nModuleNotFoundError: No module named 'pandas'\n"
    assert _missing_module(text, tmp_path) == (
        "if pandas is a package, add it to requirements in the spec and lock again"
    )
    assert _missing_module(f"{text}OSError: gone\n", tmp_path) == ""
    assert "add [scikit-learn] to" in _missing_module(text.replace("pandas", "sklearn"), tmp_path)
    assert "add [setuptools<81] to requirements" in _missing_module(text.replace("pandas", "pkg_resources"), tmp_path)
    child = "/opt/env/bin/python: No module named pip\nTraceback …\nCalledProcessError: Command … exit status 1.\n"
    assert _missing_module(child, tmp_path) == (
        "if pip is a package, add it to requirements in the spec and lock again"
    )
    (tmp_path / "libs").mkdir()
    (tmp_path / "libs" / "pandas.py").touch()
    assert _missing_module(text, tmp_path) == "libs has pandas, give its folder: -e PYTHONPATH=libs"
    (tmp_path / "pandas.py").touch()
    as_module = "the project has pandas: start the script as a module, envbuild run -m demos.train"
    failed = record(exit_code=1, script=Script(path="demos/train.py", sha256="0" * 64))
    assert advice(text, failed, tmp_path) == as_module  # as ``missing_module`` has it, where nothing was recorded


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            'Traceback …\nDependencyNotInstalled: moviepy is not installed, run `pip install "gymnasium[other]"`\n',
            "add what it asks for to requirements in the spec (gymnasium[other]) and lock again",
        ),
        (
            "ModuleNotFoundError: \nCould not find it.\nPlease run `pip install optuna-integration[botorch]`.\n",
            "add what it asks for to requirements in the spec (optuna-integration[botorch]) and lock again",
        ),
        (
            "ImportError: x requires numpy. Install it with pip install -U numpy>=1.20.\n",
            "add what it asks for to requirements in the spec (numpy>=1.20) and lock again",
        ),
        (
            "ImportError: \nBertModel requires the PyTorch library but it was not found in your environment. Check\n",
            "add what it asks for to requirements in the spec (torch) and lock again",
        ),
        (
            "UserWarning: no bars; pip install tqdm\nTraceback (most recent call last):\nValueError: bad\n",
            "",
        ),
        (
            "Traceback …\njupyter_client.kernelspec.NoSuchKernel: No such kernel named jax39\n",
            "the notebook asks for jax39, a kernel of its author's machine: add "
            "--ExecutePreprocessor.kernel_name=python3 (papermill: -k python3)",
        ),
        (
            "InductorError: InvalidCxxCompiler: No working C++ compiler found in cxx: (None, 'g++')\n\nSet X=1\n",
            "no C++ compiler in the image: add it to the spec (packages: [g++, python3-dev]), then: envbuild lock",
        ),
        (
            "error: command 'x86_64-linux-gnu-gcc' failed: No such file or directory\n",
            "no program gcc in the image: add it to the spec (packages: [gcc, libc6-dev]), then: envbuild lock",
        ),
        (
            "sh: 1: dot: not found\nRuntimeError: dot failed\n",
            "no program dot in the image: add it to the spec (packages: [graphviz]), then: envbuild lock",
        ),
        (
            "demo.sh: line 7: make: command not found\n",
            "no program make in the image: add it to the spec (packages: [make]), then: envbuild lock",
        ),
        (
            "demo.sh: 1: make: not found\ndemo.sh: 6: time: not found\ndemo.sh: 7: make: not found\n",
            "no programs make, time in the image: add them to the spec (packages: [make, time]), then: envbuild lock",
        ),
        (
            "make[1]: gcc: No such file or directory\nmake: *** [Makefile:45: build/x.o] Error 127\n",
            "no program gcc in the image: add it to the spec (packages: [gcc, libc6-dev]), then: envbuild lock",
        ),
        (
            "/usr/bin/env: ‘Rscript’: No such file or directory\n",
            "no program Rscript in the image: add it to the spec (packages: [r-base-core]), then: envbuild lock",
        ),
        (
            "Traceback …\nFileNotFoundError: [Errno 2] No such file or directory: PosixPath('dot')\n",
            "no program dot in the image: add it to the spec (packages: [graphviz]), then: envbuild lock",
        ),
        (
            "importlib.metadata.PackageNotFoundError: No package metadata was found for ngboost\n",
            "add ngboost to requirements in the spec and lock again",
        ),
        (
            "Traceback …\nImportError: cannot import name 'AutoML' from 'flaml' "
            "(/opt/env/lib/python3.11/site-packages/flaml/__init__.py)\n",
            "the locked flaml has no AutoML: it is in one of its extras (requirements: [flaml[EXTRA]]) or in another "
            "version",
        ),
        ("ImportError: cannot import name 'fit' from 'model' (/workspace/model.py)\n", ""),
        ("ValueError: the C compiler crashed: points.csv: not found\n", ""),
        ("ImportError: pip install git+ssh://example/x or pip install -r requirements.txt\n", ""),
        (
            "urllib.error.URLError: <urlopen error [Errno -3] Temporary failure in name resolution>\n",
            "runs have no network: put what it downloads into the project, or allow it: --network host",
        ),
        (
            "OSError: Can't download the file 'salaries' from urls ['https://example.org/salaries.zip'].\n",
            "runs have no network: put what it downloads into the project, or allow it: --network host",
        ),
        (
            "OSError: We couldn't connect to 'https://example.org' to load the files\n",
            "runs have no network: put what it downloads into the project, or allow it: --network host",
        ),
        ("OSError: cannot read 'a.csv'; see https://example.org/help to download it\n", ""),
        ("ValueError: failed to fetch row 3\n", ""),
        ("ValueError: bad\n", ""),
    ],
)
def test_what_an_error_asks_for(text: str, expected: str, tmp_path: Path) -> None:
    """Packages that a library's error names, and the network, come before the general advice; warnings do not count."""
    assert advice(text, record(), tmp_path) == expected
    if "network" in expected:
        online = msgspec.structs.replace(record().options, network="host")
        assert advice(text, record(options=online), tmp_path) == ""


def test_a_project_that_asks_for_its_own_version(tmp_path: Path) -> None:
    """A checkout of a package has no metadata in the image until it is required itself."""
    (tmp_path / "pyproject.toml").write_text('[tool.poetry]\nname = "My_Pkg"\n')
    text = "importlib.metadata.PackageNotFoundError: No package metadata was found for my-pkg\n"
    assert advice(text, record(), tmp_path) == (
        "the image lacks the project itself: add  -e .  to requirements in the spec, and  sources: [my-pkg]"
    )


def test_a_network_that_the_engine_does_not_know() -> None:
    """The engine's words stay, and where all networks are listed is added; other refusals are left alone."""
    options = RunOptions(command=("t.py",), network="foo")
    for message, hint in (
        ("cannot start the container: network foo not found", "list those of the engine: docker network ls"),
        ("cannot start the container: no space", ""),
    ):
        with pytest.raises(EngineError) as caught, prefer_guard_error(make_lock(), options, None):  # type: ignore[arg-type]
            raise EngineError(message)
        assert (caught.value.message, caught.value.hint) == (message, hint)


def test_cpus_that_cannot_be_meant(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """They are refused on the way in."""
    monkeypatch.chdir(tmp_path)
    assert cli.main(["run", "--cpus", "-1", "-c", "1"]) == UsageError.exit_code
    assert capsys.readouterr().err.startswith("envbuild: --cpus: expected a number above 0")


@pytest.mark.parametrize(
    ("missing", "modules", "exit_code", "hint"),
    [
        ("PIL.Image", (), 1, "no module named PIL.Image in the image: if it is a package, add it to the spec "
         "(requirements: [pillow]), then: envbuild lock"),
        ("accelerate", (), 1, "no module named accelerate in the image: if it is a package, add it to the spec "
         "(requirements: [accelerate]), then: envbuild lock"),
        ("pkg_resources", (), 1, "no module named pkg_resources in the image: it is a part of setuptools below 81, "
         "add it to the spec (requirements: [setuptools<81]), then: envbuild lock"),
        ("nets.deep", ("nets/__init__.py",), 1, ""),
        ("PIL", (), 0, ""),
        (None, (), 1, ""),
    ],
)  # fmt: skip
def test_a_run_without_a_package_names_the_requirement(
    missing: str | None, modules: tuple[str, ...], exit_code: int, hint: str, tmp_path: Path
) -> None:
    """By the name that it has in a spec; the project's own modules are no packages."""
    process = ProcessRecord() if missing is None else ProcessRecord(missing_module=missing)
    files = tuple(ReadFile(path=path, size=1, sha256=None) for path in modules)
    assert missing_module(record(processes=(process,), modules=files, exit_code=exit_code), tmp_path) == hint


@pytest.mark.parametrize(
    ("files", "folder"),
    [
        (("gp/ant.py",), "."),
        (("a/gp.py", "b/c/gp.py"), "a"),
        (("a b/c/gp/x.py",), "'a b/c'"),
        (("src/gp/__init__.py", "z/gp.py"), "src"),
        (("gp/notes.txt",), None),
        ((".hidden/gp.py",), None),
        (("env/pyvenv.cfg", "env/lib/gp.py"), None),
        (("a/b/c/d/gp.py",), None),
    ],
)
def test_a_module_elsewhere_in_the_project(files: tuple[str, ...], folder: str | None, tmp_path: Path) -> None:
    """It is no package to be locked: its folder has to be on the path."""
    for name in files:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    failed = record(processes=(ProcessRecord(missing_module="gp.ant"),), modules=(), exit_code=1)
    text = missing_module(failed, tmp_path)
    if folder is None:
        assert "requirements: [gp]" in text
    else:
        where = "the project" if folder == "." else folder.strip("'")
        assert text == (
            f"no module named gp.ant where Python looks: {where} has gp, give its folder: -e PYTHONPATH={folder}"
        )


@pytest.mark.parametrize(
    ("script", "directory", "hint"),
    [
        ("scripts/train.py", "/workspace", "start the script as a module, envbuild run -m scripts.train"),
        ("my-scripts/train.py", "/workspace", "give its folder: -e PYTHONPATH=."),
        ("scripts/train.py", "/workspace/scripts", "the project has gp, give its folder: -e PYTHONPATH=.."),
        ("train.py", "/workspace", "give its folder: -e PYTHONPATH=."),
    ],
)
def test_a_script_below_the_module_it_imports(script: str, directory: str, hint: str, tmp_path: Path) -> None:
    """It is started as a module where that can be: no variable of the guard's has to change for it."""
    (tmp_path / "gp.py").touch()
    started = tmp_path / Path(directory).relative_to("/workspace")
    started.mkdir(exist_ok=True)
    failed = record(
        processes=(ProcessRecord(missing_module="gp"),),
        modules=(),
        exit_code=1,
        directory=directory,
        script=Script(path=script, sha256="0" * 64),
    )
    assert missing_module(failed, started).endswith(hint)


@pytest.mark.parametrize("stream", ["stderr", "stdout"])
def test_what_a_run_that_failed_asked_for(stream: Stream, tmp_path: Path) -> None:
    """By what was kept of its output: on a terminal standard error is a part of what it printed."""
    failed = record(exit_code=1, directory="/workspace/scripts")
    printed = tmp_path / ".envbuild" / "runs" / failed.id / "printed"
    printed.mkdir(parents=True)
    (tmp_path / "scripts").mkdir()
    text = "\x1b[31mTemporary failure in name resolution\x1b[0m\n"
    (printed / stream).write_text("x" * 10_000 + "\nTraceback (most recent call last):\n" + text)
    assert after_failure(failed, tmp_path / "scripts").startswith("runs have no network: put what it downloads into")
    assert after_failure(msgspec.structs.replace(failed, exit_code=0), tmp_path / "scripts") == ""
    (printed / stream).write_text("Traceback (most recent call last):\nValueError: 3\n")
    assert after_failure(failed, tmp_path / "scripts") == ""


@pytest.mark.parametrize(
    ("command", "missing", "exit_code", "where"),
    [
        (("ga/knn.py", "-k", "a b"), "heart.csv", 1, "cd ga; envbuild run knn.py -k 'a b'"),
        (("ga/knn.py",), "data/x.txt", 1, "cd ga; envbuild run knn.py"),
        (("ga/knn.py",), "heart.csv", 0, ""),
        (("ga/knn.py",), "other.csv", 1, ""),
        (("ga/knn.py",), "top.csv", 1, ""),
        (("knn.py",), "heart.csv", 1, ""),
        (("ga/knn.py",), None, 1, ""),
    ],
)
def test_a_file_next_to_the_script(
    command: tuple[str, ...], missing: str | None, exit_code: int, where: str, tmp_path: Path
) -> None:
    """Programs that were written to be started in their own folder are told apart from those that lack a file."""
    (tmp_path / "ga" / "data").mkdir(parents=True)
    for name in ("ga/heart.csv", "ga/data/x.txt", "top.csv", "ga/top.csv"):
        (tmp_path / name).touch()
    process = ProcessRecord() if missing is None else ProcessRecord(missing_file=missing)
    text = missing_file(record(processes=(process,), exit_code=exit_code), command, tmp_path)
    assert text == (
        f"no {missing} in the folder where the program was started: it is next to the script: {where}" if where else ""
    )


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("C++ compiler", "no C++ compiler in the image: add it to the spec (packages: [g++, python3-dev])"),
        ("Python.h", "no Python.h in the image: add it to the spec (packages: [python3-dev])"),
        ("gcc", "no program gcc in the image: add it to the spec (packages: [gcc, libc6-dev])"),
        ("unheard-of", ""),
    ],
)
def test_what_compiles_has_its_packages(name: str, text: str) -> None:
    """A compiler of C needs the C library's headers, which Debian's gcc only recommends, and extensions Python's."""
    assert lacking(name) == (f"{text}, then: envbuild lock" if text else "")


@pytest.mark.parametrize(
    ("compared", "said"),
    [
        (("1 line of standard error (1 with rates, 1 with times masked)",), True),
        (("1 line of standard error", "1 line of standard output"), False),
        (("1 file", "2 lines of standard error"), False),
        ((), False),
    ],
)
def test_progress_alone_is_no_result(compared: tuple[str, ...], said: bool) -> None:
    """A program that shows figures on no screen, and a bar, has left nothing whose equality says much."""
    assert len([*only_errors(compared)]) == said


@pytest.mark.parametrize(
    ("command", "code", "ran", "text"),
    [
        (
            ("my book.ipynb",),
            127,
            False,
            "a notebook is started by a program: envbuild run -m nbconvert --to notebook --execute 'my book.ipynb' "
            "--output executed.ipynb  (in the spec, requirements: [nbconvert, ipykernel])",
        ),
        (("git", "log"), 127, False, "no program git in the image: add it to the spec (packages: [git])"),
        (("git", "log"), 1, False, ""),
        (("git", "log"), 127, True, ""),
        (("bash", "run.sh"), 127, False, ""),
        ((), 127, False, ""),
    ],
)
def test_a_command_that_is_missing(command: tuple[str, ...], code: int, ran: bool, text: str, tmp_path: Path) -> None:
    """A notebook is no program; for a known one there is Debian's package."""
    failed = record(processes=(ProcessRecord(),) if ran else (), exit_code=code)
    found = missing_command(failed, command, tmp_path)
    assert found == (f"{text}, then: envbuild lock" if text.startswith("no ") else text)


_PYPROJECT = '[project]\nname = "my-pkg"\nversion = "1"\n[project.scripts]\nmy-train = "my_pkg.cli:main"\n'


@pytest.mark.parametrize(
    ("text", "command", "known"),
    [
        (_PYPROJECT, "my-train", True),
        (_PYPROJECT.replace("scripts", "gui-scripts"), "my-train", True),
        (_PYPROJECT, "other", False),
        ("[project]\nname = 1\nscripts = 3\n", "my-train", False),
        ("project = 3\n", "my-train", False),
        ("[project.scripts]\nmy-train = 'a:b'\n", "my-train", False),
        ("[", "my-train", False),
        (None, "my-train", False),
    ],
)
def test_a_command_of_the_project_itself(text: str | None, command: str, known: bool, tmp_path: Path) -> None:
    """The image has it once the project is among the requirements; a damaged file gives no hint, and no fault."""
    if text is not None:
        (tmp_path / "pyproject.toml").write_text(text)
    found = missing_command(record(processes=(), exit_code=127), (command, "--lr", "1"), tmp_path)
    assert found == (
        "my-train is a command of this project, which is not in the image: add it to the spec "
        "(requirements: [-e .], sources: [my-pkg]), then: envbuild lock"
        if known
        else ""
    )


@pytest.mark.parametrize(
    ("command", "reported"),
    [
        (("train", "--lr", "1 2"), "perhaps you meant train.py --lr '1 2'"),
        (("src/train",), "perhaps you meant src/train.py"),
        (("src",), "src is a folder: name a script in it"),
        (("./app/",), "./app/ is a folder: name a script in it; or its package: -m app"),
        (("python -c 1",), "the program and its arguments are one word: envbuild run -- python -c 1"),
        (("python -c 1", "x"), ""),
        (("other",), ""),
        (("-x",), ""),
        (("a\0b",), ""),
    ],
)
def test_a_command_that_was_meant_otherwise(command: tuple[str, ...], reported: str, tmp_path: Path) -> None:
    """A script without its suffix, a folder, a whole line in quotes; nothing is guessed of other words."""
    for name in ("train.py", "src/train.py", "app/__main__.py", "-x.py"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    assert missing_command(record(processes=(), exit_code=127), command, tmp_path) == reported


def test_a_module_to_be_run_that_is_below_src(tmp_path: Path) -> None:
    """Python ends before it runs anything, so no import is noted; a module that it finds is no hint."""
    (tmp_path / "src" / "my_pkg").mkdir(parents=True)
    (tmp_path / "src" / "my_pkg" / "cli.py").touch()
    failed = record(modules=(), exit_code=1)
    command = ("-m", "my_pkg.cli", "--lr", "1")
    assert missing_command(failed, command, tmp_path) == (
        "no module named my_pkg.cli where Python looks: src has my_pkg, give its folder: -e PYTHONPATH=src"
    )
    assert missing_command(failed, ("-m", "http.server"), tmp_path) == ""
    assert missing_command(record(exit_code=1), command, tmp_path) == ""  # it ran modules of the project
    assert missing_command(record(modules=(), exit_code=2), command, tmp_path) == ""
    (tmp_path / "my_pkg").mkdir()
    assert missing_command(failed, command, tmp_path) == ""


@pytest.mark.parametrize(("name", "package"), [("xdg-open", "xdg-utils"), ("dot", "graphviz"), ("unheard-of", "")])
def test_a_program_that_is_missing(name: str, package: str, tmp_path: Path) -> None:
    """A program that is started has Debian's package, where that is known."""
    failed = record(processes=(ProcessRecord(missing_file=name),), exit_code=1)
    text = f"no program {name} in the image: add it to the spec (packages: [{package}]), then: envbuild lock"
    assert missing_file(failed, ("train.py",), tmp_path) == (text if package else "")
    (tmp_path / name).touch()
    assert missing_file(failed, ("train.py",), tmp_path) == ""


@pytest.mark.parametrize(
    ("make", "reported"),
    [
        (lambda path: path.symlink_to("nope"), 'it is a link to "nope", which does not exist'),
        (lambda path: path.symlink_to(path.name), 'it is a link to "odd.py", which does not exist'),
        (lambda path: path.mkdir(), "it is a folder"),
        (os.mkfifo, "it is a FIFO, a socket or a device"),
        (lambda path: (path.touch(), os.truncate(path, 1 << 40)), "it has 1,099,511,627,776 bytes"),
    ],
)
def test_what_is_no_script_is_named(
    make: Callable[[Path], object], reported: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is there, so that no other name is meant; and nobody waits for a terabyte to be read."""
    monkeypatch.chdir(tmp_path)
    make(Path("odd.py"))
    with pytest.raises(UsageError) as raised:
        search_start(("odd.py",), "run")
    assert raised.value.message == f"odd.py is no script: {reported}"


def test_an_empty_program_is_refused() -> None:
    """No kernel starts one, and Python ends in a traceback."""
    with pytest.raises(UsageError):
        check_program(("", "x"), "run")


@pytest.mark.parametrize(("command", "example"), [(".", "train.py"), ("./src", "src/train.py")])
def test_a_folder_in_the_place_of_a_script(command: str, example: str, tmp_path: Path) -> None:
    """What is there and cannot be started is named, with the command that starts a script in it."""
    (tmp_path / "src").mkdir()
    found = missing_command(record(processes=(), exit_code=126), (command,), tmp_path)
    assert found == f"{command} is a folder: name a script in it, as in envbuild run {example}"
    assert missing_command(record(processes=(), exit_code=126), ("src/a",), tmp_path) == ""
