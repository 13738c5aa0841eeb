"""Verify programs of source archives and print a table: ``python -m tests.public [--results FILE] [NAME…]``.

Each is verified as a user would: three runs in containers, unmodified; its figures count as files (figures.py),
notebooks run under papermill and their cells count. Needs a container engine and a package index.
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
    kind: str
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
    packages = tomllib.loads((_FOLDER / "sdists.toml").read_text())["package"]
    with tempfile.TemporaryDirectory() as folder:
        made = make_project(Path(folder), _NAME, {"figures.py": (_FOLDER / "figures.py").read_text()})
        try:
            found = [each for package in packages for each in verify_all(package, made, Path(folder), options.names)]
        finally:
            forget_images(f"envbuild/{_NAME}")
    lines = ["| kind | program | verdict | compared | seconds |", "| --- | --- | --- | --- | --- |"]
    for each in found:
        said = f"{each.verdict}: {each.cause}" if each.cause else each.verdict
        lines.append(f"| {each.kind} | {each.name} | {said} | {each.compared} | {each.seconds:.0f} |")
    if options.results:
        options.results.write_text("\n".join(lines) + "\n")
    print("\n".join(lines))
    wrong = [each.name for each in found if not each.right]
    print(f"{len(found)} programs, {len(wrong)} not as expected{': ' if wrong else ''}{', '.join(wrong)}")
    return 1 if wrong else 0


def verify_all(package: dict[str, Any], made: Project, root: Path, names: list[str]) -> list[Verified]:
    """Verify the programs of a package that are named in part, all if none are, in copies of a built project."""
    programs = [name for name in package["programs"] if not names or any(part in name for part in names)]
    if not programs:
        return []
    with tempfile.TemporaryDirectory(dir=root) as folder:
        archive = download(package["requirement"], package["backend"], package["sha256"], Path(folder, "sdist"))
        with ThreadPoolExecutor(int(os.environ.get("PLANT_JOBS", "2"))) as pool:
            return list(pool.map(lambda name: _verify(package, archive, made, Path(folder), name), programs))


def _verify(package: dict[str, Any], archive: Path, made: Project, root: Path, name: str) -> Verified:
    """Verify one program in a project that holds nothing else of the archive but what it needs."""
    project = made.copy(root / re.sub(r"[^\w.-]", "-", name))
    program = f"program{Path(name).suffix}"
    with tarfile.open(archive) as members:
        top = members.getnames()[0].partition("/")[0]
        for member, file in ((name, program), *((each, Path(each).name) for each in package.get("with", ()))):
            stream = members.extractfile(f"{top}/{package['folder']}/{member}")
            assert stream is not None, member
            project.write(file, stream.read().decode("utf-8"))
        for member in members.getmembers():
            path = member.name.partition("/")[2]
            if member.isfile() and path.endswith(".py") and path.startswith(tuple(package.get("modules", ()))):
                stream = members.extractfile(member)
                assert stream is not None, member
                project.write(path, stream.read().decode("utf-8"))
    options = ["--mount", f"{environment(package['environment'], '3.11')}:/frameworks:ro"]
    if program.endswith(".ipynb"):
        options += ["-e", "JUPYTER_PATH=/frameworks/share/jupyter"]
        command = ["-m", "papermill", "-k", "python3", program, "executed.ipynb"]
    else:
        options += ["-e", "MPLBACKEND=module://figures"]
        command = [program, *package.get("arguments", {}).get(name, ())]
    begin = time.monotonic()
    done = project("verify", "--json", *options, *command)
    seconds = time.monotonic() - begin
    table: dict[str, Any] = json.loads(done.out) if done.out.strip().startswith("{") else {}
    causes = table.get("causes") or [{}]
    cause = f"{causes[0].get('what', '')} ({causes[0].get('where', '')})" if causes[0] else ""
    verdict = {0: "bit-identical", 16: "different"}.get(done.code, f"exit {done.code}: {done.err[-_PROBLEM:]!r}")
    expected = package.get("different", {}).get(name)
    right = re.search(expected, cause) is not None if expected and done.code == 16 else done.code == 0 and not expected
    if not right:
        print(f"{name}: exit {done.code}\n{done.out[-3000:]}\n{done.err[-3000:]}", file=sys.stderr, flush=True)
    print(f"{name:<60}{verdict[:40]:<15}{seconds:4.0f} s  {cause[:60]}", file=sys.stderr, flush=True)
    return Verified(
        name=f"{package['requirement'].partition('=')[0]} {name.rpartition('.')[0]}",
        kind=package["kind"],
        verdict=verdict,
        compared=", ".join(table.get("compared") or table.get("agrees") or ()),
        cause=cause,
        seconds=seconds,
        right=right,
    )


if __name__ == "__main__":
    sys.exit(main())
