"""Source archives of packages, by pip: an index has them wherever it has the package, and nothing in them is run.

pip asks the build backend of a source archive for its metadata before it keeps the file. Next to it a module of the
backend's name is put first on Python's path that answers with the archive's own ``PKG-INFO``, so that neither the real
backend nor a compiler is needed.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from envbuild.core.digest import sha256_file

_BODY = """\
import shutil
from pathlib import Path


def get_requires_for_build_wheel(config_settings=None):
    return []


def prepare_metadata_for_build_wheel(metadata_directory, config_settings=None):
    head = Path("PKG-INFO").read_text(encoding="utf-8").partition("\\n\\n")[0]
    fields = dict(line.split(": ", 1) for line in head.splitlines() if ": " in line)
    folder = Path(metadata_directory, f"{fields['Name'].replace('-', '_')}-{fields['Version']}.dist-info")
    folder.mkdir()
    shutil.copy("PKG-INFO", folder / "METADATA")
    return folder.name


class __legacy__:  # the backend of archives that name none, as pip has it
    get_requires_for_build_wheel = staticmethod(get_requires_for_build_wheel)
    prepare_metadata_for_build_wheel = staticmethod(prepare_metadata_for_build_wheel)
"""


def download(requirement: str, backend: str, sha256: str, folder: Path) -> Path:
    """Download a source archive; raises ``ValueError`` if it has another digest.

    Args:
        requirement: as ``scikit-learn==1.9.1``.
        backend: module of its build backend, as ``mesonpy`` or ``setuptools.build_meta``.
        sha256: of the archive.
        folder: to put it into.
    """
    inert = folder / "inert"
    module = inert.joinpath(*backend.split(".")).with_suffix(".py")
    module.parent.mkdir(parents=True, exist_ok=True)
    module.write_text(_BODY)
    for parent in module.relative_to(inert).parents[:-1]:
        (inert / parent / "__init__.py").touch()
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--no-build-isolation"]
    command += ["--no-binary", ":all:", "--dest", str(folder), requirement]
    subprocess.run(command, check=True, env={**os.environ, "PYTHONPATH": str(inert)})
    (archive,) = folder.glob("*.tar.gz")
    if (found := sha256_file(archive)) != sha256:
        raise ValueError(f"{archive.name}: expected sha256 {sha256}, found {found}")
    return archive
