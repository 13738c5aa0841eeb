"""What several files of tests share: one small project, locked and built once."""

from __future__ import annotations

import fcntl
import os
import uuid
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.support import environments
from tests.support.cli import Project
from tests.support.images import forget_images
from tests.support.wheels import make_wheel

os.environ.setdefault("ENVBUILD_ENGINE", "docker")  # ``make integration`` runs some files a second time with "local"

_NAME = "clitest"
_SPEC = f"""\
name: {_NAME}
os: debian-12
python: "3.11"
packages: [libstdc++6, libgomp1]  # for frameworks that a test mounts
requirements: [tool]
wheels: [wheels]
determinism: {{threads: 1}}
"""
_TOOL = f"""\
# {uuid.uuid4()}: no other test process has this image, so that removing it here disturbs nobody
import json, sys
def main():
    print(json.dumps(sys.argv))
if __name__ == "__main__":
    main()
"""


@pytest.fixture(scope="session", name="made")
def _made(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Project]:
    """A project with two small wheels over Debian 12's Python: locked, fetched, vendored to ``vendor``, and built."""
    root = tmp_path_factory.mktemp("made")
    proxies = {name: value for name, value in os.environ.items() if name.lower().endswith("_proxy")}
    project = Project(folder=root / "project", store=root / "store", environ=proxies)
    files = {"tool.py": _TOOL}
    scripts = {"console_scripts": {"tool": "tool:main"}}
    make_wheel(project.folder / "wheels", "tool", requires=["part>=1"], files=files, entry_points=scripts)
    make_wheel(project.folder / "wheels", "part", "1.5")
    project.write("spec.yaml", _SPEC)
    project.write("lock.out", project.must("lock").out)
    project.write("fetch.out", project.must("fetch", "--vendor", str(root / "vendor")).out)
    with _last_one_cleans_up():  # begun before there is an image to clean up
        project.write("build.out", project.must("build").out)
        yield project


@contextmanager
def _last_one_cleans_up() -> Iterator[None]:
    """Remove the project's images at the end, unless another test process of this machine still uses them."""
    environments.CACHE.mkdir(parents=True, exist_ok=True)
    with (environments.CACHE / f"{_NAME}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_SH)
        yield
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return
        forget_images(f"envbuild/{_NAME}")


@pytest.fixture(name="project")
def _project(made: Project, tmp_path: Path) -> Project:
    """A copy of that project, over the same store."""
    return made.copy(tmp_path)


LONGEST = (
    "plants", "cluster_frameworks", "cli_verify", "local_engine", "campaign", "multiprocess", "ubuntu", "interrupts",
    "slurm", "cluster", "tutorials", "controls", "os_layer", "trace", "debian_apt", "store", "ci",
)  # fmt: skip
"""Files that take more than a minute (``seconds by file``), the longest first."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begin with the files that take longest: one that a worker began last would go on alone."""
    place = {f"test_{name}": number for number, name in enumerate(LONGEST)}
    items.sort(key=lambda item: place.get(item.path.stem, len(place)))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print how many seconds each file took, the longest first: a file is the unit that a worker takes."""
    seconds: Counter[str] = Counter()
    for reports in terminalreporter.stats.values():
        for report in reports:
            if isinstance(report, pytest.TestReport):
                seconds[Path(report.nodeid.partition("::")[0]).stem.removeprefix("test_")] += report.duration
    terminalreporter.section("seconds by file")
    terminalreporter.line(", ".join(f"{name} {total:.0f}" for name, total in seconds.most_common() if total >= 1))
