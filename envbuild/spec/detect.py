"""What a project folder shows about the environment it needs: read, never run."""

from __future__ import annotations

import ast
import os
import re
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from envbuild.core.notebooks import code_of
from envbuild.core.toml import parse_toml
from envbuild.errors import UsageError
from envbuild.spec import foreign, scripts, stated, validators
from envbuild.spec.distributions import DISTRIBUTIONS
from envbuild.spec.keys import STANDALONE
from envbuild.spec.optional import frameworks_for, names_in, optional_of
from envbuild.spec.system_keys import DEFAULTS

_SKIP = frozenset(
    {"node_modules", "site-packages", "__pycache__", "venv", "env", "build", "dist", "tests", "test", "docs", "doc"}
)
_DATA_FOLDERS = frozenset({"data", "dataset", "datasets", "input", "inputs", "images", "corpus"})
_DATA_FILES = frozenset({".csv", ".tsv", ".parquet", ".npz", ".npy", ".h5", ".hdf5", ".tfrecord", ".jsonl", ".arrow"})
_MAX_FILES, _MAX_DEPTH, _MAX_BYTES, _MAX_SHOWN = 500, 5, 1 << 20, 5
_NO_DATA = frozenset({".py", ".pyc", ".ipynb", ".md", ".rst", ".sh", ".yaml", ".yml", ".toml"})
"""Suffixes of what is next to data, and is none."""
_LOOKED_AT = 1_000
"""Files of a folder that are looked at to see whether it has data."""
_MAX_NOTEBOOK = 32 << 20
"""The same of a notebook, which has the pictures that its cells showed."""


@dataclass(frozen=True, kw_only=True, slots=True)
class DetectedProject:
    """What was found, and as text where.

    Attributes:
        packages: Debian's, with programs that the project starts.
        started_by: the files that start them.
        sources: Python packages that have no wheel on the package index and that requirements bring.
    """

    name: str
    release: str
    python: str
    python_reason: str
    requirements: tuple[str, ...]
    requirements_reason: str
    unknown: tuple[str, ...]
    notes: tuple[str, ...]
    data: tuple[str, ...]
    export: str = ""
    packages: tuple[str, ...] = ()
    started_by: tuple[str, ...] = ()
    sources: tuple[str, ...] = ()


def detect_project(folder: Path) -> DetectedProject:
    """Detect what the project in ``folder`` needs; unreadable and malformed files are passed over.

    Raises:
        UsageError: the folder itself cannot be read.
    """
    folder = Path(os.path.realpath(folder))
    try:
        os.scandir(folder).close()
    except OSError as error:
        raise UsageError(f"cannot read the folder {folder}: {error.strerror}", "name the project's folder") from None
    project, poetry = _project(folder)
    release, python, python_reason = _python(folder, project)
    requirements, reason, unknown = _requirements(folder, project, poetry)
    file, export = _export(folder, requirements)
    pinned = f"{file} pins this project's packages. To take its pins: {export}"
    notes = (pinned, "and then write  requirements: requirements.txt") if export else ()
    packages, started_by = scripts.packages_of(folder, _parsed(folder))
    return DetectedProject(
        name=_name(str(project.get("name", "")) or folder.name),
        release=release,
        python=python,
        python_reason=python_reason,
        requirements=requirements,
        requirements_reason=reason,
        unknown=unknown,
        notes=(*_notes(folder, requirements), *_own(folder, project, requirements), *notes),
        data=_data(folder),
        export=export,
        packages=packages,
        started_by=started_by,
        sources=_built(folder, requirements),
    )


def project_name(folder: Path) -> str:
    """Return the name that a project's ``pyproject.toml`` gives it; empty if it gives none."""
    project, _ = _project(folder)
    name = project.get("name")
    return name if isinstance(name, str) else ""


def _name(text: str) -> str:
    slug = re.sub(r"[^a-z0-9_-]+", "-", text.lower()).strip("-_")[:64].strip("-_")
    return slug or "training"


def _read(path: Path) -> str:
    """Return a file's text, or nothing if it is absent, large or not UTF-8."""
    try:
        if not path.is_file() or path.stat().st_size > (_MAX_NOTEBOOK if path.suffix == ".ipynb" else _MAX_BYTES):
            return ""
        return path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError):
        return ""


