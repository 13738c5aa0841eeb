"""``docs/determinism.md``, generated: ``python -m envbuild.resolve.policy_docs > docs/determinism.md``."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from envbuild.resolve.policy import Variable, table

_HEAD = """\
# Determinism: the variables, and why each is there

<!-- Generated from envbuild/data/determinism.toml: python -m envbuild.resolve.policy_docs > docs/determinism.md -->

`envbuild lock` writes into the lock the variables that the locked frameworks understand in the locked versions, and no
others. They are exported in the image and read back at the start of every run. `{seed}` and `{threads}` are
`determinism.seed` and `determinism.threads` of the spec. What has no variable, such as PyTorch's
`use_deterministic_algorithms(True)`, is set by envbuild's start-up hook.
What neither reaches, such as the code that the maths library chooses by CPU, is compared as numbers under
`hardware.fingerprint: true` ([gpu.md](gpu.md#the-numeric-fingerprint)).

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
    "ops": "With `level: ops` (the default)",
}


def document() -> str:
    """Return the whole document."""
    parts = [_HEAD]
    for level, title in _TITLES.items():
        rows = [_cells(row) for row in table().variable if row.level == level]
        parts.append(_section(title, ("variable", "value", "for", "cause", "why", "read back", "source"), rows))
    refused = [(f"`{row.name}`", row.when, row.message, str(row.cause)) for row in table().forbidden]
    parts.append(_section("Refused in a spec", ("variable", "value", "because it", "cause"), refused))
    return "\n".join(parts)


def _section(title: str, columns: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> str:
    """Return a heading and a table."""
    lines = [columns, ("---",) * len(columns), *rows]
    return f"## {title}\n\n" + "".join(f"| {' | '.join(line)} |\n" for line in lines)


def _cells(row: Variable) -> tuple[str, ...]:
    """Return one line of the table of variables."""
    cause = str(row.cause) if row.cause else "–"
    return f"`{row.name}`", f"`{row.value}`", _condition(row), cause, row.why, row.read_back, row.source


def _condition(row: Variable) -> str:
    """Say in words when a row applies."""
    words = [row.framework] if row.framework else []
    words += [row.versions.replace(",", ", ")] if row.versions else []
    words += [f"with {name}" for name in row.requires]
    words += [f"on {', '.join(row.architecture)}"] if row.architecture else []
    return " ".join(words) or "always"


if __name__ == "__main__":
    sys.stdout.write(document())
