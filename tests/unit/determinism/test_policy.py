"""The determinism policy: what is exported for which framework and version, and what is refused."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from packaging.specifiers import SpecifierSet

from envbuild.determinism import operations, policy
from envbuild.lockfile.hardware import Cuda
from envbuild.lockfile.model import Determinism, PythonPackage, Wheel
from envbuild.runtime.guard import ranges
from envbuild.runtime.guard.variables import HARD
from tools import runtime_tables
from tools.determinism_reference import document

OPS = Determinism(level="ops", seed=42, threads=2)
SEEDS = Determinism(level="seeds", seed=7, threads=3)


def _package(name: str, version: str) -> PythonPackage:
    return PythonPackage(
        name=name, version=version, wheel=Wheel(name=f"{name}-{version}-py3-none-any.whl", size=1, sha256="0" * 64)
    )


def test_tensorflow_on_a_cpu_gets_exactly_these() -> None:
    """The example's environment is what the table promises, no variable more."""
    assert policy.environment({"tensorflow": "2.21.0", "keras": "3.15.1", "numpy": "2.4.6"}, OPS) == {
        "KERAS_BACKEND": "tensorflow",
        "LANG": "C.UTF-8",
        "LC_ALL": "C.UTF-8",
        "OMP_DYNAMIC": "FALSE",
        "OMP_NUM_THREADS": "2",
        "OPENBLAS_NUM_THREADS": "2",
        "PYTHONDONTWRITEBYTECODE": "1",
        "PYTHONHASHSEED": "42",
        "PYTHONUNBUFFERED": "1",
        "TF_DETERMINISTIC_OPS": "1",
        "TF_ENABLE_ONEDNN_OPTS": "1",
        "TF_NUM_INTEROP_THREADS": "2",
        "TF_NUM_INTRAOP_THREADS": "2",
        "TZ": "UTC",
    }


def test_no_framework_gets_the_common_ones_only() -> None:
    """Nothing of a framework is exported where the framework is not."""
    assert set(policy.environment({}, OPS)) == {
        *("LANG", "LC_ALL", "TZ", "PYTHONHASHSEED", "PYTHONDONTWRITEBYTECODE", "PYTHONUNBUFFERED"),
        *("OMP_NUM_THREADS", "OMP_DYNAMIC"),
    }


@pytest.mark.parametrize(
    ("version", "names"),
    [
        ("1.13.2", set()),
        ("1.15.0", {"TF_CUDNN_DETERMINISTIC"}),
        ("2.0.4", {"TF_CUDNN_DETERMINISTIC"}),
        ("2.1.0", {"TF_DETERMINISTIC_OPS"}),
        ("2.7.4", {"TF_DETERMINISTIC_OPS", "TF_CUDNN_USE_FRONTEND"}),
        ("2.8.0rc1", {"TF_DETERMINISTIC_OPS"}),
        ("2.21.0", {"TF_DETERMINISTIC_OPS"}),
    ],
)
def test_each_tensorflow_gets_the_switch_it_understands(version: str, names: set[str]) -> None:
    """The switch for deterministic operations changed its name twice; a pre-release counts as its release."""
    environment = policy.environment({"tensorflow": version, "cuda": "12"}, OPS)
    switches = {"TF_CUDNN_DETERMINISTIC", "TF_DETERMINISTIC_OPS", "TF_CUDNN_USE_FRONTEND"}
    assert switches & set(environment) == names


@pytest.mark.parametrize(("version", "value"), [("2.4.0", None), ("2.5.0", "0"), ("2.8.4", "0"), ("2.9.0", "1")])
def test_the_default_of_onednn_is_set_explicitly(version: str, value: str | None) -> None:
    """The version's default is pinned on amd64; other architectures are left alone."""
    assert policy.environment({"tensorflow": version}, OPS).get("TF_ENABLE_ONEDNN_OPTS") == value
    assert "TF_ENABLE_ONEDNN_OPTS" not in policy.environment({"tensorflow": version}, OPS, "arm64")


def test_level_seeds_leaves_operations_alone() -> None:
    """Seeds and threads are pinned at level seeds, operations are not."""
    environment = policy.environment({"tensorflow": "2.21.0", "torch": "2.9.1", "cuda": "12.8"}, SEEDS)
    assert environment["PYTHONHASHSEED"] == "7"
    assert environment["TF_NUM_INTRAOP_THREADS"] == environment["MKL_NUM_THREADS"] == "3"
    assert not {"TF_DETERMINISTIC_OPS", "CUBLAS_WORKSPACE_CONFIG", "TF_CUDNN_USE_AUTOTUNE"} & set(environment)