def _project(folder: Path) -> tuple[dict[str, Any], list[str]]:
    """Return the table ``project``, and what Poetry's table requires where it has the project's requirements.

    Name and Python of Poetry's table count as the project's own.
    """
    try:
        document = parse_toml(_read(folder / "pyproject.toml"))
    except ValueError:
        return {}, []
    project = document.get("project", {})
    project = project if isinstance(project, dict) else {}
    tool = document.get("tool")
    poetry = tool.get("poetry") if isinstance(tool, dict) else None
    if not isinstance(poetry, dict) or "dependencies" in project:
        return project, []
    python, lines = stated.of_poetry(poetry)
    own = {"name": poetry.get("name")} if isinstance(poetry.get("name"), str) else {}
    return own | ({"requires-python": python} if python else {}) | project, lines


def _python(folder: Path, project: dict[str, Any]) -> tuple[str, str, str]:
    """Choose the release whose Python the project asks for; Debian 12 if it does not matter."""
    from packaging.specifiers import InvalidSpecifier, SpecifierSet

    default = next(iter(DEFAULTS))
    if found := re.search(
        r"^[ \t]*(?:cpython-)?(3\.\d{1,2})(?:\.\d+)?[ \t]*$", _read(folder / ".python-version"), re.M
    ):
        for release, version in DEFAULTS.items():
            if version == found[1]:
                return release, version, "from .python-version"
        if found[1] in STANDALONE:
            return default, found[1], "from .python-version"
        return default, DEFAULTS[default], f".python-version requires {found[1]}, of which there is no build"
    wanted = project.get("requires-python")
    if isinstance(wanted, str):
        try:
            allowed = SpecifierSet(wanted)
        except InvalidSpecifier:
            return default, DEFAULTS[default], ""
        for release, version in DEFAULTS.items():
            if allowed.contains(f"{version}.0") or allowed.contains(f"{version}.99"):
                return release, version, "allowed by pyproject.toml"
        for version in reversed(STANDALONE):
            if allowed.contains(f"{version}.99"):
                return default, version, "allowed by pyproject.toml"
        why = f"pyproject.toml wants {wanted}" if wanted.isprintable() else "pyproject.toml wants another"
        return default, DEFAULTS[default], f"{why}, of which there is no build"
    return default, DEFAULTS[default], ""


def _requirements(
    folder: Path, project: dict[str, Any], poetry: Sequence[str]
) -> tuple[tuple[str, ...], str, tuple[str, ...]]:
    """Return requirements, where they come from, and import names without a known distribution."""
    for name in ("requirements.txt", "requirements.in"):
        if _read(folder / name).strip():
            return (f"-r {name}",), f"Python packages, from {name}.", ()
    files = sorted(path.name for path in folder.glob("requirements*.txt") if _main_file(path.name) and _read(path))
    if len(files) == 1:
        return (f"-r {files[0]}",), f"Python packages, from {files[0]}.", ()
    if _read(folder / "pylock.toml").strip():
        return ("-r pylock.toml",), "Python packages, from pylock.toml.", ()
    dependencies = project.get("dependencies")
    if isinstance(dependencies, list) and (lines := _valid(dependencies)):
        return lines, "Python packages, from pyproject.toml.", ()
    if lines := _valid(poetry):
        return lines, "Python packages, from pyproject.toml (Poetry's table).", ()
    imports, optional, versions = _imports(folder)
    imported = sorted(imports)
    known = {DISTRIBUTIONS[name] for name in imported if name in DISTRIBUTIONS} | optional
    known |= {*frameworks_for(known)}
    if "torch" in known:
        known.add("numpy")  # no requirement of torch's own: without it torch warns, and Tensor.numpy() fails
    unknown = tuple(name for name in imported if name not in DISTRIBUTIONS)
    file, listed = stated.of_setup(_read(folder / "setup.py"), _read(folder / "setup.cfg"))
    if lines := _valid(listed):
        names = {_distribution(line) for line in lines}
        lines += tuple(sorted(known - names))
        unknown = tuple(name for name in unknown if name.lower().replace("_", "-") not in names)
        return lines, f"Python packages, from {file} and guessed from the imports of your code.", unknown
    if known:
        if _notebooks_alone(folder):
            known |= {"ipykernel", "nbconvert"}
        pins = {DISTRIBUTIONS[name]: version for name, version in versions.items() if name in DISTRIBUTIONS}
        lines = tuple(f"{name}=={pins[name]}" if name in pins else name for name in sorted(known))
        return lines, "Python packages, guessed from the imports of your code.", unknown
    return (), 'Python packages, such as "tensorflow-cpu==2.21.*" or "-r requirements.txt".', unknown


