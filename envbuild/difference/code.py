"""The program itself: script, modules, configuration files, compiled objects, and the project's version."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator, Mapping
from pathlib import PurePosixPath

from envbuild.core.redact import mask_text
from envbuild.core.text import plain, plural
from envbuild.difference.finding import NOWHERE, Area, Context, Finding, Section, changed
from envbuild.difference.text import digest, some
from envbuild.record.model import Git, Record
from envbuild.record.processes import ReadFile

_WEIGHTS: dict[Area, int] = {"script": 86, "modules": 85, "configs": 84, "reads": 82, "objects": 57}
_OTHER_FILES = 47
"""Of changes to files that only git knows of: more than what an earlier run left (``results``), less than a reason."""
_WRITTEN = ("pylock.", "Dockerfile")
"""Beginnings of the names of files that ``envbuild lock`` writes, also for other specs."""
_LINES = 4
"""Lines of code shown for one file."""
_LONG = 160
_MANY = 1000
"""Lines from which on frequent ones are no landmarks any more: minutes become seconds, and the count coarser."""
_MOST = 10_000
"""Longer texts are not compared line by line."""

_NO_GIT = "git (neither was run in a repository)"

Files = dict[str, tuple[str | None, ...]]


def script(a: Record, b: Record, texts: Mapping[str, str]) -> Section:
    """Compare the script that the command names."""
    before, after = a.script, b.script
    if before is None and after is None:
        return Section("")
    if before is None or after is None or before.path != after.path:
        one, other = (plain(each.path) if each else NOWHERE for each in (before, after))
        return Section("script", (changed("script", "script", one, other, _WEIGHTS["script"] + 1),))
    if before.sha256 == after.sha256:
        return Section("script")
    return Section("script", (_other("script", after.path, (before.sha256,), (after.sha256,), texts),))


def modules(a: Record, b: Record, texts: Mapping[str, str]) -> Section:
    """Compare what was imported of the project; a script that was read as it was at the start is reported as such."""
    scripts = {each.script.path for each in (a, b) if each.script} if _as_started(a) and _as_started(b) else set()
    return _read("modules", a, b, _files(a.modules, scripts), _files(b.modules, scripts), texts)


def configs(a: Record, b: Record, texts: Mapping[str, str]) -> Section:
    """Compare what was read of the project as configuration."""
    return _read("configs", a, b, _files(a.configs), _files(b.configs), texts)


def reads(a: Record, b: Record) -> Section:
    """Compare the other files that were read of the project, and that no input declares."""
    made = {output.path for record in (a, b) for output in record.outputs}
    both = bool(a.options.verification and b.options.verification)  # of others it is not known what was read otherwise
    mine, theirs = (
        _files([file for file in (*record.reads, *(record.read_otherwise if both else ())) if file.path not in made])
        for record in (a, b)
    )
    return _read("reads", a, b, mine, theirs, {})


def objects(a: Record, b: Record) -> Section:
    """Compare shared objects from outside the locked folders."""
    mine, theirs = _files(a.objects), _files(b.objects)
    moved = {*mine.values()} & {*theirs.values()}  # compiled into a temporary folder, whose name is never the same
    mine, theirs = (
        {path: found for path, found in one.items() if path in other or found not in moved or found == (None,)}
        for one, other in ((mine, theirs), (theirs, mine))
    )
    return Section("", _read("objects", a, b, mine, theirs, {}).findings)


def git(a: Record, b: Record, context: Context, *, code_known: bool, explained: bool) -> Section:
    """Compare the project's versions; files that differ and are compared nowhere else are named.

    Args:
        a, b: the runs.
        context: what is known of their locks and commits.
        code_known: script and modules were recorded in both, so that git only accounts for files of other kinds.
        explained: a file that was read differs, which a commit merely brought.
    """
    if a.git is None or b.git is None:
        findings: tuple[Finding, ...] = ()
        if a.git or b.git:
            one, other = (each.git.commit[:12] if each.git else NOWHERE for each in (a, b))
            findings = (changed("git", "git", one, other, 0),)
        return Section("git", findings, compared=False, unknown=() if a.git or b.git else (_NO_GIT,))
    follows = "script, modules or configs" if explained else ""
    known = _known_elsewhere(a, b, context)
    committed, edited = (
        [name for name in names if not _is_below(name, known) and not name.startswith(_WRITTEN)]
        for names in (context.committed, _edited(a.git, b.git))
    )
    weight = 10 if code_known else 83
    return Section("git", tuple(_versions(a.git, b.git, weight, committed, edited, follows)))


def _versions(a: Git, b: Git, weight: int, committed: list[str], edited: list[str], follows: str) -> Iterator[Finding]:
    if a.commit != b.commit:
        more = max(weight, _OTHER_FILES if committed else 0)
        one, other = a.commit[:12], b.commit[:12]
        yield changed("git", "git commit", one, other, more, why=some(committed), follows=follows)
    if (a.dirty, a.diff_sha256) != (b.dirty, b.diff_sha256):
        more = max(weight, _OTHER_FILES if edited else 0)
        one, other = (f"changes {digest(each.diff_sha256)}" if each.dirty else "clean" for each in (a, b))
        yield changed("git", "git, not committed", one, other, more, why=some(edited), follows=follows)
    if a.branch != b.branch:
        yield changed("git", "git branch", a.branch or "(detached)", b.branch or "(detached)", 0)
    if a.untracked != b.untracked:
        yield changed("git", "git, untracked files", str(a.untracked), str(b.untracked), 0)


def _edited(a: Git, b: Git) -> list[str]:
    """Name the files that may make the changes differ: those changed in one run only, else all that are changed."""
    mine, theirs = {*(a.changed or ())}, {*(b.changed or ())}
    return sorted(mine ^ theirs or mine | theirs)


def _known_elsewhere(a: Record, b: Record, context: Context) -> set[str]:
    """Name what is compared by itself, whatever git reports of it: code, declared data, results, lock and spec."""
    read = {file.path for each in (a, b) for file in (*each.modules, *each.configs, *each.reads)}
    left = {path for each in (a, b) for path in (*each.deleted, *(output.path for output in each.outputs))}
    scripts = {each.script.path for each in (a, b) if each.script}
    specs = {name for lock in (context.lock_a, context.lock_b) if lock for name in lock.resolution}
    return read | left | scripts | specs | {*a.inputs, *b.inputs, a.lock.file, b.lock.file}


def _is_below(name: str, places: set[str]) -> bool:
    """Whether a file is one of these, or in a folder that is."""
    return not places.isdisjoint((name, *map(str, PurePosixPath(name).parents)))


def _as_started(record: Record) -> bool:
    """Whether the program's script was not edited between the start and the moment when Python read it."""
    script = record.script
    return all(file.sha256 == script.sha256 for file in record.modules if script and file.path == script.path)


