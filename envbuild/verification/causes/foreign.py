"""Programs that are not Python and that a project starts: what they draw, as far as their words and scripts show it.

No experiment reaches into such a program: envbuild sets no seed in it and fixes nothing. What can be read is its
command line, and the script that it names if that is a file of the project. A program is named if its text draws random
numbers without a seed or starts several programs at once, or if nobody can read its text: it may draw then. It is never
called proven.

How generators are seeded: R's ``set.seed`` (R Language Definition, ``?Random``), POSIX awk's ``srand`` (mawk seeds
itself at each start), ``RANDOM`` in the manual of bash, ``perldoc -f srand``, ``--random-source`` of GNU coreutils.
What starts programs at once: ``-P`` of xargs, ``-j`` of make, GNU parallel, which has one job for each processor, ``&``
of a shell.
"""

from __future__ import annotations

import ast
import posixpath
import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from envbuild.core.patterns import lazy
from envbuild.difference.finding import Finding
from envbuild.lockfile.layout import WORKSPACE
from envbuild.verification.causes import compiled
from envbuild.verification.causes.branches import unreached
from envbuild.verification.causes.evidence import SHOWN, Evidence
from envbuild.verification.causes.script_times import cut_in, taken_in

STARTING = frozenset(
    [
        *("run", "Popen", "call", "check_call", "check_output", "system", "popen", "getoutput", "getstatusoutput"),
        *("create_subprocess_exec", "create_subprocess_shell", "execv", "execvp", "spawnv", "spawnvp"),
    ]
)
"""Functions, by the last part of their name, that start a program."""
_BY_ARGUMENTS = frozenset(("create_subprocess_exec",))
"""Of these, the ones whose arguments are the words of the command."""
_MODULES = frozenset(("subprocess", "os", "asyncio", "sp", "commands", "sh"))
"""What such a function is called on; a method of another object (``trainer.run``) starts no program."""
_DRAWS, _THREADS, _OPAQUE, _NAMES_A_FILE = 57, 50, 34, 14
"""Weights of a program that draws without a seed, of one that runs threads, of one whose text nobody can read; what the
name of a file that differs adds to the latter."""
_LONGEST, _DEEPEST = 60, 4
_LONG_PATH = 300
_BEFORE = frozenset(("exec", "nice", "nohup", "sudo", "time", "command", "stdbuf", "xargs", "setsid"))
"""Programs that start the one behind them."""
_SHELLS = frozenset(("sh", "bash", "dash", "zsh", "ksh"))
_OPERATOR = lazy(r"[;|&()<>\n]+")
_PYTHON = lazy(r"python[\d.]*|…|envbuild")
_PYTHON_FILES = (".py", ".ipynb")
MAKEFILES = ("GNUmakefile", "makefile", "Makefile")
"""In make's order."""
_VARIABLE = lazy(r"(?m)^([A-Za-z_]\w*)[ \t]*[:?]?=[ \t]*([^\n#]*)")
_INNER = lazy(r"\$\(([^()]*)\)|`([^`]*)`")
_OPEN = frozenset(("do", "then", "else", "elif", "if", "while", "until", "!", "{"))
"""Words of a shell after which a command begins."""


@dataclass(frozen=True, kw_only=True, slots=True)
class _Language:
    """How programs of a language draw random numbers, and how their generator gets a seed.

    Attributes:
        programs: names of its interpreters.
        inline: options whose argument is a program; empty: the first argument that is no option is one.
        draws, seeded: found in texts that draw, and in texts that set a seed.
        attempt: how to set one.
    """

    name: str
    programs: str
    inline: str
    draws: str
    seeded: str
    attempt: str


