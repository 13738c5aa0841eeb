"""Packages that a library imports only where a program uses a part of it, and that it does not require."""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterator

_FRAMEWORKS = frozenset(("keras", "tensorflow", "torch"))
_OPTUNA = frozenset(("optuna",))
_PANDAS = frozenset(("pandas",))
_LIGHTNING = frozenset(("lightning", "pytorch_lightning"))
_SKORCH = frozenset(("skorch",))
_TRANSFORMERS = frozenset(("transformers",))
_WANTED = {
    "CatBoostPruningCallback": (_OPTUNA, "optuna-integration"),
    "LightGBMPruningCallback": (_OPTUNA, "optuna-integration"),
    "LightGBMTuner": (_OPTUNA, "optuna-integration"),
    "LightGBMTunerCV": (_OPTUNA, "optuna-integration"),
    "OptunaSearchCV": (_OPTUNA, "optuna-integration[sklearn]"),
    "PyTorchLightningPruningCallback": (_OPTUNA, "optuna-integration"),
    "Seq2SeqTrainer": (_TRANSFORMERS, "accelerate"),
    "Seq2SeqTrainingArguments": (_TRANSFORMERS, "accelerate"),
    "SummaryWriter": (_FRAMEWORKS, "tensorboard"),
    "TensorBoard": (_FRAMEWORKS, "tensorboard"),
    "TensorBoardLogger": (_LIGHTNING, "tensorboard"),
    "TFKerasPruningCallback": (_OPTUNA, "optuna-integration"),
    "Trainer": (_TRANSFORMERS, "accelerate"),
    "TrainingArguments": (_TRANSFORMERS, "accelerate"),
    "XGBoostPruningCallback": (_OPTUNA, "optuna-integration"),
    "create_file_writer": (_FRAMEWORKS, "tensorboard"),
    "parse_args": (_SKORCH, "numpydoc"),
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
longer requires tensorboard; pandas' are optional (pandas.pydata.org, "Optional dependencies"); accelerate and torch are
in the extra ``torch`` of transformers; skorch reads the descriptions of arguments by numpydoc (skorch/cli.py);
Optuna 4 has its parts for other libraries in a distribution of their own (optuna/integration/__init__.py)."""
_ELSEWHERE = frozenset(("parse_args",))
"""Names that objects of other libraries have too: only the import counts."""
_ON_ONE_OF = {
    "diffusers": ("torch", ("torch",)),
    "keras": ("tensorflow-cpu", ("tensorflow-cpu", "torch", "jax")),
    "transformers": ("torch", ("torch", "tensorflow-cpu", "jax")),
}
"""Distributions that compute with another one and do not require it: the usual one, and all that would do."""


def frameworks_for(known: Collection[str]) -> Iterator[str]:
    """Yield the frameworks that distributions need and the program does not import itself."""
    for name, (usual, any_of) in _ON_ONE_OF.items():
        if name in known and not any(each in known for each in any_of):
            yield usual


def optional_of(names: Collection[tuple[str, str]], imported: Collection[str]) -> Iterator[str]:
    """Yield distributions that are needed for what a program uses of the packages that it imports.

    Args:
        names: as ``names_in`` yields them.
        imported: top-level modules.
    """
    for owner, name in names:
        owners, wanted = _WANTED[name]
        if owner in owners or (not owner and not owners.isdisjoint(imported)):
            yield wanted


def names_in(tree: ast.AST) -> Iterator[tuple[str, str]]:
    """Yield attributes that a module uses and names that it imports, as far as they are known here.

    Each is behind the top-level module that it is imported from; of attributes nothing shows that.
    """
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and node.attr in _WANTED and node.attr not in _ELSEWHERE:
            yield "", node.attr
        elif isinstance(node, ast.ImportFrom) and not node.level:
            top = (node.module or "").partition(".")[0]
            yield from ((top, alias.name) for alias in node.names if alias.name in _WANTED)
