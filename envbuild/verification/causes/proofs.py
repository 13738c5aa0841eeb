"""Causes that experiments proved, and what experiments say of causes that the sources suggest."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Sequence

import msgspec

from envbuild.difference.finding import Finding
from envbuild.lockfile.layout import WORKSPACE
from envbuild.record.model import Record
from envbuild.record.processes import Listing
from envbuild.verification.causes.calls import TIMEOUT, calls
from envbuild.verification.causes.chains import attribute_lines
from envbuild.verification.causes.environments import lines_with_all_variables
from envbuild.verification.causes.evidence import SHOWN, Culprit, Evidence
from envbuild.verification.causes.foreign import INSIDE, UNHASHED
from envbuild.verification.causes.hash_orders import in_machine_code, without_order
from envbuild.verification.causes.package_times import given_ages, read_durations
from envbuild.verification.causes.routes import inside, of_project, route_between

_LIKELY_USED = 30
"""A proven cause below this weight stands after others of its suspect: it is a weak one, such as a printed time."""
PROVEN, BESIDE_PROVEN, REFUTED = 97, 30, 18
"""Weights of a cause whose fixing made runs equal, and at most of all others then; of one whose fixing did not."""
_FIXED = {
    "listings": "folders are listed in the same order",
    "host": "the host has the same name",
    "load": "the same load is reported",
    "times": "files have the same times of change",
    "inodes": "inode numbers have the same order",
    "order of times": "the same file is the newest",
    "environment": "variables of the environment have the same order",
    "layout": "nothing moves objects in memory, such as the size of the environment",
    "pids": "processes have the same ids",
    "cpus": "the same number of CPUs is in sight",
    "entropy": "the system's entropy is fixed",
    "clock": "the clock is fixed",
    "addresses": "objects have the same addresses",
    "figures": "figures of files and of the kernel are fixed",
    "order": "tasks are done one after another",
    "memory": "memory is filled before the program gets it",
    "threads": "libraries have one thread",
    "limits": "limits of time are not reached",
    "collection": "no garbage is collected but where the program asks for it",
}
"""What is the case when runs are equal, by what was proven to be the cause."""
_IMPORTS = "importlib."
"""Who looks for modules and for packages' metadata.

Of what is listed a set is made (``FileFinder._fill_cache``) or a table by name (``metadata.Lookup``), so that no order
matters; that of ``metadata.distributions()`` does, and is named where nothing else lists.
"""
THINGS = {
    "host": "the result depends on the name of the host",
    "load": "the result depends on the load of the machine",
    "times": "the result depends on the times of change of files",
    "inodes": "the result depends on the order of files' inode numbers, or on an order of listing that follows it",
    "order of times": "the result depends on which file is the newest",
    "environment": "the result depends on the order of the environment's variables",
    "layout": "the result depends on addresses of objects: through hash(), id(), the order of sets, or repr()",
    "pids": "the result depends on process ids",
    "cpus": "the result depends on the number of visible CPUs",
    "entropy": "the program, or a package that it uses, takes values from the system's entropy, which no seed reaches",
    "clock": "the program, or a package that it uses, takes values from the time, which is never the same",
    "addresses": "the result depends on addresses of objects: through hash(), id(), the order of sets, or repr()",
    "figures": (
        "the result depends on figures of files or of the kernel: inode numbers, times, room on disks, load,"
        " process ids, ports"
    ),
    "order": "the result depends on the order in which threads, processes or tasks are done",
    "memory": "the program, or a package that it uses, reads memory that nothing wrote",
    "threads": "the result depends on which thread of a library (OpenMP, BLAS and the like) comes first",
    "limits": "the result depends on what is done before a limit of time is reached",
    "collection": "the result depends on when garbage is collected: through weak references, finalizers or __del__",
}
"""What to report where no line is known."""
_ATTEMPTS = {
    "entropy": "look for a seed among the options of the packages",
    "clock": "leave the time out of seeds, decisions and results",
    "addresses": "give classes a __hash__ or a __repr__ of their own, sort by a name or a number",
    "order": "combine results in the order in which tasks were begun",
    "threads": "the package's own option for one thread (num_threads=1, n_jobs=1), or determinism: {threads: 1} in "
    "spec.yaml, then: envbuild lock && envbuild build",
    "limits": "wait without a limit, or stop after a number of steps",
    "memory": "zeros in the place of empty, or write all of it before it is read",
    "collection": "release what is no longer needed at a place of your own (with, close()), or call gc.collect() there",
}
_OPTIONS = {
    "polars": "maintain_order=True in unique(), group_by() and joins, or sort what they return: their order follows it",
    "tokenizers": "initial_alphabet=[…] in place of limit_alphabet=, and sort what get_vocab() returns: "
    "their order follows it",
}
"""What to do about packages that draw the keys of their hash tables, for which there is no seed (foldhash)."""
_DRAWN = {
    "entropy": "draws from the system's entropy, which no seed reaches",
    "clock": "returns the time, which is never the same",
    "figures": "returns a figure that is another one in each run",
    "limits": "waits until a time at most: what was done by then varies",
    "memory": "returns memory that nothing wrote",
}
"""What a line does that asks for a suspect, where the table knows nothing of the call."""


_FIGURES_OF_FILES = frozenset(
    f"st_{name}" for name in ("atime", "ctime", "mtime", "atime_ns", "ctime_ns", "mtime_ns", "ino", "dev")
)
_FIXED_TOO = frozenset(("clock", "figures"))
"""Suspects that many lines ask for: one without a line of its own is reported after another one's line."""
_OF_PROGRAM, _OF_PYTHON = 58, 39
"""Weights of a program that gave other output for the same input: in a Python the cause is in its own source."""


