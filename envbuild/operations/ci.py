"""A pipeline for a project, from the templates; files that are there already and differ are not overwritten."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from envbuild import __version__
from envbuild.core.digest import sha256_bytes
from envbuild.core.fs import atomic_write
from envbuild.core.own_wheel import own_wheel
from envbuild.core.package_data import template_dir
from envbuild.errors import UsageError

Service = Literal["github", "gitlab"]
_SCRIPT = "ci/envbuild.sh"
_REQUIREMENTS = "ci/requirements.txt"
_PINS = """\
# Written by `envbuild ci`: what the pipeline installs, each file by its digest.
{locked}# The envbuild that wrote this; its wheel is in this folder.
envbuild=={version} \\
    --hash=sha256:{digest}
"""
_FILES: dict[Service, str] = {"github": ".github/workflows/image.yml", "gitlab": ".gitlab-ci.yml"}


def write_pipeline(service: Service, folder: Path, *, force: bool = False) -> tuple[Path, ...]:
    """Write a service's pipeline, the script it calls and what that installs into a project; returns the files written.

    Raises:
        UsageError: there is no such folder, or a file is there with other content and ``force`` is not given.
    """
    if not folder.is_dir():
        raise UsageError(f"{folder} is not a folder", "name the folder of your project")
    wanted = _pipeline(service)
    edited = [name for name, data in wanted.items() if (folder / name).exists() and _differs(folder / name, data)]
    if edited and not force:
        raise UsageError(
            f"{', '.join(edited)} exists already, with other content", f"replace it: envbuild ci {service} --force"
        )
    for name, data in wanted.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        atomic_write(path, data)
        path.chmod(0o755 if name == _SCRIPT else 0o644)
    return tuple(folder / name for name in wanted)


def _pipeline(service: Service) -> dict[str, bytes]:
    """Return the files of a pipeline by name."""
    templates = template_dir() / "ci"
    name, wheel = own_wheel()
    locked = (templates / "requirements.txt").read_text()
    pins = _PINS.format(locked=locked, version=__version__, digest=sha256_bytes(wheel))
    return {
        _SCRIPT: (templates / "envbuild.sh").read_bytes(),
        _REQUIREMENTS: pins.encode(),
        f"ci/{name}": wheel,
        _FILES[service]: (templates / f"{service}.yml").read_bytes(),
    }


def _differs(path: Path, data: bytes) -> bool:
    return path.read_bytes() != data
