"""Compute the parts of the groups named as arguments and print them as JSON."""

from __future__ import annotations

import os
import sys
from time import perf_counter

from ..digest import sha256
from ..fastjson import dumps

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

GROUPS = {"numbers": "numbers", "tensorflow": "for_tensorflow", "torch": "for_torch", "jax": "for_jax"}
"""Group to the module of this package whose ``parts(fingerprint)`` adds its parts."""


class Fingerprint:
    """Collects parts: ``parts`` is what is printed."""

    def __init__(self) -> None:
        self.parts: dict[str, dict[str, Any]] = {}

    def add(self, part: str, library: str, version: str, compute: Callable[[], bytes]) -> None:
        """Compute one part.

        Args:
            part: its name, such as ``numpy.matmul``.
            library, version: whose bits these are, for people.
            compute: returns the results' bytes.
        """
        start = perf_counter()
        digest = sha256(compute())
        seconds = round(perf_counter() - start, 4)
        self.parts[part] = {"digest": digest, "library": library, "version": version, "seconds": seconds}


def main(groups: Sequence[str]) -> int:
    """Print the parts of these groups; what libraries write to standard output goes to standard error instead."""
    with open(os.dup(1), "w", encoding="utf-8") as output:
        os.dup2(2, 1)
        fingerprint = Fingerprint()
        for group in groups:
            module = __import__(f"{__package__}.{GROUPS[group]}", fromlist=["parts"])
            module.parts(fingerprint)
        output.write(dumps(fingerprint.parts) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