_LANGUAGES = (
    _Language(
        name="R", programs=r"Rscript|R|littler", inline="-e",
        draws=r"\b(?:r(?:norm|unif|binom|pois|exp|gamma|beta|t|chisq|multinom|geom|weibull|logis|cauchy)|sample(?:\.int)?"
        r"|kmeans|randomForest|createDataPartition|createFolds|ranger|sample_n|sample_frac|slice_sample|bootstrap)\s*\(",
        seeded=r"\bset\.seed\s*\(\s*[^)\s]", attempt="set.seed(N) at the beginning of the R program",
    ),
    _Language(
        name="awk", programs=r"[mng]?awk", inline="", draws=r"\bs?rand\s*\(",
        seeded=r"\bsrand\s*\(\s*[^)\s]", attempt="BEGIN { srand(N) } in the awk program",
    ),
    _Language(
        name="Perl", programs=r"perl5?", inline="-e -E -ne -pe -nle -ple -lne -lpe -le -lane",
        draws=r"\b(?:rand|shuffle)\b", seeded=r"\bsrand\s*\(?\s*[\w$\"]",
        attempt="srand(N) at the beginning of the Perl program",
    ),
    _Language(
        name="Ruby", programs=r"ruby", inline="-e", draws=r"\b(?:rand|shuffle!?|sample)\b",
        seeded=r"\bsrand\b|Random\.new\s*\(\s*\d", attempt="srand(N) at the beginning of the Ruby program",
    ),
    _Language(
        name="Julia", programs=r"julia", inline="-e", draws=r"\b(?:rand|randn|randperm|shuffle!?)\s*\(",
        seeded=r"\bseed!\s*\(", attempt="Random.seed!(N) at the beginning of the Julia program",
    ),
    _Language(
        name="JavaScript", programs=r"node(?:js)?|deno|bun", inline="-e --eval -p",
        draws=r"Math\.random|randomBytes|randomUUID",
        seeded=r"seedrandom", attempt="a generator that takes a seed in place of Math.random(), which takes none",
    ),
    _Language(
        name="Octave", programs=r"octave(?:-cli)?", inline="--eval", draws=r"\brand(?:n|i|perm)?\s*\(",
        seeded=r"\brandn?\s*\(\s*['\"](?:seed|state|twister)",
        attempt='rand("twister", N) and randn("twister", N) first',
    ),
)  # fmt: skip
_RANDOM = lazy(r"\$\{?S?RANDOM\b|\(\([^()]*\bS?RANDOM\b")
_RANDOM_SEEDED = lazy(r"(?:^|[;\s])RANDOM=[\w$]")
_COREUTILS = lazy(r"shuf\b|sort\s(?:.*\s)?(?:-[a-zA-Z]*R|--random-sort)\b")
_SOURCED = "--random-source"
_BUILT = "srand(N) in C, std::mt19937 with a number in place of std::random_device in C++"
_ONE_THREAD = "one thread for it (an option such as -threads 1), to see whether it is the threads"
_AT_ONCE = lazy(
    r"\bxargs\b[^\n|;&]*?\s(?:-P\s?|--max-procs[= ])(?!1\b)[\w…$]+"
    r"|(?:^|[\n|;&(]\s*|\bxargs\s+)parallel\b(?![^\n|;&]*\s(?:-j\s?|--jobs[= ])1\b)(?:\s+-\S+)*"
    r"|\bmake\b[^\n|;&]*?\s(?:-j\s?(?!1\b)\w*|--jobs(?:=(?!1\b)\w+)?(?![\w=]))"
    r"|[^\s&|;<>()][^\n&|;]*?\s>\([^)\n]*\)"
    r"|[^\s&|;](?:>&\d|[^\n&|;])*(?<![&|<>\\;])&(?=\s|$|\))"
)
"""What starts several programs that run at once; in a text for a shell."""
_BEGIN = lazy(r"\A(?:(?:do|then|else)\b\s*|\(\s*)+")
"""What is in front of a command in a shell's loop or group."""
_ONE_JOB = "one job at a time (xargs -P 1, make -j1, no &), or results put in order by what they are of"
_OF_SHELL = "give its programs a seed: RANDOM=N in bash, srand(N) in awk, --random-source=FILE for shuf and sort -R"
_DURATION, _UNITS = lazy(r"(\d+(?:\.\d+)?|\.\d+)([smhd]?)"), {"": 1, "s": 1, "m": 60, "h": 3600, "d": 86400}
_ENDED = "ends a program at a time: how far it came by then varies"
_AS_ARGUMENT = "give the script the value, or leave it out of seeds and results"
_TO_ITS_END = "let the program come to its end, and take the lines that are wanted from a file"
_BY_STEPS = "let the program end by itself, after a number of steps"
UNHASHED = "starts Python without PYTHONHASHSEED: the order of its sets of texts is another one in each run"
"""In the sentence about such a program."""
_WITH_SEED = "pass PYTHONHASHSEED on: env -i PYTHONHASHSEED=$PYTHONHASHSEED …; or sort what comes from sets"
INSIDE = "envbuild does not look inside of programs that are not Python"
"""In the sentence about each."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Command:
    """A program that a line starts.

    Attributes:
        words: of its command line; ``…`` for what the source does not show.
        line: of the source, 1-based.
        context: all texts of the call that starts it, in which files may be named that it writes.
    """

    words: tuple[str, ...]
    line: int
    context: str = ""

    @property
    def shown(self) -> str:
        """Its beginning, as it is quoted."""
        text = " ".join(" ".join((posixpath.basename(self.words[0]) or self.words[0], *self.words[1:])).split())
        return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"


@dataclass(frozen=True, kw_only=True, slots=True)
class _Suspicion:
    """Why a program may give another output in each run.

    Attributes:
        at_once: its words that start several programs at once; empty if that is not the reason.
        does: what its words alone say that it does; empty if that is not the reason.
        seconds: after which it ends another one; 0 if that is not known.
    """

    command: Command
    language: str
    attempt: str
    draws: bool
    text: str = ""
    place: compiled.Place | None = None
    at_once: str = ""
    does: str = ""
    seconds: float = 0.0


def of_foreign(evidence: Evidence) -> Iterator[Finding]:
    """Yield programs that draw without a seed, or whose text nobody can read; none where something is proven.

    One whose output was the same in runs that differ is not among them.
    """
    if evidence.proven:
        return
    differing, started_by = _differing(evidence), {each.place for each in evidence.programs}
    said, idle = set[str](), unreached(evidence)
    for path, source in (evidence.sources or {}).items():
        for each in suspicions(source, evidence.scripts):
            where = f"{path}:{each.command.line}"
            if each.command.line in idle.get(path, ()) or each.seconds > (evidence.a.duration or each.seconds):
                continue  # it does not run, or ends nothing
            if f"{WORKSPACE}/{where}" in evidence.same_output or (key := f"{where} {each.command.shown}") in said:
                continue
            said.add(key)
            if len(said) > SHOWN:
                return
            named = next(
                (name for name in differing if posixpath.basename(name) in f"{each.text} {each.command.context}"), ""
            )
            shown = f"{WORKSPACE}/{where}" in started_by
            lines = dict.fromkeys((*_lines_with(each, source), _line_of(each, source)))
            places = [f"{path}:{line}" for line in lines]
            places += _in_scripts(each, evidence.scripts or {})
            if each.does and each.place is not None:
                places.insert(0, each.place.where)
            yield _finding(each, ", ".join(places), named, evidence.refuted, shown=shown)
    yield from _of_the_run(evidence, differing)


def begun_at_once(
    sources: Mapping[str, str], scripts: Mapping[str, str], command: Sequence[str]
) -> Iterator[tuple[str, str]]:
    """Yield the words that start programs at once which are no Python, and where: nothing has these take other turns.

    Args:
        sources: modules of the project, by path.
        scripts: texts of its files that are no Python, by path.
        command: the words of the run's own.
    """
    found = [(f"{path}:", source, each) for path, source in sources.items() for each in suspicions(source, scripts)]
    found += [("", "", each) for each in of_command(command, scripts)]
    for path, source, each in found:
        if each.at_once and "python" not in each.at_once:
            places = _in_scripts(each, scripts) or ([f"{path}{_line_of(each, source)}"] if path else [])
            yield each.at_once, ", ".join(places)


def _line_of(found: _Suspicion, source: str) -> int:
    """Return the line that has the words that start programs at once, if one alone has them; else that of the call."""
    lines = [number for number, line in enumerate(source.splitlines(), 1) if found.at_once and found.at_once in line]
    return lines[0] if len(lines) == 1 else found.command.line


def _lines_with(found: _Suspicion, source: str) -> list[int]:
    """Return the line that has the words of a program that draws, if one alone has them: a text or list with a name."""
    words = [word for word in found.command.words if "…" not in word]
    numbered = enumerate(source.splitlines(), 1)
    lines = [number for number, line in numbered if found.draws and words and all(word in line for word in words)]
    return lines if len(lines) == 1 else []


def _in_scripts(found: _Suspicion, scripts: Mapping[str, str]) -> list[str]:
    """Return the line of a script that has what draws, or what starts programs at once, if one alone has it."""
    words = found.at_once.split()[:2] if found.at_once else list(found.command.words[:2]) if found.draws else []
    lines = [
        f"{path}:{number}"
        for path, text in scripts.items()
        if posixpath.basename(path) in f"{found.text} {found.command.context}"
        for number, line in enumerate(text.splitlines(), 1)
        if words and not line.lstrip().startswith("#") and all(word in line for word in words)
    ]
    return lines if len(lines) == 1 else []


def _of_the_run(evidence: Evidence, differing: Sequence[str]) -> Iterator[Finding]:
    """Yield the same of what the run itself is, where that is no Python: a shell's script, make, a built program."""
    said = set[str]()
    for each in of_command(evidence.a.command, evidence.scripts or {}):
        where = each.place.where if each.place is not None else ""
        named = next((name for name in differing if posixpath.basename(name) in each.text), "")
        found = _finding(each, where, named, evidence.refuted, shown=False)
        if (key := where or found.what) not in said and len(said) < SHOWN:
            said.add(key)
            yield found


