"""Resolvers' complaints, turned into errors. The texts are what uv 0.13 wrote, and 0.4 in one case."""
# ruff: noqa: E501 - the texts are quoted as they came

from __future__ import annotations

import pytest

from envbuild.errors import IntegrityError, ResolveError
from envbuild.resolve.python.explain import IMPORTED, PYTHONS, clean, failure
from envbuild.resolve.python.wheels import Target, project_of, shell_word
from envbuild.spec.distributions import DISTRIBUTIONS
from envbuild.spec.keys import STANDALONE

TARGET = Target(python="3.11", platform="manylinux_2_36_x86_64")

CONFLICT = """\
error: No solution found when resolving dependencies
  cause: Because tensorflow-cpu>=2.21.0rc0,<=2.21.0 depends on numpy>=1.26.0 and you require tensorflow-cpu==2.21.*, we can conclude that you require numpy>=1.26.0.
         And because you require numpy<1.20, we can conclude that your requirements are unsatisfiable.
"""
UNKNOWN = """\
error: No solution found when resolving dependencies
  cause: Because tensorflo was not found in the package registry and you require tensorflo, we can conclude that your requirements are unsatisfiable.
"""
SOURCES = """\
error: No solution found when resolving dependencies
  cause: Because all versions of fasttext have no usable wheels and you require fasttext, we can conclude that your requirements are unsatisfiable.

hint: Wheels are required for `fasttext` because building from source is disabled for all packages (i.e., with `--no-build`)
"""
WINDOWS = """\
error: No solution found when resolving dependencies
  cause: Because pywin32>=303 has no wheels with a matching platform tag (e.g., `manylinux_2_36_x86_64`) and you require pywin32>=303, we can conclude that your requirements are unsatisfiable.

hint: Wheels are available for `pywin32` (v312) on the following platforms: `win32`, `win_amd64`, `win_arm64`
"""
REFUSED = """\
error: Request failed after 3 retries in 9.9s
  cause: Failed to fetch: http://me:secret@127.0.0.1:9/simple/six/
  cause: error sending request for url (http://127.0.0.1:9/simple/six/)
  cause: client error (Connect)
  cause: tcp connect error
  cause: Connection refused (os error 111)
"""
LOGIN = """\
error: Failed to fetch: http://127.0.0.1:9/simple/six/
  cause: HTTP status client error (401 Unauthorized) for url (http://127.0.0.1:9/simple/six/)
"""
FIRST_INDEX = """\
error: No solution found when resolving dependencies
  cause: Because there is no version of six==1.2 and you require six==1.2, we can conclude that your requirements are unsatisfiable.

hint: `six` was found on http://a.invalid/, but not at the requested version (six==1.2). A compatible version may be available on a subsequent index (e.g., http://b.invalid/). By default, uv will only consider versions that are published on the first index that contains a given package, to avoid dependency confusion attacks. If all indexes are equally trusted, use `--index-strategy unsafe-best-match` to consider all versions from all indexes, regardless of the order in which they were defined.
"""
OLD_UV = "  × No solution found when resolving dependencies:\n  ╰─▶ Because there are no versions of\n      six==9 and you require six==9, we can conclude that\n      your requirements are unsatisfiable.\n"


ON_THE_WAY = """\
error: No solution found when resolving dependencies
  cause: Because tool<=0.3 has no usable wheels and tool==0.4 depends on numpy<2, we can conclude that tool<=0.4 depends on numpy<2.
         And because you require numpy>=2 and tool>=0.2, we can conclude that your requirements are unsatisfiable.

hint: Wheels are required for `tool` because building from source is disabled for all packages (i.e., with `--no-build`)
"""
DEEPER = """\
error: No solution found when resolving dependencies
  cause: Because antlr4-python3-runtime>=4.9,<=4.9.3 has no usable wheels and only the following versions of antlr4-python3-runtime are available:
             antlr4-python3-runtime<4.9.dev0
             antlr4-python3-runtime>=4.9,<=4.9.3
             antlr4-python3-runtime>4.10.dev0
         we can conclude that antlr4-python3-runtime==4.9.* cannot be used.
         And because hydra-core==1.3.8 depends on antlr4-python3-runtime==4.9.* and you require hydra-core==1.3.8, we can conclude that your requirements are unsatisfiable.

hint: Wheels are required for `antlr4-python3-runtime` because building from source is disabled for all packages (i.e., with `--no-build`)
"""


OTHER_PYTHON = """\
error: No solution found when resolving dependencies
  cause: Because tensorflow==2.10.0 has no wheels with a matching Python ABI tag (e.g., `cp311`) and you require tensorflow==2.10.0, we can conclude that your requirements are unsatisfiable.

hint: You require CPython 3.11 (`cp311`), but we only found wheels for `tensorflow` (v2.10.0) with the following Python ABI tags: `cp37m`, `cp38`, `cp39`, `cp310`
"""