def _files(found: Iterable[ReadFile], without: Iterable[str] = ()) -> Files:
    """Return the digests of each path, sorted: a file may have been read twice with other content."""
    left = set(without)
    files: dict[str, list[str | None]] = {}
    for file in found:
        if file.path not in left:
            files.setdefault(file.path, []).append(file.sha256 or (None if file.size is None else f"{file.size} bytes"))
    return {path: tuple(sorted(digests, key=str)) for path, digests in files.items()}


def _read(area: Area, a: Record, b: Record, mine: Files, theirs: Files, texts: Mapping[str, str]) -> Section:
    """Compare two lists of files; where one run recorded no module at all, its files are not known."""
    known = bool(a.modules) and bool(b.modules)
    if not known and area in ("modules", "configs", "reads") and not (mine and theirs):
        return Section(area, compared=False, unknown=_unknown(area, a, b))
    findings = []
    for path in {**mine, **theirs}:
        before, after = mine.get(path), theirs.get(path)
        if before != after:
            findings.append(_other(area, path, before, after, texts))
    return Section(area if mine or theirs else "", tuple(findings))


def _unknown(area: Area, a: Record, b: Record) -> tuple[str, ...]:
    if area in ("configs", "reads"):
        return ()
    missing = " and ".join(side for side, record in (("A", a), ("B", b)) if not record.modules)
    return (f"imported modules and configuration files (not recorded in {missing})",)


def _other(
    area: Area,
    path: str,
    before: tuple[str | None, ...] | None,
    after: tuple[str | None, ...] | None,
    texts: Mapping[str, str],
) -> Finding:
    """Describe one file: by its lines if both texts are available."""
    one, other = (NOWHERE if each is None else " and ".join(map(digest, each)) for each in (before, after))
    details: tuple[str, ...] = ()
    if before is None or after is None:
        sentence = f"read only in {'B' if before is None else 'A'}"
    else:
        sentence = f"sha256 {one} → {other}"
        old, new = (texts.get(each[0] or "") if len(each) == 1 else None for each in (before, after))
        if old is not None and new is not None and max(old.count("\n"), new.count("\n")) < _MOST:
            sentence, details = _lines(old, new)
    return Finding(
        area=area, what=plain(path), before=one, after=other, change=sentence, weight=_WEIGHTS[area], details=details
    )


def _lines(old: str, new: str) -> tuple[str, tuple[str, ...]]:
    """Count the lines that differ, and show the first of them."""
    before, after = old.splitlines(), new.splitlines()
    added = removed = first = 0
    details: list[str] = []
    for tag, i, j, k, m in difflib.SequenceMatcher(None, before, after, autojunk=len(after) > _MANY).get_opcodes():
        if tag == "equal":
            continue
        first = first or k + 1
        removed, added = removed + j - i, added + m - k
        details += [f"- {_line(line)}" for line in before[i:j]] + [f"+ {_line(line)}" for line in after[k:m]]
    if not added and not removed:
        return "other line ends or a byte order mark only", ()
    if added == removed:
        counts = f"{plural(added, 'line')} changed"
    else:
        parts = [(added, "added"), (removed, "removed")]
        counts = ", ".join(f"{plural(count, 'line')} {word}" for count, word in parts if count)
    more = [f"and {len(details) - _LINES:,} more"] if len(details) > _LINES else []
    return f"{counts}, from line {first} on" if added + removed > 2 else f"{counts}, line {first}", (
        *details[:_LINES],
        *more,
    )


def _line(text: str) -> str:
    shown = mask_text(plain(text.rstrip()))
    return shown if len(shown) <= _LONG else f"{shown[:_LONG]}…"