def _distribution(line: str) -> str:
    from packaging.requirements import Requirement
    from packaging.utils import canonicalize_name

    return canonicalize_name(Requirement(line).name)


def _main_file(name: str) -> bool:
    safe = re.fullmatch(r"requirements[A-Za-z0-9._-]*\.txt", name) is not None
    return safe and not re.search(r"dev|test|doc|lint|build|gpu|cuda", name)


def _valid(lines: Sequence[object]) -> tuple[str, ...]:
    """Keep the lines that a spec takes."""
    found = {}
    for line in lines:
        try:
            found[validators.requirement(str(line))] = True
        except ValueError:
            continue
    return tuple(found)


def _sources(folder: Path) -> Iterator[Path]:
    """Yield Python files and notebooks of the project, in order, at most ``_MAX_FILES``."""
    count = 0
    for here, folders, files in os.walk(folder):
        depth = len(Path(here).relative_to(folder).parts)
        hidden = {name for name in folders if name.startswith(".") or name in _SKIP}
        folders[:] = sorted(set(folders) - hidden) if depth < _MAX_DEPTH else []
        if (Path(here) / "pyvenv.cfg").exists():
            folders[:] = []
            continue
        for name in sorted(files):
            if name.endswith((".py", ".ipynb")):
                count += 1
                if count > _MAX_FILES:
                    return
                yield Path(here) / name


def _notebooks_alone(folder: Path) -> bool:
    """Return whether the project's code is in notebooks, next to which there is no script."""
    names = {path.suffix for path in _sources(folder)}
    at_the_top = {path.suffix for path in folder.iterdir()}
    return ".ipynb" in names and ".py" not in (at_the_top if ".ipynb" in at_the_top else names)


def _code(path: Path) -> str:
    """Return the Python text of a file; of a notebook, its cells without IPython's magics and commands."""
    text = _read(path)
    if path.suffix == ".py" or not text:
        return text
    return code_of(text)


def _imports(folder: Path) -> tuple[set[str], set[str], dict[str, str]]:
    """Return top-level names imported from elsewhere, distributions that parts of these need, and asserted versions.

    The standard library and the project's own modules are left out, and versions in which files do not agree.
    """
    versions: dict[str, set[str]] = {}
    names: set[str] = set()
    used: set[tuple[str, str]] = set()
    own = {path.stem if path.suffix == ".py" else path.name for path in folder.iterdir()}
    own |= {path.name for path in (folder / "src").iterdir()} if (folder / "src").is_dir() else set()
    for path in _sources(folder):
        if path.name == "setup.py":
            continue  # what builds the project, or a part of it, not what runs
        siblings = {sibling.stem for sibling in path.parent.glob("*.py")}
        around = (*(each.parent for each in path.parent.glob("*/*.py")), *path.relative_to(folder).parents)
        siblings |= {each.name for each in around if _is_own(folder / each)}
        if (tree := _tree(path)) is None:
            continue
        names |= set(_imported(tree)) - siblings
        used |= set(names_in(tree))
        for name, version in stated.asserted(tree):
            versions.setdefault(name, set()).add(version)
    found = {name for name in names - own - sys.stdlib_module_names - _PYTHON_2 if name.isascii()}
    pins = {name: next(iter(each)) for name, each in versions.items() if len(each) == 1}
    return found, set(optional_of(used, found)), pins


def _is_own(package: Path) -> bool:
    """Return whether a folder is a package of the project: a script next to ``torch/`` may mean the library."""
    return package.name not in DISTRIBUTIONS or (package / "__init__.py").is_file()


def _tree(path: Path) -> ast.Module | None:
    try:
        return ast.parse(_code(path))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def _parsed(folder: Path) -> Iterator[tuple[str, ast.Module]]:
    for path in _sources(folder):
        if (tree := _tree(path)) is not None:
            yield path.relative_to(folder).as_posix(), tree


