"""Whether a folder may be in a git repository, as far as names of files show; without git, whose start takes longer.

Source: git, setup.c, ``setup_git_directory_gently_1``: a folder or one above it holds ``.git``, or is a repository
without a working tree itself, which holds ``HEAD``.
"""

from __future__ import annotations

import os
from pathlib import Path


def may_be_in_repository(folder: Path) -> bool:
    """Return False only where neither the folder nor one above it holds what git looks for."""
    try:
        real = folder.resolve(strict=True)
    except (OSError, RuntimeError):
        return True
    return any(_may_exist(above / name) for above in (real, *real.parents) for name in (".git", "HEAD"))


def _may_exist(path: Path) -> bool:
    """Whether a name is there; one that cannot be looked at may be there for somebody else."""
    try:
        os.lstat(path)
    except FileNotFoundError:
        return False
    except OSError:
        return True
    return True