@pytest.mark.parametrize(("version", "there"), [("2.9.1", True), ("2.9.1+cu128", True), ("2.10.0", False)])
def test_cublas_workspace_only_where_it_is_checked(version: str, there: bool) -> None:
    """PyTorch before 2.10 on CUDA wants it; later ones and CPU builds do not."""
    assert ("CUBLAS_WORKSPACE_CONFIG" in policy.environment({"torch": version, "cuda": "12"}, OPS)) is there
    assert "CUBLAS_WORKSPACE_CONFIG" not in policy.environment({"torch": version}, OPS)


def test_xla_flags_only_for_known_versions() -> None:
    """An unknown flag would end the process, so versions beyond those known get none."""
    for version in ("0.10.2", "0.11.2", "0.12.0.1"):
        known = policy.environment({"jax": version, "cuda": "13"}, OPS)
        assert known["XLA_FLAGS"] == "--xla_gpu_deterministic_ops=true"
    assert "XLA_FLAGS" not in policy.environment({"jax": "0.13.0", "cuda": "13"}, OPS)
    assert "XLA_FLAGS" not in policy.environment({"jax": "0.10.2"}, OPS)


def test_frameworks_are_found_under_their_variants() -> None:
    """tensorflow-cpu is TensorFlow, NVIDIA's runtime shows CUDA, and the plain name wins."""
    packages = [_package("tensorflow-cpu", "2.20.0"), _package("tensorflow", "2.21.0"), _package("six", "1.0")]
    packages += [_package("nvidia-cuda-runtime-cu12", "12.8.90")]
    assert policy.frameworks_of(packages) == {"cuda": "12.8.90", "tensorflow": "2.21.0"}
    assert policy.frameworks_of(packages[:1]) == {"tensorflow": "2.20.0"}


@pytest.mark.parametrize(
    ("name", "value", "sentence"),
    [
        ("PYTHONHASHSEED", "random", '"random" gives every process another order of sets; write a number'),
        (
            "TF_DETERMINISTIC_OPS",
            "yes",
            '"yes" is neither 0, 1, true nor false; TensorFlow ends the process on anything else (measured)',
        ),
        ("TF_DISABLE_SCATTER_OP_DETERMINISM", "1", '"1" makes scatter operations nondeterministic'),
        (
            "TF_USE_CUDNN_AUTOTUNE",
            "0",
            '"0" is read by no TensorFlow (measured); the name is TF_CUDNN_USE_AUTOTUNE',
        ),
        (
            "XLA_FLAGS",
            "--xla_cpu_max_isa=AVX2 xla_foo=1",
            '"--xla_cpu_max_isa=AVX2 xla_foo=1" has a word that is no flag of XLA\'s: an unknown flag ends the process '
            "(measured)",
        ),
        (
            "GLIBC_TUNABLES",
            "glibc.cpu.hwcaps=-AVX2_Usable",
            '"glibc.cpu.hwcaps=-AVX2_Usable" uses names that the C library dropped with 2.33 and ignores silently; '
            "write AVX2, FMA",
        ),
        (
            "NPY_ENABLE_CPU_FEATURES",
            "AVX2",
            '"AVX2" stops NumPy\'s import on a CPU without these features; lock the CPU with hardware.cpu',
        ),
        ("PYTHONHASHSEED", "abc", '"abc" is no number: the interpreter does not start'),
        ("MKL_CBWR", "AUTO", '"AUTO" has MKL choose by the CPU; write COMPATIBLE'),
        (
            "CUBLAS_WORKSPACE_CONFIG",
            ":0:0",
            '":0:0" is none of the two sizes, :4096:8 and :16:8, that cuBLAS is deterministic with',
        ),
    ],
)
def test_harmful_values_are_refused_in_words(name: str, value: str, sentence: str) -> None:
    """Each harmful value becomes a problem at its field path."""
    (problem,) = policy.forbidden({name: value, "HOME": "/"})
    assert (problem.path, problem.message) == (f"environment.{name}", sentence)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("PYTHONHASHSEED", "42"),
        ("TF_DETERMINISTIC_OPS", "true"),
        ("TF_DISABLE_SCATTER_OP_DETERMINISM", "0"),
        ("NVIDIA_TF32_OVERRIDE", "0"),
        ("XLA_FLAGS", "--xla_gpu_deterministic_ops=true"),
        ("XLA_FLAGS", "--xla_gpu_deterministic_ops=true --xla_dump_to=/tmp/x"),
        ("MKL_CBWR", "COMPATIBLE"),
        ("GLIBC_TUNABLES", "glibc.cpu.hwcaps=-FMA"),
    ],
)
def test_harmless_values_pass(name: str, value: str) -> None:
    """A value that does no harm is no problem."""
    assert policy.forbidden({name: value}) == []


