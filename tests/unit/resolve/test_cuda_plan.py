"""From ``cuda`` and ``cudnn`` in a spec to requirements."""

from __future__ import annotations

import pytest

from envbuild.errors import ResolveError
from envbuild.lockfile.hardware import Gpu, GpuDevice
from envbuild.resolve.cuda import table
from envbuild.resolve.cuda.plan import NVML, CudaRequest, plan_cuda
from tests.support.cuda import TABLE

WHY = {NVML: "NVIDIA's own library for asking the driver, which the guard uses"}
BELOW_14 = tuple(f"nvidia-{name}<14" for name in ("cuda-runtime", "cuda-nvrtc", "cuda-cupti", "cuda-nvcc", "nvjitlink"))


@pytest.fixture(autouse=True)
def _table(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(table, "derived", lambda: TABLE)


def _lines(cuda: str, *requirements: str, python: str = "3.13", gpu: Gpu | None = None) -> tuple[str, ...]:
    return plan_cuda(cuda, "", requirements, python, gpu).requirements


def _refused(cuda: str, *requirements: str, cudnn: str = "", python: str = "3.13") -> tuple[str, str]:
    with pytest.raises(ResolveError) as caught:
        plan_cuda(cuda, cudnn, requirements, python)
    return caught.value.message, caught.value.hint


def test_without_cuda_nothing_is_asked_for() -> None:
    """``cuda: none`` leaves the requirements as they are."""
    assert plan_cuda("none", "", ["torch"], "3.13") == CudaRequest()


def test_a_wish_for_gpus_brings_nvidias_library() -> None:
    """The guard's library is added with its reason for a GPU or for CUDA, but not next to one's own requirement."""
    gpu = Gpu(devices=(GpuDevice(),))
    assert plan_cuda("none", "", [], "3.13", gpu) == CudaRequest(requirements=(NVML,), added=WHY)
    assert plan_cuda("auto", "", [], "3.13") == CudaRequest(requirements=(NVML,), added=WHY)
    assert plan_cuda("auto", "", ["Nvidia_ML.py>=13"], "3.13") == CudaRequest()


def test_each_framework_is_asked_for_in_its_own_way() -> None:
    """TensorFlow and JAX by an extra, PyTorch by a version; the newest CUDA that there is."""
    assert _lines("auto", "tensorflow==2.21.*") == ("tensorflow[and-cuda]", NVML)
    assert _lines("auto", "jax==0.12.*") == ("jax[cuda13]", NVML)
    assert _lines("auto", "torch==2.15.*") == (NVML,)
    assert _lines("12", "jax", python="3.11") == ("jax[cuda12]", NVML)


def test_an_older_cuda_may_be_tried_after_the_newest() -> None:
    """With ``auto``, the majors that all frameworks have too are listed, the newest first; with a number none is."""
    plan = plan_cuda("auto", "", ["torch"], "3.13")
    assert (plan.major, plan.lower) == (13, (12,))
    assert plan_cuda("13", "", ["torch"], "3.13").lower == ()
    assert plan_cuda("auto", "", ["torch<2.11"], "3.13").lower == ()


def test_pytorch_is_held_to_versions_with_the_cuda_asked_for() -> None:
    """PyTorch's wheel has one CUDA per version; which versions are left is reported."""
    plan = plan_cuda("12.8", "", ["torch"], "3.13")
    assert plan.requirements == ("torch>=2.9,<2.11", NVML)
    assert plan.constraints == ("nvidia-cuda-runtime-cu12==12.8.*",)
    assert plan.notes == ("torch is held to 2.9 to 2.10, whose wheels go with CUDA 12.8",)
    assert _lines("12", "torch") == ("torch<2.11", NVML)
    assert _lines("13", "torch") == ("torch>=2.11", NVML)
    assert plan_cuda("13", "", ["torch"], "3.13").notes == ()


def test_frameworks_share_one_cuda() -> None:
    """Beside TensorFlow, which has CUDA 12 only, the others take that too."""
    assert _lines("auto", "tensorflow", "torch", "jax") == (
        "tensorflow[and-cuda]",
        "torch<2.11",
        "jax[cuda12]",
        NVML,
    )


def test_gpus_named_in_the_spec_limit_auto() -> None:
    """A GPU or driver that CUDA 13 does not support gets CUDA 12."""
    volta = Gpu(devices=(GpuDevice(model="Tesla V100-SXM2-16GB"),))
    assert _lines("auto", "jax", gpu=volta) == ("jax[cuda12]", NVML)
    assert _lines("auto", "jax", gpu=Gpu(driver="570.26", devices=(GpuDevice(),))) == ("jax[cuda12]", NVML)
    hopper = Gpu(driver="580.65.06", devices=(GpuDevice(compute_capability="9.0"),))
    assert _lines("auto", "jax==0.12.*", gpu=hopper) == ("jax[cuda13]", NVML)


def test_a_version_holds_the_wheels_of_the_toolkit() -> None:
    """What NVIDIA published from a toolkit on until the next one belongs to it; cuDNN is held as asked for."""
    plan = plan_cuda("12.5", "9.3", ["tensorflow==2.21.*"], "3.13")
    assert plan.requirements == ("tensorflow[and-cuda]", NVML)
    assert plan.constraints == (
        "nvidia-cudnn-cu12==9.3.*",
        "nvidia-cuda-runtime-cu12>=12.5.39,<12.9.37",
        "nvidia-cusparse-cu12>=12.4.1.24,<12.5.9.5",
    )
    assert plan_cuda("12.9", "", ["jax"], "3.13").constraints == (
        "nvidia-cuda-runtime-cu12>=12.9.37",
        "nvidia-cusparse-cu12>=12.5.9.5",
    )
    assert plan_cuda("13.0", "", ["jax"], "3.13").constraints == ("nvidia-cublas>=13.0.0.19,<13.3.0.5",)


def test_an_unknown_toolkit_is_held_by_its_number() -> None:
    """A toolkit newer than the table: the wheels that are always numbered as it is."""
    assert plan_cuda("13.7", "", ["jax"], "3.13").constraints == tuple(
        f"nvidia-{name}==13.7.*" for name in ("cuda-runtime", "cuda-nvrtc", "cuda-cupti", "cuda-nvcc", "nvjitlink")
    )


def test_wheels_without_a_major_in_their_name_stay_below_the_next() -> None:
    """``nvidia-cuda-runtime`` is CUDA 13 today and may be 14 tomorrow."""
    assert plan_cuda("auto", "", ["jax"], "3.13").constraints == BELOW_14
    assert plan_cuda("auto", "", ["tensorflow==2.21.*"], "3.13").constraints == ()


def test_a_pinned_build_names_its_cuda() -> None:
    """A local label such as +cu126 counts, whatever the package index has of that version."""
    plan = plan_cuda("auto", "", ["torch==2.9.1+cu126"], "3.13")
    assert (plan.requirements, plan.notes) == ((NVML,), ())
    assert plan_cuda("12.6", "", ["torch==2.9.1+cu126"], "3.13").constraints == ("nvidia-cuda-runtime-cu12==12.6.*",)
    assert _refused("13", "torch==2.9.1+cu126") == (
        'cuda: "13" is asked for, but torch==2.9.1+cu126 is built for CUDA 12.6',
        'write cuda: "12.6", or pin another build of torch',
    )


def test_requirements_for_other_systems_do_not_count() -> None:
    """A marker that excludes Linux, or this Python, leaves a line out; so does what is no requirement."""
    other = "tensorflow-cpu; sys_platform == 'darwin'"
    assert _lines("auto", other, "torch==2.9.*; python_version < '3.12'", "jax==0.12.*", "./x.whl") == (
        "jax[cuda13]",
        NVML,
    )


def test_a_version_newer_than_the_table_is_reported_not_refused() -> None:
    """What the table does not know passes, with a note."""
    plan = plan_cuda("auto", "", ["torch==2.99"], "3.13")
    assert (plan.requirements, plan.constraints) == ((NVML,), ())
    assert plan.notes == (
        "torch==2.99: not in the table of CUDA wheels, so what it goes with is not checked beforehand",
    )


@pytest.mark.parametrize(
    ("arguments", "message", "hint"),
    [
        (
            ("13", "tensorflow==2.21.*"),
            "tensorflow 2.21 has no wheels with CUDA 13 for Python 3.13: they take CUDA 12.5 to below 13",
            "write cuda: auto; or take a framework that has it: torch 2.11 to 2.15, jax 0.12",
        ),
        (
            ("12.6", "torch==2.9.1"),
            "torch 2.9 has no wheels with CUDA 12.6 for Python 3.13: they take CUDA 12.8",
            "write cuda: auto; or configure PyTorch's own index for this CUDA and pin its build, such as "
            "torch==…+cu126; or take a framework that has it: tensorflow 2.21, jax 0.5 to 0.12",
        ),
        (
            ("12.8", "torch==2.11.*"),
            "torch 2.11 has no wheels with CUDA 12.8 for Python 3.13: they take CUDA 13.0",
            "write cuda: auto; or choose torch 2.9 to 2.10; or configure PyTorch's own index for this CUDA and pin its "
            "build, such as torch==…+cu128",
        ),
        (
            ("13", "jax[cuda12]"),
            "jax 0.5 to 0.12 has no wheels with CUDA 13 for Python 3.13: they take CUDA 12.1 to below 13",
            "write cuda: auto; or leave out [cuda12], which cuda chooses; or choose jax 0.12",
        ),
        (
            ("auto", "tensorflow==2.19.*"),
            "tensorflow==2.19.* has wheels with CUDA for Python 3.11, 3.12, not for 3.13",
            "choose tensorflow 2.21, or another python in the spec",
        ),
        (
            ("auto", "tensorflow-cpu==2.21.*"),
            "requirements: tensorflow-cpu==2.21.* is built without CUDA, but cuda asks for it",
            "write tensorflow instead of tensorflow-cpu, or cuda: none",
        ),
        (
            ("12", "torch==2.9.1+cpu"),
            "requirements: torch==2.9.1+cpu is built without CUDA, but cuda asks for it",
            "leave out +cpu, or write cuda: none",
        ),
        (
            ("auto", "tensorflow", "torch==2.15.*"),
            "the frameworks have no CUDA version in common: tensorflow with CUDA 12; torch with CUDA 13",
            "loosen the version of one of them, or lock them apart",
        ),
    ],
)
def test_what_cannot_be_is_refused_with_what_can(arguments: tuple[str, ...], message: str, hint: str) -> None:
    """Framework, Python and CUDA that have no wheels together are refused, naming what would work."""
    assert _refused(*arguments) == (message, hint)


def test_a_cudnn_that_does_not_fit_is_refused() -> None:
    """The versions that each framework takes are named."""
    assert _refused("12.5", "tensorflow==2.21.*", cudnn="8.9") == (
        'cudnn: "8.9" does not go with tensorflow and CUDA 12.5, which take: tensorflow 2.21: 9.3.0.75 to below 10',
        "write one of these, or leave cudnn out",
    )
    plan = plan_cuda("12", "9.1", ["torch"], "3.13")
    assert plan.requirements == ("torch<2.9", NVML)
    assert plan.notes == ("torch is held to 2.6, whose wheels go with CUDA 12 and cuDNN 9.1",)
