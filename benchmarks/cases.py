"""What is measured: envbuild against the tools people would use instead, on the same files and engine."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

from benchmarks import inputs
from benchmarks.measure import Case

REPOSITORY = Path(__file__).resolve().parent.parent
BIN = Path(sys.executable).parent
ENVBUILD = str(BIN / "envbuild")
EXAMPLE = REPOSITORY / "examples" / "digits"
TRAIN = ("tensorflow-cpu==2.21.*", "scikit-learn")
Benchmark = Callable[[Path], tuple[str, list[Case]]]


def call(*command: str, cwd: Path, environment: Mapping[str, str] | None = None) -> str:
    """Run a preparation step; returns its standard output, raises ``RuntimeError`` with what it reported."""
    result = subprocess.run(
        command, cwd=cwd, env={**os.environ, **(environment or {})}, capture_output=True, text=True, check=False
    )
    if result.returncode:
        raise RuntimeError(f"{' '.join(command)} failed:\n{result.stdout[-2000:]}{result.stderr[-2000:]}")
    return result.stdout


def image_of(folder: Path, environment: Mapping[str, str] | None = None) -> str:
    """Build a folder's lock; returns the tag of the image in the engine."""
    built = json.loads(call(ENVBUILD, "build", "--json", cwd=folder, environment=environment))
    return str(built["reference"])


def startup(folder: Path) -> tuple[str, list[Case]]:
    """``envbuild --help`` against the interpreter alone."""
    return "`envbuild --help`", [
        Case(name="envbuild --help", command=[ENVBUILD, "--help"], cwd=folder),
        Case(name="python -c pass", command=[sys.executable, "-c", "pass"], cwd=folder),
    ]


def lock(folder: Path) -> tuple[str, list[Case]]:
    """A warm lock of the example against uv's and pip-tools' own compilation of the same requirements."""
    shutil.copy(EXAMPLE / "spec.yaml", folder)
    (folder / "requirements.in").write_text("\n".join(TRAIN) + "\n")
    call(ENVBUILD, "lock", "spec.yaml", cwd=folder)

    def forget(*names: str) -> Callable[[], None]:
        def remove() -> None:
            for name in names:
                (folder / name).unlink(missing_ok=True)

        return remove

    uv = [str(BIN / "uv"), "pip", "compile", "--quiet", "--generate-hashes", "--python-version", "3.11"]
    pip_compile = [str(BIN / "pip-compile"), "--quiet", "--generate-hashes", "--strip-extras"]
    return "lock, warm: OS packages, wheels and all, against the wheels alone", [
        Case(
            name="envbuild lock",
            command=[ENVBUILD, "lock", "spec.yaml", "--quiet"],
            cwd=folder,
            prepare=forget("pylock.digits.toml", "Dockerfile"),
        ),
        Case(
            name="uv pip compile",
            command=[*uv, "--python-platform", "x86_64-manylinux_2_36", "requirements.in", "-o", "uv.txt"],
            cwd=folder,
            prepare=forget("uv.txt"),
        ),
        Case(
            name="pip-compile",
            command=[*pip_compile, "requirements.in", "-o", "pip.txt"],
            cwd=folder,
            prepare=forget("pip.txt"),
            runs=2,
        ),
    ]


