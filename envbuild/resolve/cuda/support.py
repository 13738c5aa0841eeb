"""What goes with what, by the tables: CUDA with GPUs, frameworks with CUDA, Python and GPUs; and the words for it."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from envbuild.core.text import nearest
from envbuild.resolve.cuda import table as tables
from envbuild.resolve.cuda.table import numbers

FRAMEWORKS = ("tensorflow", "torch", "jax")
_MAKERS = ("nvidia", "tesla", "geforce", "quadro")


def supporting(capability: str) -> str:
    """Describe which CUDA versions support a compute capability; empty if the table does not know it."""
    row = tables.architecture(capability)
    if row is None:
        return ""
    return f"CUDA {row.since} to {row.until}" if row.until else f"CUDA {row.since} or newer"


def suits(capability: str, cuda: str) -> bool:
    """Return whether a CUDA version or major supports a compute capability; yes if the table does not know it."""
    row = tables.architecture(capability)
    if row is None:
        return True
    version = numbers(cuda)
    first, last = numbers(row.since), numbers(row.until)
    return first[: len(version)] <= version and (not last or version <= last[: len(version)])


def having(cuda: str, python: str, frameworks: Iterable[str] = FRAMEWORKS) -> str:
    """Name the versions of frameworks that have wheels for a CUDA version or major and a Python; empty for none."""
    parts = []
    for framework in frameworks:
        rows = [row for row in tables.releases(framework) if python in row.python]
        features = [row.version for row in rows if tables.meets(row.cuda, cuda)]
        if features:
            parts.append(f"{framework} {tables.span_words(features)}")
    return ", ".join(parts)


def has_kernels(cubins: Sequence[str], ptx: Sequence[str], capability: str) -> bool:
    """Return whether a GPU can run what was built: machine code of its major up to its minor, or PTX up to it."""
    have = numbers(capability)
    native = any(numbers(built)[0] == have[0] and numbers(built) <= have for built in cubins)
    return native or any(numbers(built) <= have for built in ptx)


def cuda_for(capability: str, frameworks: Collection[str], python: str) -> str:
    """Return which CUDA to ask for, for a GPU: of the majors that frameworks have wheels for, the newest that fits."""
    named = [name for name in frameworks if tables.releases(name)]
    majors = sorted({row.major for name in named for row in tables.releases(name)}, reverse=True)
    for major in majors:
        if suits(capability, str(major)) and (versions := having(str(major), python, named)):
            return f'write cuda: "{major}" ({versions}), or lock for another GPU'
    return "lock for another GPU"


def version_for(framework: str, capability: str, python: str) -> str:
    """Describe which versions of a framework have kernels for a compute capability, and wheels for a Python."""
    found = [
        row.version
        for row in tables.releases(framework)
        if python in row.python
        and (build := tables.build(framework, row.releases[-1], _first(row)))
        and has_kernels(build.cubins, build.ptx, capability)
    ]
    if not found:
        return "lock for another GPU, or build the framework for it and name the folder of its wheel: wheels: [wheels]"
    return f"choose {framework} {tables.span_words(found)}, or lock for another GPU"


def other_python(name: str, python: str, major: int) -> str:
    """Describe which versions of a framework have wheels for a CUDA major and a Python."""
    fitting = [row.version for row in tables.releases(name) if row.major == major and python in row.python]
    if not fitting:
        return "choose another python in the spec"
    return f"choose {name} {tables.span_words(fitting)}, or another python in the spec"


def perhaps_model(name: str) -> str:
    """Return the GPU model that a name is near, or an empty string: people leave out maker and series."""
    known = {_bare(row.name): row.name for row in tables.written().model}
    return known.get(_bare(name)) or known.get(nearest(_bare(name), known), "")


def _bare(name: str) -> str:
    return " ".join(word for word in name.lower().split() if word not in _MAKERS)


def _first(row: tables.Release) -> str:
    """Return the first CUDA version that a row's wheels take."""
    return ".".join(map(str, (*tables.span(row.cuda)[0], 0)[:2]))
