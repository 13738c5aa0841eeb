"""Source archives of small packages that bring their own build backend, so that nothing else has to be fetched."""

from __future__ import annotations

import io
import json
import tarfile
from pathlib import Path

_BACKEND = """\
import os, zipfile

def build_wheel(folder, config_settings=None, metadata_directory=None):
    info = "{name}-{version}.dist-info"
    files = {{
        "{name}.py": "ANSWER = 42\\n" + {content},
        f"{{info}}/METADATA": "Metadata-Version: 2.1\\nName: {name}\\nVersion: {version}\\n{requires}",
        f"{{info}}/WHEEL": "Wheel-Version: 1.0\\nGenerator: t\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n",
        f"{{info}}/RECORD": "",
    }}
    files = dict(reversed(files.items())) if len(os.getcwd()) % 2 else files
    wheel = "{name}-{version}-py3-none-any.whl"
    with zipfile.ZipFile(os.path.join(folder, wheel), "w", zipfile.ZIP_DEFLATED) as archive:
        for path, text in files.items():
            time = (2000 + len(os.getcwd()) % 50, 1, 1, 0, 0, 0)  # another one in each folder
            archive.writestr(zipfile.ZipInfo(path, time), text)
    return wheel
"""


def make_sdist(
    folder: Path,
    name: str,
    version: str,
    *,
    content: str = '""',
    requires: tuple[str, ...] = (),
    before: str = "",
    build_requires: tuple[str, ...] = (),
) -> Path:
    """Write the archive of a package of one module, whose wheel's zip depends on the folder that it is built in.

    Args:
        content: expression in the backend for more text of the module.
        requires: what the wheel depends on, which is known only when it is built.
        before: code at the start of the backend.
        build_requires: what it asks for to be built.
    """
    lines = "".join(f"Requires-Dist: {line}\\n" for line in requires)
    backend = _BACKEND.format(name=name, version=version, content=content, requires=lines)
    files = {
        "pyproject.toml": f'[build-system]\nrequires = {json.dumps(build_requires)}\nbuild-backend = "own"\n'
        'backend-path = ["."]\n',
        "PKG-INFO": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n",
        "own.py": before + backend,
    }
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{name}-{version}.tar.gz"
    with tarfile.open(path, "w:gz") as archive:
        for file, text in files.items():
            member = tarfile.TarInfo(f"{name}-{version}/{file}")
            member.size = len(text)
            archive.addfile(member, io.BytesIO(text.encode()))
    return path


def make_project(folder: Path, name: str, version: str) -> None:
    """Write a project of one package in ``src`` that brings its own build backend."""
    module = name.replace("-", "_")
    files = {
        "pyproject.toml": '[build-system]\nrequires = []\nbuild-backend = "own"\nbackend-path = ["."]\n'
        f'[project]\nname = "{name}"\nversion = "{version}"\n',
        "own.py": _PROJECT_BACKEND.format(name=module, version=version),
        f"src/{module}/__init__.py": "ANSWER = 42\n",
    }
    for path, text in files.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text)


_PROJECT_BACKEND = """\
import os, pathlib, zipfile

def build_wheel(folder, config_settings=None, metadata_directory=None):
    info = "{name}-{version}.dist-info"
    files = {{
        "{name}/__init__.py": pathlib.Path("src/{name}/__init__.py").read_text(),
        f"{{info}}/METADATA": "Metadata-Version: 2.1\\nName: {name}\\nVersion: {version}\\n",
        f"{{info}}/WHEEL": "Wheel-Version: 1.0\\nGenerator: t\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n",
        f"{{info}}/RECORD": "",
    }}
    wheel = "{name}-{version}-py3-none-any.whl"
    with zipfile.ZipFile(os.path.join(folder, wheel), "w") as archive:
        for path, text in files.items():
            archive.writestr(path, text)
    return wheel
"""
