"""What the workflows for releases and refreshed locks call, run here: git is real, GitHub's command is a stand-in."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
_GH = """\
#!/bin/sh
echo "$*" >>"$GH_CALLS"
[ "$1 $2" != "pr view" ] || echo "${GH_STATE:-CLOSED}"
"""


@pytest.fixture(scope="module", name="origin")
def _origin(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A bare copy of this repository with two more commits' worth of nothing: what a push goes to."""
    origin = tmp_path_factory.mktemp("origin") / "owner" / "envbuild"
    subprocess.run(["git", "clone", "--quiet", "--bare", "--depth=1", f"file://{ROOT}", origin], check=True)
    return origin


@pytest.fixture(name="clone")
def _clone(origin: Path, tmp_path: Path) -> Iterator[Path]:
    """A working copy with the scripts as they are now, and a ``gh`` that writes down what it is asked."""
    clone = tmp_path / "clone"
    subprocess.run(["git", "clone", "--quiet", f"file://{origin}", clone], check=True)
    for path in (ROOT / "scripts").glob("*.sh"):
        shutil.copy(path, clone / "scripts")
    program = tmp_path / "bin" / "gh"
    program.parent.mkdir()
    program.write_text(_GH)
    program.chmod(0o755)
    yield clone
    shutil.rmtree(clone, ignore_errors=True)  # git may still be tidying up in there


def run(clone: Path, *words: str | Path, **environ: str) -> subprocess.CompletedProcess[str]:
    variables = {
        **{name: value for name, value in os.environ.items() if not name.startswith(("GITHUB_", "GH_"))},
        "PATH": f"{clone.parent / 'bin'}:{os.environ['PATH']}",
        "GH_CALLS": str(clone.parent / "calls"),
        "GITHUB_REPOSITORY": "owner/envbuild",
        "VENV": sys.prefix,
        **environ,
    }
    return subprocess.run(list(words), cwd=clone, env=variables, capture_output=True, text=True, check=False)


def patched(clone: Path, name: str) -> Path:
    """Leave a refresh that changes one file."""
    folder = clone.parent / "refresh"
    folder.mkdir()
    path = clone / name
    moved = re.sub(r'^digest = "\w{64}"$', f'digest = "{"0" * 64}"', path.read_text(), flags=re.MULTILINE)
    path.write_text(moved + "# moved\n")
    diff = subprocess.run(["git", "diff", "--binary", name], cwd=clone, check=True, capture_output=True).stdout
    subprocess.run(["git", "checkout", "--quiet", name], cwd=clone, check=True)
    (folder / "locks.patch").write_bytes(diff)
    (folder / "summary.md").write_text("## nothing much\n")
    return folder


@pytest.mark.parametrize(("state", "verb"), [("CLOSED", "create"), ("OPEN", "edit")])
def test_moved_locks_become_a_pull_request(clone: Path, origin: Path, state: str, verb: str) -> None:
    """The patch is on a branch, pushed by git's helper; the request states what moved; its checks are started."""
    folder = patched(clone, "lockfiles/jax-cpu/pylock.jax-cpu.toml")
    server = f"file://{origin.parents[1]}"
    done = run(
        clone, "scripts/refresh.sh", "propose", folder, GITHUB_SERVER_URL=server, GH_STATE=state, GH_TOKEN="hush"
    )
    assert done.returncode == 0, done.stderr
    calls = (clone.parent / "calls").read_text().splitlines()
    assert calls[0] == "auth setup-git"
    (request,) = (line for line in calls if line.startswith(f"pr {verb}"))
    assert request.endswith(f"--body-file {folder}/summary.md")
    assert calls[-2:] == [f"workflow run {name}.yml --ref refresh-locks" for name in ("tests", "images")]
    shown = ["git", "show", "--format=%an %s", "--name-only", "refresh-locks"]
    pushed = subprocess.run(shown, cwd=origin, check=True, capture_output=True, text=True).stdout
    assert pushed.split("\n\n") == [
        "github-actions[bot] build(locks): newest packages",
        "lockfiles/README.md\nlockfiles/jax-cpu/pylock.jax-cpu.image.json\nlockfiles/jax-cpu/pylock.jax-cpu.toml\n",
    ]
    shown = ["git", "show", "refresh-locks:lockfiles/README.md"]
    table = subprocess.run(shown, cwd=origin, check=True, capture_output=True)
    (row,) = [line for line in table.stdout.decode().splitlines() if line.startswith("| [`jax-cpu`]")]
    assert row.endswith("| not recorded |  |")  # the digest before is of another lock
    assert "hush" not in done.stdout + done.stderr