def _finding(found: _Suspicion, where: str, named: str, refuted: Sequence[str], *, shown: bool) -> Finding:
    weight = (
        _THREADS if found.place is not None or found.at_once or found.does else _OPAQUE + _NAMES_A_FILE * bool(named)
    )
    return Finding(
        area="sources",
        weight=_DRAWS if found.draws else weight,
        what=_sentence(found, named, refuted, shown=shown),
        where=where,
        attempt=found.attempt,
    )


def _sentence(found: _Suspicion, named: str, refuted: Sequence[str], *, shown: bool) -> str:
    """Return why a program is named.

    Args:
        found: it.
        named: a file that differs and that its words name; empty for none.
        refuted: what was fixed in vain.
        shown: its output differed though it was given the same.
    """
    inside = INSIDE
    if shown:
        inside = f"its output was another one in each run, though it was given the same; {inside}"
    if found.does:
        text = f"{found.command.shown!r} {found.does}"
    elif found.place is not None:
        does = "draws random numbers from another seed in each run" if found.draws else "runs threads"
        text = f"{found.command.shown!r} {does} ({found.place.text!r} in {found.place.where}); {inside}"
    elif found.at_once:
        text = f"{found.at_once!r} starts programs that run concurrently: who comes first varies; {inside}"
    elif found.draws:
        text = (
            f"{found.command.shown!r} draws random numbers ({found.language}), and no fixed seed is set in it; {inside}"
        )
    else:
        text = f"{found.command.shown!r} may draw random numbers, ask for the time or run threads; {inside}"
    if named:
        text += f"; its words name {named}, which differs"
    if {"entropy", "clock", "order"}.issubset(refuted):
        text += "; what was fixed in Python's processes left the runs different"
    return text