ALSO = {
    "layout": "addresses", "load": "figures", "times": "figures", "inodes": "figures", "order of times": "figures",
    "pids": "figures",
}  # fmt: skip
"""The suspect of the lines in the table that what was varied makes another one."""
_TIMES_OF_RECORDS = frozenset(("created", "relativeCreated", "msecs", "asctime"))
LIMIT = "a limit of time"
"""Begins the sentence about one, here as in the table of calls."""
STARTED = " in a subprocess (shell)"
"""In the sentence about a program that the table of calls knows."""


def of_programs(evidence: Evidence, causes: Sequence[Finding]) -> Iterator[Finding]:
    """Yield the programs that gave another output in two runs, though they were given the same words and input.

    Where the table knows the program of that line, it knows more: that cause is yielded once more, as likely as this.
    """
    for culprit in evidence.programs[:SHOWN]:
        where = route_between(culprit.place, "", 0, ())
        known = [each for each in causes if where in each.where.split(", ") and _says_of_program(each.what)]
        if known:
            yield from (msgspec.structs.replace(each, weight=max(each.weight, _OF_PROGRAM)) for each in known)
            continue
        yield Finding(
            area="sources",
            weight=_OF_PYTHON if re.match(r"python[\d.]*(\s|\Z)", culprit.call) else _OF_PROGRAM,
            what=f"the program {culprit.call!r} gave another output in each run, though it was given the same",
            where=where,
            attempt="sort its output, give it a seed, or have it do one thing after another",
        )


def _says_of_program(sentence: str) -> bool:
    return STARTED in sentence or INSIDE in sentence or UNHASHED in sentence


def of_experiments(evidence: Evidence, causes: Sequence[Finding], named: Collection[str]) -> Iterator[Finding]:
    """Yield what was proven and has no line of the project's among the causes.

    Args:
        evidence: what is known.
        causes: what was found.
        named: suspects of which a line is among them as proven.
    """
    if "listings" in evidence.proven:
        yield from _of_listings(evidence)
    names = [each for each in evidence.proven if each != "listings" and ALSO.get(each, each) not in named]
    if names and not (len(evidence.proven) == 1 and any(each.weight >= PROVEN - 1 for each in causes)):
        culprits = [each for each in evidence.culprits if each.suspect in names]
        yield from _of_culprits(evidence, culprits[:SHOWN])
        left = [each for each in names if all(each != c.suspect for c in culprits)]
        yield from _of_things(evidence, left, is_named=bool(named))


