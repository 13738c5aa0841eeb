"""Files by which other tools pin a project, none of them a requirements file: how each becomes one.

Their pins belong to extras, groups and platforms that only the tool resolves, so the tool writes them out.
``pylock.toml`` (PEP 751) holds one answer and is read as it is.
"""

from __future__ import annotations

import re
import shlex
from pathlib import PurePosixPath

_COMMANDS = {
    "uv.lock": "uv export --frozen --no-dev --no-emit-project -o requirements.txt",
    "poetry.lock": "poetry self add poetry-plugin-export && poetry export -f requirements.txt -o requirements.txt",
    "pdm.lock": "pdm export --prod -f requirements -o requirements.txt",
    "Pipfile.lock": "pipenv requirements --hash > requirements.txt",
    "Pipfile": "pipenv lock && pipenv requirements --hash > requirements.txt",
}
"""https://docs.astral.sh/uv/reference/cli/#uv-export, https://github.com/python-poetry/poetry-plugin-export,
https://pdm-project.org/en/latest/reference/cli/#export, https://pipenv.pypa.io/en/latest/cli.html#requirements"""

_CONDA = "conda run -n {} python -m pip list --format=freeze > requirements.txt"
_PYLOCK = re.compile(r"pylock(?:\.[^./]+)?\.toml")  # PEP 751, file name
NEIGHBOURS = (*_COMMANDS, "environment.yml", "environment.yaml", "conda.yml", "conda.yaml")
"""What a project may have next to its spec, the best source of pins first."""


def is_pylock(path: str) -> bool:
    """Return whether a path is that of a PEP 751 lock."""
    return _PYLOCK.fullmatch(PurePosixPath(path).name) is not None


def export_command(path: str, text: str) -> str:
    """Return the command that writes a file's pins into ``requirements.txt``; empty if it is no other tool's.

    Args:
        path: of the file.
        text: its content; a conda environment has its name there.
    """
    name = PurePosixPath(path).name
    if name.endswith((".yml", ".yaml")):
        found = re.search(r"^name:\s*['\"]?([A-Za-z0-9][A-Za-z0-9._-]*)", text, re.MULTILINE)
        return _CONDA.format(shlex.quote(found[1]) if found else "NAME")
    return _COMMANDS.get(name, "")


def refusal(path: str, text: str) -> str:
    """Return why a file is no requirements file, with the way to one; empty if it may be one."""
    command = export_command(path, text)
    return f"{PurePosixPath(path).name} is no requirements file — write its pins into one: {command}" if command else ""