def test_a_patch_of_anything_else_is_refused(clone: Path) -> None:
    """What the job that asked the internet passes may change locks, and no workflow."""
    folder = patched(clone, "Makefile")
    done = run(clone, "scripts/refresh.sh", "propose", folder)
    assert (done.returncode, done.stderr) == (1, "refresh   refused: the patch touches Makefile\n")
    assert not (clone.parent / "calls").exists()


@pytest.mark.network
def test_locks_are_moved_and_summed_up(clone: Path) -> None:
    """One lock, locked again: a summary in Markdown, a patch of nothing but locks, a word on whether any moved."""
    output = clone.parent / "output"
    done = run(clone, "scripts/refresh.sh", "lock", clone.parent / "made", "jax-cpu", GITHUB_OUTPUT=str(output))
    assert done.returncode == 0, done.stderr
    summary = (clone.parent / "made" / "summary.md").read_text()
    assert summary.startswith("## pylock.jax-cpu.toml: ")
    patch = (clone.parent / "made" / "locks.patch").read_text()
    assert output.read_text() == f"moved={'yes' if patch else 'no'}\n"
    assert {line.split("/")[2] for line in patch.splitlines() if line.startswith("diff --git")} <= {"jax-cpu"}


def test_a_wheel_is_the_same_twice(clone: Path) -> None:
    """``make wheel``: two builds in other surroundings, equal; the release takes them only under the right tag."""
    for number in ("1", "2"):
        done = run(clone, "scripts/wheel.sh", f"dist{number}")
        assert done.returncode == 0, done.stderr
        assert done.stdout.splitlines()[-1] == f"wheel     equal, in {clone}/dist{number}"
    (wheel,) = (clone / "dist1").glob("*.whl")
    version = wheel.name.split("-")[1]
    check = ("scripts/release-check.sh", "dist1", "dist2", "taken")
    wrong = run(clone, *check, GITHUB_REF_NAME="v9.9.9")
    assert wrong.returncode == 1
    assert "the tag is 9.9.9" in wrong.stderr
    taken = run(clone, *check, GITHUB_REF_NAME=f"v{version}")
    assert taken.stdout.splitlines()[-1] == f"release   equal: {version}"
    assert sorted(path.name for path in (clone / "taken").iterdir()) == [wheel.name, f"envbuild-{version}.tar.gz"]
    wheel.unlink()
    assert run(clone, *check, GITHUB_REF_NAME=f"v{version}").returncode == 1


def test_two_different_wheels_are_refused(clone: Path) -> None:
    """Files that differ end with exit code 16."""
    for name in ("one", "other"):
        (clone / name).mkdir()
        (clone / name / "envbuild-1.0.tar.gz").write_text(name)
        line = subprocess.run(["sha256sum", "envbuild-1.0.tar.gz"], cwd=clone / name, check=True, capture_output=True)
        (clone / name / "SHA256SUMS").write_bytes(line.stdout)
    assert run(clone, "scripts/release-check.sh", "one", "other", "taken", GITHUB_REF_NAME="v1.0").returncode == 16
    assert not (clone / "taken").exists()


@pytest.mark.parametrize("actions", ["", "true"])
def test_nothing_is_deleted_but_on_a_runner(clone: Path, actions: str) -> None:
    """``free-disk.sh`` refuses everywhere else, and any folder but its own."""
    (clone / "kept").mkdir()
    (clone / "kept" / "file").touch()
    done = run(clone, "scripts/free-disk.sh", clone, GITHUB_ACTIONS=actions)
    assert done.returncode == 2
    assert (clone / "kept" / "file").exists()
