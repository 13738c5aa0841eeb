"""Run public examples several times under the hook, unmodified, and compare what they print, write and train.

    make examples CHECKOUTS=FOLDER
    python scripts/public-examples.py [--checkouts FOLDER] [--runs 5] [--results FILE] [NAME …]

The list is tests/public/examples.toml, and a run's folder holds nothing but the listed files. They are looked for in
FOLDER/OWNER+NAME, which may be a checkout, a git directory, or a folder with a git directory ``repo``; without that,
git fetches the commit from GitHub. A file with another digest is not run. Every example also runs twice without the
hook, to show that the hook is what makes the difference. Ends with 1 if an example did not repeat, and states with a
reason what it left out.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from envbuild.determinism import policy  # noqa: E402
from envbuild.lockfile.model import Determinism  # noqa: E402
from envbuild.trace import compare  # noqa: E402
from tests.support.environments import environment  # noqa: E402
from tests.support.runtime import Tree, make_lock, make_tree  # noqa: E402

LIST = ROOT / "tests" / "public" / "examples.toml"
DETERMINISM = Determinism(level="ops", seed=42, threads=2)
QUIET = {"MPLBACKEND": "Agg", "TF_CPP_MIN_LOG_LEVEL": "3"}


class UnavailableError(Exception):
    """An example cannot be had here; the text is the reason."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Result:
    """What one run left, as far as it is compared."""

    lines: tuple[str, ...]
    outputs: Mapping[str, str]
    steps: int
    weights: str


def main(arguments: Sequence[str]) -> int:
    """Run the wanted examples and print a table for docs/explanation/examples.md."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--checkouts", type=Path)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--results", type=Path, help="write the table to this file too")
    parser.add_argument("names", nargs="*")
    options = parser.parse_args(arguments)
    examples = tomllib.loads(LIST.read_text(encoding="utf-8"))["example"]
    wanted = [example for example in examples if not options.names or example["name"] in options.names]
    rows = [_row(example, options.checkouts, options.runs) for example in wanted]
    table = "\n".join(
        [
            "| example | packages | equal with envbuild | without | compared | seconds a run |",
            "| --- | --- | --- | --- | --- | --- |",
            *(row for row, _ in rows),
        ]
    )
    print(table)
    if options.results:
        options.results.write_text(f"{table}\n", encoding="utf-8")
    return 0 if all(good for _, good in rows) else 1


def _row(example: Mapping[str, Any], checkouts: Path | None, count: int) -> tuple[str, bool]:
    """Return an example's row of the table, and whether nothing differed."""
    name = example["name"]
    with tempfile.TemporaryDirectory(prefix="envbuild-examples-") as folder:
        try:
            files = {path: _file(example, path, checkouts, Path(folder)) for path in example["files"]}
        except UnavailableError as reason:
            print(f"{name}: left out: {reason}", file=sys.stderr)
            return f"| {name} | – | left out: {reason} | – | – | – |", True
        tree, packages = _tree(example, Path(folder))
        begun = time.monotonic()
        try:
            results = [_run(example, files, tree, Path(folder) / f"run-{number}") for number in range(count)]
        except AssertionError as error:
            print(f"{name}: failed: {error}", file=sys.stderr)
            return f"| {name} | {packages} | failed | – | – | – |", False
        seconds = (time.monotonic() - begun) / count
        plain = [_plain(example, files, tree, Path(folder) / f"plain-{number}") for number in range(2)]
    equal = max(results.count(result) for result in results)
    without = "equal" if plain[0] == plain[1] else "differ"
    first = results[0]
    compared = [f"{len(first.lines)} lines", *first.outputs]
    compared += [f"{first.steps:,} steps"] if first.steps else []
    if not first.lines or (example.get("steps") and not first.steps):
        raise SystemExit(f"{name}: nothing to compare")
    print(f"{name}: {equal}/{count} equal; without the hook: {without}", file=sys.stderr)
    text = f"| {name} | {packages} | {equal}/{count} | {without} | {', '.join(compared)} | {seconds:.0f} |"
    return text, equal == count


def _file(example: Mapping[str, Any], path: str, checkouts: Path | None, scratch: Path) -> bytes:
    """Return one file of the example as the list wants it."""
    data = _read(example, path, checkouts, scratch)
    found = hashlib.sha256(data).hexdigest()
    if found != example["files"][path]:
        raise UnavailableError(f"{path} has the digest {found}, not the listed one")
    return data


