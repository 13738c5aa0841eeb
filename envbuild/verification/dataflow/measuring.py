"""Whether anything in a program's own sources can measure: ask for a time, for memory, for names that are drawn.

``tokens_per_second`` is a measurement by its name, and the result of a program that simulates a server. If nothing in
the sources asks a clock, and all that they import is known to measure nothing, no clock gave the number.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator, Mapping, Set
from pathlib import PurePosixPath
from typing import Literal

import msgspec

from envbuild.core.patterns import lazy
from envbuild.verification.dataflow.measuring_names import table as known_names
from envbuild.verification.dataflow.pauses import paused_words
from envbuild.verification.dataflow.unmeasured import Followed, followed, unmeasured_words

_NEEDED = frozenset(("time",))
"""Modules of the standard library whose functions measure but for some."""
_SLEEPS = frozenset(("sleep", "strptime", "mktime", "tzset", "struct_time", "timezone"))
"""Functions of ``time`` that give no time of now."""
_NOW = frozenset(("now", "today"))
"""Texts that give one, to NumPy and pandas."""
_MODULE = "uuid"
_CONSTRUCTED = "UUID"
_DRAWN, _OF_CLOCK = frozenset(("uuid4", "uuid8")), frozenset(("uuid1", "uuid6", "uuid7"))


_OF_LOGS = "relativeCreated"
"""In the format of a log: how long the program runs."""
_AT = lazy(r"\bat (?:0x[0-9a-fA-F]{0,15})?(?:\Z|[%{])")
_HEX = lazy(r"abcdef|ABCDEF|%0?\d*[xX]|\A#?0?\d*[xX]\Z|:#?0?\d*[xX]\}")
"""In a text: the digits, or how a number is to be written with them."""


_UNSEEDED = frozenset(("Random", "seed"))
"""Calls by which a generator of the standard library is made or seeded; without an argument by the system's entropy."""
_SYSTEM = frozenset(("SystemRandom", "randbelow", "randbits"))
"""Calls that draw numbers of the system's entropy. Not those that draw texts, of which names are made."""
_SEEDED = _UNSEEDED | {
    "RandomState",
    "SeedSequence",
    "default_rng",
    "manual_seed",
    "from_bytes",
    "frombuffer",
    "unpack",
}
"""Calls that take a seed, or make numbers of bytes.

NumPy's generators without a seed get one where the program runs (``hook.frameworks``).
"""
_NO_SEEDS = frozenset(("getpid", "getrandom", "token_bytes", "urandom", "uuid1", "uuid4"))
"""Calls that give another number in each run; those of clocks are known elsewhere."""
_ENTROPY = frozenset(("getrandom", "token_bytes", "urandom"))
"""Calls that give bytes of the system's entropy."""
_NAMING = frozenset((_CONSTRUCTED, "b64encode", "hexlify", "urlsafe_b64encode"))
"""Calls that make a name of bytes."""
_BAR = lazy(r"%\||/s\b|s/")
"""In a text: what bars of progress have, and rates."""


class Measuring(msgspec.Struct, frozen=True, kw_only=True):
    """What a program can measure, as far as its sources show.

    Attributes:
        time: it may ask for a time; ``memory``: for memory in use.
        names: it may draw names, as ``uuid4`` does.
        makes_names: it makes UUIDs of numbers of its own.
        uuids: how it gets UUIDs otherwise: ``drawn``, of the ``clock``, or ``none``; ``unknown`` if nothing shows it.
        makes_hex: its own sources make texts of hexadecimal digits, which may look like UUIDs; None if nothing is known
            of them.
        shows_addresses: its own sources write addresses as those of objects are shown: ``f"<Net at {value}>"``.
        draws: a generator gives other numbers in each run, as it has no seed, or one of the time or of the process; or
            numbers are made of the system's entropy.
        draws_bars: its own sources have texts of bars of progress, so that a bar need not be a package's.
        unmeasured: words before values that no clock, and no measure of memory, gave.
        shifted: words before values of a clock to which something drawn was added.
        glued: another value is put behind a time and a point or a comma, as parts of a second are.
        paused: words before pauses that are slept and printed (``pauses``).
    """

    time: bool = True
    memory: bool = True
    names: bool = True
    makes_names: bool = False
    uuids: Literal["unknown", "clock", "drawn", "none"] = "unknown"
    makes_hex: bool | None = None
    shows_addresses: bool = False
    draws: bool = False
    draws_bars: bool = True
    unmeasured: frozenset[str] = frozenset()
    shifted: frozenset[str] = frozenset()
    glued: bool = False
    paused: frozenset[str] = frozenset()


