"""The script for ``sbatch``: as recorded, and no value gets out of its place."""

from __future__ import annotations

import os
import shlex
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from envbuild.cluster.batch import Container, Job, script
from envbuild.errors import UsageError

GOLDEN = Path(__file__).parents[2] / "golden" / "slurm" / "job.sh"
FULL = Job(
    nodes=2,
    tasks=4,
    time="1-12:00:00",
    partition="gpu,gpu-long",
    constraint="h200&ib",
    account="team.a",
    gpu_type="h200",
    array="0-9%2",
    requeue=True,
    tcp=True,
)
SMALL = Job()
WORDS = ("--lock", "/home/a b/pylock.x.toml", "train.py", "--name", 'it\'s; $(id) `id` "x" #SBATCH', "*")


def made(job: Job = SMALL, **changes: Any) -> str:
    """A script."""
    fields: dict[str, Any] = {
        "name": "digits",
        "lock": "pylock.digits.toml",
        "digest": "a" * 64,
        "folder": "/home/a b/project",
        "cpus": 2,
        "gpus": 0,
        "words": WORDS,
    }
    return script(job, **(fields | changes))


def test_the_script_is_as_recorded() -> None:
    """A reader sees what is asked of Slurm; to change it: ``ENVBUILD_GOLDEN=write``."""
    found = made(FULL, gpus=1, output=".envbuild/jobs/%j.out")
    if os.environ.get("ENVBUILD_GOLDEN") == "write":
        GOLDEN.write_text(found)
    assert found == GOLDEN.read_text()


def test_what_is_not_asked_for_is_left_to_slurm() -> None:
    """Without options: nodes, tasks and CPUs only."""
    options = [line for line in made().splitlines() if line.startswith("#SBATCH")]
    assert options == [
        "#SBATCH --job-name=digits",
        "#SBATCH --nodes=1",
        "#SBATCH --ntasks-per-node=1",
        "#SBATCH --cpus-per-task=2",
        "#SBATCH --no-requeue",
    ]
    assert "#SBATCH --gpus-per-task=2" in made(gpus=2)


@pytest.mark.parametrize(
    ("container", "image"), [("apptainer", "/images/digits.sif"), ("pyxis", "registry.example.com#team/digits:1")]
)
def test_the_script_for_another_runtime_is_as_recorded(container: Container, image: str) -> None:
    """Apptainer gets nothing of the host's environment, pyxis the image's entry point; envbuild takes no part."""
    job = replace(FULL, container=container, image=image, tcp=False)
    found = made(job, gpus=1, words=("python", *WORDS[2:]), folder="/home/a/project")
    path = GOLDEN.with_name(f"{container}.sh")
    if os.environ.get("ENVBUILD_GOLDEN") == "write":
        path.write_text(found)
    assert found == path.read_text()
    assert "envbuild run" not in found
    last = found[found.index("\nexec srun") :].split("bash -c '")[0 if container == "pyxis" else -1]
    words = shlex.split(last.partition("\n' bash ")[2] if container == "apptainer" else last)
    assert words[-len(WORDS[2:]) - 1 :] == ["python", *WORDS[2:]]


@pytest.mark.parametrize("numbers", ["0", "0-9", "1,3,5-7%2", "0-100:10", "2,4-8:2%16"])
def test_an_array_is_asked_for(numbers: str) -> None:
    """In Slurm's own writing."""
    assert f"#SBATCH --array={numbers}" in made(Job(array=numbers)).splitlines()


def test_a_job_is_started_again_only_if_asked_for() -> None:
    """Whatever the cluster's default: a run that goes on from a checkpoint is another run."""
    assert "#SBATCH --requeue" in made(Job(requeue=True)).splitlines()
    assert "#SBATCH --no-requeue" in made().splitlines()


def test_arguments_arrive_as_they_were_typed() -> None:
    """The shell makes the same words of the last line."""
    last = made().splitlines()[-1]
    assert shlex.split(last)[-len(WORDS) :] == list(WORDS)
    assert shlex.split(made().splitlines()[-4]) == ["cd", "/home/a b/project"]


@pytest.mark.parametrize(
    ("option", "fields"),
    [
        ("--time", {"time": "1:00\n#SBATCH --uid=0"}),
        ("--time", {"time": "soon"}),
        ("--partition", {"partition": "a b"}),
        ("--partition", {"partition": "a\n"}),
        ("--partition", {"partition": "--uid=0"}),
        ("--constraint", {"constraint": "a b"}),
        ("--constraint", {"constraint": "$(id)"}),
        ("--account", {"account": "a;b"}),
        ("--gpu-type", {"gpu_type": "h200:8"}),
        ("--array", {"array": "1 --uid=0"}),
        ("--array", {"array": "1\n"}),
        ("--array", {"array": "0-"}),
        ("--array", {"array": ",".join(["1"] * 200)}),
        ("--image", {"container": "apptainer", "image": "a b.sif"}),
        ("--image", {"container": "apptainer", "image": "$(id).sif"}),
        ("--image", {"container": "pyxis", "image": "--export=ALL"}),
        ("--nodes", {"nodes": 0}),
        ("--tasks-per-node", {"tasks": 5000}),
    ],
)
def test_values_that_do_not_fit_are_refused(option: str, fields: dict[str, Any]) -> None:
    """Each is matched in full; the message names the option."""
    with pytest.raises(UsageError, match=f"^{option}: expected"):
        made(Job(**fields))


@pytest.mark.parametrize(
    "fields", [{"container": "pyxis"}, {"image": "a.sif"}, {"container": "pyxis", "image": "a.sqsh", "tcp": True}]
)
def test_what_does_not_go_together_is_refused(fields: dict[str, Any]) -> None:
    """A runtime without an image, an image without a runtime, ranks that would meet in envbuild."""
    with pytest.raises(UsageError, match=r"--(?:container|tcp)"):
        made(Job(**fields))


def test_a_folder_that_a_runtime_cannot_mount_is_refused() -> None:
    """A colon or a comma in a path means something else to them; ``envbuild run`` mounts it."""
    with pytest.raises(UsageError, match="/a:b"):
        made(Job(container="apptainer", image="a.sif"), folder="/a:b")
    assert "/a:b" in made(folder="/a:b")


@pytest.mark.parametrize("changes", [{"words": ("a\nb",)}, {"folder": "/a\n#b"}, {"lock": "\x1b"}, {"name": "a b"}])
def test_control_characters_are_refused(changes: dict[str, Any]) -> None:
    """No line of the script is anybody else's."""
    with pytest.raises(UsageError):
        made(**changes)