def test_another_python_comes_before_a_build() -> None:
    """A release that has wheels for another Python needs no build: the newest that images can have is named."""
    hint = failure(OTHER_PYTHON, TARGET).hint
    assert hint.startswith('choose the Python that has wheels, in the spec:  python: "3.10"; or let envbuild build it')
    old = OTHER_PYTHON.replace(", `cp310`", "")
    assert failure(old, TARGET).hint.startswith("let envbuild build it from source")


def test_what_is_imported_is_not_always_the_package() -> None:
    """Names of modules that have another package are answered by its name, as ``envbuild init`` would write it."""
    sources = SOURCES.replace("fasttext", "sklearn")
    assert failure(sources, TARGET).hint.startswith("write scikit-learn, if that is meant; or let envbuild build it")
    assert failure(UNKNOWN.replace("tensorflo ", "PIL "), TARGET).hint.startswith("correct the name: pillow, or")
    packages = {project_of(name): package for name, package in DISTRIBUTIONS.items()}
    assert {name: packages[name] for name in IMPORTED} == IMPORTED
    assert [f"3.{minor}" for minor in PYTHONS] == list(STANDALONE)


def test_a_conflict_that_mentions_a_missing_wheel_stays_a_conflict() -> None:
    """Old releases without wheels that a resolver passes on its way do not make "no wheel" of a conflict."""
    asked: list[str] = []
    error = failure(ON_THE_WAY, TARGET, lambda requirement: bool(asked.append(requirement)))
    assert asked == ["tool>=0.2"]
    assert error.message.startswith("the Python requirements cannot be met:\n  Because tool<=0.3 has no usable wheels")
    assert error.hint.startswith("loosen one of the requirements")


def test_the_version_that_lacks_a_wheel_is_part_of_the_advice() -> None:
    """What is asked for is named as it is asked for, quoted for a shell."""
    error = failure(DEEPER, TARGET, lambda requirement: requirement == "antlr4-python3-runtime==4.9.*")
    assert error.message.startswith(
        "no wheel for Python 3.11 on manylinux_2_36_x86_64: antlr4-python3-runtime==4.9.*:\n  Because "
    )
    assert "pip wheel --no-deps -w wheels 'antlr4-python3-runtime==4.9.*' (then" in error.hint


def test_a_long_derivation_is_laid_out_and_cut() -> None:
    """One step a line, at most 110 characters wide, the beginning and the end of it."""
    steps = [f"And because p{n} depends on q{n}, we can conclude that p{n} cannot be used." for n in range(40)]
    text = "error: No solution found when resolving dependencies\n  cause: Because x. " + "\n ".join(steps)
    lines = failure(text, TARGET).message.splitlines()
    assert lines[0] == "the Python requirements cannot be met:"
    assert lines[3] == "  … 34 more steps …"
    assert lines[-1] == "  And because p39 depends on q39, we can conclude that p39 cannot be used."
    assert len(lines) == 9
    wide = failure(CONFLICT, TARGET).message.splitlines()
    assert max(map(len, wide)) <= 110


def test_a_conflict_is_reported_in_the_resolvers_words() -> None:
    """The resolver's reasoning is kept, one step a line."""
    error = failure(CONFLICT, TARGET)
    assert isinstance(error, ResolveError)
    assert error.message == (
        "the Python requirements cannot be met:\n"
        "  Because tensorflow-cpu>=2.21.0rc0,<=2.21.0 depends on numpy>=1.26.0 and you require tensorflow-cpu==2.21.*,\n"
        "    we can conclude that you require numpy>=1.26.0.\n"
        "  And because you require numpy<1.20, we can conclude that your requirements are unsatisfiable."
    )
    assert error.hint == "loosen one of the requirements, or choose another python in the spec, then lock again"


def test_an_unknown_name_gets_a_near_one() -> None:
    """A misspelt popular name is recognised."""
    error = failure(UNKNOWN, TARGET)
    assert isinstance(error, ResolveError)
    assert error.message.startswith(
        '"tensorflo" exists nowhere on the configured indexes — perhaps tensorflow:\n  Because'
    )
    assert error.hint == "correct the name: tensorflow, or configure the index that has it for uv or pip"


def test_an_unknown_name_like_no_other_gets_none() -> None:
    """Nothing is suggested where nothing is near."""
    error = failure(UNKNOWN.replace("tensorflo", "acme-internal-thing"), TARGET)
    assert error.message.startswith('"acme-internal-thing" exists nowhere on the configured indexes:\n  Because')


