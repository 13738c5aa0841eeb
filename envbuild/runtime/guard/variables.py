"""Variables that change results although no lock set them, each with what it does.

``HARD`` ones are known to change bits or to disarm a deterministic kernel: the guard refuses them unless the lock
exports them. ``SOFT`` ones change what surrounds the computation: the guard warns. Everything else is the user's own
business: ``CUDA_VISIBLE_DEVICES`` is judged by what it leaves visible (``gpu.visible``); the size of the driver's cache
of compiled kernels, or that there is none, only costs time. Sources: the frameworks' own code and measurements
(docs/reference/guard.md), https://docs.nvidia.com/cuda/cuda-programming-guide/05-appendices/environment-variables.html,
https://docs.nvidia.com/cuda/cublas/ (environment variables), https://docs.nvidia.com/deploy/mps/.
"""

from __future__ import annotations

_KERNELS = "chooses other CPU kernels: other bits"
_THREADS = "changes how work is split: other bits"
_CODE = "puts other code under every library"
_PTX = "has the driver compile the kernels instead of taking those that were shipped: other bits"
_EMULATION = "computes matrix products by emulation: other bits"
_CUBLAS = "changes cuBLAS's choice of algorithm"
_SUMS = "changes the order of sums between GPUs"
_RANKS = "changes the order of sums between ranks"
_RING = "sets the way between GPUs, and so the order of sums"

