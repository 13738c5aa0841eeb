"""envbuild as a careless builder would be: its mask gets into the image, which comparing must find."""

from __future__ import annotations

import os
import sys
from dataclasses import replace
from typing import Any


def main() -> int:
    """Let the mask leak, then run the command line."""
    from envbuild.cli import main as envbuild
    from envbuild.image.oci import layout

    original = layout.image
    mask = os.umask(0)
    os.umask(mask)

    def image(plan: Any, layers: Any) -> Any:
        labels = {**plan.config["Labels"], "leak.umask": f"{mask:03o}"}
        return original(replace(plan, config={**plan.config, "Labels": labels}), layers)

    layout.image = image
    sys.argv[0] = "envbuild"
    return int(envbuild() or 0)


if __name__ == "__main__":
    sys.exit(main())
