"""PyTorch's operations on this GPU under the hook: each one repeats, or is refused under a name that the table has.

The table is ``envbuild/data/nondeterministic.toml``: of what is refused, users see operation, reason and ways out.
"""

from __future__ import annotations

import importlib.util
import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Figure = Callable[[str, Any], None]
DEVICE = os.environ.get("ENVBUILD_GPU_DEVICE", "cuda")
"""``cpu`` runs the programs on the CPU, to see that the programs themselves work."""
TABLE = Path(__file__).parents[2] / "envbuild" / "data" / "nondeterministic.toml"
VARIABLES = {"PYTHONHASHSEED": "42", "OMP_NUM_THREADS": "1", "CUBLAS_WORKSPACE_CONFIG": ":4096:8"}
OPERATIONS = """
import hashlib, json, sys, warnings
import torch
from torch import nn
from torch.nn import functional as F
device = sys.argv[1]
warned = []
warnings.showwarning = lambda message, *_: warned.append(str(message))
def digest(tensors):
    data = b"".join(t.detach().double().cpu().numpy().tobytes() for t in tensors)
    return hashlib.sha256(data).hexdigest()[:16]
def r(*shape, dtype=torch.float32):
    return torch.rand(*shape, generator=torch.Generator().manual_seed(sum(shape))).to(device, dtype).requires_grad_()
def i(high, *shape):
    return torch.randint(high, shape, generator=torch.Generator().manual_seed(high)).to(device)
def back(call, *inputs):
    result = call(*inputs)
    result = result[0] if isinstance(result, tuple) else result
    result.square().sum().backward()
    return [result, *(each.grad for each in inputs)]
def layer(module, *inputs):
    module.to(device)
    return [*back(module, *inputs), *(p.grad for p in module.parameters())]
n = 1 << 18
few = lambda: i(13, n)
OPS = {
    "put": lambda: [r(n).detach().put_(few(), r(n).detach(), accumulate=False)],
    "put accumulate": lambda: [r(n).detach().put_(few(), r(n).detach(), accumulate=True)],
    "adaptive_avg_pool2d": lambda: back(lambda x: F.adaptive_avg_pool2d(x, 5), r(8, 8, 33, 33)),
    "adaptive_avg_pool3d": lambda: back(lambda x: F.adaptive_avg_pool3d(x, 3), r(4, 4, 17, 17, 17)),
    "adaptive_max_pool2d": lambda: back(lambda x: F.adaptive_max_pool2d(x, 5), r(8, 8, 33, 33)),
    "fractional_max_pool2d": lambda: back(lambda x: F.fractional_max_pool2d(x, 3, output_size=7), r(8, 8, 33, 33)),
    "fractional_max_pool3d": lambda: back(lambda x: F.fractional_max_pool3d(x, 3, output_size=5), r(2, 4, 17, 17, 17)),
    "avg_pool2d": lambda: back(lambda x: F.avg_pool2d(x, 3, stride=2), r(8, 8, 33, 33)),
    "avg_pool3d": lambda: back(lambda x: F.avg_pool3d(x, 3, stride=2), r(2, 4, 17, 17, 17)),
    "max_pool2d": lambda: back(lambda x: F.max_pool2d(x, 3, stride=2), r(8, 8, 33, 33)),
    "max_pool3d": lambda: back(lambda x: F.max_pool3d(x, 3, stride=2), r(2, 4, 17, 17, 17)),
    "lp_pool2d": lambda: back(lambda x: F.lp_pool2d(x, 2, 3), r(8, 8, 33, 33)),
    "interpolate linear": lambda: back(lambda x: F.interpolate(x, scale_factor=2, mode="linear"), r(8, 8, 330)),
    "interpolate bilinear": lambda: back(lambda x: F.interpolate(x, scale_factor=2, mode="bilinear"), r(8, 8, 33, 33)),
    "interpolate bicubic": lambda: back(lambda x: F.interpolate(x, scale_factor=2, mode="bicubic"), r(8, 8, 33, 33)),
    "interpolate trilinear": lambda: (
        back(lambda x: F.interpolate(x, scale_factor=2, mode="trilinear"), r(2, 4, 9, 9, 9))),
    "interpolate nearest": lambda: back(lambda x: F.interpolate(x, scale_factor=2), r(8, 8, 33, 33)),
    "interpolate area": lambda: back(lambda x: F.interpolate(x, size=(7, 7), mode="area"), r(8, 8, 33, 33)),
    "pad reflect 1d": lambda: back(lambda x: F.pad(x, (3, 3), "reflect"), r(8, 8, 330)),
    "pad reflect 2d": lambda: back(lambda x: F.pad(x, (3, 3, 3, 3), "reflect"), r(8, 8, 33, 33)),
    "pad reflect 3d": lambda: back(lambda x: F.pad(x, (3, 3, 3, 3, 3, 3), "reflect"), r(2, 4, 9, 9, 9)),
    "pad replicate 1d": lambda: back(lambda x: F.pad(x, (3, 3), "replicate"), r(8, 8, 330)),
    "pad replicate 2d": lambda: back(lambda x: F.pad(x, (3, 3, 3, 3), "replicate"), r(8, 8, 33, 33)),
    "pad replicate 3d": lambda: back(lambda x: F.pad(x, (3, 3, 3, 3, 3, 3), "replicate"), r(2, 4, 9, 9, 9)),
    "pad circular": lambda: back(lambda x: F.pad(x, (3, 3, 3, 3), "circular"), r(8, 8, 33, 33)),
    "grid_sample 2d": lambda: (
        back(lambda x, g: F.grid_sample(x, g, align_corners=False), r(4, 4, 33, 33), r(4, 50, 50, 2))),
    "grid_sample 3d": lambda: back(
        lambda x, g: F.grid_sample(x, g, align_corners=False), r(2, 2, 9, 9, 9), r(2, 20, 20, 20, 3)),
    "ctc_loss": lambda: back(
        lambda x: F.ctc_loss(x.log_softmax(2), i(19, 16, 30) + 1, torch.full((16,), 100), torch.full((16,), 30)),
        r(100, 16, 20)),
    "embedding": lambda: back(lambda w: F.embedding(few(), w), r(13, 16)),
    "embedding_bag sum": lambda: back(lambda w: F.embedding_bag(i(13, 512, 64), w, mode="sum"), r(13, 16)),
    "embedding_bag mean": lambda: back(lambda w: F.embedding_bag(i(13, 512, 64), w, mode="mean"), r(13, 16)),
    "embedding_bag max": lambda: back(lambda w: F.embedding_bag(i(13, 512, 64), w, mode="max"), r(13, 16)),
    "nll_loss": lambda: back(lambda x: F.cross_entropy(x, i(8, 4096)), r(4096, 8)),
    "nll_loss2d": lambda: back(lambda x: F.cross_entropy(x, i(8, 8, 33, 33)), r(8, 8, 33, 33)),
    "nll_loss2d mean weight": lambda: back(
        lambda x: F.cross_entropy(x, i(8, 8, 33, 33), weight=torch.ones(8, device=device)), r(8, 8, 33, 33)),
    "cumsum": lambda: back(lambda x: x.cumsum(0), r(n)),
    "cumsum of rows": lambda: back(lambda x: x.cumsum(1), r(64, 4096)),
    "cumprod": lambda: back(lambda x: x.cumprod(0), r(4096)),
    "logcumsumexp": lambda: back(lambda x: x.logcumsumexp(0), r(n)),
    "histc": lambda: [torch.histc(r(n).detach(), 17)],
    "bincount": lambda: [torch.bincount(few())],
    "bincount weights": lambda: [torch.bincount(few(), weights=r(n).detach())],
    "kthvalue": lambda: list(torch.kthvalue(i(50, n).float(), 777)),
    "median": lambda: [r(n).detach().median()],
    "median indices": lambda: list(i(50, 64, 4096).float().median(1)),
    "mode": lambda: list(i(50, 64, 4096).float().mode(1)),
    "sort": lambda: list(i(50, n).float().sort()),
    "topk": lambda: list(i(50, n).float().topk(777)),
    "unique": lambda: list(few().unique(return_inverse=True, return_counts=True)),
    "nonzero": lambda: [few().nonzero()],
    "multinomial": lambda: [torch.multinomial(r(4096).detach(), 1000, True)],
    "scatter": lambda: [torch.zeros(13, device=device).scatter_(0, few(), r(n).detach())],
    "scatter_add": lambda: [torch.zeros(13, device=device).scatter_add_(0, few(), r(n).detach())],
    "scatter_add 2d": lambda: [torch.zeros(13, 8, device=device).scatter_add_(0, i(13, 9999, 8), r(9999, 8).detach())],
    "scatter_reduce sum": lambda: [torch.zeros(13, device=device).scatter_reduce_(0, few(), r(n).detach(), "sum")],
    "scatter_reduce mean": lambda: [torch.zeros(13, device=device).scatter_reduce_(0, few(), r(n).detach(), "mean")],
    "scatter_reduce prod": lambda: (
        [torch.ones(13, device=device).scatter_reduce_(0, few(), 1 + r(n).detach() / n, "prod")]),
    "scatter_reduce amax": lambda: [torch.zeros(13, device=device).scatter_reduce_(0, few(), r(n).detach(), "amax")],
    "index_add": lambda: [torch.zeros(13, device=device).index_add_(0, few(), r(n).detach())],
    "index_add 2d": lambda: [torch.zeros(13, 8, device=device).index_add_(0, few(), r(n, 8).detach())],
    "index_reduce prod": lambda: [torch.ones(13, device=device).index_reduce_(0, few(), 1 + r(n).detach() / n, "prod")],
    "index_copy": lambda: [torch.zeros(13, device=device).index_copy_(0, few(), r(n).detach())],
    "index_put": lambda: [torch.zeros(13, device=device).index_put_((few(),), r(n).detach())],
    "index_put accumulate": lambda: (
        [torch.zeros(13, device=device).index_put_((few(),), r(n).detach(), accumulate=True)]),
    "index assignment": lambda: [torch.zeros(13, device=device).__setitem__(few(), r(n).detach()) or torch.zeros(1)],
    "index gradient": lambda: back(lambda x: x[few()], r(13)),
    "gather": lambda: back(lambda x: x.gather(0, few()), r(13)),
    "take": lambda: back(lambda x: x.take(few()), r(13)),
    "take_along_dim": lambda: back(lambda x: x.take_along_dim(i(13, 4096, 8), 0), r(13, 8)),
    "index_select": lambda: back(lambda x: x.index_select(0, few()), r(13)),
    "masked_select": lambda: back(lambda x: x[x > 0.5], r(n)),
    "repeat_interleave": lambda: back(lambda x: x.repeat_interleave(few()[:4096]), r(4096)),
    "expand": lambda: back(lambda x: x.expand(n, 3) * 1.1, r(1, 3)),
    "roll": lambda: back(lambda x: x.roll(3, 0), r(n)),
    "max_unpool2d": lambda: [F.max_unpool2d(*F.max_pool2d(r(8, 8, 32, 32), 2, return_indices=True), 2)],
    "max_unpool3d": lambda: [F.max_unpool3d(*F.max_pool3d(r(2, 4, 16, 16, 16), 2, return_indices=True), 2)],
    "fold": lambda: back(lambda x: F.fold(x, (33, 33), 5, stride=2), r(8, 200, 225)),
    "unfold": lambda: back(lambda x: F.unfold(x, 5, stride=2), r(8, 8, 33, 33)),
    "Tensor.unfold": lambda: back(lambda x: x.unfold(0, 7, 2), r(n)),
    "conv1d": lambda: layer(nn.Conv1d(8, 16, 5), r(16, 8, 330)),
    "conv2d": lambda: layer(nn.Conv2d(8, 16, 5), r(16, 8, 33, 33)),
    "conv2d depthwise": lambda: layer(nn.Conv2d(8, 8, 5, groups=8), r(16, 8, 33, 33)),
    "conv2d dilated": lambda: layer(nn.Conv2d(8, 16, 3, dilation=3), r(16, 8, 33, 33)),
    "conv3d": lambda: layer(nn.Conv3d(4, 8, 3), r(4, 4, 17, 17, 17)),
    "conv_transpose2d": lambda: layer(nn.ConvTranspose2d(8, 16, 5, stride=2), r(16, 8, 33, 33)),
    "conv2d bfloat16": lambda: layer(nn.Conv2d(8, 16, 5).to(torch.bfloat16), r(16, 8, 33, 33, dtype=torch.bfloat16)),
    "linear": lambda: layer(nn.Linear(512, 777), r(1024, 512)),
    "linear bfloat16": lambda: layer(nn.Linear(512, 777).to(torch.bfloat16), r(1024, 512, dtype=torch.bfloat16)),
    "linear float16": lambda: layer(nn.Linear(512, 777).half(), r(1024, 512, dtype=torch.float16)),
    "bilinear": lambda: layer(nn.Bilinear(16, 16, 8), r(64, 16), r(64, 16)),
    "baddbmm": lambda: back(torch.bmm, r(16, 64, 64), r(16, 64, 65)),
    "batch_norm": lambda: layer(nn.BatchNorm2d(8), r(16, 8, 33, 33)),
    "layer_norm": lambda: layer(nn.LayerNorm(512), r(1024, 512)),
    "group_norm": lambda: layer(nn.GroupNorm(4, 8), r(16, 8, 33, 33)),
    "instance_norm": lambda: layer(nn.InstanceNorm2d(8, affine=True), r(16, 8, 33, 33)),
    "rms_norm": lambda: layer(nn.RMSNorm(512), r(1024, 512)),
    "prelu": lambda: layer(nn.PReLU(), r(1024, 512)),
    "rnn": lambda: layer(nn.RNN(32, 64), r(50, 16, 32)),
    "lstm": lambda: layer(nn.LSTM(32, 64, num_layers=2), r(50, 16, 32)),
    "gru": lambda: layer(nn.GRU(32, 64, bidirectional=True), r(50, 16, 32)),
    "lstm dropout": lambda: layer(nn.LSTM(32, 64, num_layers=2, dropout=0.5), r(50, 16, 32)),
    "transformer layer": lambda: layer(nn.TransformerEncoderLayer(64, 4, batch_first=True), r(16, 50, 64)),
    "attention": lambda: back(F.scaled_dot_product_attention, r(4, 4, 512, 64), r(4, 4, 512, 64), r(4, 4, 512, 64)),
    "attention bfloat16": lambda: back(
        F.scaled_dot_product_attention, *(r(4, 4, 512, 64, dtype=torch.bfloat16) for _ in range(3))),
    "attention bfloat16 causal dropout": lambda: back(
        lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=True, dropout_p=0.1),
        *(r(4, 4, 512, 64, dtype=torch.bfloat16) for _ in range(3))),
    "cdist": lambda: back(torch.cdist, r(200, 16), r(300, 16)),
    "cdist p=1": lambda: back(lambda x, y: torch.cdist(x, y, p=1), r(200, 16), r(300, 16)),
    "pdist": lambda: back(lambda x: F.pdist(x), r(100, 16)),
    "norm": lambda: back(lambda x: x.norm(dim=1), r(1024, 512)),
    "prod": lambda: back(lambda x: x.prod(1), r(64, 33)),
    "std": lambda: back(lambda x: x.std(0), r(n)),
    "logsumexp": lambda: back(lambda x: x.logsumexp(0), r(n)),
    "amax": lambda: back(lambda x: x.amax(0), r(n)),
    "einsum": lambda: back(lambda a, b: torch.einsum("bij,bjk->ik", a, b), r(16, 64, 64), r(16, 64, 65)),
    "fft": lambda: [torch.fft.rfft2(r(16, 64, 64).detach()).abs()],
    "stft": lambda: (
        back(lambda x: torch.stft(x, 256, window=torch.ones(256, device=device), return_complex=True).abs(), r(9999))),
    "istft": lambda: [torch.istft(torch.stft(r(9984).detach(), 256, window=torch.ones(256, device=device),
        return_complex=True), 256, window=torch.ones(256, device=device))],
    "svd": lambda: list(torch.linalg.svd(r(65, 64).detach())),
    "eigh": lambda: list(torch.linalg.eigh(r(64, 64).detach())),
    "qr": lambda: list(torch.linalg.qr(r(65, 64).detach())),
    "solve": lambda: [torch.linalg.solve(r(64, 64).detach(), r(64, 3).detach())],
    "cholesky": lambda: back(lambda x: torch.linalg.cholesky(x @ x.T + 65 * torch.eye(65, device=device)), r(65, 64)),
    "inverse": lambda: back(torch.linalg.inv, r(63, 63)),
    "lstsq": lambda: [torch.linalg.lstsq(r(65, 64).detach(), r(65, 3).detach()).solution],
    "sparse product": lambda: [torch.sparse.mm(
        torch.sparse_coo_tensor(i(64, 2, 4096), r(4096).detach(), (64, 64)), r(64, 65).detach())],
    "sparse csr product": lambda: [torch.sparse_coo_tensor(i(64, 2, 4096), r(4096).detach(), (64, 64)).to_sparse_csr()
        @ r(64, 65).detach()],
    "coalesce": lambda: [torch.sparse_coo_tensor(i(64, 2, 99999), r(99999).detach(), (64, 64)).coalesce().values()],
    "to_dense": lambda: [torch.sparse_coo_tensor(i(64, 2, 99999), r(99999).detach(), (64, 64)).to_dense()],
    "dropout": lambda: [F.dropout(r(n).detach())],
    "rand": lambda: [torch.rand(n, device=device), torch.randn(n, device=device), torch.randperm(9999, device=device)],
    "gamma": lambda: [torch.distributions.Gamma(r(9999).detach() + 1, 1.0).sample()],
    "poisson": lambda: [torch.poisson(r(9999).detach() * 9)],
    "empty": lambda: [torch.empty(9999, device=device)],
    "resize": lambda: [torch.zeros(3, device=device).resize_(9999)],
    "clip_grad_norm": lambda: [nn.utils.clip_grad_norm_([r(n)], 1.0), *back(lambda x: x * 2, r(9))],
    "adam": lambda: step(torch.optim.Adam),
    "adamw fused": lambda: step(lambda p: torch.optim.AdamW(p, fused=device != "cpu")),
    "sgd foreach": lambda: step(lambda p: torch.optim.SGD(p, 0.1, momentum=0.9, foreach=True)),
    "lbfgs": lambda: step(torch.optim.LBFGS),
    "checkpoint": lambda: back(
        lambda x: torch.utils.checkpoint.checkpoint(lambda y: F.dropout(y @ y.T), x, use_reentrant=False), r(64, 64)),
    "autocast": lambda: auto(),
    "compile": lambda: back(torch.compile(lambda x: (x.softmax(1) * x.sin()).sum(0)), r(512, 777)),
    "compile scatter": lambda: [torch.compile(lambda x, k: torch.zeros(13, device=device).index_add(0, k, x))(
        r(n).detach(), few())],
    "pixel_shuffle": lambda: back(lambda x: F.pixel_shuffle(x, 2), r(8, 8, 16, 16)),
    "affine_grid": lambda: [F.affine_grid(r(4, 2, 3).detach(), [4, 3, 20, 20], align_corners=False)],
    "searchsorted": lambda: [torch.searchsorted(r(999).detach().sort().values, r(n).detach())],
    "bucketize": lambda: [torch.bucketize(r(n).detach(), torch.linspace(0, 1, 17, device=device))],
    "trapezoid": lambda: back(lambda x: torch.trapezoid(x), r(n)),
    "diff": lambda: back(lambda x: x.diff(), r(n)),
    "renorm": lambda: [r(512, 77).detach().renorm(2, 0, 1.0)],
    "embedding max_norm": lambda: [F.embedding(i(13, 99), r(13, 16).detach(), max_norm=0.5)],
    "cross_entropy smoothing": lambda: back(lambda x: F.cross_entropy(x, i(8, 4096), label_smoothing=0.1), r(4096, 8)),
    "multi_margin_loss": lambda: back(lambda x: F.multi_margin_loss(x, i(8, 4096)), r(4096, 8)),
    "multilabel_margin_loss": lambda: back(lambda x: F.multilabel_margin_loss(x, i(8, 4096, 8)), r(4096, 8)),
    "segment_reduce": lambda: (
        [torch.segment_reduce(r(n).detach(), "sum", lengths=torch.tensor([n // 2, n // 2], device=device))]),
}
def step(make):
    torch.manual_seed(3)
    model = nn.Sequential(nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, 1)).to(device)
    optimizer = make(model.parameters())
    def closure():
        optimizer.zero_grad()
        loss = model(r(256, 64).detach()).square().mean()
        loss.backward()
        return loss
    for _ in range(3):
        optimizer.step(closure)
    return list(model.parameters())
def auto():
    torch.manual_seed(3)
    model = nn.Sequential(nn.Conv2d(3, 8, 3), nn.ReLU(), nn.Flatten(), nn.Linear(8 * 900, 10)).to(device)
    with torch.autocast(device, dtype=torch.bfloat16):
        F.cross_entropy(model(r(16, 3, 32, 32).detach()), i(10, 16)).backward()
    return [p.grad for p in model.parameters()]
found = {}
for name, call in OPS.items():
    del warned[:]
    try:
        digests = set()
        for _ in range(3):
            torch.manual_seed(1)
            digests.add(digest(t for t in call() if t is not None))
        found[name] = ["repeats" if len(digests) == 1 else "differs", *sorted(digests)]
    except Exception as error:
        text = str(error)
        sign = " does not have a deterministic implementation"
        refused = sign in text or "CuBLAS" in text
        found[name] = ["refused", text.partition(sign)[0].rpartition(chr(10))[2]] if refused else ["fails", text[:300]]
    notes = [each[:120] for each in warned if "determin" in each]
    found[name] += [["warned", *notes]] if notes else []
print(json.dumps(found))
"""
KNOWN = ("logcumsumexp", "sparse product", "sparse csr product")
"""Those that differ though determinism is on, without a word: the table has them, for ``verify`` to name."""
REFUSED = """
import torch
values = torch.ones(1 << 12, device="cuda")
def histogram(values):
    return torch.histc(values, 7)
histogram(values)
"""


