"""Two builders that differ in all that must not matter: engine, date, locale, time zone, mask, folders, variables.

``here`` is the machine as it is. ``elsewhere`` has what the reproducibility matrix varies at once
(tests/reproducibility/variations.py), a clock eleven years ahead, folders that list their entries the other way round,
and by default no engine at all but namespaces of the kernel. Each has a separate store, empty but for the downloads.
"""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from envbuild import __version__
from envbuild.errors import UsageError
from scripts.pipeline.console import envbuild_json, report
from scripts.pipeline.subject import ROOT, Subject
from tests.reproducibility.variations import CLOCK_AHEAD, VARIATIONS

_TOGETHER = VARIATIONS[-1]
_STARTED = ("containerd", "classic")
_OWN_ENGINE = ("DOCKER_HOST", "DOCKER_CONTEXT", "CONTAINER_HOST", "ENVBUILD_ENGINE")
NAMES = ("here", "elsewhere")


@dataclass(frozen=True, kw_only=True, slots=True)
class Builder:
    """One builder.

    Attributes:
        name: one of ``NAMES``.
        engine: ``own`` for the one that answers, ``none`` for namespaces, ``containerd`` or ``classic`` for the one
            that scripts/second-engine.sh starts, or an address.
        leak: let the mask of this process into the image, so that the comparison must fail.
    """

    name: str
    engine: str = "own"
    leak: bool = False

    def build(self, subject: Subject) -> dict[str, Any]:
        """Build a lock's image from nothing but its files; returns the image's digests and what built it."""
        vendor, folder = subject.note("vendor"), subject.note(self.name)
        if not vendor.is_dir():
            raise UsageError(f"{vendor} is not there", "first: scripts/pipeline.sh fetch")
        shutil.rmtree(folder, ignore_errors=True)
        project = folder / ("project" if self.name == "here" else _TOGETHER.folder)
        for made in (project, folder / "home", folder / "elsewhere", folder / "store"):
            made.mkdir(parents=True)
        shutil.copy(subject.path, project)
        words: list[str | Path] = ["build", "--offline", "--from", vendor]
        if self.engine == "none":
            words += ["--output", f"oci:{folder / 'layout'}"]
        environ = self.environ(folder)
        environment = _build_environment(self, environ)
        facts = ", ".join(f"{key} {value}" for key, value in environment.items() if key != "builder")
        report("build", f"{subject.name}  {self.name}: {facts}")
        umask = -1 if self.name == "here" else _TOGETHER.umask
        began = time.monotonic()
        identity = envbuild_json(
            *words, subject.path.name, cwd=project, environ=environ, umask=umask, prefix=self._program()
        )
        report("built", f"{subject.name}  {self.name}: sha256:{identity['config']}  {time.monotonic() - began:.1f} s")
        return {**identity, "built": environment}

    def environ(self, folder: Path) -> dict[str, str]:
        """Return the variables of the builder's commands."""
        environ = {**os.environ, "ENVBUILD_STORE": str(folder / "store"), "PYTHONPATH": str(ROOT)}
        if self.name == "elsewhere":
            environ |= {name: value.replace("{folder}", str(folder)) for name, value in _TOGETHER.environ.items()}
            environ["LD_PRELOAD"] = str(_library(folder))
        if self.engine != "own":
            environ = {name: value for name, value in environ.items() if name not in _OWN_ENGINE}
            environ |= {"ENVBUILD_ENGINE": "local"} if self.engine == "none" else {"DOCKER_HOST": self._address()}
        return environ

    def _address(self) -> str:
        if self.engine not in _STARTED:
            return self.engine
        command = [str(ROOT / "scripts" / "second-engine.sh"), "start", self.engine]
        done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
        return str(done.stdout).strip().partition("=")[2]

    def _program(self) -> tuple[str, ...]:
        if self.leak:
            return (sys.executable, str(Path(__file__).with_name("leaky.py")))
        return (sys.executable, "-m", "envbuild")


def _library(folder: Path) -> Path:
    """Compile the library that shows another date and another order of files."""
    subprocess.run([ROOT / "scripts" / "ensure-compiler.sh"], check=True, stdout=subprocess.DEVNULL)
    library, source = folder / "elsewhere.so", ROOT / "tests" / "reproducibility" / "elsewhere.c"
    flags = ["-shared", "-fPIC", "-O1", f"-DCLOCK={CLOCK_AHEAD}", "-DORDER=1"]
    subprocess.run(["cc", *flags, "-o", str(library), str(source)], check=True)
    return library


def _build_environment(builder: Builder, environ: dict[str, str]) -> dict[str, str]:
    """Describe what a builder is, for people and for the statement of provenance."""
    ahead = CLOCK_AHEAD if builder.name == "elsewhere" else 0
    return {
        "builder": builder.name,
        "engine": builder.engine,
        "date": time.strftime("%Y-%m-%d", time.gmtime(time.time() + ahead)),
        "locale": environ.get("LANG", "") or "none",
        "zone": environ.get("TZ", "") or "system",
        "python": platform.python_version(),
        "kernel": platform.release(),
        "envbuild": __version__,
    }