def _read(example: Mapping[str, Any], path: str, checkouts: Path | None, scratch: Path) -> bytes:
    repository, commit = str(example["repository"]), str(example["commit"])
    if checkouts:
        place = checkouts / repository.replace("/", "+")
        if (place / path).is_file():
            return (place / path).read_bytes()
        place = place / "repo" if (place / "repo").is_dir() else place
        if not place.is_dir():
            raise UnavailableError(f"no folder {place.name} among the checkouts")
    else:
        place = scratch / "repository"
        if not place.exists():
            _fetch(repository, commit, place)
    shown = subprocess.run(["git", "-C", place, "show", f"{commit}:{path}"], capture_output=True, check=False)
    if shown.returncode:
        raise UnavailableError(f"git has no {path} at {commit[:12]}")
    return shown.stdout


def _fetch(repository: str, commit: str, place: Path) -> None:
    subprocess.run(["git", "init", "--quiet", place], check=True)
    command = ["git", "-C", str(place), "fetch", "--quiet", "--depth=1", f"https://github.com/{repository}", commit]
    done = subprocess.run(
        command, env={**os.environ, "GIT_TERMINAL_PROMPT": "0"}, capture_output=True, text=True, check=False
    )
    if done.returncode:
        shutil.rmtree(place)
        raise UnavailableError(f"git cannot fetch {repository}: {done.stderr.strip().splitlines()[-1:]}")


def _tree(example: Mapping[str, Any], scratch: Path) -> tuple[Tree, str]:
    """Lay out the runtime with the variables that a lock of these packages would have."""
    folder = environment(example["environment"])
    versions = {}
    for info in sorted(folder.glob("*.dist-info")):
        package, _, version = info.name.removesuffix(".dist-info").partition("-")
        versions[package.lower().replace("_", "-")] = version.partition("+")[0]
    frameworks = policy.frameworks_of(make_lock(packages=versions).packages)
    variables = policy.environment(frameworks, DETERMINISM)
    tree = make_tree(scratch / "tree", make_lock(environment=variables, determinism=DETERMINISM), paths=[folder])
    return tree, ", ".join(f"{package} {version}" for package, version in frameworks.items())


def _run(example: Mapping[str, Any], files: Mapping[str, bytes], tree: Tree, folder: Path) -> Result:
    for path in tree.run.iterdir():
        path.unlink()
    _lay_out(files, folder)
    variables = {**QUIET, **example.get("variables", {}), **({"ENVBUILD_TRACE": "1"} if example.get("steps") else {})}
    done = tree.execute(*_command(example), variables=variables, folder=folder, timeout=1800)
    return _result(example, done.stdout, folder, tree.run)


def _plain(example: Mapping[str, Any], files: Mapping[str, bytes], tree: Tree, folder: Path) -> Result:
    """Run once without envbuild: the packages, and nothing else set."""
    _lay_out(files, folder)
    packages = (tree.site / "zz-paths.pth").read_text().strip()
    variables = {"PATH": "/usr/bin:/bin", "PYTHONPATH": packages, **QUIET, **example.get("variables", {})}
    done = subprocess.run(
        [sys.executable, *_command(example)], cwd=folder, env=variables, capture_output=True, text=True, check=True
    )
    return _result(example, done.stdout, folder, None)


def _command(example: Mapping[str, Any]) -> list[str]:
    return list(example.get("run") or [next(iter(example["files"]))])


def _lay_out(files: Mapping[str, bytes], folder: Path) -> None:
    for path, data in files.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_bytes(data)


def _result(example: Mapping[str, Any], stdout: str, folder: Path, records: Path | None) -> Result:
    keep, forget = re.compile(example.get("keep", "")), re.compile(example.get("forget", r"(?!)"))
    lines = [line.split("\r")[-1].replace(str(folder), "") for line in stdout.splitlines()]
    traces = compare.read_run(records) if records and example.get("steps") else ()
    return Result(
        lines=tuple(forget.sub("", line) for line in lines if keep.search(line)),
        outputs={path: hashlib.sha256((folder / path).read_bytes()).hexdigest() for path in example.get("outputs", ())},
        steps=sum(len(found.steps) for found in traces),
        weights=compare.digest(traces) if traces else "",
    )


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