def build(folder: Path) -> tuple[str, list[Case]]:
    """The example's image from a filled store, nothing built, against pip in a Dockerfile on a ready base image."""
    ours, base = folder / "ours", folder / "base"
    ours.mkdir()
    base.mkdir()
    shutil.copy(EXAMPLE / "spec.yaml", ours)
    (base / "spec.yaml").write_text("name: bench-base\npackages: [python3-pip, python3-venv]\n")
    for project in (ours, base):
        call(ENVBUILD, "lock", "spec.yaml", cwd=project)
    store = {"ENVBUILD_STORE": str(folder / "store")}
    call(ENVBUILD, "fetch", "--vendor", "vendored", cwd=ours)
    call(ENVBUILD, "fetch", "--from", "vendored", cwd=ours, environment=store)
    context = folder / "context"
    context.mkdir()
    (ours / "vendored" / "wheels").rename(context / "wheels")
    tag = "envbuild-bench-base:latest"
    call("docker", "tag", image_of(base), tag, cwd=base)
    (context / "Dockerfile").write_text(
        f"FROM {tag}\nENTRYPOINT []\nCOPY wheels /wheels\n"
        "RUN /usr/bin/python3 -m venv /opt/venv && /opt/venv/bin/pip install --no-index --no-deps /wheels/*.whl\n"
    )
    image: list[str] = []

    def from_nothing() -> None:
        if image:
            call("docker", "image", "rm", "--force", image.pop(), cwd=ours)
        shutil.rmtree(folder / "store" / "derived", ignore_errors=True)
        for file in ours.glob("pylock.*.json"):
            image.append(json.loads(file.read_text())["reference"])
            file.unlink()

    docker = ["docker", "build", "--no-cache", "--network=none", "--quiet", "."]
    return "build from a filled store, nothing cached (ours includes bootstrapping the OS; pip starts on a base)", [
        Case(
            name="envbuild build",
            command=[ENVBUILD, "build", "--quiet"],
            cwd=ours,
            environment=store,
            prepare=from_nothing,
        ),
        Case(
            name="docker build, pip install",
            command=docker,
            cwd=context,
            environment={"DOCKER_BUILDKIT": "0"},
        ),
    ]


def rebuild(folder: Path) -> tuple[str, list[Case]]:
    """Nothing to do: the image is there."""
    shutil.copy(EXAMPLE / "spec.yaml", folder)
    call(ENVBUILD, "lock", "spec.yaml", cwd=folder)
    image_of(folder)
    return "build, nothing to do", [
        Case(name="envbuild build", command=[ENVBUILD, "build"], cwd=folder),
        Case(name="docker image inspect", command=["docker", "image", "ls", "--quiet"], cwd=folder),
    ]


def run(folder: Path) -> tuple[str, list[Case]]:
    """One trivial program in the example's image, guard, record and all, against ``docker run`` of the same image."""
    shutil.copy(EXAMPLE / "spec.yaml", folder)
    call(ENVBUILD, "lock", "spec.yaml", cwd=folder)
    identity = image_of(folder)
    (folder / "program.py").write_text("print('done')\n")
    mount = f"type=bind,source={folder},target=/workspace"
    docker = ["docker", "run", "--rm", "--network=none", "--init", "--mount", mount, "--workdir=/workspace"]
    return "run: the same program in the same image", [
        Case(name="envbuild run", command=[ENVBUILD, "run", "program.py"], cwd=folder),
        Case(name="docker run", command=[*docker, identity, "python", "program.py"], cwd=folder),
        Case(
            name="docker run, guard left out",
            command=[*docker, "--entrypoint=/usr/bin/python3.11", identity, "-S", "program.py"],
            cwd=folder,
        ),
    ]


def guard(folder: Path) -> tuple[str, list[Case]]:
    """``docker run`` of an image with its guard, for eight GPUs and for none, against the same image without it.

    The GPUs are the tests' stand-ins, which answer at once: what is measured is the guard, not a driver waking up.
    """
    from tests.support import gpus

    standin = gpus.install(gpus.build_standin(folder / "libraries"), folder / "machine", gpus.eight_h200())
    mounts = [f"--volume={source}:{target}:ro" for source, target in standin.mounts.items()]
    docker = ["docker", "run", "--rm", "--network=none", "--init", *mounts]
    program = ["/usr/bin/python3.11", "-S", "-c", "pass"]
    gpu = f'{{model: NVIDIA H200, count: 8, driver: "{gpus.DRIVER}", sms: 132, compute-capability: "9.0"}}'
    images = {}
    for name, hardware in (("gpu", f"hardware: {{gpu: {gpu}}}\n"), ("cpu", "")):
        (folder / name).mkdir()
        spec = f'name: bench-guard-{name}\npython: "3.11"\nrequirements: [nvidia-ml-py]\n{hardware}'
        (folder / name / "spec.yaml").write_text(spec)
        call(ENVBUILD, "lock", "spec.yaml", cwd=folder / name)
        images[name] = image_of(folder / name)
    bare = ["--entrypoint=/usr/bin/python3.11", images["gpu"], *program[1:]]
    return "guard: a program that does nothing, in a container", [
        Case(name="docker run, guard with 8 GPUs (stand-ins)", command=[*docker, images["gpu"], *program], cwd=folder),
        Case(name="docker run, guard without GPU", command=[*docker, images["cpu"], *program], cwd=folder),
        Case(name="docker run, no guard", command=[*docker, *bare], cwd=folder),
    ]