_PYTHON_2 = frozenset(
    [
        *(
            "BaseHTTPServer",
            "ConfigParser",
            "HTMLParser",
            "Queue",
            "SocketServer",
            "StringIO",
            "Tkinter",
            "__builtin__",
        ),
        *("anydbm", "cPickle", "cStringIO", "commands", "cookielib", "copy_reg", "httplib", "md5", "sets"),
        *("__builtin__", "thread", "urllib2", "urlparse", "xmlrpclib"),
    ]
)
"""Modules of Python 2's library, which programs for both import where the one of Python 3 is missing."""
_COLAB = frozenset({"google.colab"})
"""What notebooks import to see where they are; no package of the index."""


def _imported(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name.partition(".")[0] for alias in node.names if alias.name not in _COLAB)
        elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module and node.module not in _COLAB:
            yield node.module.partition(".")[0]


_COMMAND = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_ITSELF = re.compile(r"^\s*(?:-e\s+|--editable[ =])?\.(?:\[[^\]]*\])?\s*(?:#.*)?$", re.M)
"""A line that requires the project whose folder it is in."""
_COMMANDS = 3
"""Commands of a project that are named."""


_WITHOUT_WHEEL = {r"hydra[-_]core|omegaconf": "antlr4-python3-runtime"}
"""Distributions, and what they need of which the package index has no wheel (antlr4-python3-runtime 4.9)."""


def _built(folder: Path, requirements: Sequence[str]) -> tuple[str, ...]:
    text = _lines(folder, requirements)
    return tuple(need for of, need in _WITHOUT_WHEEL.items() if re.search(rf"^\s*(?:{of})\b", text, re.M | re.I))


def _lines(folder: Path, requirements: Sequence[str]) -> str:
    return "\n".join([*requirements, *(_read(folder / line[3:]) for line in requirements if line.startswith("-r "))])


def _notes(folder: Path, requirements: Sequence[str]) -> tuple[str, ...]:
    text = _lines(folder, requirements)
    notes = []
    if re.search(r"^torch\b", text, re.M):
        notes.append("torch from the default index brings CUDA libraries; CPU wheels have an index of their own.")
    if re.search(r"^tensorflow\b(?!-)", text, re.M):
        notes.append("tensorflow-cpu is the same TensorFlow without GPU parts, and smaller.")
    return tuple(notes)


def _own(folder: Path, project: dict[str, Any], requirements: Sequence[str]) -> tuple[str, ...]:
    """Return how a project with commands, or with its package below ``src``, comes into the image itself."""
    name, scripts = project.get("name"), project.get("scripts")
    if not isinstance(name, str) or not _COMMAND.fullmatch(name):
        return ()
    if _ITSELF.search(_lines(folder, requirements)):
        return ()
    commands = [each for each in scripts if _COMMAND.fullmatch(each)] if isinstance(scripts, dict) else []
    package = name.replace("-", "_").replace(".", "/")
    if not commands and not (folder / "src").is_dir() and not (folder / package / "__init__.py").is_file():
        return ()
    has = f" with {', '.join(commands[:_COMMANDS])}" if commands else ""
    return (f"The image has the project itself{has} if requirements have  - -e .  and the spec  sources: [{name}]",)


def _export(folder: Path, requirements: Sequence[str]) -> tuple[str, str]:
    """Return the file of another tool that pins the project, and the command that writes its pins out.

    Both are empty if there is none, or a requirements file has its pins.
    """
    if not any(line.startswith("-r ") for line in requirements):
        for name in foreign.NEIGHBOURS:
            if text := _read(folder / name):
                return name, foreign.export_command(name, text)
    return "", ""


def _data(folder: Path) -> tuple[str, ...]:
    """Return folders and files that look like data; a folder without data in it is one that a program fills."""
    found = []
    for path in sorted(folder.iterdir()):
        if path.is_dir():
            looks = path.name.lower() in _DATA_FOLDERS and _has_data(path)
        else:
            looks = path.suffix.lower() in _DATA_FILES
        try:
            if looks and not path.is_symlink():
                found.append(validators.relative(path.name))
        except ValueError:
            continue
    return tuple(found[:_MAX_SHOWN])


def _has_data(folder: Path) -> bool:
    """Return whether a folder is no package, and has a file that is neither code nor text about it."""
    if (folder / "__init__.py").exists():
        return False
    count = 0
    for _, folders, files in os.walk(folder):
        folders[:] = [name for name in folders if not name.startswith(".")]
        for name in files:
            count += 1
            if count > _LOOKED_AT:
                return False
            if not name.startswith(".") and Path(name).suffix.lower() not in _NO_DATA:
                return True
    return False