def _of_culprits(evidence: Evidence, culprits: Sequence[Culprit]) -> Iterator[Finding]:
    """Yield what the line called that makes runs differ: the table knows nothing of it."""
    draws = [draw for process in (*evidence.a.processes, *evidence.b.processes) for draw in process.entropy or ()]
    limits = _limits(evidence)
    limited, named, asked = set[str](), set[str](), set[tuple[str, str]]()
    for culprit in culprits:
        if culprit.suspect == "clock" and culprit.place in limits and not of_project(culprit.file):
            if culprit.place not in limited:  # a package asks the clock at several lines to keep to one limit
                limited.add(culprit.place)
                yield _of_limit(evidence, culprit, limits[culprit.place])
            continue
        own = of_project(culprit.file) or culprit.module == "__main__"
        if own and culprit.suspect == "clock" and culprit.call.startswith("logging.") and (read := _of_logs(evidence)):
            yield Finding(
                area="entropy",
                weight=PROVEN,
                what=f"a logged record has the time at which it was made; {_proof_of_lines(evidence)}",
                where=", ".join([*read[:SHOWN], route_between(culprit.place, "", culprit.line, ())]),
                attempt=_attempt(culprit, own=True),
            )
            continue
        native = culprit.suspect == "entropy" and " " in culprit.call
        package = culprit.module.partition(".")[0]
        if own:
            package = in_machine_code(evidence.sources or {}) if native else ""
        lines = without_order(package, evidence.sources or {})
        if lines:  # the package asks for the keys of its hashes where the first table is made
            if package not in named:
                named.add(package)
                yield _of_hashes(evidence, culprit, package, lines)
            continue
        by = "" if own else f", and the package {package} calls it"
        call = culprit.call if " " in culprit.call or not culprit.call else f"{culprit.call}()"
        where = [route_between(culprit.place, "" if own else culprit.file, culprit.line, draws)]
        if not own:  # lines that call the package, which asks at several of its own on behalf of each
            if (package, culprit.call) in asked:
                continue
            asked.add((package, culprit.call))
            others = [each.place for each in culprits if (_package(each), each.call) == (package, culprit.call)]
            where += [inside(place) for place in dict.fromkeys(others) if place != culprit.place]
        if own and culprit.call.endswith("stat"):  # with the lines that read what it returned
            texts = (evidence.sources or {}).items()
            read = [f"{path}:{line}" for path, text in texts for line in attribute_lines(text, _FIGURES_OF_FILES)]
            where += [each for each in read if each not in where][:SHOWN]
        attempt = _attempt(culprit, own=own)
        if not own and culprit.suspect == "clock":
            lines, attempt = _lets_decide(evidence, package, attempt)
            where += lines
        yield Finding(
            area="entropy",
            weight=PROVEN,
            what=f"{call or 'this line'} {_DRAWN[culprit.suspect]}{by}; {_proof_of_lines(evidence)}",
            where=", ".join(where),
            attempt=attempt,
        )


def _lets_decide(evidence: Evidence, package: str, attempt: str) -> tuple[list[str], str]:
    """Return the lines by which a program lets a package's clock decide, and what to do about them."""
    sources = (evidence.sources or {}).items()
    ages = {f"{path}:{line}": word for path, text in sources for line, word in given_ages(text).items()}
    if ages:
        first = next(iter(ages.values()))
        return [*ages][:SHOWN], f"leave {first} out, or go by a number of steps: what is old by then varies"
    lines = [f"{path}:{line}" for path, text in sources for line in read_durations(text)]
    return lines[:SHOWN], f"leave the times that {package} measures out of results" if lines else attempt


def _package(culprit: Culprit) -> str:
    """Return the package that called; empty for a line of the project."""
    return "" if of_project(culprit.file) else culprit.module.partition(".")[0]


def _of_hashes(evidence: Evidence, culprit: Culprit, package: str, lines: Sequence[str]) -> Finding:
    """Return the lines whose results have the order of a hash for which a package draws keys, by a culprit's call."""
    one = "what this line returns has" if len(lines) == 1 else "what one of these lines returns has"
    return Finding(
        area="entropy",
        weight=PROVEN,
        what=f"{one} the order of a hash whose keys the package {package} makes anew in each process "
        f"({culprit.call}); {_proof(evidence.proven)}",
        where=", ".join(lines[:SHOWN]) + (" …" if len(lines) > SHOWN else ""),
        attempt=_OPTIONS.get(package) or _attempt(culprit, own=False),
    )


def _of_logs(evidence: Evidence) -> list[str]:
    """Return the lines that read a time of a logged record (``logging.LogRecord``)."""
    return [
        f"{path}:{line}"
        for path, source in (evidence.sources or {}).items()
        for line in attribute_lines(source, _TIMES_OF_RECORDS)
    ]


def _limits(evidence: Evidence) -> dict[str, str]:
    """Return the lines, as in ``Culprit``, that give a call a limit of time, with the argument's name."""
    return {
        f"{WORKSPACE}/{path}:{call.line}": next(iter(call.given))
        for path, source in (evidence.sources or {}).items()
        for call in calls(source)
        if call.name == TIMEOUT and call.given
    }


def _of_limit(evidence: Evidence, culprit: Culprit, argument: str) -> Finding:
    """Return the limit of time of a line that makes runs differ: the package asks the clock to keep to it."""
    package = culprit.module.partition(".")[0]
    return Finding(
        area="entropy",
        weight=PROVEN,
        what=f"{LIMIT} ({argument}=…) ends what takes longer, and what was done by then varies: the package "
        f"{package} calls {culprit.call}(); {_proof_of_lines(evidence)}",
        where=route_between(culprit.place, culprit.file, culprit.line, ()),
        attempt=f"leave {argument}= out, and stop after a number of steps, trials or evaluations",
    )


def _attempt(culprit: Culprit, *, own: bool) -> str:
    """Return what to do about a line; a package that draws, or asks for the time, has an option as a rule."""
    if own and culprit.suspect == "entropy":
        return "draw from a generator that gets a seed, or leave it out of seeds and results"
    if own or culprit.suspect not in ("entropy", "clock"):
        return _ATTEMPTS.get(culprit.suspect, "leave it out of seeds and results")
    package = culprit.module.partition(".")[0]
    return _OPTIONS.get(package) or f"look for a seed among the options of {package}, or report it there"


