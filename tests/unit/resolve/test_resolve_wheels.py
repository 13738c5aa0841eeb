"""Which wheel a target takes."""

from __future__ import annotations

from pathlib import Path

import pytest
from packaging import tags

from envbuild.errors import ResolveError
from envbuild.resolve.python.uv import platform
from envbuild.resolve.python.wheels import Candidate, Target, best, choose, ranks, read_pylock

BOOKWORM = Target(python="3.11", platform="manylinux_2_36_x86_64")
TRIXIE_ARM = Target(python="3.13.5", platform="manylinux_2_41_aarch64")
HEAD = 'lock-version = "1.0"\ncreated-by = "uv"\n'


def _candidate(file: str, sha256: str = "") -> Candidate:
    name, version = file.split("-")[:2]
    return Candidate(package=name, version=version, file=file, location=f"https://x.invalid/{file}", sha256=sha256)


def _best(target: Target, *files: str) -> str:
    found = best(map(_candidate, files), target)
    return found.file if found else ""


@pytest.mark.parametrize(
    ("target", "files"),
    [
        (
            BOOKWORM,
            ["a-1-py3-none-any.whl", "a-1-cp39-abi3-manylinux_2_17_x86_64.whl", "a-1-cp311-cp311-linux_x86_64.whl"],
        ),
        (BOOKWORM, ["a-1-cp311-cp311-manylinux2014_x86_64.whl", "a-1-cp311-cp311-manylinux_2_28_x86_64.whl"]),
        (BOOKWORM, ["a-1-cp311-cp311-manylinux_2_39_x86_64.whl", "a-1-cp311-cp311-manylinux1_x86_64.whl"]),
        (BOOKWORM, ["a-1-cp312-cp312-manylinux_2_17_x86_64.whl", "a-1-py2.py3-none-any.whl"]),
        (BOOKWORM, ["a-1-cp311-cp311-musllinux_1_2_x86_64.whl", "a-1-cp310-abi3-manylinux_2_5_x86_64.whl"]),
        (BOOKWORM, ["a-1-cp311-cp311d-manylinux_2_17_x86_64.whl", "a-1-py3-none-manylinux2010_x86_64.whl"]),
        (BOOKWORM, ["a-1-1-py3-none-any.whl", "a-1-2b-py3-none-any.whl"]),
        (TRIXIE_ARM, ["a-1-cp313-cp313-manylinux_2_17_x86_64.whl", "a-1-cp313-cp313-manylinux_2_41_aarch64.whl"]),
        (TRIXIE_ARM, ["a-1-cp313-cp313t-manylinux_2_17_aarch64.whl", "a-1-cp313-none-manylinux2014_aarch64.whl"]),
    ],
)
def test_the_last_one_is_best(target: Target, files: list[str]) -> None:
    """Own ABI before stable ABI before pure, newer C library before older, never another Python, libc or machine."""
    assert _best(target, *files) == files[-1]
    assert _best(target, *reversed(files)) == files[-1]


@pytest.mark.parametrize(
    "file",
    [
        "a-1-cp311-cp311-manylinux_2_37_x86_64.whl",
        "a-1-cp311-cp311-win_amd64.whl",
        "a-1-cp311-cp311-macosx_11_0_arm64.whl",
        "a-1-cp312-abi3-manylinux_2_17_x86_64.whl",
        "a-1-py2-none-any.whl",
        "a-1.tar.gz",
        "nonsense.whl",
    ],
)
def test_what_does_not_fit_is_never_taken(file: str) -> None:
    """A newer C library, another system or Python, a source archive and a misnamed file do not fit."""
    candidate = Candidate(package="a", version="1", file=file, location="/x")
    assert best([candidate], BOOKWORM) is None


def test_ranks_follow_packaging_on_a_machine_of_that_kind() -> None:
    """For an interpreter and C library like the target's, packaging's own list has the same order."""
    own = [str(tag) for tag in tags.cpython_tags((3, 11), ["cp311"], ["manylinux_2_36_x86_64", "linux_x86_64"])]
    found = [str(tag) for tag in ranks(BOOKWORM)]
    assert [tag for tag in found if tag in own] == own
    assert found.index("cp311-cp311-manylinux_2_17_x86_64") + 1 == found.index("cp311-cp311-manylinux2014_x86_64")


def test_the_wheel_of_the_lock_is_kept() -> None:
    """A better wheel uploaded later does not move a lock; another file under the old name does."""
    old = _candidate("a-1-py3-none-any.whl", "1" * 64)
    new = _candidate("a-1-cp311-cp311-manylinux_2_17_x86_64.whl", "2" * 64)
    assert best([new, old], BOOKWORM, {old.file: "1" * 64}) == old
    assert best([new, old], BOOKWORM, {old.file: "3" * 64}) == new
    assert best([new, old], BOOKWORM) == new


