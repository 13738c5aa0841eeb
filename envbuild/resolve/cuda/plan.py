"""From a spec's ``cuda`` and ``cudnn`` to requirements: which variant of each framework, held to which versions.

TensorFlow and JAX bring CUDA by an extra and accept ranges of NVIDIA's wheels; PyTorch's wheel on the package index is
built for one CUDA version. So the first two are asked for with their extra and, if a version is wanted, constraints on
NVIDIA's wheels; of PyTorch those versions are chosen that are built for it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from envbuild.errors import ResolveError
from envbuild.lockfile.hardware import Gpu
from envbuild.resolve.cuda import table as tables
from envbuild.resolve.cuda.support import FRAMEWORKS, having, suits
from envbuild.resolve.cuda.table import Release, meets, numbers

if TYPE_CHECKING:
    from packaging.requirements import Requirement

NVML = "nvidia-ml-py"
_CPU_ONLY = {"tensorflow-cpu": "tensorflow", "intel-tensorflow": "tensorflow", "tensorflow-cpu-aws": "tensorflow"}
_MAJOR_EXTRAS = {"cuda12", "cuda13"}
_FOLLOW = ("cuda-runtime", "cuda-nvrtc", "cuda-cupti", "cuda-nvcc", "nvjitlink")
"""Wheels that are numbered as the toolkit is, in every version of it."""


@dataclass(frozen=True, kw_only=True, slots=True)
class CudaRequest:
    """What to resolve.

    Attributes:
        requirements: lines in addition to the spec's.
        constraints: lines that limit versions of what is asked for anyway.
        added: packages that are added for envbuild's own sake, each with the reason.
        notes: sentences worth reporting.
        major: the CUDA major that was chosen; 0: none, or no table says.
        lower: majors below it that all frameworks have too, which ``auto`` may fall to; the newest first.
    """

    requirements: tuple[str, ...] = ()
    constraints: tuple[str, ...] = ()
    added: Mapping[str, str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    major: int = 0
    lower: tuple[int, ...] = ()


def plan_cuda(cuda: str, cudnn: str, requirements: Iterable[str], python: str, gpu: Gpu | None = None) -> CudaRequest:
    """Choose the frameworks' variants.

    Args:
        cuda: ``none``, ``auto``, or a version such as ``12`` or ``12.5``.
        cudnn: a version such as ``9.3``, or empty.
        requirements: PEP 508 lines, those of requirements files too.
        python: feature release of the image's Python.
        gpu: what the spec itself reports about GPUs and driver, which limits ``auto``; None: nothing.

    Raises:
        ResolveError: no wheels fit, with what would.
    """
    asked = _asked(requirements, python)
    nvml = {}
    if (cuda != "none" or gpu is not None) and NVML not in asked:
        nvml[NVML] = "NVIDIA's own library for asking the driver, which the guard uses"
    if cuda == "none":
        return CudaRequest(requirements=tuple(nvml), added=nvml)
    _refuse_cpu(asked)
    plan = _Plan(cuda=cuda, cudnn=cudnn, python=python, asked=asked, gpu=gpu)
    plan.choose()
    return CudaRequest(
        requirements=(*plan.lines, *nvml),
        constraints=tuple(plan.constraints()),
        added=nvml,
        notes=tuple(plan.notes),
        major=plan.major,
        lower=plan.lower,
    )


@dataclass(kw_only=True, slots=True)
class _Plan:
    """Collects requirement lines and notes."""

    cuda: str
    cudnn: str
    python: str
    asked: Mapping[str, Sequence[Requirement]]
    gpu: Gpu | None
    lines: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    major: int = 0
    lower: tuple[int, ...] = ()

    def choose(self) -> None:
        """Find the CUDA major, then each framework's variant."""
        rows = {name: self._rows(name) for name in FRAMEWORKS if name in self.asked and not self._label(name)}
        rows = {name: found for name, found in rows.items() if found}
        self.major = self._major(rows)
        for name, found in rows.items():
            self._take(name, found)

    def constraints(self) -> list[str]:
        """Return limits on NVIDIA's wheels."""
        if not self.major:
            return []
        suffix = f"-cu{self.major}" if self.major < 13 else ""
        lines = []
        if self.cudnn:
            lines.append(f"nvidia-cudnn-cu{self.major}=={self.cudnn}.*")
        if len(numbers(self.cuda)) > 1:
            # PyTorch pins its CUDA wheels exactly, not always to those of one toolkit: they are kept.
            ranges = {} if "torch" in self.asked else tables.toolkit_wheels(self.cuda)
            names = [f"nvidia-{name}{suffix}" for name in (_FOLLOW[:1] if "torch" in self.asked else _FOLLOW)]
            lines += [f"{name}{ranges[name]}" for name in ranges] or [f"{name}=={self.cuda}.*" for name in names]
        elif self.major >= 13:
            lines += [f"nvidia-{name}<{self.major + 1}" for name in _FOLLOW]  # no number of the major in their names
        return lines

    def _rows(self, name: str) -> list[Release]:
        """Return the known variants of a framework that its requirements and Python admit."""
        admitted = [row for row in tables.releases(name) if self._admits(name, row)]
        known = ", ".join(str(r) for r in self.asked[name])
        if not admitted:
            self.notes.append(
                f"{known}: not in the table of CUDA wheels, so what it goes with is not checked beforehand"
            )
            return []
        fitting = [row for row in admitted if self.python in row.python]
        if not fitting:
            pythons = sorted({python for row in admitted for python in row.python}, key=numbers)
            newer = [row.version for row in tables.releases(name) if self.python in row.python]
            other = f"choose {name} {tables.span_words(newer)}, or another" if newer else "choose another"
            raise ResolveError(
                f"{known} has wheels with CUDA for Python {', '.join(pythons)}, not for {self.python}",
                f"{other} python in the spec",
            )
        return fitting

    def _admits(self, name: str, row: Release) -> bool:
        extras = {extra for r in self.asked[name] for extra in r.extras if extra in _MAJOR_EXTRAS}
        if extras and row.extra not in extras:
            return False
        return any(all(r.specifier.contains(v) for r in self.asked[name]) for v in row.releases)

    def _label(self, name: str) -> str:
        """Return the CUDA version that a pinned local label states, such as 12.6 for ``==2.9.1+cu126``."""
        for requirement in self.asked[name]:
            for specifier in requirement.specifier:
                local = specifier.version.partition("+")[2]
                if local.startswith("cu") and local[2:].isdigit() and len(local) > 3:
                    return f"{local[2:-1]}.{local[-1]}"
        return ""

    def _major(self, rows: Mapping[str, Sequence[Release]]) -> int:
        """Choose the CUDA major for all frameworks together."""
        labels = {name: label for name in FRAMEWORKS if name in self.asked and (label := self._label(name))}
        if self.cuda != "auto":
            for name, label in labels.items():
                if numbers(label)[: len(numbers(self.cuda))] != numbers(self.cuda):
                    raise ResolveError(
                        f'cuda: "{self.cuda}" is asked for, but {self.asked[name][0]} is built for CUDA {label}',
                        f'write cuda: "{label}", or pin another build of {name}',
                    )
            return numbers(self.cuda)[0]
        sets = [{row.major for row in found} for found in rows.values()]
        sets += [{numbers(label)[0]} for label in labels.values()]
        if not sets:
            return 0
        common = set.intersection(*sets)
        if not common:
            have = "; ".join(f"{n} with CUDA {_either(row.major for row in found)}" for n, found in rows.items())
            raise ResolveError(
                f"the frameworks have no CUDA version in common: {have}",
                "loosen the version of one of them, or lock them apart",
            )
        chosen, *lower = sorted([major for major in common if self._suits(major)] or common, reverse=True)
        self.lower = tuple(lower)
        return chosen

    def _suits(self, major: int) -> bool:
        """Return whether the GPUs and the driver that are wanted go with a major."""
        gpu = self.gpu
        if gpu is None:
            return True
        if gpu.driver and numbers(gpu.driver) < numbers(tables.floor_driver(str(major))):
            return False
        for device in gpu.devices:
            model = tables.model(device.model)
            capability = device.compute_capability or (model.capability if model else "")
            if capability and not suits(capability, str(major)):
                return False
        return True

    def _take(self, name: str, rows: Sequence[Release]) -> None:
        """Ask for a framework's variant, held to the versions that go with what is wanted."""
        wanted = str(self.major) if self.cuda == "auto" else self.cuda
        fitting = [row for row in rows if meets(row.cuda, wanted)]
        if not fitting:
            raise ResolveError(self._no_cuda(name, rows, wanted), self._ways(name, wanted))
        chosen = [row for row in fitting if not self.cudnn or (row.cudnn and meets(row.cudnn, self.cudnn))]
        if not chosen:
            takes = "; ".join(dict.fromkeys(f"{name} {row.version}: {_words(row.cudnn)}" for row in fitting[:4]))
            raise ResolveError(
                f'cudnn: "{self.cudnn}" does not go with {name} and CUDA {wanted}, which take: {takes}',
                "write one of these, or leave cudnn out",
            )
        extra = f"[{chosen[0].extra}]" if chosen[0].extra else ""
        left_out = {row.version for row in rows} - {row.version for row in chosen}
        limit = _limit(chosen, left_out) if left_out else ""
        if "<" in limit or "!" in limit:
            held = tables.span_words(row.version for row in chosen)
            self.notes.append(f"{name} is held to {held}, whose wheels go with CUDA {wanted}{self._and_cudnn()}")
        if extra or limit:
            self.lines.append(f"{name}{extra}{limit}")

    def _and_cudnn(self) -> str:
        return f" and cuDNN {self.cudnn}" if self.cudnn else ""

    def _no_cuda(self, name: str, rows: Sequence[Release], wanted: str) -> str:
        features = tables.span_words(row.version for row in rows)
        have = _either(dict.fromkeys(_words(row.cuda) for row in rows))
        return f"{name} {features} has no wheels with CUDA {wanted} for Python {self.python}: they take CUDA {have}"

    def _ways(self, name: str, wanted: str) -> str:
        """Describe what would work instead."""
        ways = ["write cuda: auto"]
        if extras := {extra for r in self.asked[name] for extra in r.extras if extra in _MAJOR_EXTRAS}:
            ways.append(f"leave out [{', '.join(sorted(extras))}], which cuda chooses")
        same = [row.version for row in tables.releases(name) if meets(row.cuda, wanted) and self.python in row.python]
        if same:
            ways.append(f"choose {name} {tables.span_words(same)}")
        elsewhere = [row for row in tables.written().other if row.framework == name and wanted in row.cuda]
        if elsewhere:
            label = wanted.replace(".", "")
            ways.append(f"configure PyTorch's own index for this CUDA and pin its build, such as {name}==…+cu{label}")
        if not same and (others := having(wanted, self.python, [other for other in FRAMEWORKS if other != name])):
            ways.append(f"take a framework that has it: {others}")
        return "; or ".join(ways)


