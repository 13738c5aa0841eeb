"""What determinism costs one program: each switch left out in turn, timed, and whether the bits stay equal.

Seeds cost nothing and are never left out. Thread counts are one unit, since leaving out one of them leaves the others
in charge; so are the two names of TensorFlow's deterministic operations. Times are medians of wall times, and a
difference counts only beyond what equal runs differ by.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median

THREADS = "thread counts"
TOGETHER = {
    "TensorFlow's deterministic operations": ("TF_DETERMINISTIC_OPS", "tf.config.experimental.enable_op_determinism"),
    "cuDNN's deterministic algorithms": ("torch.backends.cudnn.deterministic", "torch.backends.cudnn.benchmark"),
    "PyTorch's TF32 off": (
        "torch.backends.cudnn.allow_tf32",
        "torch.backends.cuda.matmul.allow_tf32",
        "torch.backends.cudnn.conv.fp32_precision",
        "torch.backends.cudnn.rnn.fp32_precision",
        "torch.set_float32_matmul_precision",
    ),
}
"""Names that mean one thing: leaving out one of them alone reports nothing."""
_SEEDS = frozenset((0, 1, 2, 3, 4))
_OF_THREADS = 5
_LEAST = 0.02
"""Added to the noise: two of three runs may agree by luck."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Control:
    """A row of the table of variables and switches: its name, its cause and the lowest level that has it."""

    name: str
    cause: int
    level: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Unit:
    """What is left out together."""

    name: str
    members: tuple[str, ...]
    level: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Arm:
    """One way to run, measured.

    Attributes:
        name: as it is shown.
        without: what was left out.
        seconds: wall time of each run.
        results: how many different results there were.
        failed: the program did not end well.
    """

    name: str
    without: tuple[str, ...] = ()
    seconds: tuple[float, ...] = ()
    results: int = 0
    failed: bool = False

    @property
    def median(self) -> float:
        """The middle time."""
        return median(self.seconds) if self.seconds else 0.0

    @property
    def noise(self) -> float:
        """Half of the range of the times, in relation to the middle one."""
        return (max(self.seconds) - min(self.seconds)) / 2 / self.median if self.median else 0.0

    @property
    def equal(self) -> bool:
        """Whether all runs ended well with one result."""
        return self.results == 1 and not self.failed


def units(present: Collection[str], table: Sequence[Control]) -> tuple[Unit, ...]:
    """Group what a program runs with into what is measured, in the order of the table.

    Args:
        present: names of variables and switches that are on and may be left out.
        table: what they are.
    """
    groups: dict[str, list[str]] = {}
    levels: dict[str, str] = {}
    together = {name: title for title, names in TOGETHER.items() for name in names}
    for row in table:
        if row.name not in present or row.cause in _SEEDS:
            continue
        title = THREADS if row.cause == _OF_THREADS else together.get(row.name, row.name)
        levels.setdefault(title, row.level)
        if row.name not in groups.setdefault(title, []):
            groups[title].append(row.name)
    return tuple(Unit(name=title, members=tuple(names), level=levels[title]) for title, names in groups.items())


def savers(base: Arm, arms: Mapping[str, Arm], chance: float) -> tuple[str, ...]:
    """Name the arms that save time beyond chance and keep their runs equal, those that save most first."""
    found = [name for name, arm in arms.items() if arm.equal and saves(base, arm, chance)]
    return tuple(sorted(found, key=lambda name: arms[name].median))


def saves(base: Arm, arm: Arm, chance: float) -> bool:
    """Whether an arm is quicker than another beyond what equal runs differ by."""
    return arm.median < base.median * (1 - chance)


def noise(arms: Iterable[Arm]) -> float:
    """Return by how much times differ for no reason, as a fraction: the most that runs of one arm do."""
    return max((arm.noise for arm in arms), default=0.0) + _LEAST
