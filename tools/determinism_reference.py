"""The table of switches, generated: ``python -m tools.determinism_reference > docs/reference/determinism.md``."""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence

from envbuild.determinism import operations
from envbuild.determinism.operations import Operation
from envbuild.determinism.policy import Switch, Variable, table

_HEAD = """\
# Determinism switches

<!-- Generated from envbuild/data: python -m tools.determinism_reference > docs/reference/determinism.md -->

`envbuild lock` writes into the lock the variables that the locked frameworks understand in the locked versions, and no
others. They are exported in the image and read back at the start of every run. `{seed}` and `{threads}` are
`determinism.seed` and `determinism.threads` of the spec. What has no variable, such as PyTorch's
`use_deterministic_algorithms(True)`, is set by envbuild's start-up hook: the [switches](#switches).

The causes: 1 initial weights · 2 data order and loader workers · 3 noisy layers · 4 hash order · 5 CPU threads ·
6 GPU kernels and how they are chosen · 7 silent precision modes · 8 framework or library version · 9 operating system,
C library and CPU variant · 10 CUDA, cuDNN, driver, kernel · 11 GPU model and count · 12 other programs on the GPU ·
13 uneven batches · 14 changed data · 15 hidden hyperparameters and settings · 16 a changed script · 17 no record.

Pin a number of threads, not one thread: with one visible core, two threads gave the same bits as with two cores
(measured).
"""

_TITLES = {
    "": "Always",
    "seeds": "From `level: seeds` on",
    "ops": "From `level: ops` on (the default)",
    "portable": "With `level: portable`",
}

_PORTABLE = """\
Libraries choose their kernels by the CPU, and another kernel gives other bits. With `level: portable` they may use the
instructions of the locked `hardware.cpu` and no better ones, so that every CPU that the lock admits gives equal bits.
Lock the level that your oldest CPU has: `x86-64-v3` costs least, `any` most.

Measured with the C library of Debian 12 and 13, NumPy 2.4, TensorFlow 2.21, PyTorch 2.13 and JAX 0.10: a CPU with
AVX-512 and emulated ones (NumPy: Nehalem, SandyBridge, Haswell, EPYC of the first generation; the frameworks: two or
three of them) gave equal bits in libm, functions over arrays, sums, products, inverses, convolutions and their
gradients, random numbers, and PyTorch's LSTM and attention. Without the level nearly all of these differ.

Sums between GPUs take one channel and one protocol of NCCL, so that they are split the same way whatever links the GPUs
have. The ring stays the one that the machine has, and this was not measured.

`envbuild verify --cpu-models Nehalem,Haswell` [shows it](../how-to/verify.md#compare-cpus) for your program.

What it does not cover: other architectures than amd64; GPUs; what `torch.compile` and other compilers make on the spot;
FBGEMM's and XNNPACK's kernels for quantised models; libraries that are not named here. `x86-64-v4` was not measured
on a second CPU, since the emulator has no AVX-512. And an emulator is no CPU: kernels that use a CPU's approximate
reciprocals, or cut their work by the size of its caches, may differ all the same. The numeric fingerprint
(`hardware.fingerprint`) finds out at the start whether this CPU gives other bits.
"""

_SWITCHES = """\
The hook sets these right after a framework is imported, in every process, for the version that it finds; then it reads
each one back, and once more at the end. One that does not show the value is an error with `determinism.strict`, a
warning without. A script that sets its own afterwards keeps it, and the record shows it (`at_exit`). Where the value is
that of a variable, nothing is set: what the library made of the locked variable is read back. A run with the controls
off sets nothing.
"""

_OPERATIONS = """\
Those that raise at `level: ops`: envbuild adds, after the program's own traceback, the operation's name, the line of
the script and the ways out, and keeps them in the record (`refused_ops`). The others differ in silence.
"""


def document() -> str:
    """Return the whole document."""
    parts = [_HEAD]
    columns: tuple[str, ...] = ("variable", "value", "for", "cause", "why", "read back", "cost", "source")
    for level, title in _TITLES.items():
        rows = [_cells(row) for row in table().variable if row.level == level]
        parts.append(_section(title, columns, rows, _PORTABLE if level == "portable" else ""))
    columns = ("switch", "value", "for", "level", "cause", "why", "read back", "cost", "source")
    parts.append(_section("Switches", columns, [_switch(row) for row in table().switch], _SWITCHES))
    refused = [(f"`{row.name}`", row.when, row.message, str(row.cause)) for row in table().forbidden]
    parts.append(_section("Refused in a spec", ("variable", "value", "because it", "cause"), refused))
    known = sorted(operations.table(), key=lambda row: not row.refused)
    columns = ("operation", "framework", "where", "at level ops", "why", "ways out", "source")
    parts.append(_section("Operations without a deterministic kernel", columns, _operations(known), _OPERATIONS))
    return "\n".join(parts)


def _operations(known: Sequence[Operation]) -> list[tuple[str, ...]]:
    """Return the lines of the table of operations."""
    where = {"gpu": "GPU", "cpu": "CPU", "any": "everywhere"}
    return [
        (
            row.name,
            f"{row.framework} {row.versions}".strip(),
            where[row.device],
            "raises" if row.refused else "differs",
            row.why,
            "; ".join(row.ways),
            _linked(row.source),
        )
        for row in known
    ]


def _section(title: str, columns: tuple[str, ...], rows: Sequence[tuple[str, ...]], text: str = "") -> str:
    """Return a heading, perhaps a text, and a table."""
    lines = [columns, ("---",) * len(columns), *rows]
    escaped = (tuple(cell.replace("|", "\\|") for cell in line) for line in lines)
    above = f"{text}\n" if text else ""
    return f"## {title}\n\n{above}" + "".join(f"| {' | '.join(line)} |\n" for line in escaped)


def _cells(row: Variable) -> tuple[str, ...]:
    """Return one line of the table of variables."""
    cause = str(row.cause) if row.cause else "–"
    value = f"… `{row.value}`" if row.join else f"`{row.value}`"
    return f"`{row.name}`", value, _condition(row), cause, row.why, row.read_back, row.cost or "–", _linked(row.source)


def _switch(row: Switch) -> tuple[str, ...]:
    """Return one line of the table of switches."""
    value = f"`{row.value}`" if row.value != "" else f"of `{row.variable}`"
    words = [row.framework, row.versions.replace(",", ", ")] + (["on GPUs"] if row.gpu else [])
    where = " ".join(word for word in words if word)
    level = row.level or "every"
    return f"`{row.name}`", value, where, level, str(row.cause), row.why, row.read_back, row.cost, _linked(row.source)


def _linked(source: str) -> str:
    """Return a source with its addresses as links that show the host only: long addresses would fill the table."""
    return re.sub(r"https://([^/\s;,]+)[^\s;,]*", r"[\1](\g<0>)", source)


def _condition(row: Variable) -> str:
    """Describe as text when a row applies."""
    words = [row.framework] if row.framework else []
    words += [row.versions.replace(",", ", ")] if row.versions else []
    words += [f"with {name}" for name in row.requires]
    words += [f"on {', '.join(row.architecture)}"] if row.architecture else []
    words += [f"locked for {', '.join(row.cpu)}"] if row.cpu else []
    return " ".join(words) or "always"


if __name__ == "__main__":
    sys.stdout.write(document())
