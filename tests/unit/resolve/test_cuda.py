"""The CUDA among locked wheels, and what it goes with."""

from __future__ import annotations

import pytest

from envbuild.errors import ResolveError
from envbuild.lockfile.hardware import Cuda, Gpu, GpuDevice, Hardware
from envbuild.lockfile.model import PythonPackage, Wheel
from envbuild.resolve.cuda import table
from envbuild.resolve.cuda.compatibility import brings_cuda, check_compatible, cuda_of, without_cuda
from envbuild.resolve.cuda.support import has_kernels
from tests.support.cuda import TABLE

CUDA_12 = Cuda(version="12.9", cudnn="9.10.2.21", driver="525.60.13", toolkit_driver="575.51.03")
CUDA_13 = Cuda(version="13.2", cudnn="9.26.0.51", driver="580.65.06", toolkit_driver="595.45.04")


@pytest.fixture(autouse=True)
def _table(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(table, "derived", lambda: TABLE)


def _packages(*pins: str) -> list[PythonPackage]:
    wheel = Wheel(name="a-1-py3-none-any.whl", size=1, sha256="0" * 64)
    return [
        PythonPackage(name=name, version=version, wheel=wheel) for name, _, version in (p.partition("=") for p in pins)
    ]


def _hardware(*devices: GpuDevice, driver: str = "", policy: str = "") -> Hardware:
    return Hardware(
        gpu=Gpu(driver=driver, devices=devices or (GpuDevice(),)), policy={"gpu.driver": policy} if policy else {}
    )


def _refused(cuda: Cuda, hardware: Hardware, python: str = "3.13", **frameworks: str) -> tuple[str, str]:
    with pytest.raises(ResolveError) as caught:
        check_compatible(cuda, frameworks, python, hardware)
    return caught.value.message, caught.value.hint


def test_the_wheels_of_cuda_12_tell_its_versions() -> None:
    """Wheels with the major in their names; cuDNN, cuBLAS and NCCL next to the runtime; the driver from the table."""
    packages = _packages(
        "nvidia-cuda-runtime-cu12=12.8.90",
        "nvidia-cublas-cu12=12.8.4.1",
        "nvidia-cudnn-cu12=9.10.2.21",
        "nvidia-nccl-cu12=2.27.5",
        "torch=2.10.0",
    )
    assert cuda_of(packages, {"cuda": "12.8.90", "torch": "2.10.0"}) == Cuda(
        version="12.8",
        cudnn="9.10.2.21",
        cublas="12.8.4.1",
        nccl="2.27.5",
        driver="525.60.13",
        toolkit_driver="570.26",
        architectures=("7.0", "7.5", "8.0", "8.6", "9.0", "10.0", "12.0"),
    )


def test_the_wheels_of_cuda_13_have_no_major_in_some_names() -> None:
    """CUDA 13 is asked for without a suffix, cuDNN and NCCL with one."""
    packages = _packages(
        "nvidia-cuda-runtime=13.0.96",
        "nvidia-cublas=13.1.2.11",
        "nvidia-cudnn-cu13=9.28.0.42",
        "nvidia-nccl-cu13=2.32.3",
    )
    assert cuda_of(packages, {}) == Cuda(
        version="13.0",
        cudnn="9.28.0.42",
        cublas="13.1.2.11",
        nccl="2.32.3",
        driver="580.65.06",
        toolkit_driver="580.65.06",
    )


def test_no_runtime_is_no_cuda() -> None:
    """NCCL alone, as XGBoost brings it, is no CUDA; a build that bundles its own reports it in its label."""
    assert cuda_of(_packages("nvidia-nccl-cu12=2.27.5"), {}) is None
    found = cuda_of(_packages("torch=2.1.0+cu118"), {"torch": "2.1.0+cu118"})
    assert found is not None
    assert (found.version, found.driver, found.toolkit_driver) == ("11.8", "450.80.02", "520.61.05")
    assert cuda_of(_packages("torch=2.9.0+cpu"), {"torch": "2.9.0+cpu"}) is None


def test_a_newer_cuda_than_the_table_gets_the_newest_driver_known() -> None:
    """A floor that is too low refuses nothing wrongly; the toolkit's own driver stays open."""
    found = cuda_of(_packages("nvidia-cuda-runtime=14.1.3"), {})
    assert found == Cuda(version="14.1", driver="580.65.06")


def test_architectures_are_those_that_all_frameworks_have() -> None:
    """With two frameworks, only what both were built for."""
    packages = _packages("nvidia-cuda-runtime-cu12=12.8.90")
    found = cuda_of(packages, {"torch": "2.10.0", "tensorflow": "2.21.0"})
    assert found is not None
    assert found.architectures == ("7.0", "8.0", "9.0")


def test_two_majors_are_refused() -> None:
    """Which one a program gets would depend on its imports."""
    with pytest.raises(ResolveError) as caught:
        cuda_of(_packages("nvidia-cuda-runtime=13.2.86", "nvidia-cuda-runtime-cu12=12.9.79"), {})
    assert caught.value.message == (
        "two versions of CUDA are among the wheels: nvidia-cuda-runtime-cu12 12.9.79 and nvidia-cuda-runtime 13.2.86"
    )
    assert caught.value.hint == (
        'write cuda: "12", so that all frameworks take the same; leave NVIDIA\'s wheels out of requirements, since '
        "frameworks bring their own; or lock one framework alone"
    )


@pytest.mark.parametrize("wheel", ["nvidia-cudnn-cu11=9.10.2.21", "nvidia-nccl-cu13=2.32.3"])
def test_any_wheel_of_another_major_is_refused(wheel: str) -> None:
    """Not only the runtime's: cuDNN for CUDA 11 has the same files as cuDNN for CUDA 12."""
    name, _, version = wheel.partition("=")
    with pytest.raises(ResolveError, match=f"{name} {version}"):
        cuda_of(_packages("nvidia-cuda-runtime-cu12=12.9.79", "nvidia-cusparse-cu12=12.5.10", wheel), {})


def test_wheels_of_one_major_with_and_without_its_number() -> None:
    """From CUDA 13 on some of NVIDIA's wheels have the major in their names and some do not."""
    wheels = (
        "nvidia-cuda-runtime=13.2.86",
        "nvidia-cudnn-cu13=9.26.0",
        "nvidia-cublas=13.4",
        "nvidia-cusparselt-cu13=1",
    )
    found = cuda_of(_packages(*wheels), {})
    assert (found and found.version, found and found.cudnn) == ("13.2", "9.26.0")


def test_what_fits_has_nothing_to_tell() -> None:
    """A known framework on a known GPU with a new driver."""
    h200 = _hardware(GpuDevice(model="NVIDIA H200", sms=132), driver="595.71.05")
    assert check_compatible(CUDA_13, {"torch": "2.15.0"}, "3.13", h200, asked="13.2", cudnn="9.26") == ()
    assert check_compatible(CUDA_13, {"torch": "2.15.0"}, "3.13", Hardware()) == ()


def test_a_driver_below_the_floor_is_refused() -> None:
    """Minor-version compatibility ends at the major's first driver; what the driver can load is named."""
    hint = 'write cuda: "12" (torch 2.6 to 2.10), or lock for a host with a newer driver'
    assert _refused(CUDA_13, _hardware(driver="570.26"), torch="2.15.0") == (
        "hardware.gpu.driver: 570.26 cannot load CUDA 13.2, which needs 580.65.06 or newer",
        hint,
    )
    assert _refused(CUDA_13, _hardware(driver="570.26", policy="at least"), torch="2.15.0")[1] == hint
    assert _refused(CUDA_12, _hardware(driver="390.48"))[1] == "lock for a host with a newer driver"
    assert check_compatible(CUDA_13, {"torch": "2.15.0"}, "3.13", _hardware(driver="570.26", policy="any")) == ()


def test_a_driver_between_floor_and_toolkit_is_reported() -> None:
    """It loads, but not everything works; what is locked by default reports nothing."""
    assert check_compatible(CUDA_12, {}, "3.13", _hardware(driver="550.54.14")) == (
        "driver 550.54.14 loads CUDA 12.9, but is older than the 575.51.03 it was released with: what needs the newer "
        "one, such as compiling its PTX, fails on such a host",
    )
    assert check_compatible(CUDA_12, {}, "3.13", _hardware(driver="525.60.13", policy="at least")) == ()


@pytest.mark.parametrize(
    ("cuda", "device", "message", "hint"),
    [
        (
            CUDA_13,
            GpuDevice(model="Tesla V100-SXM2-16GB"),
            "CUDA 13.2 does not support Tesla V100-SXM2-16GB (Volta, compute capability 7.0): that takes CUDA 9.0 to "
            "12.9",
            'write cuda: "12" (torch 2.6 to 2.10), or lock for another GPU',
        ),
        (
            Cuda(version="12.4", driver="525.60.13"),
            GpuDevice(compute_capability="12.0"),
            "CUDA 12.4 does not support the GPU (Blackwell, compute capability 12.0): that takes CUDA 12.8 or newer",
            'write cuda: "13" (torch 2.11 to 2.15), or lock for another GPU',
        ),
        (
            CUDA_13,
            GpuDevice(model="NVIDIA H200", compute_capability="8.0"),
            "hardware.gpu: NVIDIA H200 has compute capability 9.0, not 8.0",
            "correct the one or the other in the spec",
        ),
    ],
)
def test_a_gpu_that_cuda_does_not_support_is_refused(cuda: Cuda, device: GpuDevice, message: str, hint: str) -> None:
    """By model or by compute capability, naming the CUDA versions that do."""
    assert _refused(cuda, _hardware(device), torch="2.15.0") == (message, hint)


def test_a_gpu_without_kernels_is_refused() -> None:
    """CUDA supports it, but the framework's wheels have nothing for it."""
    pascal = _hardware(GpuDevice(model="Tesla P40"))
    assert _refused(Cuda(version="12.8", driver="525.60.13"), pascal, torch="2.10.0") == (
        "torch 2.10.0 has no kernels for Tesla P40 (compute capability 6.1): its wheels for CUDA 12.8 were built for "
        "7.0, 7.5, 8.0, 8.6, 9.0, 10.0, 12.0",
        "choose torch 2.6, or lock for another GPU",
    )


def test_ptx_alone_is_reported() -> None:
    """TensorFlow runs on Blackwell by PTX: slow to start, and the driver makes the bits."""
    found = check_compatible(CUDA_12, {"tensorflow": "2.21.0"}, "3.13", _hardware(GpuDevice(model="NVIDIA B200")))
    assert found[1:] == (
        "tensorflow 2.21.0 has no machine code for NVIDIA B200 (10.0): the driver compiles its PTX at first use, which "
        "takes minutes, and whose bits depend on the driver",
    )


def test_machine_code_runs_within_its_major_and_ptx_upward() -> None:
    """The rule of the CUDA programming guide."""
    assert has_kernels(["8.0"], [], "8.6")
    assert not has_kernels(["8.6"], [], "8.0")
    assert not has_kernels(["8.0"], [], "9.0")
    assert has_kernels([], ["8.0"], "12.0")
    assert not has_kernels([], ["9.0"], "8.9")


def test_what_the_tables_do_not_know_is_reported() -> None:
    """A newer framework, GPU or compute capability is not refused."""
    strange = _hardware(
        GpuDevice(model="NVIDIA X1"), GpuDevice(compute_capability="19.0"), GpuDevice(model="NVIDIA H200")
    )
    assert check_compatible(CUDA_13, {"torch": "2.99.0", "cuda": "13.2.1"}, "3.13", strange) == (
        "torch 2.99.0 with CUDA 13 is not in the table of CUDA wheels: nothing about it is checked",
        "NVIDIA X1 is not in the table of GPUs: whether CUDA 13.2 supports it is not checked",
        "compute capability 19.0 is not in the table: whether CUDA 13.2 supports it is unknown",
        "which GPUs torch 2.99.0 was built for is not in the table, so that is not checked",
    )


def test_another_number_of_sms_is_reported() -> None:
    """The table has the number of a whole GPU; a MIG slice has fewer."""
    assert check_compatible(CUDA_13, {}, "3.13", _hardware(GpuDevice(model="NVIDIA H200", sms=114))) == (
        "NVIDIA H200 has 132 SMs as a whole GPU, the lock has 114",
    )
    sliced = _hardware(GpuDevice(model="NVIDIA H200", sms=60, mig="3g.71gb"))
    assert check_compatible(CUDA_13, {}, "3.13", sliced) == ()


def test_newer_libraries_than_built_with_are_reported() -> None:
    """TensorFlow's ranges drift; what was tested is named."""
    assert check_compatible(CUDA_12, {"tensorflow": "2.21.0"}, "3.13", Hardware()) == (
        "tensorflow 2.21.0 was built with CUDA 12.5 and cuDNN 9.3 and takes newer ones: locked are CUDA 12.9 and cuDNN "
        "9.10.2.21",
    )
    same = Cuda(version="12.5", cudnn="9.3.0.75", driver="525.60.13")
    assert check_compatible(same, {"tensorflow": "2.21.0"}, "3.13", Hardware()) == ()


def test_a_python_without_wheels_is_refused() -> None:
    """By the version that was found, also if it came in through another package."""
    assert _refused(Cuda(version="12.5", driver="525.60.13"), Hardware(), tensorflow="2.19.1") == (
        "tensorflow 2.19.1 has no wheels with CUDA 12 for Python 3.13, only for 3.11, 3.12",
        "choose tensorflow 2.21, or another python in the spec",
    )


@pytest.mark.parametrize(
    ("asked", "cudnn", "message", "hint"),
    [
        (
            "12.8",
            "",
            'cuda: "12.8" is asked for, but the wheels that were found bring CUDA 12.9',
            'write cuda: "12.9", or choose other versions of the frameworks',
        ),
        (
            "12",
            "9.3",
            'cudnn: "9.3" is asked for, but the wheels that were found bring 9.10.2.21',
            "leave cudnn out, or choose other versions of the frameworks",
        ),
    ],
)
def test_what_was_found_must_be_what_was_asked_for(asked: str, cudnn: str, message: str, hint: str) -> None:
    """Whatever the resolver did, another version than the spec's is never locked silently."""
    with pytest.raises(ResolveError) as caught:
        check_compatible(CUDA_12, {}, "3.13", Hardware(), asked=asked, cudnn=cudnn)
    assert (caught.value.message, caught.value.hint) == (message, hint)


def test_cuda_without_request_is_reported() -> None:
    """PyTorch's wheel brings CUDA in any case."""
    assert brings_cuda(CUDA_13, {"cuda": "13.2.86", "cudnn": "9.26.0.51", "torch": "2.15.0"}) == (
        "CUDA 13.2 is among the wheels (torch 2.15.0) though cuda is none: nothing about it is checked at start; write "
        "cuda: auto to lock it with its driver"
    )


def test_cuda_that_no_wheel_brings_is_explained() -> None:
    """A framework that came in by another package, or none at all."""
    assert without_cuda("auto", {"tensorflow": "2.21.0"}, "3.13") == (
        'cuda: "auto" is asked for, but none of the wheels brings CUDA',
        "tensorflow comes in through another package: name it under requirements too, or cuda: none",
    )
    assert without_cuda("13", {}, "3.13") == (
        'cuda: "13" is asked for, but none of the wheels brings CUDA',
        "require a framework that has it (torch 2.11 to 2.15, jax 0.12), or cuda: none",
    )
    assert without_cuda("12", {"tensorflow": "2.12.1"}, "3.12") == (
        'cuda: "12" is asked for, but none of the wheels brings CUDA: tensorflow 2.12.1 has none, 2.14 and newer do',
        "choose tensorflow 2.19 to 2.21, or write cuda: none",
    )


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("T4", "Tesla T4"),
        ("NVIDIA T4", "Tesla T4"),
        ("nvidia h200", "NVIDIA H200"),
        ("NVIDIA A100 SXM4 40GB", "NVIDIA A100-SXM4-40GB"),
        ("NVIDIA X1", ""),
    ],
)
def test_a_model_that_is_nearly_known(name: str, meant: str) -> None:
    """A user who writes a model by hand is shown how nvidia-smi prints it: no GPU would ever match another name."""
    (note,) = check_compatible(CUDA_13, {"torch": "2.15.0"}, "3.13", _hardware(GpuDevice(model=name)))
    assert note.startswith(f"{name} is not in the table of GPUs")
    assert note.partition("; ")[2] == (f"perhaps you meant {meant}, as nvidia-smi prints it" if meant else "")
