"""The tutorials and README, followed as written: what a reader is to type works and prints what they show."""

from __future__ import annotations

import os
import secrets
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from envbuild.net.config import NetworkConfig
from envbuild.registry.credentials import Credentials
from envbuild.registry.reference import parse_reference
from envbuild.registry.repository import Repository
from tests.support import gpus
from tests.support.cli import Project
from tests.support.cosign import cosign_program
from tests.support.images import forget_images
from tests.support.registry import running_registry
from tests.support.sigstore import Sigstore
from tests.support.walkthrough import Reader, blocks, clone

pytestmark = [pytest.mark.engine, pytest.mark.network]

ROOT = Path(__file__).parents[2]
TUTORIALS = ROOT / "docs" / "tutorials"
STORE = Path(os.environ.get("ENVBUILD_STORE") or Path("~/.cache/envbuild").expanduser())
"""The machine's own: a reader's first download is not what is tested here."""
CONFIGURATION = (".config/pip", ".config/uv", ".docker")
"""How this machine reaches package indexes and registries."""


def _reader(root: Path, folder: Path) -> Reader:
    """Somebody with a new home and this machine's configuration of indexes and registries."""
    home = root / "home"
    home.mkdir()
    for name in CONFIGURATION:
        source = Path("~").expanduser() / name
        if source.is_dir():
            shutil.copytree(source, home / name)
    environ = {name: value for name, value in os.environ.items() if not name.startswith(("ENVBUILD_", "PYTEST_"))}
    environ |= {"HOME": str(home), "ENVBUILD_STORE": str(STORE), "UV_CACHE_DIR": str(root / "uv")}
    environ["PATH"] = f"{Path(sys.executable).parent}:{environ['PATH']}"
    folder.mkdir(parents=True, exist_ok=True)
    return Reader(folder=folder, environ=environ)


def test_the_first_run(tmp_path: Path) -> None:
    """Installed, locked, built, run twice with equal bits, compared and proved."""
    reader = _reader(tmp_path, clone(ROOT, tmp_path / "envbuild"))
    reader.follow(TUTORIALS / "first-run.md")
    assert reader.environ["PATH"].startswith(f"{tmp_path}/home/envbuild-venv/bin:")


def test_readme(tmp_path: Path) -> None:
    """Its first commands work in a new project; what it shows as printed is what the first tutorial shows."""
    reader = _reader(tmp_path, clone(ROOT, tmp_path / "envbuild"))
    subprocess.run([sys.executable, "-m", "venv", tmp_path / "venv"], check=True)
    reader.environ["PATH"] = f"{tmp_path}/venv/bin:{reader.environ['PATH']}"
    name = f"my{secrets.token_hex(4)}"
    reader.replace = {"pip install .": "pip install --quiet .", "my-project": name}
    (reader.folder / name).mkdir()
    (reader.folder / name / "train.py").write_text("import random\nopen('out', 'w').write(str(random.random()))\n")
    first, printed, *_ = blocks(ROOT / "README.md")
    try:
        reader.take(first)
    finally:
        forget_images(f"envbuild/{name}")
    assert (reader.folder / "out").is_file()
    shown = (TUTORIALS / "first-run.md").read_text()
    assert [line for line in printed.text.splitlines() if line not in shown.splitlines()] == []


def test_the_gpu_server(tmp_path: Path) -> None:
    """Described with a stand-in driver, locked on a machine without GPU, checked on both."""
    reader = _reader(tmp_path, tmp_path / "project")
    (reader.folder / "train.py").write_text("")
    standin = gpus.install(gpus.build_standin(tmp_path / "libraries"), tmp_path / "server", gpus.machine(gpus.h200()))
    reader.machines = {"server": standin.environment}
    reader.follow(TUTORIALS / "gpu-server.md")


def test_a_signed_image(made: Project, tmp_path: Path) -> None:
    """The pipeline's steps at home; then an image of a registry and an authority of our own, instead of GitHub's."""
    name = f"ci{secrets.token_hex(4)}"
    project = made.copy(tmp_path)
    for file in project.folder.glob("pylock.*"):
        file.unlink()
    project.write("spec.yaml", (project.folder / "spec.yaml").read_text().replace("clitest", name))
    project.write("train.py", "print('ran')\n")
    variables = {f"GIT_{who}_{what}": "me" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}
    runner = tmp_path / "runner"
    (runner / "envbuild-ci" / "bin").mkdir(parents=True)
    (runner / "envbuild-ci" / "bin" / "envbuild").symlink_to(Path(sys.executable).parent / "envbuild")
    subprocess.run(["git", "init", "--quiet", project.folder], check=True)
    sigstore = Sigstore(tmp_path / "sigstore")
    environ = project.environ | variables | sigstore.environ | {"RUNNER_TEMP": str(runner)}
    reader = Reader(folder=project.folder, environ=environ | {"ENVBUILD_COSIGN": cosign_program()})
    page = blocks(TUTORIALS / "signed-image.md")
    with running_registry(tmp_path / "registry") as registry:
        try:
            for block in page[:-1]:
                reader.take(block)
            reference = str(project.must("push", f"{registry.host}/org/repo:1", "--json").json["reference"])
            reader.replace["ghcr.io/ORG/REPO@sha256:DIGEST"] = reference
            identity, _, issuer = page[-1].text.partition("IDENTITY=")[2].splitlines()[0].rpartition("@")
            with Repository(parse_reference(reference), NetworkConfig(), lambda _: Credentials()) as target:
                sigstore.sign(target, reference.rpartition(":")[2], identity, issuer)
            reader.take(page[-1])
        finally:
            forget_images(f"envbuild/{name}")


def test_slurm(project: Project) -> None:
    """The image is built without an engine; the batch scripts are scripts."""
    reader = Reader(folder=project.folder, environ=project.environ)
    reader.follow(TUTORIALS / "slurm.md")
    assert (reader.folder / "image.tar").stat().st_size > 10_000_000
