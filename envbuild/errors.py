"""Every error envbuild raises on purpose: one root, one exit code per class.

The numbers are part of the interface (docs/reference/exit-codes.md). 125 to 127 are never used: container engines
use them for their own failures. A training program's own exit code is passed through and is no error here.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence


class EnvbuildError(Exception):
    """A failure that a person can act on.

    Args:
        message: what failed, where, what was expected and what was found.
        hint: the next command or edit, in the imperative; empty if there is none.
    """

    exit_code = 1

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint


class UsageError(EnvbuildError):
    """The command line asks for something that cannot be meant."""

    exit_code = 2


class Problem:
    """One mistake in a spec or lock; no named tuple, which takes every command 1 ms, and no dataclass, which takes 6.

    Attributes:
        path: field path such as ``hardware.kernel`` or ``packages[2]``; empty for the whole file.
        message: what was expected and what was found, one sentence.
        line: 1-based line in the file, or 0 if unknown.
    """

    __slots__ = ("line", "message", "path")

    def __init__(self, path: str, message: str, line: int = 0) -> None:
        self.path, self.message, self.line = path, message, line

    def __eq__(self, other: object) -> bool:
        """Whether it is the same mistake."""
        if not isinstance(other, Problem):
            return NotImplemented
        return (self.path, self.message, self.line) == (other.path, other.message, other.line)

    def __hash__(self) -> int:
        """Hash what is compared."""
        return hash((self.path, self.message, self.line))

    def __repr__(self) -> str:
        """Show its values, for tests."""
        return f"Problem(path={self.path!r}, message={self.message!r}, line={self.line!r})"


class SpecError(EnvbuildError):
    """The spec is invalid; carries every problem at once."""

    exit_code = 10

    def __init__(self, source: str, problems: Sequence[Problem], hint: str = "") -> None:
        self.source = source
        self.problems = tuple(problems)
        count = len(self.problems)
        lines = [f"{source} has {count} problem{'' if count == 1 else 's'}"]
        width = max((len(str(problem.line)) for problem in self.problems), default=0)
        for problem in self.problems:
            where = f"line {problem.line:<{width}}   " if problem.line else ""
            field = f"{problem.path}: " if problem.path else ""
            lines.append(f"  {where}{field}{problem.message}")
        super().__init__("\n".join(lines), hint)


class LockError(EnvbuildError):
    """The lock is invalid, altered or stale."""

    exit_code = 11


class ResolveError(EnvbuildError):
    """No set of packages satisfies the spec."""

    exit_code = 12


class IntegrityError(EnvbuildError):
    """A download failed, or bytes or signatures are not what they must be."""

    exit_code = 13


class BuildError(EnvbuildError):
    """An image could not be assembled."""

    exit_code = 14


class EngineError(EnvbuildError):
    """No container engine answers, or it refused."""

    exit_code = 15


class NotReproducibleError(EnvbuildError):
    """Digests or outputs that must be equal differ."""

    exit_code = 16


class RegistryError(EnvbuildError):
    """An image registry does not answer, or it refused."""

    exit_code = 17


class JobError(EnvbuildError):
    """The ranks of a distributed job did not come together, or runs of an array left no result: try again."""

    exit_code = 18


class HostMismatchError(EnvbuildError):
    """This host does not match the lock; nothing of the user's program was run."""

    exit_code = 78
