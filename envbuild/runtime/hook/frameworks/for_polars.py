"""Polars: the seed of ``sample`` and ``shuffle`` where they get none."""

from __future__ import annotations

from ..switching import OWN_SEEDS, Access, apply, notice_seeds

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ..process import Process

NAME = "polars.set_random_seed"


def set_up(module: Any, process: Process) -> None:
    """Seed the generator right after the import."""
    notice_seeds(module, "set_random_seed", NAME, process)
    apply("polars", module, process, ACCESS)


ACCESS = {
    NAME: Access(
        lambda module, value: module.set_random_seed.__wrapped__(value),
        lambda module, seed: OWN_SEEDS.get(NAME, seed),
        generator="polars",
    )
}
