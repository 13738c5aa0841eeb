"""CUDA in locks: the table derived from an index, constraints with both resolvers, and the real frameworks."""

from __future__ import annotations

import os
import platform
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from envbuild.core import package_data
from envbuild.determinism.policy import frameworks_of
from envbuild.errors import ResolveError
from envbuild.lockfile import model as locks
from envbuild.lockfile.hardware import Gpu, GpuDevice, Hardware
from envbuild.resolve.cuda.compatibility import check_compatible, cuda_of
from envbuild.resolve.cuda.plan import plan_cuda
from envbuild.resolve.python.pins import PythonRequest, resolve_python
from envbuild.resolve.python.wheels import Target
from tests.support.cli import Project
from tests.support.indexes import make_index
from tests.support.server import FileServer
from tests.support.wheels import make_wheel
from tools import cuda_wheels

LINUX = "cp313-cp313-manylinux_2_28_x86_64"
H200 = Hardware(gpu=Gpu(driver="595.71.05", devices=(GpuDevice(model="NVIDIA H200", sms=132),)))


@pytest.fixture(name="index")
def _index(tmp_path: Path) -> Iterator[dict[str, str]]:
    """An environment whose index has a few releases of each framework, as their metadata are today."""
    made = tmp_path / "made"
    torch = ["nvidia-cuda-runtime-cu12==12.8.90; platform_system == 'Linux'", "nvidia-cudnn-cu12==9.10.2.21"]
    newer = ["cuda-toolkit[cudart]==13.2.2; platform_system == 'Linux'", "nvidia-cudnn-cu13==9.26.0.51"]
    nvidia = ["nvidia-cuda-runtime-cu12<13.0,>=12.5.82; extra == 'and-cuda'", "nvidia-cudnn-cu12>=9.3; extra == 'x'"]
    jax = ["nvidia-cuda-runtime>=13.0.48; extra == 'with-cuda'", "nvidia-nccl-cu13>=2.27; extra == 'with-cuda'"]
    old = ["nvidia-cuda-runtime-cu12 >=12.1.105 ; extra == 'with_cuda'"]
    pins = [f"{name}=={version}.*; extra == 'all'" for name, version in (("nvidia-cublas", "13.4.1.3"),)]
    first = ["nvidia-cublas==13.3.0.5.*; extra == 'all'", "nvidia-nvjitlink==13.2.51.*; extra == 'all'"]
    wheels = [
        make_wheel(made, "torch", "2.10.0", requires=torch, tag=LINUX),
        make_wheel(made, "torch", "2.15.0", requires=newer, tag=LINUX),
        make_wheel(made, "torch", "2.15.0", requires=[], tag="cp313-cp313-win_amd64"),
        make_wheel(made, "torch", "2.16.0rc1", requires=newer, tag=LINUX),
        make_wheel(made, "torch", "1.13.1", requires=[], tag=LINUX),
        make_wheel(made, "tensorflow", "2.21.0", requires=nvidia, tag=LINUX),
        make_wheel(made, "jax", "0.12.0"),
        make_wheel(made, "jax-cuda12-plugin", "0.12.0", requires=old, tag=LINUX),
        make_wheel(made, "jax-cuda13-plugin", "0.12.0", requires=jax, tag="cp314-cp314-manylinux_2_27_x86_64"),
        make_wheel(made, "cuda-toolkit", "13.2.0", requires=first),
        make_wheel(made, "cuda-toolkit", "13.2.2", requires=[*pins, "nvidia-nvjitlink<14,>=13.2.86; extra == 'all'"]),
    ]
    make_index(tmp_path / "index", wheels)
    with FileServer() as server:
        server.add_tree(tmp_path / "index")
        yield {
            "PATH": os.environ["PATH"],
            "HOME": str(tmp_path),
            "PIP_CONFIG_FILE": "/dev/null",
            "UV_DEFAULT_INDEX": f"{server.url}/simple",
            "UV_CACHE_DIR": str(tmp_path / "uv"),
        }


