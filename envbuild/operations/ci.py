"""A pipeline for a project, from the templates; files that are there already and differ are not overwritten."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from envbuild import __version__
from envbuild.core.fs import atomic_write
from envbuild.core.package_data import template_dir
from envbuild.errors import UsageError

Service = Literal["github", "gitlab"]
_SCRIPT = "ci/envbuild.sh"
_FILES: dict[Service, str] = {"github": ".github/workflows/image.yml", "gitlab": ".gitlab-ci.yml"}


def write_pipeline(service: Service, folder: Path, *, force: bool = False) -> tuple[Path, ...]:
    """Write a service's pipeline and the script it calls into a project; returns the files written.

    Raises:
        UsageError: there is no such folder, or a file is there with other content and ``force`` is not given.
    """
    if not folder.is_dir():
        raise UsageError(f"{folder} is not a folder", "name the folder of your project")
    templates = template_dir() / "ci"
    script = (templates / "envbuild.sh").read_text().replace("@VERSION@", __version__)
    wanted = {_SCRIPT: script, _FILES[service]: (templates / f"{service}.yml").read_text()}
    edited = [name for name, text in wanted.items() if (folder / name).exists() and _differs(folder / name, text)]
    if edited and not force:
        raise UsageError(
            f"{', '.join(edited)} exists already, with other content", f"replace it: envbuild ci {service} --force"
        )
    for name, text in wanted.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        atomic_write(path, text.encode())
        path.chmod(0o755 if name == _SCRIPT else 0o644)
    return tuple(folder / name for name in wanted)


def _differs(path: Path, text: str) -> bool:
    return path.read_bytes() != text.encode()