def hook(folder: Path) -> tuple[str, list[Case]]:
    """A hundred starts of Python in the example's image, record and all, against the same without the start-up file."""
    shutil.copy(EXAMPLE / "spec.yaml", folder)
    call(ENVBUILD, "lock", "spec.yaml", cwd=folder)
    identity = image_of(folder)
    (folder / "run").mkdir()
    (folder / "empty").touch()
    startup = "/opt/env/lib/python3.11/site-packages/00-envbuild.pth"
    starts = "i=0; while [ $i -lt 100 ]; do python -c pass || exit 1; i=$((i+1)); done"
    docker = ["docker", "run", "--rm", "--network=none", "--init"]
    records = f"--mount=type=bind,source={folder / 'run'},target=/run/envbuild"
    without = [f"--mount=type=bind,source={folder / 'empty'},target={startup}", "--entrypoint=/bin/sh"]
    return "a hundred times `python -c pass` in the image: the difference ÷ 100 is the cost of one start", [
        Case(name="with the hook", command=[*docker, records, identity, "sh", "-c", starts], cwd=folder),
        Case(name="without", command=[*docker, *without, identity, "-c", starts], cwd=folder),
    ]


def trace(folder: Path) -> tuple[str, list[Case]]:
    """The example's training in its image with a step trace, and without; long enough that training is measured."""
    for name in ("spec.yaml", "train.py"):
        shutil.copy(EXAMPLE / name, folder)
    call(ENVBUILD, "lock", "spec.yaml", cwd=folder)
    identity = image_of(folder)
    (folder / "run").mkdir()
    mounts = [f"--volume={folder}:/workspace", f"--volume={folder / 'run'}:/run/envbuild", "--workdir=/workspace"]
    docker = ["docker", "run", "--rm", "--network=none", "--init", *mounts]
    train = [identity, "python", "train.py", "--epochs", "60"]
    return "step trace: the example, 60 epochs of 23 steps", [
        Case(name="with an entry for each step", command=[*docker, "--env=ENVBUILD_TRACE=1", *train], cwd=folder),
        Case(name="without a trace", command=[*docker, *train], cwd=folder),
    ]


def verify(folder: Path) -> tuple[str, list[Case]]:
    """Three runs of the example by ``verify``, in copies and compared, against three by ``run``."""
    for name in ("spec.yaml", "train.py"):
        shutil.copy(EXAMPLE / name, folder)
    call(ENVBUILD, "lock", "spec.yaml", cwd=folder)
    image_of(folder)
    train = ["train.py", "--epochs", "60"]
    thrice = f"for i in 1 2 3; do {shlex.join([ENVBUILD, 'run', *train])} || exit; done"
    return "verify: the example, 60 epochs, three runs", [
        Case(name="envbuild verify -n 3", command=[ENVBUILD, "verify", "-n", "3", *train], cwd=folder),
        Case(name="envbuild run, three times", command=["sh", "-c", thrice], cwd=folder),
    ]


BENCHMARKS: dict[str, Benchmark] = {
    "help": startup,
    "lock": lock,
    "build": build,
    "rebuild": rebuild,
    "run": run,
    "guard": guard,
    "hook": hook,
    "trace": trace,
    "verify": verify,
    **inputs.BENCHMARKS,
}