def _of_things(evidence: Evidence, names: Sequence[str], *, is_named: bool) -> Iterator[Finding]:
    """Yield what is proven though no line is known for certain; a line that is comes before what has none at all.

    Args:
        evidence: what is known.
        names: suspects.
        is_named: a line is named for another suspect. Then the clock, or figures, are no more than what happened to be
            fixed too: on a busy machine that moves objects in memory, or puts threads in another order.
    """
    for name in sorted(names, key=lambda each: each == "clock"):  # programs measure besides
        if name == "layout" and "addresses" in names:  # the same
            continue
        lines = [inside(place) for place in evidence.places] if name == "order" else []
        if name == "environment":
            texts = (evidence.sources or {}).items()
            lines = [f"{path}:{line}" for path, text in texts for line in lines_with_all_variables(text)]
        yield Finding(
            area="entropy",
            weight=PROVEN - (2 if name in _FIXED_TOO and is_named else bool(evidence.culprits) and not lines),
            what=f"{THINGS[name]}; {_proof(evidence.proven)}",
            where=", ".join(lines[:SHOWN]) + (" …" if len(lines) > SHOWN else ""),
            attempt=_ATTEMPTS.get(name, "leave it out of seeds and results"),
        )


def _listings(run: Record) -> Iterator[Listing]:
    for process in run.processes:
        yield from process.listings or ()


def _of_imports(listing: Listing) -> bool:
    return listing.call.startswith(_IMPORTS) or listing.module.startswith(_IMPORTS)


def only_imports_list(runs: Iterable[Record]) -> bool:
    """Whether nothing listed a folder but what looks for modules and for packages' metadata."""
    return all(_of_imports(each) for run in runs for each in _listings(run))


LISTED = "in the order of the file system"
_KEYS = {"os.scandir": ", key=lambda entry: entry.name"}
"""What ``sorted`` needs besides: entries of folders have no order of their own."""
_COPIED = "sort the names that a function gets from shutil before it chooses, or copy sorted files one by one"


def _of_listings(evidence: Evidence) -> Iterator[Finding]:
    """Yield the lines that listed folders in a varied order, those that sort what they get left out."""
    called = [
        (f"{path}:{call.line}", call) for path, source in (evidence.sources or {}).items() for call in calls(source)
    ]
    harmless = {place for place, call in called if call.ordered}
    scans = {place for place, call in called if call.name == "os.scandir"}
    said = set()
    found = [each for run in (evidence.a, evidence.b) for each in _listings(run)]
    own = [each for each in found if not _of_imports(each)]
    places = {id(each): f"{each.file.removeprefix(WORKSPACE + '/')}:{each.line}" for each in found}
    left = [each for each in own if places[id(each)] not in harmless]
    # What shutil copies or removes is the same in any order, but it may call a function that the program gave.
    for listing in [each for each in left if each.module != "shutil"] or left or found:
        place = places[id(listing)]
        if place in said or place in harmless:
            continue
        said.add(place)
        copied = listing.module == "shutil"
        by = f" (by {listing.module})" if "." in listing.module else ""
        # Records say os.listdir of all that the program asks for itself.
        call = "os.scandir" if listing.call == "os.listdir" and place in scans else listing.call
        yield Finding(
            area="sources",
            weight=PROVEN,
            what=f"{call}() lists {listing.folder or 'a folder'} {LISTED}{by}, "
            f"and the result depends on it; {_proof(evidence.proven)}",
            where=place,
            attempt=_COPIED if copied else f"sorted({call}(…){_KEYS.get(call, '')})",
        )


def tried(evidence: Evidence, shown: str, weight: int, why: str) -> tuple[int, str]:
    """Return weight and sentence of a cause in the light of the experiments that were made."""
    if shown == "culprit":
        return PROVEN, f"{why}; {_proof_of_lines(evidence)}"
    if shown == "proven":
        return PROVEN - (weight < _LIKELY_USED), f"{why}; {_proof(evidence.proven)}"
    return (min(weight, {"refuted": REFUTED, "beside": BESIDE_PROVEN}.get(shown, weight)), why)


def _proof(proven: Sequence[str]) -> str:
    return f"proven: runs are equal when {' and '.join(_FIXED[name] for name in proven)}"


def _proof_of_lines(evidence: Evidence) -> str:
    """Return what experiments showed of a line, or of lines that make runs differ together alone."""
    several = len({each.place for each in evidence.culprits}) > 1
    return f"{_proof(evidence.proven)}, and differ if that is so but for {'these lines' if several else 'this line'}"