def measuring(sources: Mapping[str, str], *, follow: bool = True) -> Measuring:
    """Return what a program can measure.

    Args:
        sources: all Python files of the project that it read, by path; none if they are not known.
        follow: look for ``unmeasured`` words, a second's work in large projects.
    """
    asked = set[str]()
    makes_names, names = False, set[str]()
    own = {part for path in sources for part in _modules_of(path)}
    trees: list[ast.Module] = []
    for source in sources.values():
        try:
            tree = ast.parse(source)
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            return Measuring()
        trees.append(tree)
        asked |= {kind for node in ast.walk(tree) for kind in _asked_by(node, own)}
        asked |= {"time"} if _uses_time(tree) else set()
        names |= {name for node in ast.walk(tree) for name in _names_in(node)}
        makes_names = makes_names or _CONSTRUCTED in names or any(map(_gives_node, ast.walk(tree)))
    absent = {name for tree in trees for node in ast.walk(tree) for name in _absent(node)}
    known = bool(sources) and "all" not in asked
    words = unmeasured_words(trees, own, known_names()) if follow else None
    return Measuring(
        time=not known or "time" in asked,
        memory=not known or "memory" in asked,
        names=not known or "names" in asked,
        makes_names=makes_names,
        uuids="unknown" if not known else "clock" if names & _OF_CLOCK else "drawn" if names & _DRAWN else "none",
        makes_hex=any(_makes_hex(node) for tree in trees for node in ast.walk(tree)) if trees else None,
        shows_addresses=any(_shows_address(node) for tree in trees for node in ast.walk(tree)),
        draws=any(_draws(node, absent) for tree in trees for node in ast.walk(tree)) or any(map(_takes_entropy, trees)),
        draws_bars=not trees or any(_draws_bar(node) for tree in trees for node in ast.walk(tree)),
        unmeasured=words.unmeasured if words is not None else frozenset(),
        shifted=words.shifted if words is not None else frozenset(),
        glued=words is not None and words.glued,
        paused=paused_words(trees) if follow else frozenset(),
    )


def of_clock(sources: Mapping[str, str]) -> Followed | None:
    """Return what of a program's own sources may be of a clock; None if they do not show it.

    Args:
        sources: all Python files of the project that it read, by path.
    """
    own = {part for path in sources for part in _modules_of(path)}
    try:
        trees = [ast.parse(source) for source in sources.values()]
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
    return followed(trees, own, known_names()) if trees else None


def _makes_hex(node: ast.AST) -> bool:
    """Whether a part of a source makes hexadecimal digits, or a UUID of numbers."""
    if isinstance(node, ast.Call):
        return _name_of(node.func) in ("hex", "hexdigest", "hexlify", "b2a_hex", "b16encode", _CONSTRUCTED)
    if isinstance(node, ast.Attribute):
        return node.attr in ("hexdigits", "hexdigest", _CONSTRUCTED)
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return _HEX.search(node.value) is not None
    return isinstance(node, ast.Name) and node.id in ("hex", _CONSTRUCTED)


def _gives_node(node: ast.AST) -> bool:
    """Whether a part of a source gives what is in a UUID next to its time: ``uuid1(node=…)``."""
    if isinstance(node, ast.Call):
        return _name_of(node.func) in _OF_CLOCK and bool(node.args or node.keywords)
    return isinstance(node, ast.Attribute) and node.attr == "_node" and isinstance(node.ctx, ast.Store)


def _shows_address(node: ast.AST) -> bool:
    """Whether a text has a place for what is at an address."""
    return isinstance(node, ast.Constant) and isinstance(node.value, str) and _AT.search(node.value) is not None


def _draws_bar(node: ast.AST) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, str) and _BAR.search(node.value) is not None


def _draws(node: ast.AST, absent: Set[str]) -> bool:
    """Whether a part of a source makes or seeds a generator that gives other numbers in each run.

    Args:
        node: it.
        absent: names of what may be None.
    """
    if not isinstance(node, ast.Call):
        return False
    name, given = _name_of(node.func), [*node.args, *(each.value for each in node.keywords)]
    if name in _SYSTEM:
        return True
    if name == "seed" and (not given or _of(node) == "random") and all(map(_is_none, given)):
        return True
    if name == "Random" and all(_is_none(each) or _name_of(each) in absent for each in given):
        return True
    if name not in _SEEDED:
        return False
    asks = known_names().asks["time"]
    parts = (part for each in given for part in ast.walk(each) if isinstance(part, ast.Call))
    return any(_name_of(part.func) in asks.names | asks.called | _NO_SEEDS for part in parts)


def _takes_entropy(tree: ast.Module) -> bool:
    """Whether a source takes bytes of the system's entropy for anything but a name in digits or letters."""
    named: set[int] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and node.attr == "hex":
            named.add(id(node.value))
        elif isinstance(node, ast.Call) and _name_of(node.func) in _NAMING:
            named |= {id(each) for each in (*node.args, *(given.value for given in node.keywords))}
    calls = (node for node in ast.walk(tree) if isinstance(node, ast.Call) and id(node) not in named)
    return any(_name_of(call.func) in _ENTROPY for call in calls)