def known() -> set[str]:
    """Names of operations in PyTorch's errors, as the table has them."""
    tomllib = pytest.importorskip("tomllib", reason="Python 3.11 reads TOML")
    rows = tomllib.loads(TABLE.read_text())["operation"]
    return {name for row in rows if row["framework"] == "torch" and row["refused"] for name in row["errors"]}


@pytest.fixture(name="tree")
def _tree(tmp_path: Path) -> Any:
    spec = importlib.util.find_spec("torch")
    if spec is None or spec.origin is None:
        pytest.skip("torch is not installed")
    pytest.importorskip("msgspec", reason="envbuild's own requirements are not installed")
    from envbuild.lockfile.model import Determinism
    from tests.support.runtime import make_lock, make_tree

    lock = make_lock(environment=VARIABLES, determinism=Determinism(level="ops", seed=42, threads=1))
    return make_tree(tmp_path / "tree", lock, python=sys.executable, paths=[Path(spec.origin).parents[1]])


def test_each_repeats_or_is_refused_by_name(facts: dict[str, Any], figure: Figure, tree: Any) -> None:
    """Two processes, three times each: bits are equal, or the table has it as refused, or as one that differs."""
    (tree.root / "operations.py").write_text(OPERATIONS)
    one, other = (json.loads(tree.execute("operations.py", DEVICE).stdout.splitlines()[-1]) for _ in range(2))
    kinds = {kind: {name: each for name, each in one.items() if each[0] == kind} for kind in ("refused", "fails")}
    names = {name: each[1] for name, each in kinds["refused"].items()}
    differs = sorted(name for name in one if "differs" in (one[name][0], other[name][0]) or one[name] != other[name])
    figure("torch operations", f"{len(one)}, of which {len(names)} are refused and {len(differs)} differ")
    figure("torch operations that are refused", ", ".join(f"{name}: {error}" for name, error in names.items()))
    figure(
        "torch operations that warn", {name: each[-1][1:] for name, each in one.items() if isinstance(each[-1], list)}
    )
    figure("torch operations that fail", {name: each[1] for name, each in kinds["fails"].items()})
    figure("torch operations that differ", {name: [one[name], other[name]] for name in differs})
    assert [name for name in differs if name not in KNOWN] == []
    assert set(names.values()) - known() == set()
    assert kinds["fails"] == {}


def test_a_refusal_is_explained(facts: dict[str, Any], tree: Any) -> None:
    """The program's traceback stays; behind it are the operation, the line, the reason and ways out."""
    (tree.root / "refused.py").write_text(REFUSED)
    done = tree.execute("refused.py", check=False)
    assert done.returncode == 1
    assert "does not have a deterministic implementation" in done.stderr
    assert "is not deterministic and was refused\n" in done.stderr
    assert f"  at    {tree.root}/refused.py:5   return torch.histc(values, 7)" in done.stderr