def _differing(evidence: Evidence) -> list[str]:
    """Return the files whose bytes differ between the two runs."""
    other = {each.path: each.sha256 for each in evidence.b.outputs}
    return [each.path for each in evidence.a.outputs if other.get(each.path, each.sha256) != each.sha256]


def scripts_named(source: str) -> list[str]:
    """Return the words of started commands that may be scripts in the project: paths that are no Python."""
    words = [word for command in started(source) for word in command.words]
    return _paths([*words, *(inner for word in words for each in shell_commands(word) for inner in each)])


def of_command(command: Sequence[str], scripts: Mapping[str, str]) -> Iterator[_Suspicion]:
    """Yield the programs of a run's own command that may give another output in each run; none if it is Python.

    Args:
        command: its words.
        scripts: texts of files of the project that are no Python, by path.
    """
    words = tuple(_program(command))
    if (
        words
        and not words[0].startswith("-")
        and not words[0].endswith(_PYTHON_FILES)
        and not _PYTHON.fullmatch(posixpath.basename(words[0]))
    ):
        yield from _of_command(Command(words=words, line=0), scripts, _DEEPEST)


def scripts_of_command(command: Sequence[str]) -> list[str]:
    """Return the words of a run's own command that may be scripts in the project."""
    return _paths([*command, *(inner for word in command for each in shell_commands(word) for inner in each)])