HARD = {
    "ATEN_CPU_CAPABILITY": _KERNELS,
    "CUBLASLT_WORKSPACE_SIZE": _CUBLAS,
    "CUBLAS_EMULATE_DOUBLE_PRECISION": _EMULATION,
    "CUBLAS_EMULATE_SINGLE_PRECISION": _EMULATION,
    "CUBLAS_EMULATION_STRATEGY": _EMULATION,
    "CUBLAS_WORKSPACE_CONFIG": _CUBLAS,
    "CUDA_FORCE_JIT": _PTX,
    "CUDA_FORCE_PTX_JIT": _PTX,
    "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE": "takes SMs from the program: cuBLAS's guarantee of equal bits is void",
    "DISABLE_ADDMM_CUDA_LT": _CUBLAS,
    "DNNL_MAX_CPU_ISA": _KERNELS,
    "FLASH_ATTENTION_DETERMINISTIC": "changes attention's backward",
    "GLIBC_TUNABLES": "chooses other functions of the C and maths library: other bits",
    "GOTO_NUM_THREADS": _THREADS,
    "HOROVOD_FUSION_THRESHOLD": _SUMS,
    "JAX_CPU_COLLECTIVES_IMPLEMENTATION": _RANKS,
    "JAX_DEFAULT_MATMUL_PRECISION": "changes the precision of products",
    "JAX_DEFAULT_PRNG_IMPL": "changes the numbers drawn",
    "JAX_ENABLE_X64": "changes the precision of all values",
    "JAX_THREEFRY_PARTITIONABLE": "changes the numbers drawn",
    "KERAS_BACKEND": "runs Keras on another framework",
    "LD_AUDIT": _CODE,
    "LD_PRELOAD": _CODE,
    "LOKY_MAX_CPU_COUNT": _THREADS,
    "MKL_CBWR": _KERNELS,
    "MKL_DYNAMIC": _THREADS,
    "MKL_ENABLE_INSTRUCTIONS": _KERNELS,
    "MKL_NUM_THREADS": _THREADS,
    "NCCL_ALGO": _SUMS,
    "NCCL_BUFFSIZE": _SUMS,
    "NCCL_COLLNET_ENABLE": _SUMS,
    "NCCL_CONF_FILE": "sets variables of NCCL unseen",
    "NCCL_CTA_POLICY": _SUMS,
    "NCCL_GRAPH_FILE": _RING,
    "NCCL_MAX_CTAS": _SUMS,
    "NCCL_MAX_NCHANNELS": _SUMS,
    "NCCL_MIN_CTAS": _SUMS,
    "NCCL_MIN_NCHANNELS": _SUMS,
    "NCCL_NTHREADS": _SUMS,
    "NCCL_NVLS_ENABLE": _SUMS,
    "NCCL_P2P_NET_CHUNKSIZE": _SUMS,
    "NCCL_PAT_ENABLE": _SUMS,
    "NCCL_PROTO": _SUMS,
    "NCCL_SYM_KERNEL": _SUMS,
    "NCCL_TOPO_FILE": _RING,
    "NCCL_TUNER_CONFIG_FILE": _SUMS,
    "NCCL_TUNER_PLUGIN": _SUMS,
    "NCCL_WIN_ENABLE": _SUMS,
    "NPROC": _THREADS,
    "NPY_DISABLE_CPU_FEATURES": _KERNELS,
    "NPY_ENABLE_CPU_FEATURES": _KERNELS,
    "NUMBA_NUM_THREADS": _THREADS,
    "NUMEXPR_NUM_THREADS": _THREADS,
    "NVIDIA_TF32_OVERRIDE": "turns TF32 on or off everywhere",
    "NVTE_ALLOW_NONDETERMINISTIC_ALGO": "changes Transformer Engine's choice of algorithm",
    "OMPI_MCA_coll": _RANKS,
    "OMP_DYNAMIC": _THREADS,
    "OMP_NUM_THREADS": _THREADS,
    "OMP_SCHEDULE": _THREADS,
    "ONEDNN_MAX_CPU_ISA": _KERNELS,
    "OPENBLAS_CORETYPE": _KERNELS,
    "OPENBLAS_NUM_THREADS": _THREADS,
    "PJRT_NPROC": _THREADS,
    "POLARS_MAX_THREADS": _THREADS,
    "PYTHONHASHSEED": "changes the order of sets",
    "PYTHONHOME": _CODE,
    "TF_CUDNN_DETERMINISTIC": "changes TensorFlow's choice of algorithm",
    "TF_CUDNN_USE_AUTOTUNE": "changes TensorFlow's choice of algorithm",
    "TF_CUDNN_USE_FRONTEND": "changes TensorFlow's choice of algorithm",
    "TF_DETERMINISTIC_OPS": "changes TensorFlow's choice of algorithm",
    "TF_DISABLE_SCATTER_OP_DETERMINISM": "disarms a deterministic kernel of TensorFlow",
    "TF_DISABLE_SEGMENT_REDUCTION_OP_DETERMINISM_EXCEPTIONS": "disarms TensorFlow's refusal of a random kernel",
    "TF_ENABLE_ONEDNN_OPTS": _KERNELS,
    "TF_NUM_INTEROP_THREADS": _THREADS,
    "TF_NUM_INTRAOP_THREADS": _THREADS,
    "TF_XLA_FLAGS": "changes what TensorFlow compiles",
    "TORCH_BLAS_PREFER_CUBLASLT": _CUBLAS,
    "TORCHINDUCTOR_DETERMINISTIC": "changes what PyTorch compiles",
    "TORCH_ALLOW_TF32_CUBLAS_OVERRIDE": "turns TF32 on or off everywhere",
    "VECLIB_MAXIMUM_THREADS": _THREADS,
    "XLA_FLAGS": "changes what XLA compiles",
}

SOFT = {
    "CUDA_CACHE_PATH": "kernels that the driver compiled in another run may be taken",
    "CUDA_DEVICE_MAX_CONNECTIONS": "kernels of several streams may run in another order",
    "CUDA_DEVICE_ORDER": "may number the GPUs otherwise",
    "CUDA_DISABLE_JIT": "kernels that were not shipped for this GPU fail",
    "CUDA_DISABLE_PTX_JIT": "kernels that were not shipped for this GPU fail",
    "CUDA_LAUNCH_BLOCKING": "one kernel at a time: slower, and what a race would change stays hidden",
    "CUDA_MPS_PIPE_DIRECTORY": "shares the GPU with other programs through MPS",
    "LD_LIBRARY_PATH": "may load other libraries than the locked ones",
    "PYTHONOPTIMIZE": "removes assertions",
    "PYTHONPATH": "may import other modules than the locked ones",
}

KEPT = frozenset(("KERAS_BACKEND", "LD_PRELOAD", "LD_AUDIT", "PYTHONHOME"))
"""Locked variables of ``HARD`` that stay when the controls are off: they choose code, not determinism."""
