"""A small table of CUDA wheels, so that tests do not change when the real one is refreshed."""

from __future__ import annotations

from envbuild.resolve.cuda.table import Derived, Release, Toolkit


def release(framework: str, version: str, cuda: str, cudnn: str = "", *, extra: str = "", python: str = "") -> Release:
    """Return a row: ``cuda`` and ``cudnn`` are specifiers, ``python`` feature releases by blanks."""
    major = int(cuda.lstrip("=<>").split(".")[0])
    return Release(
        framework=framework,
        version=version,
        releases=(f"{version}.0", f"{version}.1"),
        python=tuple((python or "3.11 3.12 3.13").split()),
        extra=extra,
        cuda=cuda,
        cudnn=cudnn,
        runtime="nvidia-cuda-runtime" + (f"-cu{major}" if major < 13 else ""),
        metadata=f"{framework} {version}.1",
    )


TABLE = Derived(
    release=(
        release("tensorflow", "2.14", "==11.8.*", "==8.7.0.84", extra="and-cuda", python="3.10 3.11"),
        release("tensorflow", "2.19", "==12.5.*", "==9.3.0.75", extra="and-cuda", python="3.11 3.12"),
        release("tensorflow", "2.21", ">=12.5,<13.0", "<10.0,>=9.3.0.75", extra="and-cuda"),
        release("torch", "2.6", "==12.4.*", "==9.1.0.70"),
        release("torch", "2.9", "==12.8.*", "==9.10.2.21"),
        release("torch", "2.10", "==12.8.*", "==9.10.2.21"),
        release("torch", "2.11", "==13.0.*", "==9.19.0.56"),
        release("torch", "2.15", "==13.2.*", "==9.26.0.51"),
        release("jax", "0.5", ">=12.1,<13", "<10.0,>=9.1", extra="cuda12"),
        release("jax", "0.12", ">=12.1,<13", "<10.0,>=9.10.2.21", extra="cuda12", python="3.12 3.13"),
        release("jax", "0.12", ">=13.0,<14", "<10.0,>=9.12.0.46", extra="cuda13", python="3.12 3.13"),
    ),
    toolkit=(
        Toolkit(
            cuda="12.5",
            wheels={"nvidia-cuda-runtime-cu12": "12.5.39", "nvidia-cusparse-cu12": "12.4.1.24"},
            metadata="cuda-toolkit 12.5.0",
        ),
        Toolkit(
            cuda="12.9",
            wheels={"nvidia-cuda-runtime-cu12": "12.9.37", "nvidia-cusparse-cu12": "12.5.9.5"},
            metadata="cuda-toolkit 12.9.0",
        ),
        Toolkit(cuda="13.0", wheels={"nvidia-cublas": "13.0.0.19"}, metadata="cuda-toolkit 13.0.0"),
        Toolkit(cuda="13.2", wheels={"nvidia-cublas": "13.3.0.5"}, metadata="cuda-toolkit 13.2.0"),
    ),
)
