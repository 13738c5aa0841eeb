"""Version ranges for kernels: the operators of PEP 440 over the numeric part of a release.

A kernel release such as ``6.6.87.2-microsoft-standard-WSL2`` counts as ``6.6.87.2``: what follows the dotted
number is a vendor's name and orders nothing. The operators are those of PEP 440 on release segments
(https://packaging.python.org/en/latest/specifications/version-specifiers/): ``>= <= > < == != ~=``, joined by
commas, with ``.*`` after ``==`` and ``!=``.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    Clause = tuple[str, tuple[int, ...], bool]
    """Operator, release, and whether it ended in ``.*``."""

_OPERATORS = (">=", "<=", "==", "!=", "~=", ">", "<")
_SIGNS = {">=": "≥ ", "<=": "≤ ", "==": "", "!=": "not ", "~=": "~= ", ">": "> ", "<": "< "}


def release(text: str) -> tuple[int, ...]:
    """Return the leading dotted number of a kernel release; raises ``ValueError`` if there is none."""
    numbers: list[int] = []
    for part in text.split("."):
        digits = ""
        for character in part:
            if character not in "0123456789":
                break
            digits += character
        if digits:
            numbers.append(int(digits))
        if digits != part:
            break
    if not numbers:
        raise ValueError(f"{text!r} does not begin with a version number")
    return tuple(numbers)


def parse(text: str) -> list[Clause]:
    """Parse a range such as ``>=5.10,<7``; the empty text is every version.

    Raises:
        ValueError: names the clause that is not an operator and a version.
    """
    return [_clause(part.strip()) for part in text.split(",")] if text.strip() else []


def _clause(text: str) -> Clause:
    operator = next((sign for sign in _OPERATORS if text.startswith(sign)), "")
    version = text[len(operator) :].strip()
    wildcard = version.endswith(".*") and operator in ("==", "!=")
    numbers = version[:-2].split(".") if wildcard else version.split(".")
    valid = operator and all(part.isascii() and part.isdigit() for part in numbers)
    if not valid or (operator == "~=" and len(numbers) < 2):
        raise ValueError(f"{text!r} is not a version range")
    return operator, tuple(int(part) for part in numbers), wildcard


def contains(text: str, version: str) -> bool:
    """Return whether a kernel release is in a range; raises ``ValueError`` as ``parse`` and ``release`` do."""
    clauses = parse(text)
    return not clauses or all(_holds(clause, release(version)) for clause in clauses)


def side(text: str, version: str) -> str:
    """Return ``below``, ``above`` or ``outside``: where a release is that the range does not contain."""
    found = release(version)
    failed = [clause for clause in parse(text) if not _holds(clause, found)]
    if all(operator in (">=", ">") or (operator in ("==", "~=") and found < bound) for operator, bound, _ in failed):
        return "below"
    if all(operator in ("<=", "<") or (operator in ("==", "~=") and found > bound) for operator, bound, _ in failed):
        return "above"
    return "outside"


def show(text: str) -> str:
    """Write a range for people: ``>=5.10,<7`` becomes ``≥ 5.10, < 7``."""
    words = []
    for operator, numbers, wildcard in parse(text):
        words.append(_SIGNS[operator] + ".".join(map(str, numbers)) + (".*" if wildcard else ""))
    return ", ".join(words) or "any"


def _holds(clause: Clause, found: tuple[int, ...]) -> bool:
    operator, wanted, wildcard = clause
    if wildcard or operator == "~=":
        prefix = wanted if wildcard else wanted[:-1]
        same = _pad(found, len(prefix))[: len(prefix)] == prefix
        return (not same) if operator == "!=" else same and (wildcard or _order(found, wanted) >= 0)
    order = _order(found, wanted)
    return {
        ">=": order >= 0,
        "<=": order <= 0,
        ">": order > 0,
        "<": order < 0,
        "==": order == 0,
        "!=": order != 0,
    }[operator]


def _order(left: tuple[int, ...], right: tuple[int, ...]) -> int:
    """Compare releases of any length: missing parts count as 0."""
    length = max(len(left), len(right))
    first, second = _pad(left, length), _pad(right, length)
    return (first > second) - (first < second)


def _pad(numbers: tuple[int, ...], length: int) -> tuple[int, ...]:
    return numbers + (0,) * (length - len(numbers))