def scripts_of_shell(text: str) -> list[str]:
    """Return the same of a text for a shell."""
    return _paths([word for command in shell_commands(text) for word in command])


def _paths(words: Sequence[str]) -> list[str]:
    paths = dict.fromkeys(posixpath.normpath(word) for word in words if "…" not in word and len(word) < _LONG_PATH)
    return [
        path
        for path in paths
        if re.fullmatch(r"[\w.+][\w./+-]*", path) and not path.startswith("..") and re.search(r"[./]", path)
        and not path.endswith((".py", ".csv", ".txt", ".json"))
    ]  # fmt: skip


def suspicions(source: str, scripts: Mapping[str, str] | None = None) -> Iterator[_Suspicion]:
    """Yield the programs of a source that may give another output in each run.

    Args:
        source: of Python.
        scripts: texts of files of the project that are no Python, by path.
    """
    for command in started(source):
        yield from _of_command(command, scripts or {}, _DEEPEST)


def _of_command(command: Command, scripts: Mapping[str, str], deep: int) -> Iterator[_Suspicion]:
    program, words = posixpath.basename(command.words[0]), command.words[1:]
    if program in ("timeout", "env"):
        yield from _of_wrapper(command, program, words, scripts, deep)
        return
    joined = " ".join((program, *words))
    text = " ".join(command.words)
    if program not in _SHELLS and (found := _AT_ONCE.match(joined)) is not None:
        yield _at_once(command, found, text)
    if _COREUTILS.match(joined) and _SOURCED not in joined:
        yield _Suspicion(
            command=command, language="coreutils", draws=True, text=text,
            attempt=f"{_SOURCED}=FILE, a file of fixed bytes, or shuffle in Python",
        )  # fmt: skip
    elif program in _SHELLS:
        yield from _of_shell(command, words, scripts, deep)
    elif language := next((each for each in _LANGUAGES if re.fullmatch(each.programs, program)), None):
        yield from _of_language(command, language, words, scripts)
    elif posixpath.normpath(command.words[0]) in scripts:
        own = posixpath.normpath(command.words[0])
        yield from _of_times(command, own, scripts[own])
        yield from _of_script(command, scripts[own], scripts, deep)
    elif program == "make" and (path := next((each for each in MAKEFILES if each in scripts), None)):
        yield from _of_script(command, _recipes(scripts[path]), scripts, deep)
    elif _is_own(command.words[0]):
        yield from _of_built(command, program, text, scripts)


def _of_wrapper(
    command: Command, program: str, words: Sequence[str], scripts: Mapping[str, str], deep: int
) -> Iterator[_Suspicion]:
    """Yield what ``timeout`` and ``env`` do to the program that they start, and what that does."""
    text, left = " ".join(command.words), list(words)
    options = list[str]()
    while left and (left[0].startswith("-") or (program == "env" and "=" in left[0])):
        options.append(left.pop(0))
        if options[-1] in ("-k", "-s", "-u", "-C", "-S") and left:
            options.append(left.pop(0))
    if program == "timeout" and left:
        limit = _DURATION.fullmatch(left.pop(0))
        yield _Suspicion(
            command=command, language="", draws=False, text=text, attempt=_BY_STEPS, does=_ENDED,
            seconds=float(limit[1]) * _UNITS[limit[2]] if limit is not None else 0.0,
        )  # fmt: skip
    elif program == "env" and left and re.fullmatch(r"python[\d.]*", posixpath.basename(left[0])):
        cleared = not {"-", "-i", "--ignore-environment"}.isdisjoint(options) and not any(
            each.startswith("PYTHONHASHSEED=") for each in options
        )
        if cleared or "PYTHONHASHSEED" in options or "--unset=PYTHONHASHSEED" in options:
            yield _Suspicion(command=command, language="", draws=False, text=text, attempt=_WITH_SEED, does=UNHASHED)
        return
    if left and deep and not _PYTHON.fullmatch(posixpath.basename(left[0])):
        yield from _of_command(replace(command, words=tuple(left)), scripts, deep - 1)


