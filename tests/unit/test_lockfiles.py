"""The reference locks under lockfiles/ are what their specs ask for."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from envbuild.determinism import policy
from envbuild.image.dockerfile import render
from envbuild.lockfile import model as locks
from envbuild.operations import lock_hardware
from envbuild.operations.lock_files import resolution_inputs, stale_inputs
from envbuild.spec.model import load_spec

ROOT = Path(__file__).resolve().parents[2]
SPECS = sorted((ROOT / "lockfiles").glob("*/spec.yaml"))


@pytest.mark.parametrize("spec_path", SPECS, ids=lambda path: path.parent.name)
def test_reference_lock_is_fresh(spec_path: Path) -> None:
    """A reference lock and its Dockerfile are those of the spec next to them (else: make lockfiles)."""
    spec = load_spec(spec_path)
    lock = locks.load(spec_path.parent / f"pylock.{spec.name}.toml")
    assert stale_inputs(lock.resolution, resolution_inputs(spec, spec_path)) == []
    assert (spec_path.parent / "Dockerfile").read_bytes() == render(lock).dockerfile


def test_there_are_reference_locks() -> None:
    """The example's lock is kept, and one for each framework on CPUs and with each CUDA that it has wheels for."""
    assert [path.parent.name for path in SPECS] == [
        "digits",
        "jax-cpu",
        "jax-cuda12",
        "jax-cuda13",
        "pytorch-cpu",
        "pytorch-cuda12",
        "pytorch-cuda13",
        "tensorflow-cpu",
        "tensorflow-cuda12",
    ]


@pytest.mark.parametrize("spec_path", SPECS, ids=lambda path: path.parent.name)
def test_reference_lock_agrees_with_the_tables(spec_path: Path) -> None:
    """CUDA, driver, variables and fit of a reference lock are those of today's tables (else: make lockfiles)."""
    spec = load_spec(spec_path)
    lock = locks.load(spec_path.parent / f"pylock.{spec.name}.toml")
    found, _ = lock_hardware.lock_cuda(spec, lock.packages, lock.frameworks, lock.python.version)
    assert lock.cuda == found
    lock_hardware.check_cuda(spec, found, lock.frameworks, lock.python.version, lock.hardware)
    wanted = policy.environment(lock.frameworks, spec.determinism) | policy.gpu_environment(found) | spec.env
    assert lock.environment == wanted


@pytest.mark.parametrize("spec_path", [p for p in SPECS if "cuda" in p.parent.name], ids=lambda path: path.parent.name)
def test_reference_locks_name_their_gpus(spec_path: Path) -> None:
    """A lock with CUDA states what GPUs a host must have and brings NVIDIA's library to ask for them."""
    lock = locks.load(spec_path.parent / f"pylock.{spec_path.parent.name}.toml")
    assert lock.cuda is not None
    assert lock.cuda.version.startswith(spec_path.parent.name[-2:])
    assert lock.cuda.cudnn
    assert lock.cuda.cublas
    assert lock.cuda.nccl
    assert lock.hardware.gpu is not None
    assert lock.hardware.gpu.driver >= lock.cuda.driver
    assert "nvidia-ml-py" in {package.name for package in lock.packages}


def test_the_example_is_locked_as_it_is() -> None:
    """The reference spec of the example is the example's own."""
    example = ROOT / "examples" / "digits" / "spec.yaml"
    assert (ROOT / "lockfiles" / "digits" / "spec.yaml").read_bytes() == example.read_bytes()


@pytest.mark.parametrize("spec_path", SPECS, ids=lambda path: path.parent.name)
def test_the_readme_quotes_the_recorded_image(spec_path: Path) -> None:
    """The table of reference locks names the digest and the size that are recorded next to a lock."""
    name = spec_path.parent.name
    record = spec_path.parent / f"pylock.{name}.image.json"
    page = (ROOT / "lockfiles" / "README.md").read_text()
    (row,) = [line for line in page.splitlines() if line.startswith(f"| [`{name}`]")]
    *_, size, digest = [cell.strip() for cell in row.strip("|").split("|")]
    if not record.exists():
        assert (size, digest) == ("not recorded", "")
        return
    found = json.loads(record.read_bytes())
    lock = locks.load(spec_path.parent / f"pylock.{name}.toml")
    assert found["lock"] == locks.lock_digest(lock)  # else: make records
    assert (size, digest) == (f"{sum(found['sizes']) / 1e9:.1f} GB", f"`{found['config'][:12]}…`")