def _is_none(node: ast.AST | None) -> bool:
    return isinstance(node, ast.Constant) and node.value is None


def _absent(node: ast.AST) -> Iterator[str]:
    """Yield the names that are None where nothing else is given: of parameters, fields and options of a command."""
    match node:
        case ast.arguments(args=args, posonlyargs=first, defaults=defaults, kwonlyargs=named, kw_defaults=others):
            several = [*first, *args]
            pairs = [
                *zip(several[len(several) - len(defaults) :], defaults, strict=True),
                *zip(named, others, strict=True),
            ]
            yield from (each.arg for each, value in pairs if _is_none(value))
        case ast.AnnAssign(target=target, value=ast.Constant(value=None)):
            yield _name_of(target)
        case ast.Call(args=args, keywords=keywords):
            value = next((each.value for each in keywords if each.arg == "default"), None)
            options = [each.value for each in args if isinstance(each, ast.Constant) and isinstance(each.value, str)]
            if value is None or _is_none(value):
                yield from (each[2:].replace("-", "_") for each in options if each.startswith("--"))


def _of(call: ast.Call) -> str:
    return _name_of(call.func.value) if isinstance(call.func, ast.Attribute) else ""


def _names_in(node: ast.AST) -> Iterator[str]:
    """Yield the names that a part of a source has: of expressions, and of what is imported."""
    if isinstance(node, ast.ImportFrom):
        yield from (alias.name for alias in node.names)
    elif name := _name_of(node):
        yield name


def _modules_of(path: str) -> Iterator[str]:
    """Yield the names by which a file of the project may be imported."""
    name = PurePosixPath(path)
    yield name.stem
    yield from name.parent.parts


def _asked_by(node: ast.AST, own: set[str]) -> Iterator[str]:
    """Yield what a part of a source can measure: kinds of the table, and ``all`` if it shows nothing."""
    table = known_names()
    if isinstance(node, ast.Import):
        for alias in node.names:
            yield from _of_import(alias.name, own)
    elif isinstance(node, ast.ImportFrom):
        if not node.level and node.module:
            yield from _of_import(node.module, own)
        for alias in node.names:
            yield from _of_name("all" if alias.name == "*" and not node.level else alias.name)
            yield from _of_import(f"{node.module}.{alias.name}", own) if not node.level else ()
    elif isinstance(node, ast.Constant) and isinstance(node.value, str):
        if node.value.startswith(table.paths):
            yield "all"
        elif node.value in _NOW or _OF_LOGS in node.value:
            yield "time"
    elif isinstance(node, ast.Name) and node.id in table.builtins:
        yield "all"
    elif isinstance(node, ast.Call):
        yield from (kind for kind, asks in table.asks.items() if _name_of(node.func) in asks.called)
    elif name := _name_of(node):
        yield from _of_name(name)
        of = _name_of(node.value) if isinstance(node, ast.Attribute) else ""
        yield from (kind for kind, asks in table.asks.items() if name in asks.called and of in asks.dates)


def _of_import(name: str, own: set[str]) -> Iterator[str]:
    """Yield what is measured by a module that is imported."""
    table, first = known_names(), name.partition(".")[0]
    if first in own:
        return
    if name in table.running or first in table.running:
        yield "all"
    known = first in sys.stdlib_module_names or first in table.libraries
    if not known:
        yield "all"
    # Of ``uuid`` names count, as it also makes UUIDs of numbers.
    yield from (kind for kind, asks in table.asks.items() if first in asks.modules and first != _MODULE)


def _of_name(name: str) -> Iterator[str]:
    table = known_names()
    if name in table.runs or name == "all":
        yield "all"
    yield from (kind for kind, asks in table.asks.items() if name in asks.names)


def _name_of(node: ast.AST) -> str:
    """Return the last name of an expression; empty if it has none."""
    if isinstance(node, ast.Attribute):
        return node.attr
    return node.id if isinstance(node, ast.Name) else ""


def _uses_time(tree: ast.Module) -> bool:
    """Whether a source takes more of the module ``time`` than waiting and reading of texts."""
    names = set[str]()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names |= {alias.asname or alias.name for alias in node.names if alias.name in _NEEDED}
        elif isinstance(node, ast.ImportFrom) and node.module in _NEEDED:
            if not {alias.name for alias in node.names} <= _SLEEPS:
                return True
        elif isinstance(node, ast.Attribute) and node.attr in ("times", "getloadavg") and _name_of(node.value) == "os":
            return True
    waited = {
        id(node.value)
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute) and _name_of(node.value) in names and node.attr in _SLEEPS
    }
    used = (node for node in ast.walk(tree) if isinstance(node, ast.Name) and node.id in names)
    return any(id(node) not in waited for node in used)
