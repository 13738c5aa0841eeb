"""Packages that a library imports only where a program uses a part of it, and that it does not require."""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterator

_FRAMEWORKS = frozenset(("keras", "tensorflow", "torch"))
_PANDAS = frozenset(("pandas",))
_WANTED = {
    "SummaryWriter": (_FRAMEWORKS, "tensorboard"),
    "TensorBoard": (_FRAMEWORKS, "tensorboard"),
    "create_file_writer": (_FRAMEWORKS, "tensorboard"),
    "read_excel": (_PANDAS, "openpyxl"),
    "read_feather": (_PANDAS, "pyarrow"),
    "read_hdf": (_PANDAS, "tables"),
    "read_parquet": (_PANDAS, "pyarrow"),
    "to_excel": (_PANDAS, "openpyxl"),
    "to_feather": (_PANDAS, "pyarrow"),
    "to_hdf": (_PANDAS, "tables"),
    "to_markdown": (_PANDAS, "tabulate"),
    "to_parquet": (_PANDAS, "pyarrow"),
}
"""What a program names, to the packages that have it, and the distribution that is needed then: TensorFlow 2.21 no
longer requires tensorboard; pandas' are optional (pandas.pydata.org, "Optional dependencies")."""


def optional_of(names: Collection[str], imported: Collection[str]) -> Iterator[str]:
    """Yield distributions that are needed for what a program uses of the packages that it imports.

    Args:
        names: as ``names_in`` yields them.
        imported: top-level modules.
    """
    for name in names:
        owners, wanted = _WANTED.get(name, (frozenset(), ""))
        if wanted and not owners.isdisjoint(imported):
            yield wanted


def names_in(tree: ast.AST) -> Iterator[str]:
    """Yield attributes that a module uses and names that it imports, as far as they are known here."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and node.attr in _WANTED:
            yield node.attr
        elif isinstance(node, ast.ImportFrom):
            yield from (alias.name for alias in node.names if alias.name in _WANTED)
