"""``ci``: a project's own pipeline, from the templates; what is there already and differs is not overwritten."""

from __future__ import annotations

from pathlib import Path

from envbuild import __version__
from envbuild.cli.console import Console
from envbuild.core.fs import atomic_write
from envbuild.core.package_data import template_dir
from envbuild.errors import UsageError

_SCRIPT = "ci/envbuild.sh"
_FILES = {"github": ".github/workflows/image.yml", "gitlab": ".gitlab-ci.yml"}
_NEXT = {
    "github": "commit spec, lock, Dockerfile and these; the image goes to the repository's own registry",
    "gitlab": "commit spec, lock, Dockerfile and these; to sign, set the variables named in .gitlab-ci.yml",
}


def write_pipeline(service: str, folder: Path, force: bool, console: Console) -> None:
    """Write a service's pipeline and the script it calls into a project.

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
        console.line("wrote", str(path))
    console.line("next", _NEXT[service])


def _differs(path: Path, text: str) -> bool:
    return path.read_bytes() != text.encode()