def _at_once(command: Command, found: re.Match[str], text: str) -> _Suspicion:
    words = _BEGIN.sub("", found[0].strip(" \n|;&()")) + (" &" if found[0].endswith("&") else "")
    return _Suspicion(command=command, language="", draws=False, text=text, attempt=_ONE_JOB, at_once=words)


def _of_built(command: Command, program: str, text: str, scripts: Mapping[str, str]) -> Iterator[_Suspicion]:
    """Yield what the sources of a built program show; that nobody can read it where there are none."""
    draws, threads = [*compiled.draws_of(program, scripts)], [*compiled.threads_of(program, scripts)]
    option = compiled.seed_option(program, scripts)
    attempt = f"give it a fixed seed: {option} N" if option and option not in text else _BUILT
    for place in draws[:1]:
        yield _Suspicion(command=command, language="C", draws=True, text=text, attempt=attempt, place=place)
    for place in threads[:1]:
        yield _Suspicion(command=command, language="C", draws=False, text=text, attempt=_ONE_THREAD, place=place)
    if not compiled.sources_of(program, scripts):
        yield _Suspicion(command=command, language="", draws=False, text=text, attempt=_BUILT)


def _recipes(text: str) -> str:
    """Return the recipes of a makefile as a text for a shell, with the values of its variables."""
    values = dict(_VARIABLE.findall(text))
    lines = [line.lstrip("\t@+-") for line in text.replace("\\\n", " ").splitlines() if line.startswith("\t")]
    used = re.compile(r"\$[({](\w+)[)}]")
    for _ in range(_DEEPEST):
        lines = [used.sub(lambda found: values.get(found[1], "…"), line) for line in lines]
    return "\n".join(line.replace("$$", "$") for line in lines)


def _is_own(word: str) -> bool:
    """Whether a program is named by a path that is not the system's."""
    return "/" in word and not word.startswith(("/usr/", "/bin/", "/sbin/", "/opt/", "…")) and not word.endswith(".py")


def _of_language(
    command: Command, language: _Language, words: Sequence[str], scripts: Mapping[str, str]
) -> Iterator[_Suspicion]:
    text, known = _text_of(language, words, scripts)
    draws = re.search(language.draws, text) is not None
    if (known and not draws) or re.search(language.seeded, text) is not None:
        return
    yield _Suspicion(
        command=command,
        language=language.name,
        draws=draws,
        text=f"{' '.join(command.words)} {text}",
        attempt=language.attempt,
    )


def _text_of(language: _Language, words: Sequence[str], scripts: Mapping[str, str]) -> tuple[str, bool]:
    """Return the text of a program in a language, and whether that is known."""
    texts, whole = [], True
    options = iter(words)
    for word in options:
        if word in language.inline.split():
            texts.append(next(options, ""))
        elif word == "-f":
            path = posixpath.normpath(next(options, ""))
            whole = whole and path in scripts
            texts.append(scripts.get(path, ""))
        elif word in ("-F", "-v"):
            next(options, "")
        elif not word.startswith("-") and not texts:
            if not language.inline:
                texts.append(word)
            else:
                path = posixpath.normpath(word)
                whole = whole and path in scripts
                texts.append(scripts.get(path, ""))
            break
    text = "\n".join(texts)
    return text, whole and bool(texts) and "…" not in text


