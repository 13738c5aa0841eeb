"""Every file that a resolution reads is known, so that a change of any makes the lock stale."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from envbuild.errors import SpecError
from envbuild.spec.model import load_spec
from envbuild.spec.requirement_files import (
    flattened,
    included,
    python_conflicts,
    required_digests,
    requirement_lines,
)
from envbuild.spec.validators import requirement


def write(folder: Path, **files: str) -> Path:
    for name, text in files.items():
        path = folder / name.replace("__", "/")
        path.parent.mkdir(exist_ok=True, parents=True)
        path.write_text(text)
    return folder


@pytest.mark.parametrize(
    "line",
    [
        "-r b",
        "-rb",
        "  -r   b  ",
        "-c b",
        "--requirement b",
        "--requirement=b",
        "--constraint b",
        "-r b  # why",
        '-r "b"',
        "-r \\\nb",
        "numpy  # -r c\n-r b",
    ],
)
def test_every_spelling_of_an_include_is_seen(tmp_path: Path, line: str) -> None:
    """All forms that pip reads count."""
    write(tmp_path, a=f"numpy\n{line}\n", b="scipy\n", c="")
    assert included(tmp_path, ["a"]) == ("a", "b")


@pytest.mark.parametrize("line", ["# -r b", "numpy # -r b"])
def test_other_lines_include_nothing(tmp_path: Path, line: str) -> None:
    """Comments, other options and addresses are no files."""
    write(tmp_path, a=f"{line}\n", b="")
    assert included(tmp_path, ["a"]) == ("a",)


def test_includes_are_relative_to_their_file_and_may_nest(tmp_path: Path) -> None:
    """As in pip, a path is relative to the file that names it; circles end."""
    base = write(tmp_path / "project", a="-r sub/b\n", sub__b="-c ../c\n-r ../../shared\n", c="-r a\n")
    (tmp_path / "shared").write_text("numpy\n")
    assert included(base, ["a"]) == ("../shared", "a", "c", "sub/b")


def test_missing_includes_are_all_reported(tmp_path: Path) -> None:
    """Each file that cannot be read is reported with the line that names it."""
    write(tmp_path, a="numpy\n\n-r gone\n-c lost\n")
    with pytest.raises(SpecError) as caught:
        included(tmp_path, ["a"])
    assert sorted(problem.message for problem in caught.value.problems) == [
        'a line 3: cannot read "gone": No such file or directory',
        'a line 4: cannot read "lost": No such file or directory',
    ]


_pieces = st.sampled_from(["-r", "-c", " ", "a", "#", "\\", "\n", "\0", "=", "'"])


@given(st.text(max_size=40) | st.lists(_pieces).map("".join))
@settings(max_examples=100, deadline=None)
def test_any_text_gives_files_or_a_spec_error(tmp_path_factory: pytest.TempPathFactory, text: str) -> None:
    """No requirements file makes the reading fail in any other way."""
    base = tmp_path_factory.mktemp("project")
    (base / "a").write_bytes(text.encode("utf-8", "surrogatepass"))
    error: SpecError | None = None
    try:
        assert "a" in included(base, ["a"])
    except SpecError as caught:
        error = caught
    assert error is None or error.problems


def test_lines_that_name_packages_are_found_in_all_files(tmp_path: Path) -> None:
    """Comments are left out; continued lines are joined."""
    write(
        tmp_path,
        a="-r b\ntorch \\\n  ==2.9.1  # why\n\n# no\n",
        b="jax[cuda12] ; python_version > '3'\n",
    )
    assert requirement_lines(tmp_path, ["a"]) == ("torch==2.9.1", 'jax[cuda12]; python_version > "3"')


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("--index-url http://example.invalid/simple", "options do not belong here"),
        ("-i http://example.invalid/simple", "options do not belong here"),
        ("--find-links x", "options do not belong here — name the folder in the spec:  wheels: [x]"),
        ("-f ./wh", "options do not belong here — name the folder in the spec:  wheels: [./wh]"),
        ("--find-links https://example.invalid/x", "come from your pip or uv settings"),
        ("--extra-index-url https://example.invalid/x", "come from your pip or uv settings"),
        ("--trusted-host example.invalid", "options do not belong here"),
        ("file:///x", "no path of one machine"),
        ("./wh/six-1.17.0-py3-none-any.whl", "write in the spec  wheels: [wh]  and here six==1.17.0"),
        ("wh/deep/six-1.17.0-py3-none-any.whl", "write in the spec  wheels: [wh/deep]  and here six==1.17.0"),
        ("six-1.17.0-py3-none-any.whl", "write in the spec  wheels: [wheels]  and here six==1.17.0"),
        ("file:///wh/six-1.17.0-py3-none-any.whl", "write in the spec  wheels: [/wh]  and here six==1.17.0"),
        ("https://example.invalid/x.whl", "put the wheel into a folder named in wheels"),
        ("https://example.invalid/six-1.17.0-py3-none-any.whl#sha256=00", "by address — put the wheel into a folder"),
        ("https://example.invalid/x.tar.gz", "by address — build its wheel: pip wheel"),
        ("git+ssh://git@example.invalid/x.git@v1", "ssh would run with your keys"),
        ("x @ https://example.invalid/x.whl", "a lock names files by digest, not by address"),
        ("-r https://example.invalid/b", "an address may hold something else tomorrow"),
        ("numpy==2 --hash=sha256:00", '--hash="sha256:00" is no SHA-256 digest'),
        ("numpy==2 \\\n  --hash=md5:00", '--hash="md5:00" is no SHA-256 digest'),
        (f"numpy==2 --hash=sha512:{'0' * 128}", "locks have SHA-256 digests"),
        (f"numpy>=2 --hash=sha256:{'0' * 64}", "--hash is for the files of one version; write numpy==VERSION"),
        (f"numpy==2.* --hash=sha256:{'0' * 64}", "--hash is for the files of one version; write numpy==VERSION"),
        ("six # note \\\n-e ./evil", "a comment that ends in a backslash: pip adds the next line to it, uv does not"),
        ("-r ${PWD}/x.txt", "${PWD} is another text on another machine; write what it represents"),
        ("-c ${HOME}/x.txt", "${HOME} is another text on another machine"),
        (f"numpy --hash sha256:{'0' * 64}", "--hash is for the files of one version; write numpy==VERSION"),
    ],
)
def test_a_file_may_hold_what_the_list_may(tmp_path: Path, line: str, why: str) -> None:
    """What could run code on the host or ask another index is refused before a resolver reads it, in every file."""
    write(tmp_path, a="-r b\n", b=f"numpy\n{line}\n")
    with pytest.raises(SpecError) as caught:
        included(tmp_path, ["a"])
    (problem,) = caught.value.problems
    assert problem.message.startswith("b line 2: ")
    assert why in problem.message


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[build-system]\nrequires = []", "no [project] table; its build backend would have to run on this host"),
        ('[project]\nname = "x"\ndynamic = ["version", "dependencies"]', "project.dynamic: dependencies: its build"),
        ('[project]\ndynamic = ["optional-dependencies"]', "project.dynamic: optional-dependencies: its build"),
        ('[project]\ndependencies = ["x @ git+https://h.invalid/x"]', "x @ git+https"),
        ('[project]\n[project.optional-dependencies]\na = ["-e ./x"]', "-e ./x"),
        ('[project]\n[tool.uv.sources]\nx = {path = "x"}', "tool.uv.sources: packages come from indexes only"),
        ('[project]\nname = "My_x"\ndependencies = ["my.x[a]"]', '"my.x[a]" is the project itself'),
        ("[project", "not a TOML file"),
    ],
)
def test_metadata_that_needs_a_build_backend_is_refused(tmp_path: Path, text: str, message: str) -> None:
    """A build backend is a program of the project, which locking must not run; the list has the same rules."""
    (tmp_path / "pyproject.toml").write_text(text)
    with pytest.raises(SpecError) as caught:
        included(tmp_path, ["pyproject.toml"])
    assert message in str(caught.value)


def test_static_metadata_is_read(tmp_path: Path) -> None:
    """A dynamic version alone does not matter."""
    text = '[project]\nname = "x"\ndynamic = ["version"]\ndependencies = ["numpy>=2"]\n'
    (tmp_path / "pyproject.toml").write_text(text)
    assert included(tmp_path, ["pyproject.toml"]) == ("pyproject.toml",)


def test_digests_of_files_are_read(tmp_path: Path) -> None:
    """Every way to write --hash; names and versions in normal form; lines for several systems add up."""
    one, two, three = "1" * 64, "2" * 64, "3" * 64
    write(
        tmp_path,
        a=f"-r b\nNum_Py==2.0 \\\n    --hash=sha256:{one} \\\n    --hash sha256:{two} # why\n",
        b=f"six==1 ; python_version < '3' --hash=SHA256:{one} --hash=sha512:{'4' * 128}\n"
        f"six==1.0.0 ; python_version >= '3' --hash=sha256:{three}\n",
    )
    assert required_digests(tmp_path, ["a"]) == {("num-py", "2"): {one, two}, ("six", "1"): {one, three}}
    assert requirement_lines(tmp_path, ["a"])[0] == "Num_Py==2.0"


def test_resolvers_get_lines_that_were_checked_and_no_file(tmp_path: Path) -> None:
    """In the order of reading, in normal form, without options: a resolver can read them in one way only."""
    write(
        tmp_path,
        a=f"--require-hashes\nz==1 \\\n  --hash=sha256:{'1' * 64}\n-c limits\n-r sub/b # why\na ; os_name == 'posix'\n",
        limits="q<2 # no\n-r more\n",
        more="w!=3\n",
        sub__b="y [e]\n-e ./lib\n",
    )
    (tmp_path / "pyproject.toml").write_text('[project]\nname = "x"\ndependencies = ["""p\n"""]\n')
    assert flattened(tmp_path, ["a", "pyproject.toml"]) == (
        ("z==1", 'a; os_name == "posix"', "y[e]", "p"),
        ("q<2", "w!=3"),
    )


def test_files_without_digests_ask_for_none(tmp_path: Path) -> None:
    """Unless --require-hashes is given: then nothing is admitted."""
    write(tmp_path, a="numpy==2\n", b="--require-hashes\nnumpy==2\n")
    assert required_digests(tmp_path, ["a"]) is None
    assert required_digests(tmp_path, ["b"]) == {}


@pytest.mark.parametrize(
    ("name", "text", "command"),
    [
        ("uv.lock", "version = 1\n", "uv export --frozen --no-dev --no-emit-project -o requirements.txt"),
        ("poetry.lock", "", "poetry export -f requirements.txt -o requirements.txt"),
        ("pdm.lock", "", "pdm export --prod -f requirements -o requirements.txt"),
        ("Pipfile.lock", "{}", "pipenv requirements --hash > requirements.txt"),
        ("Pipfile", "", "pipenv lock && pipenv requirements --hash > requirements.txt"),
        (
            "environment.yml",
            "name: my-env\ndependencies: [numpy]\n",
            "conda run -n my-env python -m pip list --format=freeze > requirements.txt",
        ),
        ("env.yaml", "name: a; rm -rf x\n", "conda run -n a python -m pip list --format=freeze > requirements.txt"),
        ("conda.yml", "", "conda run -n NAME python -m pip list --format=freeze > requirements.txt"),
    ],
)
def test_files_of_other_tools_are_refused_with_the_command(tmp_path: Path, name: str, text: str, command: str) -> None:
    """Named in the spec or in a requirements file, each is answered with the command that makes one of it."""
    (tmp_path / name).write_text(text)
    write(tmp_path, a=f"-r {name}\n")
    with pytest.raises(SpecError) as caught:
        included(tmp_path, ["a"])
    assert caught.value.problems[0].message.startswith(
        f"a line 1: {name} is no requirements file — write its pins into"
    )
    assert caught.value.problems[0].message.endswith(command)
    (tmp_path / "spec.yaml").write_text(f"name: x\nrequirements: {name}\n")
    with pytest.raises(SpecError) as caught:
        load_spec(tmp_path / "spec.yaml")
    assert [problem.path for problem in caught.value.problems] == ["requirements"]
    assert caught.value.problems[0].message.endswith(command)


PYLOCK = """\
lock-version = "1.0"
requires-python = ">=3.12"
created-by = "uv"
[[packages]]
name = "Num_Py"
version = "2.0"
wheels = [{ url = "https://example.invalid/numpy-2.0-py3-none-any.whl", hashes = { sha256 = "AAA" } }]
[[packages]]
name = "six"
version = "1.17.0"
marker = "python_version < '4'"
wheels = [{ name = "six-1.17.0-py2.py3-none-any.whl", path = "x.whl", hashes = { sha256 = "BBB" } }]
""".replace("AAA", "a" * 64).replace("BBB", "b" * 64)


def test_a_pylock_is_read_with_its_pins_and_digests(tmp_path: Path) -> None:
    """A PEP 751 lock of another tool gives its versions, and no other files than its own may be taken."""
    (tmp_path / "pylock.toml").write_text(PYLOCK)
    assert included(tmp_path, ["pylock.toml"]) == ("pylock.toml",)
    assert requirement_lines(tmp_path, ["pylock.toml"]) == ("Num_Py==2.0", 'six==1.17.0; python_version < "4"')
    assert required_digests(tmp_path, ["pylock.toml"]) == {
        ("num-py", "2"): frozenset({"a" * 64}),
        ("six", "1.17"): frozenset({"b" * 64}),
    }


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("[[packages]]\nname = 'x'\n", "pylock.toml: not a lock by PEP 751"),
        ('lock-version = "1.0"\n[[packages]]\nversion = "1"\n', "pylock.toml: not a lock by PEP 751"),
        (
            'lock-version = "1.0"\n[[packages]]\nname = "x"\ndirectory = { path = "." }\n',
            'pylock.toml: "x" comes from directory: packages come from indexes only',
        ),
        ('lock-version = "1.0"\n[[packages]]\nname = "x"\n', 'pylock.toml: "x" has no version: packages come from'),
        ("no toml", "pylock.toml: Expected"),
    ],
)
def test_what_a_pylock_may_not_hold(tmp_path: Path, text: str, why: str) -> None:
    """Sources and what is no such lock are refused before any resolver starts."""
    (tmp_path / "pylock.toml").write_text(text)
    with pytest.raises(SpecError) as caught:
        included(tmp_path, ["pylock.toml"])
    assert caught.value.problems[0].message.startswith(why)


def test_requires_python_is_respected(tmp_path: Path) -> None:
    """A project or lock that does not admit the Python is refused, with the system that has one."""
    (tmp_path / "pylock.toml").write_text(PYLOCK)
    (tmp_path / "pyproject.toml").write_text('[project]\nname = "x"\nrequires-python = "<3.11"\n')
    write(tmp_path, a="numpy\n")
    files = ["pylock.toml", "pyproject.toml", "a"]
    assert [problem.message for problem in python_conflicts(tmp_path, files, "3.11")] == [
        "pylock.toml requires Python >=3.12, but this is 3.11 — write os: debian-13",
        "pyproject.toml requires Python <3.11, but this is 3.11 — write python: 3.10",
    ]
    assert [problem.path for problem in python_conflicts(tmp_path, files, "3.13")] == ["python"]


def test_an_editable_project_is_refused_with_its_own_folder() -> None:
    """The advice builds the project in the folder, not a stranger's package of its name."""
    for line in ("-e .", "--editable=.", "-e  ./libs/mine"):
        with pytest.raises(ValueError, match=r"pip wheel --no-deps -w wheels \./?\S* \(then  wheels: \[wheels\]"):
            requirement(line)


@pytest.mark.parametrize("name", ["requirements.txt", "pyproject.toml", "pylock.toml"])
def test_a_pipe_is_not_waited_for_and_a_huge_file_is_not_read(tmp_path: Path, name: str) -> None:
    """Whatever a project has in the place of a requirements file, the answer comes at once, in little memory."""
    path = tmp_path / name
    os.mkfifo(path)
    with pytest.raises(SpecError) as caught:
        included(tmp_path, [name])
    assert name in str(caught.value)
    path.unlink()
    with path.open("wb") as stream:
        stream.truncate(1 << 40)
    with pytest.raises(SpecError) as caught:
        included(tmp_path, [name])
    assert "more than 4194304 bytes" in str(caught.value)


def test_lines_without_end(tmp_path: Path) -> None:
    """A file whose every line is wrong would be a hundred thousand problems; its length is one."""
    write(tmp_path, **{"requirements.txt": "-e x\n" * (1 << 18)})
    with pytest.raises(SpecError) as caught:
        included(tmp_path, ["requirements.txt"])
    assert [problem.message for problem in caught.value.problems] == ["requirements.txt: more than 1048576 characters"]
