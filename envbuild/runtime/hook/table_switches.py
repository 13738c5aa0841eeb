"""The switches to set, by framework. Generated from envbuild/data/determinism.toml:

python -m tools.runtime_tables switches > envbuild/runtime/hook/table_switches.py
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    Row = tuple[str, str, str, bool | str, str]

# fmt: off
SWITCHES: dict[str, tuple[Row, ...]] = {
    "python": (
        ("random.seed", "", "seeds", "{seed}", ""),
    ),
    "numpy": (
        ("numpy.random.seed", "", "seeds", "{seed}", ""),
        ("numpy.random.bit_generator.randbits", ">=1.17", "seeds", "{seed}", ""),
        ("openblas_get_num_threads", "", "seeds", "", "OPENBLAS_NUM_THREADS"),
        ("openblas_get_corename", "", "portable", "", "OPENBLAS_CORETYPE"),
        ("numpy.__cpu_features__", ">=1.20", "portable", "", "NPY_DISABLE_CPU_FEATURES"),
    ),
    "sqlite3": (
        ("sqlite3_test_control", "", "seeds", "{seed}", ""),
    ),
    "numba": (
        ("numba._helperlib.rnd_seed", "", "seeds", "{seed}", ""),
    ),
    "polars": (
        ("polars.set_random_seed", "", "seeds", "{seed}", ""),
    ),
    "lightgbm": (
        ("lightgbm.force_col_wise", "", "ops", True, ""),
    ),
    "libc": (
        ("cpu_features.active", "", "portable", "", "GLIBC_TUNABLES"),
    ),
    "tensorflow": (
        ("tf.random.set_seed", "", "seeds", "{seed}", ""),
        ("tf.config.threading.set_intra_op_parallelism_threads", "", "seeds", "{threads}", ""),
        ("tf.config.threading.set_inter_op_parallelism_threads", "", "seeds", "{threads}", ""),
        ("tf.config.experimental.enable_op_determinism", ">=2.8", "ops", True, ""),
        ("tf.config.experimental.enable_tensor_float_32_execution", ">=2.4", "ops", False, ""),
    ),
    "keras": (
        ("keras.utils.set_random_seed", ">=3", "seeds", "{seed}", ""),
    ),
    "torch": (
        ("torch.manual_seed", "", "seeds", "{seed}", ""),
        ("torch.set_num_threads", "", "seeds", "{threads}", ""),
        ("torch.set_num_interop_threads", "", "seeds", "{threads}", ""),
        ("mkl_get_max_threads", "", "seeds", "", "MKL_NUM_THREADS"),
        ("torch.use_deterministic_algorithms", "", "ops", True, ""),
        ("torch.utils.deterministic.fill_uninitialized_memory", ">=2.2", "ops", "{diagnosing}", ""),
        ("torch.backends.cudnn.benchmark", "", "ops", False, ""),
        ("torch.backends.cudnn.deterministic", "", "ops", True, ""),
        ("torch.backends.cudnn.allow_tf32", "", "ops", False, ""),
        ("torch.backends.cuda.matmul.allow_tf32", "", "ops", False, ""),
        ("torch.backends.cudnn.conv.fp32_precision", ">=2.9", "ops", "ieee", ""),
        ("torch.backends.cudnn.rnn.fp32_precision", ">=2.9", "ops", "ieee", ""),
        ("torch.set_float32_matmul_precision", "", "ops", "highest", ""),
        ("torch.backends.cuda.matmul.allow_fp16_reduced_precision_reduction", "", "ops", False, ""),
        ("torch.backends.cuda.matmul.allow_bf16_reduced_precision_reduction", "", "ops", False, ""),
        ("torch.backends.cpu.get_cpu_capability", "", "portable", "", "ATEN_CPU_CAPABILITY"),
    ),
    "jax": (
        ("jax_threefry_partitionable", "", "seeds", "", "JAX_THREEFRY_PARTITIONABLE"),
        ("jax_default_matmul_precision", "", "ops", "", "JAX_DEFAULT_MATMUL_PRECISION"),
        ("jax_cpu_collectives_implementation", ">=0.5.1", "ops", "", "JAX_CPU_COLLECTIVES_IMPLEMENTATION"),
        ("XLA_FLAGS", "", "", "", "XLA_FLAGS"),
    ),
}
"""Name, versions, level, value and variable of each, in the order to set them."""