def _of_shell(command: Command, words: Sequence[str], scripts: Mapping[str, str], deep: int) -> Iterator[_Suspicion]:
    """Yield what a shell does with its text, or with the script that it is given."""
    at = next((number for number, word in enumerate(words) if re.fullmatch(r"-[a-z]*c", word)), None)
    if at is not None:
        yield from _of_script(command, "".join(words[at + 1 : at + 2]), scripts, deep)
        return
    script = next((posixpath.normpath(word) for word in words if not word.startswith("-")), "")
    if script in scripts:
        yield from _of_times(command, script, scripts[script])
        yield from _of_script(command, scripts[script], scripts, deep)
    elif script:
        text = " ".join(command.words)
        attempt = (
            "give its programs a seed: RANDOM=N in bash, srand(N) in awk, --random-source=FILE for shuf and sort -R"
        )
        yield _Suspicion(command=command, language="", draws=False, text=text, attempt=attempt)


def _of_times(command: Command, path: str, text: str) -> Iterator[_Suspicion]:
    """Yield the values of now that a script keeps, where it is one for a shell."""
    first = text.partition("\n")[0]
    if first[:2] == "#!" and not any(each in first for each in _SHELLS):
        return
    for line, words in taken_in(text):
        place = compiled.Place(path=path, line=line, text=words)
        yield _Suspicion(
            command=command, language="", draws=False, text=text, attempt=_AS_ARGUMENT, place=place,
            does=f"starts {words!r} in {place.where}, which gives another text in each run",
        )  # fmt: skip
    for line, words in cut_in(text):
        place = compiled.Place(path=path, line=line, text=words)
        yield _Suspicion(
            command=command, language="", draws=False, text=text, attempt=_TO_ITS_END, place=place,
            does=f"ends a program by {words!r} in {place.where}, which reads no more: how far it came by then varies",
        )  # fmt: skip


def _of_script(command: Command, text: str, scripts: Mapping[str, str], deep: int) -> Iterator[_Suspicion]:
    """Yield the programs of a script for a shell; another language's by the line that names it (``#!``)."""
    first = text.partition("\n")[0]
    program = (
        posixpath.basename(first.removeprefix("#!").replace("/usr/bin/env ", "").split()[0])
        if first[:2] == "#!" and first[2:].strip()
        else ""
    )
    language = next((each for each in _LANGUAGES if program and re.fullmatch(each.programs, program)), None)
    if language is not None:
        if re.search(language.draws, text) is not None and re.search(language.seeded, text) is None:
            yield _Suspicion(command=command, language=language.name, draws=True, text=text, attempt=language.attempt)
        return
    if (program and program not in _SHELLS) or not deep:
        return
    code = "\n".join(line for line in text.splitlines() if not line.lstrip().startswith("#"))
    if _RANDOM.search(code) is not None and _RANDOM_SEEDED.search(code) is None:
        attempt = "RANDOM=N at the beginning of the script, for bash"
        yield _Suspicion(command=command, language="$RANDOM of the shell", draws=True, text=text, attempt=attempt)
    if (at_once := _AT_ONCE.search(code)) is not None:
        yield _at_once(command, at_once, f"{' '.join(command.words)} {code}")
    for words in shell_commands(code):
        for found in _of_command(replace(command, words=words), scripts, deep - 1):
            if not found.at_once:
                yield replace(found, text=f"{found.text} {code}")


def shell_commands(text: str) -> list[tuple[str, ...]]:
    """Return the words of each program in a text for a shell, without redirections, those inside ``$(…)`` too."""
    text = re.sub(r"(?<=\s)\d(?=[<>])", "", text)
    lexer = shlex.shlex(text, posix=True, punctuation_chars=";|&()<>\n")
    lexer.commenters, lexer.whitespace = "", " \t\r"
    lexer.wordchars += "$@%^+=,[]{}!?#:…"
    try:
        tokens = list(lexer)
    except ValueError:
        tokens = re.findall(r"[;|&()<>\n]+|[^\s;|&()<>]+", text)
    found, words, skip = list[tuple[str, ...]](), list[str](), False
    for token in (*tokens, ";"):
        if not _OPERATOR.fullmatch(token):
            if not skip:
                words.append(token)
            skip = False
        elif "<" in token or (">" in token and "|" not in token):
            skip = True
        else:
            found += [tuple(left)] if (left := _program(words)) else []
            words, skip = [], False
    for inner in _INNER.finditer(text):
        found += shell_commands(inner[1] or inner[2] or "")
    return found