def test_the_table_is_derived_from_the_index(
    index: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Final releases for Linux, their Pythons and ranges; --check writes nothing and states what differs."""
    monkeypatch.setattr(package_data, "data_path", tmp_path.joinpath)
    monkeypatch.setattr(os, "environ", index)
    assert cuda_wheels.main(["--check"]) == 1
    assert not (tmp_path / cuda_wheels.FILE).exists()
    assert "+framework = " in capsys.readouterr().out
    assert cuda_wheels.main([]) == 0
    assert cuda_wheels.main(["--check"]) == 0
    table = cuda_wheels.derive(cuda_wheels.Index(index, "cuda-toolkit"))
    assert (tmp_path / cuda_wheels.FILE).read_bytes() == cuda_wheels.render(table)
    rows = [(r.framework, r.version, r.extra, r.cuda, r.cudnn, r.nccl, r.python, r.metadata) for r in table.release]
    assert rows == [
        ("jax", "0.12", "cuda12", ">=12.1,<13", "", "", ("3.13",), "jax-cuda12-plugin 0.12.0"),
        ("jax", "0.12", "cuda13", ">=13.0,<14", "", ">=2.27", ("3.14",), "jax-cuda13-plugin 0.12.0"),
        ("tensorflow", "2.21", "and-cuda", ">=12.5,<13.0", "", "", ("3.13",), "tensorflow 2.21.0"),
        ("torch", "2.10", "", "==12.8.*", "==9.10.2.21", "", ("3.13",), "torch 2.10.0"),
        ("torch", "2.15", "", "==13.2.*", "==9.26.0.51", "", ("3.13",), "torch 2.15.0"),
    ]
    (toolkit,) = table.toolkit
    assert (toolkit.cuda, toolkit.metadata) == ("13.2", "cuda-toolkit 13.2.0 and 13.2.2")
    assert toolkit.wheels == {"nvidia-cublas": "13.3.0.5", "nvidia-nvjitlink": "13.2.51"}


def test_no_index_is_reported(
    index: dict[str, str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Without an index there is nothing to derive from: exit 12, and nothing is written."""
    links = {"UV_FIND_LINKS": str(Path(index["HOME"]) / "made"), "UV_NO_INDEX": "1"}
    monkeypatch.setattr(os, "environ", {**index, **links})
    before = package_data.data(cuda_wheels.FILE)
    assert cuda_wheels.main([]) == 12
    assert capsys.readouterr().err == "cuda-toolkit comes from no package index here\n"
    assert package_data.data(cuda_wheels.FILE) == before


@pytest.mark.parametrize("resolver", ["uv", "pip-tools"])
def test_constraints_limit_both_resolvers_and_ask_for_nothing(
    index: dict[str, str], tmp_path: Path, resolver: str
) -> None:
    """A constraint holds a dependency of an extra, and a constraint on what nobody needs installs nothing."""
    made = tmp_path / "own"
    wheels = [make_wheel(made, "dep", version) for version in ("1.0", "2.0")]
    wheels.append(make_wheel(made, "other", "1.0"))
    extra = {"Provides-Extra": "gpu"}
    wheels.append(make_wheel(made, "top", "1.0", requires=["dep; extra == 'gpu'"], metadata=extra))
    make_index(tmp_path / "second", wheels)
    with FileServer() as server:
        server.add_tree(tmp_path / "second")
        place = f"{server.url}/simple"
        environ = {**index, "UV_DEFAULT_INDEX": place, "PIP_INDEX_URL": place, "PIP_CACHE_DIR": str(tmp_path / "pip")}
        feature = f"{sys.version_info.major}.{sys.version_info.minor}"
        request = PythonRequest(
            target=Target(python=feature, platform=f"manylinux_2_36_{platform.machine()}"),
            requirements=("top[gpu]",),
            constraints=("dep<2", "other==1.0"),
            folder=tmp_path,
        )
        found = resolve_python(request, cache_dir=tmp_path / "c", resolver=resolver, cross_check=True, environ=environ)
    assert [(package.name, package.version) for package in found.packages] == [("dep", "1.0"), ("top", "1.0")]


@pytest.mark.network
@pytest.mark.parametrize(
    ("requirement", "python", "cuda", "cudnn", "found"),
    [
        ("tensorflow==2.21.*", "3.11", "12.5", "9.3", ("12.5", "9.3")),
        ("tensorflow==2.21.*", "3.13", "auto", "", ("12.", "9.")),
        ("torch", "3.13", "12.8", "", ("12.8", "9.10")),
        ("torch==2.15.*", "3.13", "13", "", ("13.2", "9.26")),
        ("jax==0.12.*", "3.13", "12", "", ("12.", "9.")),
        ("jax==0.12.*", "3.13", "13.0", "", ("13.0", "9.")),
    ],
)
def test_real_frameworks_resolve_with_the_cuda_asked_for(
    requirement: str, python: str, cuda: str, cudnn: str, found: tuple[str, str], tmp_path: Path
) -> None:
    """On the configured index, each framework comes with the CUDA, cuDNN, cuBLAS and NCCL asked for."""
    plan = plan_cuda(cuda, cudnn, [requirement], python, H200.gpu)
    request = PythonRequest(
        target=Target(python=python, platform="manylinux_2_36_x86_64"),
        requirements=(requirement, *plan.requirements),
        constraints=plan.constraints,
        folder=tmp_path,
    )
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "envbuild-tests" / "python"
    resolved = resolve_python(request, cache_dir=cache)
    frameworks = frameworks_of(resolved.packages)
    locked = cuda_of(resolved.packages, frameworks)
    assert locked is not None
    assert locked.version.startswith(found[0])
    assert locked.cudnn.startswith(found[1])
    assert locked.cublas
    assert locked.nccl
    assert locked.architectures
    check_compatible(locked, frameworks, python, H200, asked=cuda, cudnn=cudnn)
    assert "nvidia-ml-py" in {package.name for package in resolved.packages}
    volta = Hardware(gpu=Gpu(devices=(GpuDevice(model="Tesla V100-SXM2-16GB"),)))
    if locked.version.startswith("13"):
        with pytest.raises(ResolveError, match=r"^CUDA 13\.[0-9] does not support Tesla V100-SXM2-16GB"):
            check_compatible(locked, frameworks, python, volta)


@pytest.mark.network
def test_an_older_cuda_is_taken_where_the_newest_does_not_fit(tmp_path: Path) -> None:
    """``cuda: auto`` with a pinned torchvision locks the PyTorch that it needs, and a note names its CUDA."""
    environ = {**os.environ, "PIP_NO_INDEX": "0"}
    project = Project(folder=tmp_path / "project", store=tmp_path / "store", environ=environ)
    project.write("spec.yaml", "name: t\nos: debian-12\ncuda: auto\nrequirements: [torch, torchvision==0.21.0]\n")
    done = project("lock", "spec.yaml")
    assert done.code == 0, done.err
    assert "CUDA 12: the requirements do not go together with CUDA 13" in done.out + done.err
    lock = locks.load(project.folder / "pylock.t.toml")
    assert {package.name: package.version for package in lock.packages}["torch"] == "2.6.0"
    assert lock.cuda is not None
    assert lock.cuda.version.startswith("12.")


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        (
            "requirements: [tensorflow]\ncuda: 13\n",
            "envbuild: tensorflow 2.14 to 2.21 has no wheels with CUDA 13 for Python 3.11: they take CUDA ",
        ),
        (
            "requirements: needs.txt\ncuda: auto\n",
            "envbuild: requirements: tensorflow-cpu is built without CUDA, but cuda asks for it",
        ),
    ],
)
def test_the_command_line_refuses_before_resolving(tmp_path: Path, spec: str, message: str) -> None:
    """Exit 12 without asking any index or mirror; requirements files count."""
    project = Project(folder=tmp_path / "project", store=tmp_path / "store")
    project.write("needs.txt", "# for training\ntensorflow-cpu\n")
    project.write("spec.yaml", f"name: t\nos: debian-12\n{spec}")
    done = project("lock", "spec.yaml")
    assert (done.code, done.out) == (12, ""), done.err
    assert message in done.err
    assert sorted(path.name for path in project.folder.iterdir()) == ["needs.txt", "spec.yaml"]