def _asked(requirements: Iterable[str], python: str) -> dict[str, list[Requirement]]:
    """Return the requirements that count on the target, by normalised name; what is no PEP 508 line is left out."""
    from packaging.requirements import InvalidRequirement, Requirement
    from packaging.utils import canonicalize_name

    environment = {"python_version": python, "python_full_version": f"{python}.0", "extra": ""}
    environment |= {"sys_platform": "linux", "platform_system": "Linux", "os_name": "posix"}
    found: dict[str, list[Requirement]] = {}
    for line in requirements:
        try:
            requirement = Requirement(line)
        except InvalidRequirement:
            continue
        if requirement.marker is None or requirement.marker.evaluate(environment):
            found.setdefault(canonicalize_name(requirement.name), []).append(requirement)
    return found


def _refuse_cpu(asked: Mapping[str, Sequence[Requirement]]) -> None:
    """Raise ``ResolveError`` for builds without CUDA."""
    for name, framework in _CPU_ONLY.items():
        if name in asked:
            raise ResolveError(
                f"requirements: {asked[name][0]} is built without CUDA, but cuda asks for it",
                f"write {framework} instead of {name}, or cuda: none",
            )
    for name in FRAMEWORKS:
        for requirement in asked.get(name, ()):
            if any(specifier.version.endswith("+cpu") for specifier in requirement.specifier):
                raise ResolveError(
                    f"requirements: {requirement} is built without CUDA, but cuda asks for it",
                    "leave out +cpu, or write cuda: none",
                )


def _limit(chosen: Sequence[Release], left_out: Iterable[str]) -> str:
    """Return a specifier for the chosen feature releases; open above if the newest row is one of them."""
    features = sorted({row.version for row in chosen}, key=numbers)
    others = sorted(left_out, key=numbers)
    parts = [f">={features[0]}"] if others and numbers(others[0]) < numbers(features[0]) else []
    above = [version for version in others if numbers(version) > numbers(features[-1])]
    parts += [f"<{above[0]}"] if above else []
    between = [v for v in others if numbers(features[0]) < numbers(v) < numbers(features[-1])]
    return ",".join([*parts, *(f"!={version}.*" for version in between)])


def _words(specifier: str) -> str:
    """Describe a specifier: ``12.8``, or ``9.3 to below 10``."""
    low, high = tables.span(specifier)
    first = ".".join(map(str, low))
    if specifier.startswith("=="):
        return first
    return f"{first} to below {'.'.join(map(str, high))}" if high else f"{first} or newer"


def _either(words: Iterable[object]) -> str:
    *some, last = dict.fromkeys(map(str, words))
    return f"{', '.join(some)} or {last}" if some else last
