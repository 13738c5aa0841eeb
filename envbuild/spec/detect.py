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

from envbuild.core.toml import parse_toml
from envbuild.errors import UsageError
from envbuild.spec import foreign, validators
from envbuild.spec.keys import STANDALONE
from envbuild.spec.system_keys import DEFAULTS

DISTRIBUTIONS = {
    "PIL": "pillow",
    "absl": "absl-py",
    "albumentations": "albumentations",
    "bs4": "beautifulsoup4",
    "catboost": "catboost",
    "cv2": "opencv-python-headless",
    "datasets": "datasets",
    "dateutil": "python-dateutil",
    "einops": "einops",
    "flax": "flax",
    "h5py": "h5py",
    "haiku": "dm-haiku",
    "hydra": "hydra-core",
    "imageio": "imageio",
    "jax": "jax",
    "joblib": "joblib",
    "keras": "keras",
    "librosa": "librosa",
    "lightgbm": "lightgbm",
    "lightning": "lightning",
    "matplotlib": "matplotlib",
    "mlflow": "mlflow",
    "networkx": "networkx",
    "nltk": "nltk",
    "numba": "numba",
    "numpy": "numpy",
    "omegaconf": "omegaconf",
    "optax": "optax",
    "optuna": "optuna",
    "pandas": "pandas",
    "plotly": "plotly",
    "polars": "polars",
    "pyarrow": "pyarrow",
    "pytorch_lightning": "pytorch-lightning",
    "requests": "requests",
    "scipy": "scipy",
    "seaborn": "seaborn",
    "sentencepiece": "sentencepiece",
    "skimage": "scikit-image",
    "sklearn": "scikit-learn",
    "soundfile": "soundfile",
    "spacy": "spacy",
    "statsmodels": "statsmodels",
    "tensorboard": "tensorboard",
    "tensorflow": "tensorflow-cpu",
    "tensorflow_datasets": "tensorflow-datasets",
    "tensorflow_probability": "tensorflow-probability",
    "tiktoken": "tiktoken",
    "timm": "timm",
    "tokenizers": "tokenizers",
    "torch": "torch",
    "torchaudio": "torchaudio",
    "torchvision": "torchvision",
    "tqdm": "tqdm",
    "transformers": "transformers",
    "typer": "typer",
    "xgboost": "xgboost",
    "yaml": "pyyaml",
}
"""Import name to the name of the distribution that has it."""

_SKIP = frozenset({"node_modules", "site-packages", "__pycache__", "venv", "env", "build", "dist", "tests", "test"})
_DATA_FOLDERS = frozenset({"data", "dataset", "datasets", "input", "inputs", "images", "corpus"})
_DATA_FILES = frozenset({".csv", ".tsv", ".parquet", ".npz", ".npy", ".h5", ".hdf5", ".tfrecord", ".jsonl", ".arrow"})
_MAX_FILES, _MAX_DEPTH, _MAX_BYTES, _MAX_SHOWN = 500, 5, 1 << 20, 5


@dataclass(frozen=True, kw_only=True, slots=True)
class DetectedProject:
    """What was found, and as text where."""

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
    project = _project(folder)
    release, python, python_reason = _python(folder, project)
    requirements, reason, unknown = _requirements(folder, project)
    file, export = _export(folder, requirements)
    pinned = f"{file} pins this project's packages. To take its pins: {export}"
    notes = (pinned, "and then write  requirements: requirements.txt") if export else ()
    return DetectedProject(
        name=_name(str(project.get("name", "")) or folder.name),
        release=release,
        python=python,
        python_reason=python_reason,
        requirements=requirements,
        requirements_reason=reason,
        unknown=unknown,
        notes=(*_notes(folder, requirements), *notes),
        data=_data(folder),
        export=export,
    )


def _name(text: str) -> str:
    slug = re.sub(r"[^a-z0-9_-]+", "-", text.lower()).strip("-_")[:64].strip("-_")
    return slug or "training"