def test_what_is_exported_is_never_forbidden() -> None:
    """The two halves of the table agree."""
    for row in policy.explain():
        value = row.value.format(seed=0, threads=1)
        assert policy.forbidden({row.name: value}) == [], row.name


def test_every_row_is_sound() -> None:
    """Each row has a cause, a source, a way to read it back, a known level, framework and version range."""
    table = policy.table()
    known = set(table.frameworks.values())
    for row in table.variable:
        assert re.fullmatch(r"[A-Z][A-Za-z0-9_]*", row.name)
        assert 0 <= row.cause <= 19
        assert row.why
        assert row.source
        assert row.read_back
        assert row.level in policy.LEVELS
        assert {row.framework, *row.requires} <= {"", *known}, row.name
        assert row.framework or not row.versions
        assert set(row.cpu) <= {"any", "x86-64", "x86-64-v2", "x86-64-v3", "x86-64-v4"}
        SpecifierSet(row.versions)
    for rule in table.forbidden:
        re.compile(rule.value)


def test_every_switch_is_sound() -> None:
    """Each switch has a cause, a source, a range that the hook can read, and either a value or a variable."""
    variables = {row.name for row in policy.table().variable}
    for row in policy.table().switch:
        assert 1 <= row.cause <= 19
        assert row.why
        assert row.cost
        assert row.source
        assert row.read_back
        assert row.level in policy.LEVELS
        assert (row.value == "") == bool(row.variable), row.name
        assert not row.variable or row.variable in variables, row.name
        assert row.framework in {"python", "sqlite3", "libc", *policy.table().frameworks.values()}
        ranges.parse(row.versions)
    names = [row.name for row in policy.table().switch]
    assert len(names) == len(set(names))


def test_every_operation_is_sound() -> None:
    """What raises has its names in the error, what differs in silence has names to look for in a script."""
    for row in operations.table():
        assert row.errors if row.refused else row.calls, row.name
        assert row.why
        assert row.ways
        assert row.source
        assert row.device in {"gpu", "cpu", "any"}
        SpecifierSet(row.versions)


@pytest.mark.parametrize("kind", ["switches", "operations"])
def test_the_hooks_tables_are_those_of_the_data(kind: str) -> None:
    """The modules that ship in images are generated; after a change of the data they are generated again."""
    path = Path(policy.__file__).parents[1] / f"runtime/hook/table_{kind}.py"
    assert path.read_text() == getattr(runtime_tables, kind)(), f"run: python -m {runtime_tables.__name__} {kind}"


PORTABLE = Determinism(level="portable", seed=42, threads=2)
INSTRUCTIONS = {
    *("ATEN_CPU_CAPABILITY", "GLIBC_TUNABLES", "MKL_CBWR", "NPY_DISABLE_CPU_FEATURES", "ONEDNN_MAX_CPU_ISA"),
    *("OPENBLAS_CORETYPE", "XLA_FLAGS"),
}


@pytest.mark.parametrize(
    ("cpu", "expected"),
    [
        (
            "any",
            {
                "ATEN_CPU_CAPABILITY": "default",
                "GLIBC_TUNABLES": "glibc.cpu.hwcaps=-AVX2,-FMA,-FMA4",
                "MKL_CBWR": "COMPATIBLE",
                "NPY_DISABLE_CPU_FEATURES": "X86_V3 X86_V4 AVX512_ICL AVX512_SPR",
                "ONEDNN_MAX_CPU_ISA": "SSE41",
                "OPENBLAS_CORETYPE": "Nehalem",
                "XLA_FLAGS": "--xla_cpu_max_isa=AVX --xla_cpu_experimental_ynn_fusion_type=",
            },
        ),
        (
            "x86-64-v3",
            {
                "ATEN_CPU_CAPABILITY": "avx2",
                "MKL_CBWR": "COMPATIBLE",
                "NPY_DISABLE_CPU_FEATURES": "X86_V4 AVX512_ICL AVX512_SPR",
                "ONEDNN_MAX_CPU_ISA": "AVX",
                "OPENBLAS_CORETYPE": "Haswell",
                "XLA_FLAGS": "--xla_cpu_max_isa=AVX2 --xla_cpu_experimental_ynn_fusion_type=",
            },
        ),
        (
            "x86-64-v4",
            {
                "ATEN_CPU_CAPABILITY": "avx512",
                "MKL_CBWR": "COMPATIBLE",
                "NPY_DISABLE_CPU_FEATURES": "AVX512_ICL AVX512_SPR",
                "ONEDNN_MAX_CPU_ISA": "AVX512_CORE",
                "OPENBLAS_CORETYPE": "SkylakeX",
                "XLA_FLAGS": "--xla_cpu_max_isa=AVX512 --xla_cpu_experimental_ynn_fusion_type=",
            },
        ),
    ],
)
def test_portable_pins_the_instructions_of_the_locked_cpu(cpu: str, expected: dict[str, str]) -> None:
    """What a better CPU could do is switched off in each library, on amd64 and at this level only."""
    frameworks = {"numpy": "2.4.6", "torch": "2.13.0", "jax": "0.10.2", "tensorflow": "2.21.0"}
    found = policy.environment(frameworks, PORTABLE, "amd64", cpu)
    assert {name: value for name, value in found.items() if name in INSTRUCTIONS} == expected
    assert not INSTRUCTIONS & set(policy.environment(frameworks, PORTABLE, "arm64", cpu))
    assert not INSTRUCTIONS & set(policy.environment(frameworks, OPS, "amd64", cpu))
    assert set(expected) <= set(HARD), "the guard refuses another value"