def test_all_packages_without_a_wheel_are_named() -> None:
    """The error names every package, the target and the way out."""
    offered = {name: [_candidate(f"{name}-1-cp27-none-any.whl")] for name in ("b", "a")}
    with pytest.raises(ResolveError) as caught:
        choose(offered, BOOKWORM)
    assert caught.value.message == "no wheel for Python 3.11 on manylinux_2_36_x86_64: a==1, b==1"
    assert caught.value.hint == (
        "let envbuild build it from source, which runs its code in a sandbox:  sources: [a, b]; or "
        "build one on a machine like the target and name its folder in the spec: pip wheel --no-deps -w wheels "
        "a==1 b==1 (then  wheels: [wheels])"
    )


def test_pylock_is_read_with_every_kind_of_place() -> None:
    """Addresses stay, file addresses and relative paths become absolute paths, sizes and names are taken over."""
    text = HEAD + (
        '[[packages]]\nname = "a"\nversion = "1.0+cpu"\nwheels = [\n'
        ' { url = "https://x.invalid/f/a-1.0%2Bcpu-py3-none-any.whl", size = 7, hashes = { sha256 = "11" } },\n'
        ' { url = "file:///opt/my%20wheels/a-1.0+cpu-py3-none-any.whl", hashes = { sha256 = "22" } },\n'
        ' { name = "a-1.0+cpu-py2-none-any.whl", path = "w/odd", hashes = { md5 = "33" } },\n]\n'
        '[[packages]]\nname = "b"\n'
        'archive = { url = "https://x.invalid/b-2-py3-none-any.whl", hashes = { sha256 = "44" } }\n'
    )
    found = read_pylock(text.encode(), Path("/tmp/x"))
    assert [(c.version, c.file, c.location, c.sha256, c.size) for c in found["a"]] == [
        ("1.0+cpu", "a-1.0+cpu-py3-none-any.whl", "https://x.invalid/f/a-1.0%2Bcpu-py3-none-any.whl", "11", 7),
        ("1.0+cpu", "a-1.0+cpu-py3-none-any.whl", "/opt/my wheels/a-1.0+cpu-py3-none-any.whl", "22", None),
        ("1.0+cpu", "a-1.0+cpu-py2-none-any.whl", "/tmp/x/w/odd", "", None),
    ]
    assert [(c.version, c.file) for c in found["b"]] == [("2", "b-2-py3-none-any.whl")]


def test_a_lock_without_packages_is_read() -> None:
    """No requirement applies: nothing is offered."""
    assert read_pylock(HEAD.encode(), Path()) == {}


@pytest.mark.parametrize(
    ("table", "message"),
    [
        (
            'vcs = { type = "git", url = "https://x.invalid/a", commit-id = "1" }',
            "a comes from sources, but an image takes wheels only",
        ),
        ('directory = { path = "." }', "a comes from sources, but an image takes wheels only"),
        (
            'sdist = { url = "https://x.invalid/a-1.tar.gz", hashes = {} }',
            "a==1 has no wheel, and an image takes wheels only",
        ),
    ],
)
def test_sources_are_refused(table: str, message: str) -> None:
    """A package that would have to be built is an error that names it."""
    with pytest.raises(ResolveError) as caught:
        read_pylock(f'{HEAD}[[packages]]\nname = "a"\nversion = "1"\n{table}\n'.encode(), Path())
    assert caught.value.message == message


@pytest.mark.parametrize(
    "text", ["manylinux_2_36_riscv64", "musllinux_1_2_x86_64", "win_amd64", "manylinux_2_36_x86_64\n"]
)
def test_unknown_platforms_are_refused(text: str) -> None:
    """Only platforms whose tags are known are resolved for."""
    with pytest.raises(ResolveError, match="no wheels can be chosen for the platform"):
        Target(python="3.11", platform=text)


@pytest.mark.parametrize("text", ["3", "2.7", "3.11rc1", "3.11; rm", "3.11\n"])
def test_odd_versions_are_refused(text: str) -> None:
    """A version that is none never reaches a command line."""
    with pytest.raises(ResolveError, match=r"^python: expected a version such as 3\.11, found "):
        Target(python=text, platform="manylinux_2_36_x86_64")


@pytest.mark.parametrize(
    ("target", "name"),
    [
        ("manylinux_2_36_x86_64", "x86_64-manylinux_2_36"),
        ("manylinux_2_41_aarch64", "aarch64-manylinux_2_40"),
        ("manylinux_2_30_x86_64", "x86_64-manylinux_2_28"),
        ("manylinux_2_12_x86_64", "x86_64-manylinux_2_17"),
    ],
)
def test_uv_is_asked_for_the_nearest_platform_it_knows(target: str, name: str) -> None:
    """uv knows some C libraries only; the newest of them that the target accepts is taken."""
    assert platform(Target(python="3.11", platform=target)) == name