def _read(path: Path) -> str:
    """Return a file's text, or nothing if it is absent, large or not UTF-8."""
    try:
        if not path.is_file() or path.stat().st_size > _MAX_BYTES:
            return ""
        return path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError):
        return ""


def _project(folder: Path) -> dict[str, Any]:
    try:
        project = parse_toml(_read(folder / "pyproject.toml")).get("project", {})
    except ValueError:
        return {}
    return project if isinstance(project, dict) else {}


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


def _requirements(folder: Path, project: dict[str, Any]) -> tuple[tuple[str, ...], str, tuple[str, ...]]:
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
    imported = sorted(_imports(folder))
    known = {DISTRIBUTIONS[name] for name in imported if name in DISTRIBUTIONS}
    if "keras" in known and not known & {"tensorflow-cpu", "torch", "jax"}:
        known.add("tensorflow-cpu")
    unknown = tuple(name for name in imported if name not in DISTRIBUTIONS)
    if known:
        return tuple(sorted(known)), "Python packages, guessed from the imports of your code.", unknown
    return (), 'Python packages, such as "tensorflow-cpu==2.21.*" or "-r requirements.txt".', unknown


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
    """Yield Python files of the project, in order, at most ``_MAX_FILES``."""
    count = 0
    for here, folders, files in os.walk(folder):
        depth = len(Path(here).relative_to(folder).parts)
        hidden = {name for name in folders if name.startswith(".") or name in _SKIP}
        folders[:] = sorted(set(folders) - hidden) if depth < _MAX_DEPTH else []
        if (Path(here) / "pyvenv.cfg").exists():
            folders[:] = []
            continue
        for name in sorted(files):
            if name.endswith(".py"):
                count += 1
                if count > _MAX_FILES:
                    return
                yield Path(here) / name


def _imports(folder: Path) -> set[str]:
    """Return top-level names imported from elsewhere: not the standard library, not the project's own."""
    names: set[str] = set()
    own = {path.stem if path.suffix == ".py" else path.name for path in folder.iterdir()}
    own |= {path.name for path in (folder / "src").iterdir()} if (folder / "src").is_dir() else set()
    for path in _sources(folder):
        siblings = {sibling.stem for sibling in path.parent.glob("*.py")}
        try:
            tree = ast.parse(_read(path))
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            continue
        names |= set(_imported(tree)) - siblings
    return {name for name in names - own - sys.stdlib_module_names if name.isascii()}


def _imported(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name.partition(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
            yield node.module.partition(".")[0]


def _notes(folder: Path, requirements: Sequence[str]) -> tuple[str, ...]:
    text = "\n".join([*requirements, *(_read(folder / line[3:]) for line in requirements if line.startswith("-r "))])
    notes = []
    if re.search(r"^torch\b", text, re.M):
        notes.append("torch from the default index brings CUDA libraries; CPU wheels have an index of their own.")
    if re.search(r"^tensorflow\b(?!-)", text, re.M):
        notes.append("tensorflow-cpu is the same TensorFlow without GPU parts, and smaller.")
    return tuple(notes)


def _export(folder: Path, requirements: Sequence[str]) -> tuple[str, str]:
    """Return the file of another tool that pins the project, and the command that writes its pins out.

    Both are empty if there is none, or a requirements file has its pins.
    """
    if not any(line.startswith("-r ") for line in requirements):
        for name in foreign.BESIDE:
            if text := _read(folder / name):
                return name, foreign.export_command(name, text)
    return "", ""


def _data(folder: Path) -> tuple[str, ...]:
    """Return folders and files that look like data."""
    found = []
    for path in sorted(folder.iterdir()):
        looks = path.name.lower() in _DATA_FOLDERS if path.is_dir() else path.suffix.lower() in _DATA_FILES
        try:
            if looks and not path.is_symlink():
                found.append(validators.relative(path.name))
        except ValueError:
            continue
    return tuple(found[:_MAX_SHOWN])