@pytest.mark.parametrize(("text", "name"), [(SOURCES, "fasttext"), (WINDOWS, "pywin32>=303")])
def test_a_package_without_a_wheel_is_named_with_the_way_out(text: str, name: str) -> None:
    """No wheel for the target: who, for what, and how to make one."""
    error = failure(text, TARGET)
    assert isinstance(error, ResolveError)
    assert error.message.startswith(f"no wheel for Python 3.11 on manylinux_2_36_x86_64: {name}:\n  Because ")
    assert f"pip wheel --no-deps -w wheels {shell_word(name)} (then  wheels: [wheels])" in error.hint


def test_where_there_are_wheels_is_reported() -> None:
    """The platforms that have wheels are part of the message."""
    assert failure(WINDOWS, TARGET).message.endswith(
        "\n  Wheels are available for `pywin32` (v312) on the following platforms: `win32`, `win_amd64`, `win_arm64`"
    )


def test_an_index_that_does_not_answer_is_a_download_failure() -> None:
    """A dead index is not an unmet requirement, and passwords are not repeated."""
    error = failure(REFUSED, TARGET)
    assert isinstance(error, IntegrityError)
    assert error.message.startswith(
        "a package index cannot be read: Request failed after 3 retries in 9.9s Failed to fetch: "
        "http://127.0.0.1:9/simple/six/ error sending request"
    )
    assert "secret" not in error.message


def test_a_refused_login_reports_where_to_put_it() -> None:
    """401 gets a separate hint."""
    error = failure(LOGIN, TARGET)
    assert isinstance(error, IntegrityError)
    assert error.hint == "put the user name and password into the index address or ~/.netrc, then lock again"


def test_the_first_index_rule_is_explained() -> None:
    """Where only uv's caution with several indexes is in the way, the hint states how to lift it."""
    error = failure(FIRST_INDEX, TARGET)
    assert error.message.startswith("the Python requirements cannot be met:\n  Because there is no version of six==1.2")
    assert error.hint == ("if all your indexes are equally trusted: UV_INDEX_STRATEGY=unsafe-best-match envbuild lock")


def test_older_words_are_understood_too() -> None:
    """The drawing characters of older releases vanish."""
    assert clean(OLD_UV)[0] == (
        "Because there are no versions of six==9 and you require six==9, we can conclude that your requirements are "
        "unsatisfiable."
    )


@pytest.mark.parametrize(
    "found",
    [
        "certificate not valid yet: verification time 1480053907 (UNIX), but certificate is not valid before 1795413906",
        "certificate expired: verification time 1795413906 (UNIX), but certificate is not valid after 1480053907",
    ],
)
def test_a_certificate_refused_for_its_time_names_the_clock(found: str) -> None:
    """The index may be as good as ever."""
    error = failure(f"error: Failed to fetch: https://x.invalid/\n  cause: invalid peer certificate: {found}\n", TARGET)
    assert isinstance(error, IntegrityError)
    assert found in error.message
    assert error.hint is not None
    assert error.hint.startswith("check this machine's clock: date -u")


@pytest.mark.parametrize(
    "reason",
    [
        "Read-only file system (os error 30)",
        "No space left on device (os error 28)",
        "Could not persist temporary file Operation not permitted (os error 1)",
        "Failed to initialize cache at `/proc/.cache/uv` failed to create directory: No such file (os error 2)",
    ],
)
def test_a_cache_that_cannot_be_written_is_no_conflict(reason: str) -> None:
    """Nothing is wrong with the requirements."""
    text = f"error: Could not acquire lock\n  cause: failed to create directory `/c`: {reason}\n"
    error = failure(text, TARGET)
    assert error.exit_code == (14 if "28" in reason else 2)
    assert f"/c`: {reason}" in error.message
    assert "UV_CACHE_DIR" in (error.hint or "")


def test_a_build_with_a_local_label_has_an_index_of_its_own() -> None:
    """``torch==2.1.0+cu118`` is on PyTorch's index: to loosen it is no advice; without a label it is."""
    text = (
        "error: No solution found when resolving dependencies\n  cause: Because there is no version of "
        "torch==2.1.0+cu118 and you require torch==2.1.0+cu118, we can conclude that your requirements are unsatisfiable.\n"
    )
    assert failure(text, TARGET).hint == (
        "builds with +cu118 are on an index of their own: configure it for uv or pip (UV_INDEX=ADDRESS), or write "
        "torch==2.1.0; for GPUs with cuda: auto in the spec"
    )
    assert failure(text.replace("+cu118", ""), TARGET).hint.startswith("loosen one of the requirements")
