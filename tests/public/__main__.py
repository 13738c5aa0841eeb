"""Verify programs of source archives and print a table: ``python -m tests.public [--results FILE] [NAME…]``.

Each is verified as a user would: three runs in containers, unmodified; its figures count as files (figures.py). Needs a
container engine and a package index.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import sys
import tarfile
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.plants import make_project
from tests.public.sdists import download
from tests.support.cli import Project
from tests.support.environments import environment
from tests.support.images import forget_images

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

_FOLDER = Path(__file__).parent
_NAME = f"publicbox-{os.getpid()}"
_PROBLEM = 200


@dataclass(frozen=True, kw_only=True, slots=True)
class Verified:
    """What ``verify`` found about a program.

    Attributes:
        verdict: ``bit-identical``, ``different``, or how it failed.
        compared: in phrases.
        cause: the first one, of runs that differ.
        right: as expected, the cause too.
    """

    name: str
    verdict: str
    compared: str
    cause: str
    seconds: float
    right: bool


def main() -> int:
    """Verify; returns 1 if a verdict or a cause is not the expected one."""
    parser = argparse.ArgumentParser(prog="python -m tests.public")
    parser.add_argument("--results", type=Path)
    parser.add_argument("names", nargs="*")
    options = parser.parse_args()
    found: list[Verified] = []
    for package in tomllib.loads((_FOLDER / "sdists.toml").read_text())["package"]:
        with tempfile.TemporaryDirectory() as folder:
            found += _verify_all(package, Path(folder), options.names)
    lines = ["| program | verdict | compared | seconds |", "| --- | --- | --- | --- |"]
    for each in found:
        said = f"{each.verdict}: {each.cause}" if each.cause else each.verdict
        lines.append(f"| {each.name} | {said} | {each.compared} | {each.seconds:.0f} |")
    if options.results:
        options.results.write_text("\n".join(lines) + "\n")
    print("\n".join(lines))
    wrong = [each.name for each in found if not each.right]
    print(f"{len(found)} programs, {len(wrong)} not as expected{': ' if wrong else ''}{', '.join(wrong)}")
    return 1 if wrong else 0


def _verify_all(package: dict[str, Any], root: Path, names: list[str]) -> list[Verified]:
    archive = download(package["requirement"], package["backend"], package["sha256"], root / "sdist")
    made = make_project(root, _NAME, {"figures.py": (_FOLDER / "figures.py").read_text()})
    programs = [name for name in package["programs"] if not names or any(part in name for part in names)]
    try:
        with ThreadPoolExecutor(int(os.environ.get("PLANT_JOBS", "2"))) as pool:
            return list(pool.map(lambda name: _verify(package, archive, made, root, name), programs))
    finally:
        forget_images(f"envbuild/{_NAME}")


def _verify(package: dict[str, Any], archive: Path, made: Project, root: Path, name: str) -> Verified:
    """Verify one program in a project that holds nothing else of the archive."""
    project = made.copy(root / name.replace("/", "-").removesuffix(".py"))
    with tarfile.open(archive) as members:
        top = members.getnames()[0].partition("/")[0]
        stream = members.extractfile(f"{top}/{package['folder']}/{name}")
        assert stream is not None, name
        project.write("program.py", stream.read().decode("utf-8"))
    mount = ("--mount", f"{environment(package['environment'], '3.11')}:/frameworks:ro")
    begin = time.monotonic()
    done = project("verify", "--json", "-e", "MPLBACKEND=module://figures", *mount, "program.py")
    seconds = time.monotonic() - begin
    table: dict[str, Any] = json.loads(done.out) if done.out.strip().startswith("{") else {}
    causes = table.get("causes") or [{}]
    cause = f"{causes[0].get('what', '')} ({causes[0].get('where', '')})" if causes[0] else ""
    verdict = {0: "bit-identical", 16: "different"}.get(done.code, f"exit {done.code}: {done.err[-_PROBLEM:]!r}")
    expected = package.get("different", {}).get(name)
    right = re.search(expected, cause) is not None if expected and done.code == 16 else done.code == 0 and not expected
    print(f"{name:<60}{verdict[:40]:<15}{seconds:4.0f} s  {cause[:60]}", file=sys.stderr, flush=True)
    return Verified(
        name=name.removesuffix(".py"),
        verdict=verdict,
        compared=", ".join(table.get("compared") or table.get("agrees") or ()),
        cause=cause,
        seconds=seconds,
        right=right,
    )


if __name__ == "__main__":
    sys.exit(main())
