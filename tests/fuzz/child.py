"""``python -m tests.fuzz.child TARGET [LIBFUZZER OPTIONS] CORPUS…``: one target under libFuzzer, until it is broken.

The project's modules are instrumented as they are imported, so that inputs that reach new code are kept and altered on.
"""

from __future__ import annotations

import sys

import atheris  # type: ignore[import-not-found,unused-ignore]

with atheris.instrument_imports(include=["envbuild"]):
    from tests.fuzz import targets


def main() -> None:
    """Run; libFuzzer ends the process."""
    name, *options = sys.argv[1:]
    target = targets.TARGETS[name]
    atheris.Setup([sys.argv[0], *options], target.check)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