def test_flags_of_xla_add_up() -> None:
    """Rows for one variable that are to be joined are next to each other; only flags that the version knows."""
    both = {"jax": "0.10.2", "cuda": "13"}
    assert policy.environment(both, PORTABLE, "amd64", "x86-64-v3")["XLA_FLAGS"] == (
        "--xla_gpu_deterministic_ops=true --xla_cpu_max_isa=AVX2 --xla_cpu_experimental_ynn_fusion_type="
    )
    known = {
        "0.4.30": None,
        "0.4.38": "--xla_cpu_max_isa=AVX2",
        "0.7.2": "--xla_cpu_max_isa=AVX2 --xla_cpu_use_xnnpack=false",
        "0.12.0.1": "--xla_cpu_max_isa=AVX2 --xla_cpu_experimental_ynn_fusion_type=",
        "0.13.0": None,
    }
    for version, flags in known.items():
        assert policy.environment({"jax": version}, PORTABLE, "amd64", "x86-64-v3").get("XLA_FLAGS") == flags


@pytest.mark.parametrize(
    ("version", "last"),
    [("1.26.4", "AVX512_ICL"), ("2.2.6", "AVX512_ICL"), ("2.3.5", "AVX512_SPR"), ("2.4.6", "AVX512_SPR")],
)
def test_numpy_gets_names_that_its_version_knows(version: str, last: str) -> None:
    """Names that a build does not dispatch on draw a warning; groups came with 2.4."""
    value = policy.environment({"numpy": version}, PORTABLE)["NPY_DISABLE_CPU_FEATURES"].split()
    assert value[-1] == last
    assert ("X86_V3" in value) == version.startswith("2.4")


def test_the_document_is_the_one_of_the_table() -> None:
    """docs/reference/determinism.md is generated; after a change of the table it is generated again."""
    path = Path(__file__).parents[3] / "docs/reference/determinism.md"
    assert path.read_text() == document(), "run: python -m tools.determinism_reference > docs/reference/determinism.md"


@pytest.mark.parametrize(
    ("version", "driver", "required"),
    [
        ("11.8", "450.80.02", "cuda>=11.0,driver>=450.80.02"),
        ("12.9", "525.60.13", "cuda>=12.0,driver>=525.60.13"),
        ("13.0", "580.65.06", "cuda>=13.0,driver>=580.65.06"),
    ],
)
def test_the_toolkit_gets_what_the_guard_requires(version: str, driver: str, required: str) -> None:
    """As strict as the guard and no stricter: minor versions are compatible, so the major one's first is asked for."""
    assert policy.gpu_environment(Cuda(version=version, driver=driver)) == {
        "NVIDIA_DRIVER_CAPABILITIES": "compute,utility",
        "NVIDIA_REQUIRE_CUDA": required,
    }
    assert re.fullmatch(r"[a-z]+>=[0-9.]+(,[a-z]+>=[0-9.]+)*", required), "one alternative: a space would mean OR"


def test_without_cuda_nothing_of_nvidias_is_set() -> None:
    """A CPU lock's environment does not change."""
    assert policy.gpu_environment(None) == {}


def test_a_persons_own_flags_join_the_locked_ones() -> None:
    """Asking XLA for two devices keeps determinism's flags; a flag named again, and any other variable, is replaced."""
    locked = {"XLA_FLAGS": "--xla_gpu_deterministic_ops=true --xla_cpu_max_isa=AVX", "TZ": "UTC"}
    own = {"XLA_FLAGS": "--xla_force_host_platform_device_count=2 --xla_cpu_max_isa=AVX2", "TZ": "CET"}
    assert policy.with_own(locked, own) == {
        "TZ": "CET",
        "XLA_FLAGS": "--xla_gpu_deterministic_ops=true --xla_force_host_platform_device_count=2 --xla_cpu_max_isa=AVX2",
    }
    assert policy.with_own({}, own) == own