def _program(words: Sequence[str]) -> Sequence[str]:
    """Return a command line from its program on: without assignments, and without what starts that program."""
    left = list(words)
    while left and (re.match(r"\w+=", left[0]) or left[0] in _OPEN or posixpath.basename(left[0]) in _BEFORE):
        begins = posixpath.basename(left.pop(0)) in _BEFORE
        while begins and left and left[0].startswith("-"):
            left.pop(0)
    return left


def started(source: str) -> list[Command]:
    """Return the programs that a source of Python starts, as far as constants show them; no Pythons."""
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return []
    named = _constants(tree)
    found = list[Command]()
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and node.args and _starts(node.func):
            texts = (each.value for each in ast.walk(node) if isinstance(each, ast.Constant))
            context = " ".join(each for each in texts if isinstance(each, str))
            found += (replace(each, context=context) for each in _commands(node, named))
    return [each for each in found if each.words and not _PYTHON.fullmatch(posixpath.basename(each.words[0]))]


def _starts(function: ast.expr) -> bool:
    if isinstance(function, ast.Name):
        return function.id in STARTING - {"run", "call"}
    if not isinstance(function, ast.Attribute) or function.attr not in STARTING:
        return False
    return isinstance(function.value, ast.Name) and function.value.id in _MODULES


def _commands(node: ast.Call, named: Mapping[str, ast.expr]) -> list[Command]:
    name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
    first: ast.expr = (
        ast.List(elts=node.args) if name in _BY_ARGUMENTS else node.args[-1 if name[:4] in ("exec", "spaw") else 0]
    )
    if isinstance(first, ast.Name):
        first = named.get(first.id, first)
    if isinstance(first, ast.List | ast.Tuple):
        return [Command(words=tuple(_text(each, named) for each in first.elts), line=node.lineno)] if first.elts else []
    text = _text(first, named)
    if isinstance(first, ast.Call) and isinstance(first.func, ast.Attribute) and first.func.attr == "split":
        text = _text(first.func.value, named)
    return [Command(words=words, line=node.lineno) for words in _with_random(text)]


def _with_random(text: str) -> list[tuple[str, ...]]:
    """Return the programs of a text for a shell; all of it as one of the shell's if it draws or starts them at once."""
    whole = _RANDOM.search(text) is not None or _AT_ONCE.search(text) is not None
    return [("bash", "-c", text)] if whole else shell_commands(text)


def _constants(tree: ast.Module) -> dict[str, ast.expr]:
    """Return the values of names that get one value in the file, and a constant, a list or a text."""
    values = dict[str, list[ast.expr]]()
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign):
            for target in node.targets:
                if isinstance(target, ast.Name):
                    values.setdefault(target.id, []).append(node.value)
    return {name: each[0] for name, each in values.items() if len(each) == 1}


def _text(node: ast.expr, named: Mapping[str, ast.expr], deep: int = _DEEPEST) -> str:
    """Return a text as far as the source shows it."""
    if isinstance(node, ast.Constant):
        return str(node.value)
    if isinstance(node, ast.JoinedStr):
        return "".join(str(each.value) if isinstance(each, ast.Constant) else "…" for each in node.values)
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add | ast.Mod):
        parts = (node.left, node.right) if isinstance(node.op, ast.Add) else (node.left,)
        return "".join(_text(each, named, deep) for each in parts)
    if isinstance(node, ast.Name) and deep and node.id in named:
        return _text(named[node.id], named, deep - 1)
    if isinstance(node, ast.Attribute) and node.attr == "executable":
        return "python"
    if isinstance(node, ast.Call) and node.args and len(node.args) == 1:  # str(…), Path(…), shlex.quote(…)
        return _text(node.args[0], named, deep)
    return "…"
