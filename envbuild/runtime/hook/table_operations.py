"""The operations that a framework may refuse. Generated from envbuild/data/nondeterministic.toml:

python -m tools.runtime_tables operations > envbuild/runtime/hook/table_operations.py
"""

from __future__ import annotations

# fmt: off
OPERATIONS: tuple[tuple[str, tuple[str, ...], str, str, tuple[str, ...]], ...] = (
    (
        "tensorflow",
        (
            "Random ops require a seed",
            "random ops must have a seed",
        ),
        "a random operation without a seed",
        "its seed was taken away after envbuild had set one",
        (
            "leave the global seed as it is, or give one: tf.random.set_seed(42)",
            "use tf.random.stateless_uniform and its relatives with a seed of your own",
        ),
    ),
    (
        "tensorflow",
        (
            "from_non_deterministic_state",
        ),
        "tf.random.Generator.from_non_deterministic_state",
        "takes its state from the system's entropy",
        (
            "tf.random.Generator.from_seed(42)",
        ),
    ),
    (
        "tensorflow",
        (
            "Timestamp",
        ),
        "tf.timestamp",
        "is the time of day, most often to seed something",
        (
            "seed with a number",
            "to measure time: time.perf_counter() outside the graph",
        ),
    ),
    (
        "tensorflow",
        (
            "AdjustContrastv2",
            "AdjustContrast",
        ),
        "tf.image.adjust_contrast",
        "its kernel for GPUs adds with atomics",
        (
            "run it on the CPU: with tf.device('CPU'), or inside tf.data's map",
            "write it out: (x - tf.reduce_mean(x, (-3, -2), keepdims=True)) * factor + mean",
        ),
    ),
    (
        "tensorflow",
        (
            "SparseTensorDenseMatMul",
            "SparseTensorDenseMatmulOp",
        ),
        "tf.sparse.sparse_dense_matmul",
        "its kernel for GPUs adds with atomics",
        (
            "run it on the CPU: with tf.device('CPU')",
            "multiply densely: tf.sparse.to_dense(a) @ b",
        ),
    ),
    (
        "tensorflow",
        (
            "CropAndResizeGradImage",
            "CropAndResizeGradBoxes",
            "CropAndResizeBackpropImage",
            "CropAndResizeBackpropBoxes",
        ),
        "the gradient of tf.image.crop_and_resize",
        "its kernels for GPUs add with atomics",
        (
            "crop before training, inside tf.data's map, so that no gradient is taken",
            "run it on the CPU: with tf.device('CPU')",
        ),
    ),
    (
        "tensorflow",
        (
            "ResizeNearestNeighborGrad",
            "ResizeBilinearGrad",
            "ResizeBicubicGrad",
        ),
        "the gradient of tf.image.resize",
        (
            "these kernels for GPUs add with atomics; nearest neighbour and bilinear have deterministic ones "
            "in newer versions"
        ),
        (
            "resize by repeating: tf.repeat(tf.repeat(x, 2, 1), 2, 2)",
            "a transposed convolution instead",
            "run it on the CPU: with tf.device('CPU')",
        ),
    ),
    (
        "tensorflow",
        (
            "FusedBatchNormGrad",
            "FusedBatchNormGradV2",
            "FusedBatchNormGradV3",
        ),
        "the gradient of fused batch normalisation in inference mode",
        "frozen batch normalisation whose offset and scale still get gradients adds with atomics",
        (
            "freeze it whole: layer.trainable = False",
            "not fused: BatchNormalization(fused=False), Keras 2",
        ),
    ),
    (
        "tensorflow",
        (
            "Bincount",
            "DenseBincount",
            "RaggedBincount",
            "SparseBincount",
        ),
        "tf.math.bincount with weights",
        "its kernel for GPUs adds with atomics",
        (
            "run it on the CPU: with tf.device('CPU')",
            "tf.reduce_sum(tf.one_hot(x, n), 0)",
        ),
    ),
    (
        "tensorflow",
        (
            "MaxPoolGradWithArgmax",
        ),
        "the gradient of tf.nn.max_pool_with_argmax",
        "its kernel for GPUs adds with atomics",
        (
            "tf.nn.max_pool2d, where the positions are not needed",
            "run it on the CPU: with tf.device('CPU')",
        ),
    ),
    (
        "tensorflow",
        (
            "DepthwiseConv2dNativeBackpropFilter",
            "DepthwiseConvBackpropFilter",
        ),
        "the gradient of tf.nn.depthwise_conv2d",
        "only cuDNN's kernels for the filter's gradient are deterministic, and they take fewer shapes",
        (
            "an ordinary convolution with groups",
            "strides that are equal in both directions, which cuDNN takes",
        ),
    ),
    (
        "tensorflow",
        (
            "FakeQuantWithMinMaxVarsGradient",
            "FakeQuantWithMinMaxVarsPerChannelGradient",
        ),
        "the gradient of tf.quantization.fake_quant_with_min_max_vars",
        "its kernel for GPUs adds with atomics",
        (
            "run it on the CPU: with tf.device('CPU')",
        ),
    ),
    (
        "torch",
        (
            "put_",
        ),
        "torch.Tensor.put_",
        "where an index comes twice, which value stays is a race",
        (
            "put_(…, accumulate=True)",
            "make the indices unique, then x.view(-1)[index] = values",
        ),
    ),
    (
        "torch",
        (
            "quantized_resize_cpu_",
            "quantized_resize_",
        ),
        "torch.Tensor.resize_ of a quantised tensor",
        "leaves memory that nothing wrote",
        (
            "make a new tensor of the new shape",
        ),
    ),
    (
        "torch",
        (
            "adaptive_avg_pool2d_backward_cuda",
            "_adaptive_avg_pool3d_backward_cuda",
            "adaptive_avg_pool3d_backward_cuda",
            "adaptive_max_pool2d_backward_cuda",
            "fractional_max_pool2d_backward_cuda",
            "fractional_max_pool3d_backward_cuda",
            "avg_pool3d_backward_cuda",
            "max_pool3d_with_indices_backward_cuda",
        ),
        "the gradient of adaptive or fractional pooling",
        "its kernel for GPUs adds with atomics",
        (
            "to one value: x.mean((2, 3))",
            "sizes that divide: avg_pool2d with kernel and stride of input / output",
        ),
    ),
    (
        "torch",
        (
            "upsample_linear1d_backward_out_cuda",
            "upsample_bilinear2d_backward_out_cuda",
            "upsample_bicubic2d_backward_out_cuda",
            "upsample_trilinear3d_backward_out_cuda",
            "upsample_nearest2d_backward_cuda",
        ),
        "the gradient of interpolation",
        "its kernel for GPUs adds with atomics",
        (
            "mode='nearest'",
            "bilinear has a deterministic form from PyTorch 2.1 on, under torch.use_deterministic_algorithms",
            "a transposed convolution with fixed weights",
        ),
    ),
    (
        "torch",
        (
            "reflection_pad1d_backward_out_cuda",
            "reflection_pad2d_backward_cuda",
            "reflection_pad3d_backward_out_cuda",
            "replication_pad1d_backward_cuda",
            "replication_pad2d_backward_cuda",
            "replication_pad3d_backward_cuda",
        ),
        "the gradient of padding by reflection or replication",
        "its kernel for GPUs adds with atomics",
        (
            "pad with zeros",
            "pad by slices: torch.cat([x[..., 1:2], x, x[..., -2:-1]], -1)",
        ),
    ),
    (
        "torch",
        (
            "grid_sampler_2d_backward_cuda",
            "grid_sampler_3d_backward_cuda",
        ),
        "the gradient of grid_sample",
        "its kernel for GPUs adds with atomics",
        (
            "sample before training, so that no gradient is taken",
            "run it on the CPU: x.cpu()",
        ),
    ),
    (
        "torch",
        (
            "ctc_loss_backward_gpu",
        ),
        "torch.nn.CTCLoss",
        "its kernel for GPUs adds with atomics",
        (
            "cuDNN's is deterministic: int32 targets on the CPU, blank=0, float32, full input lengths",
            "compute the loss on the CPU",
        ),
    ),
    (
        "torch",
        (
            "embedding_bag_backward_cuda_max",
            "_embedding_bag_dense_backward_cuda_max",
        ),
        "torch.nn.EmbeddingBag with mode='max'",
        "its kernel for GPUs adds with atomics",
        (
            "mode='sum' or 'mean'",
            "torch.nn.Embedding(…)(x).amax(1)",
        ),
    ),
    (
        "torch",
        (
            "nll_loss2d_forward_out_cuda_template",
            "nll_loss2d_backward_out_cuda_template",
        ),
        "torch.nn.NLLLoss over pictures",
        "its kernel for GPUs adds with atomics",
        (
            "flatten first: logits.permute(0, 2, 3, 1).reshape(-1, classes), target.reshape(-1)",
        ),
    ),
    (
        "torch",
        (
            "cumsum_cuda_kernel",
        ),
        "torch.cumsum of floating-point numbers",
        "its kernel for GPUs finishes in any order",
        (
            "run it on the CPU: x.cpu().cumsum(0).to(x.device)",
            "by a product with a triangle of ones, for short rows",
        ),
    ),
    (
        "torch",
        (
            "_histc_cuda",
            "_histc_cuda with floating point input",
            "_bincount_cuda",
            "kthvalue CUDA",
            "median CUDA with indices output",
        ),
        "a histogram or a median with indices",
        "its kernel for GPUs adds with atomics, or breaks ties in any order",
        (
            "run it on the CPU: x.cpu()",
            "sort, then index: x.sort().values[k]",
        ),
    ),
    (
        "torch",
        (
            "scatter_reduce_cuda",
            "scatter_reduce_cuda_prod_",
            "index_reduce_cuda",
            "scatter_add_cuda_kernel",
            "index_add_cuda_",
            "put_cuda",
            "max_unpooling2d_forward_out",
            "max_unpooling3d_forward_out",
        ),
        "an assignment or reduction by index",
        "its kernel for GPUs adds with atomics",
        (
            "one-dimensional scatter_add and index_add have deterministic forms: flatten first",
            "sort by index, then sum the runs",
        ),
    ),
    (
        "torch",
        (
            "CuBLAS",
        ),
        "a product by cuBLAS without a workspace",
        "these versions want CUBLAS_WORKSPACE_CONFIG before CUDA is started",
        (
            (
                "lock it: env: {CUBLAS_WORKSPACE_CONFIG: ':4096:8'} in spec.yaml, then: envbuild lock spec.yaml &"
                "& envbuild build"
            ),
        ),
    ),
    (
        "torch",
        (
            "_efficient_attention_backward",
            "_scaled_dot_product_efficient_attention_backward",
            "Memory Efficient attention",
        ),
        "the memory-efficient attention's backward",
        "its kernel adds with atomics",
        (
            "with torch.nn.attention.sdpa_kernel(SDPBackend.FLASH_ATTENTION)",
            "with torch.nn.attention.sdpa_kernel(SDPBackend.MATH)",
        ),
    ),
    (
        "jax",
        (
            "does not have a deterministic implementation",
            "run-to-run determinism",
        ),
        "an operation of XLA that is not deterministic on GPUs",
        "its kernel for GPUs adds with atomics",
        (
            "unique indices: x.at[i].add(v, unique_indices=True)",
            "sort by index, then jax.ops.segment_sum(…, indices_are_sorted=True)",
            "a product with a one-hot matrix",
        ),
    ),
)
"""Framework, names in its error, name for people, why, and ways out of each."""
