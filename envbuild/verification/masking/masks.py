"""Masks one line: what differs in every run gets a mark of its kind.

Masked are measurements (times, rates, memory), addresses, and names that are made for the moment. A date or a number of
seconds counts as a time only if it is about when the run was, so that dates in data and large numbers are results.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from copy import copy
from datetime import datetime, timezone
from fnmatch import translate
from functools import cache, lru_cache, partial

import msgspec

from envbuild.core.patterns import lazy
from envbuild.lockfile.layout import HOST_NAME, VARIED_HOST
from envbuild.record.measurements import (
    NUMBERED,
    assigns_result,
    assigns_unknown,
    is_result,
    kind_of,
    name_leaves_doubt,
)
from envbuild.record.printed import IGNORED
from envbuild.verification.masking.days import Clocks, noon_near
from envbuild.verification.masking.rules import (
    DATETIME,
    IN_MILLISECONDS,
    NUMBER,
    OF_DAY,
    OF_TEMPLATE,
    SHAPE,
    TABLE,
    TIME_OF_DAY,
    ZEROS,
    Rule,
    epoch,
    julian_moment,
    may_match,
    shown_moment,
)
from envbuild.verification.masking.screen import BINARY, LONGEST_LINE

_BEFORE = 26 * 3600.0
"""Seconds before the start of a run that still count as its time: other time zones, files of just before."""
_AFTER = 30 * 86400.0
_ERA = 1e8
"""Seconds: three years, in which nearly all runs that are compared were."""
_NEAR, _QUARTER = 3.0, 900
"""Seconds by which a time of day may be outside of a run, and between time zones at the least."""
_DAY = 86400
_ROUNDED = 2.0
"""Seconds by which a moment of a run may be outside of what its record has."""
_DRAWN = 1000
"""Names of files that are looked for in texts."""
_SHORT_NAME, _HEX = 8, lazy(r"[0-9a-f]+")
_REST_OF_UUID = (
    r"(?:-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}(?![0-9a-f-])"
    r"|[0-9a-f]{4}4[0-9a-f]{3}[89ab][0-9a-f]{15}(?![0-9a-f]))?"
)
"""Behind the first eight digits of one of version 4, by which folders are named: ``run_id[:8]``."""
PROFILE_OF_SAMPLES = "profiles of samples"
"""Kind of the lines in which a sampling profiler prints what it saw."""
BY_CLOCK = "log messages by the clock"
"""Kind of a line that is left out because a library prints it, or not, depending on the time or on free memory."""
SLOWEST = "tests by how long they took"
_LEFT_OUT = frozenset((IGNORED, BY_CLOCK, SLOWEST, PROFILE_OF_SAMPLES))
_NAME = 24
"""Characters before a number in which it may be named as a result."""
_CLAUSE = 80
"""The same, if it is named with more words."""
_NAMED_BEHIND = lazy(r"(?:⟨time⟩|\d\s?(?:[nuµm]?s|secs?|seconds?))\s(?:[a-z_-]+\s){0,2}[a-z_-]+,\s?\Z", re.IGNORECASE)
"""Before a time in a list of times with their names behind them: ``0.1ms loss, 0.4ms postprocess``."""
_HOSTS = lazy(rf"(?<![A-Za-z0-9-]){VARIED_HOST}\d{{{len(HOST_NAME) - len(VARIED_HOST)}}}(?![\w-])")
_MARKER = lazy(r"(?<![\w/])1/[0-9a-f]{16}/[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}/pid:\[\d+\]/\d+(?![\w/])")
"""The guard's marker of a container (``runtime.guard.gate``)."""
_VARIED = lazy(
    r"(\A|ENVBUILD_VARY[\s'\":=,|]{1,60})\d+(?=:listings,environment(?:,(?:load|turns|pids|memory))*(?![\w:,]))"
)
"""The number of a run in ``ENVBUILD_VARY``."""
_RUN = lazy(r"(ENVBUILD_RUN_ID[\s'\":=,|]{1,60})[0-9A-HJKMNP-TV-Z]{26}(?!\w)")
_PARENT = lazy(r"(ENVBUILD_PROCESS[\s'\":=,|]{1,60})(\d{1,9})(?=:\d*:)")
_DIGITS = 64
SHA256 = lazy(r"(?<![0-9a-z])[0-9a-f]{64}(?![0-9a-z])")
_PREFIX = lazy(r"(?<![0-9A-Za-z])[0-9a-f]{12,63}(?![0-9A-Za-z])")
"""The first digits of one, as people print them; no other text has 12 in common with a file's by chance."""
_SAYS_DIGEST = ("sha", "SHA", "digest", "Digest", "checksum", "Checksum", "hash", "Hash")
_LEAST = 12
_MEASURED = ("times", "rates", "memory")
PROFILE = "⟨profile⟩"
"""What a line of a profiler's table is as a whole."""
_GUESSED, _STRANGE = "guessed", "strange"
_OF_RUN = "of the run"
"""That a line was masked, or not, by when its run was or which processes it had: in another run it may be otherwise."""
_OF_SO_MANY = lazy(r"\s?/\s?\d+(?![\d.])")
_ALIGNED = 4
_WITH_DIGIT = lazy(r"f1|r2", re.IGNORECASE)
"""Names of results that hold a digit (``record.measurements``)."""
_LOGGED_BY_CLOCK = lazy(
    r"(?:[IWE]\d{4} \d\d:\d\d:\d[\d.]+ +\d+ |\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d+: [IWE] [\w./]+/)"
    r"(?:node_def_util\.cc:\d+\] NodeDef mentions attribute "  # at most one in 5 s, whichever node comes then
    r"|shuffle_dataset_op\.cc:\d+\] (?:Filling up shuffle buffer|Shuffle buffer filled)"  # every 10 s
    r"|cpu_allocator_impl\.cc:\d+\] Allocation of \d+ exceeds \d+% of free system memory)"
    r"|(?:.*\bfont_manager\b.*)?Matplotlib is building the font cache; this may take a moment\.\s*$"  # a timer, of 5 s
    r"|\[[IW](?:\d{4} \d\d:\d\d:\d\d\.\d+)? socket\.cpp:\d+\] \[c10d\] "
    r"(?:The hostname of the client socket cannot be retrieved\. err=-?\d+"  # once, but two threads may both find it so
    r"|The server socket on \S+ has timed out, will retry\.|No socket on \(\S+, \d+\) is listening yet, will retry\."
    r"|waitForInput: poll for socket SocketImpl\([\w\[\]:.=?, -]+\) returned 0, likely a timeout)\s*$"
    # The hook's own modules, by what verify varies, among those whose time ``-X importtime`` prints.
    r"|import time: [ \d]{8,}\d \| [ \d]{9,}\d \| +_envbuild(?:\.\w+)*\s*$"
    # Of two threads, the second if it takes a while.
    r"|COMET INFO: (?:Couldn't find a Git repository in '[^']*' nor in any parent directory\. Set `COMET_GIT_DIRECTORY`"
    r" if your Git Repository is elsewhere\.|The process of logging environment details \(conda environment, git"
    r" patch\) is underway\. Please be patient as this may take some time\.)\s*$"
    # Ray Tune: of checkpoints within so many seconds, and of what took longer than it should.
    r"|\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d+\tWARNING (?:experiment_state\.py:\d+ -- (?:Experiment state snapshotting has"
    r" been triggered multiple times in the last |Saving the experiment state \(which holds a global view of trial )"
    r"|util\.py:\d+ -- The `\w+` operation took \d+\.\d{3} s, which may be a performance bottleneck\.\s*$)"
    r"|\[LightGBM\] \[Warning\] Connecting to rank \d+ failed, waiting for \d+ milliseconds\s*$"
    # How long the file is depends on the times that cells printed; it is compared itself.
    r"|\[NbConvertApp\] Writing \d+ bytes to \S.*$"
    r"|You may want to consider increasing the `CheckpointConfig\(num_to_keep\)` or decreasing the frequency of saving"
    r" checkpoints\.\s*$|You can suppress this warning by setting the environment variable TUNE_WARN_\w+ to a \w+ value"
)
"""TensorFlow's messages by LOG_EVERY_N_SEC (core/framework/node_def_util.cc, core/kernels/data), and by free memory;
PyTorch's about ranks that wait for each other (torch/csrc/distributed/c10d/socket.cpp), whole lines alone; Comet's
(comet_ml/logging_messages.py) too."""
_CLOCK_IN = lazy(r"(?<!\d)([01]?\d|2[0-3])[:-]?([0-5]\d)[:-]?([0-5]\d(?:[.,]\d+)?)(?!\d|:|-\d\d(?!:?\d\d))")
"""The time of day in a date."""
_WEEKDAY = lazy(r"(?:mon|tue|wed|thu|fri|sat|sun)", re.IGNORECASE)
_HALF = lazy(r"\s?([ap])m\b", re.IGNORECASE)
_OFFSET = lazy(r"\s?([+-])(\d\d):?(\d\d)\b")
_GLOG = lazy(r"(\d\d)(\d\d) (\d\d:\d\d:\d\d)(\d*)\S*(?:\s+(\d+))?")
_PORTS = range(32768, 61000)
"""Of which Linux takes one where a program gives none (``ip_local_port_range``)."""
_OBJECTS = 16
"""Of whose multiples addresses of objects and of threads are."""
_THREADS, _OTHER_THREADS = range(0x7E0000000000, 0x800000000000), 1 << 12
"""What Python calls a thread's identity, and how many threads there may be whose numbers are behind the processes'."""
_LONGEST_NUMBER = 40
"""Digits that are enough to see that a number is none of a process; ``int`` takes no more than some thousands."""
_BEHIND_DATE = "(?P<keep>⟨date⟩[-_.])"
_HMS = lazy(r"\d+(?:[.,]\d+)?")
_ESTIMATED = lazy(
    r"(?<![a-z])(?:eta|remaining|left|estimated|expected|until|finish|cpu|user|sys|workers?|sum|total|cumulative)(?![a-z])"
    r"|s/(?:step|it)|[‹•<]",
    re.IGNORECASE,
)
"""Next to times that are estimated, or that several processes took together."""

_SPACES = lazy(r" {2,}")
_PLOTTED = lazy(r"(?<! ) {2,}[*#·•+^@=~○●▁▂▃▄▅▆▇█-]+ *[|│┃]?\Z")
"""The end of a line of a plot: where its marks are is what it says."""
_ROW = lazy(
    rf"\s*(?P<name>[A-Za-z][A-Za-z_]{{0,99}}_[A-Za-z_]{{1,99}})\s(?P<rest>(?:\s*{NUMBER})(?:\s+{NUMBER})+)\s*",
    re.IGNORECASE,
)
_CURVE = lazy(r"wandb:\s+(?P<name>[A-Za-z]\S*)\s(?P<rest>\s*[▁▂▃▄▅▆▇█]+)\s*")
"""A metric's history as Weights & Biases draws it at the end of a run."""
_ELAPSED = lazy(rf"(?<![a-z])(?:{'|'.join(sorted(NUMBERED))})[ _-]elapsed['\"]?\s*[:=]?\s*\Z", re.IGNORECASE)
"""A name of what is counted, up to its number."""
_DIGIT = lazy(r"\d|\?|[▁█]|/tmp/[\w-]+[.-][A-Za-z]{6}")
_MAYBE = lazy(r"[A-DF-Za-df-zµ:/<?]|\d{10}|20\d\d")
"""Lines of plain numbers, as tables of data have them, hold nothing to mask."""


class Masked(msgspec.Struct, frozen=True):
    """A line whose volatile parts are replaced by marks, and the kinds of those.

    Attributes:
        guessed: a number has nothing but its unit to show that it is a measurement, and a name that may be a result's.
        names: what was masked as a drawn name, in its order.
        column: a number is in a column of a table whose name data have as well.
        strange: what was masked and is not of this run as far as that is known: a date, a time of day or a process that
            it had not, and names of workers, which a program may have for something else.
    """

    text: str
    kinds: frozenset[str]
    guessed: bool = False
    names: tuple[str, ...] = ()
    column: bool = False
    strange: tuple[str, ...] = ()

    @property
    def left_out(self) -> bool:
        """The line is not compared, nor counted."""
        return not self.kinds.isdisjoint(_LEFT_OUT)

    def of(self, line: str) -> Masked:
        """Return it with the line as its text if it has none: nothing in that was masked."""
        return self if self.text else msgspec.structs.replace(self, text=line)


def moment_of(number: float) -> float:
    """Return a number of seconds, milliseconds, microseconds or nanoseconds since 1970 as seconds."""
    for scale in (1e9, 1e6, 1e3):
        if abs(number) >= 1e9 * scale:
            return number / scale
    return number


def common_host(text: str) -> str:
    """Put the first run's host name in the place of those that the others were given (``runs.repeat``).

    The same for envbuild's own variables, for programs that write down their environment.
    """
    if VARIED_HOST in text:
        text = _HOSTS.sub(HOST_NAME, text)
    if "/pid:[" in text:
        text = _MARKER.sub("⟨process⟩", text)
    if ":listings,environment" in text:
        text = _VARIED.sub(r"\g<1>0", text)
    if "ENVBUILD_RUN_ID" in text:
        text = _RUN.sub(r"\1⟨run⟩", text)
    return text


class Masks:
    """Knows what to mask in the output of one run.

    Args:
        start: when the run began, seconds since 1970.
        ignored: patterns of lines that are not compared, as ``fnmatch`` has them; one without ``*`` may be anywhere.
        drawn: names that the run has drawn for its files and folders.
        moments: dates and seconds since 1970 of about when the run was are masked; a fixed clock's look like those of
            another clock's readings.
        days: times of day are masked too.

    Attributes:
        origin: what all of it was made of; texts that were masked by it are known (``printed.rows``). Empty: not said.
    """

    def __init__(
        self,
        start: float,
        ignored: Sequence[str] = (),
        drawn: Collection[str] = (),
        *,
        moments: bool = True,
        days: bool = True,
    ) -> None:
        self._files: Callable[[], Mapping[str, str]] | None = None
        self._beginnings: dict[str, str] | None = None
        self._own: Callable[[], Mapping[bytes, bytes]] | None = None
        self._clocks: Clocks | None = None
        self._days: tuple[float, float] | None = None
        self._zones: tuple[float, ...] = ()
        self._processes = range(0)
        self._own_processes: frozenset[int] = frozenset()
        self.on_several_hosts = self.has_fixed_clock = False
        self.origin: tuple[object, ...] = ()
        self._left_alone = frozenset() if days else OF_DAY
        self._drawn = _any_of(drawn)
        patterns = (each if "*" in each else f"*{each}*" for each in ignored)
        self._ignored = [re.compile(translate(each)) for each in patterns]
        self._window = (start - _BEFORE, start + _AFTER) if moments else (1.0, 0.0)
        self._start, self._end = start, start
        self._era = int(start // _ERA)
        self._strict = False

    def with_files(
        self,
        drawn: Collection[str],
        digests: Callable[[], Mapping[str, str]],
        duration: float = 0.0,
        processes: range = range(0),
        *,
        on_several_hosts: bool = False,
        strict: bool = False,
        own: Callable[[], Mapping[bytes, bytes]] | None = None,
        own_processes: frozenset[int] = frozenset(),
        has_fixed_clock: bool = False,
        zones: tuple[float, ...] = (),
    ) -> Masks:
        """Return the same for a run that has ended.

        Args:
            drawn: names that the run has drawn for its files.
            digests: returns their names by SHA-256, when a line has one. Files are compared themselves: that another
                one's bytes have another digest is no difference of its own.
            duration: of the run, in seconds.
            processes: those that its processes may have as numbers; none if they are not known.
            on_several_hosts: it is one of several ranks, and the next run may have other hosts.
            strict: times of day are masked only if they may be of the run, or how long something in it took, dates only
                if they are not days after it. In experiments clocks may show anything.
            own: returns the names of files and folders of the run that were drawn or hold its time, each with the one
                under which it is compared.
            own_processes: numbers of processes that it had without doubt.
            has_fixed_clock: it was an experiment with one.
            zones: seconds by which local time is ahead of UTC, in the time zones that the program has set.
        """
        other = self._copy()
        other._strict, other._own, other._zones = strict, own, zones
        other.on_several_hosts, other.has_fixed_clock = on_several_hosts, has_fixed_clock
        other._processes, other._own_processes = processes, own_processes
        other._beginnings = None
        other._drawn, other._files, other._end = _any_of(drawn), digests, self._start + duration
        if strict:
            other._window = (self._window[0], min(self._window[1], other._end + _BEFORE))
        return other

    def with_members(self, digests: Callable[[], Mapping[str, str]]) -> Masks:
        """Return the same for what is in an archive, whose members are compared themselves as the run's files are.

        Args:
            digests: returns the names of members by SHA-256, when a line has a digest that is no file's of the run.
        """
        other, files = self._copy(), self._files
        other._files = cache(lambda: {**digests(), **(files() if files is not None else {})})
        other._beginnings = None
        return other

    def with_clocks(self, clocks: Clocks) -> Masks:
        """Return the same for one text, of which the times of day are noted, and some are not masked."""
        other = self._copy()
        other._clocks = clocks
        return other

    def with_days(self, start: float, took: float) -> Masks:
        """Return the same for a run with a fixed clock, which had the times of day of these seconds since 1970."""
        other = self._copy()
        other._days = start, took
        return other

    def _copy(self) -> Masks:
        """Return a copy that is made of something else: its origin is not said."""
        other = copy(self)
        other.origin = ()
        return other

    def own_names(self) -> Mapping[bytes, bytes]:
        """Return the names of files and folders that are other ones in each run, each with that for all runs."""
        return self._own() if self._own is not None else {}

    def file_with(self, sha256: str) -> str | None:
        """Return the name of a file of the run by its digest; None if the run left no such file."""
        return self._files().get(sha256) if self._files is not None else None

    def without_names(self, path: str) -> str:
        """Put a mark in the place of what the run drew in the names of a path's folders and files."""
        return path if self._drawn is None else self._drawn.sub("⟨name⟩", path)

    @property
    def draws(self) -> bool:
        """Whether the run drew names for its files."""
        return self._drawn is not None

    @property
    def year(self) -> int:
        """The year in which the run began, by UTC; dates without one are of it."""
        return datetime.fromtimestamp(self._start, timezone.utc).year

    @property
    def took(self) -> float:
        """How long the run took, in seconds; 0 if that is not known."""
        return self._end - self._start

    def may_be_process(self, number: float) -> bool:
        """Whether a number may be that of a process of the run: a patient's ``pid`` is none."""
        return not self._processes or number in self._processes

    def parent_process(self, number: str) -> str:
        """Return 0 for the number of a process of the run, as ``ENVBUILD_PROCESS`` has it; others are results."""
        return "0" if self.may_be_process(int(number)) else number

    def is_moment(self, seconds: float) -> bool:
        """Whether a number of seconds since 1970 is about when the run was."""
        return self._window[0] <= seconds <= self._window[1]

    def _may_be_of_another(self, seconds: float) -> bool:
        """Whether a number of seconds since 1970 may be about when a run of the same era was."""
        return self._era * _ERA - _BEFORE <= seconds <= (self._era + 1) * _ERA + _AFTER

    def is_of_day(self, seconds: float) -> bool:
        """Whether a time of day, in seconds since midnight, may be one of the run in any time zone, or a part of it."""
        if not self._strict and self._days is None:
            return True
        start, took = self._days or (self._start, self.took)
        return (seconds - start + _NEAR) % _QUARTER <= took + 2 * _NEAR or seconds <= took + _NEAR

    def may_have_been(self, seconds: float, off: float) -> bool:
        """Whether the run had a time of day, in any time zone; ``off``: seconds by which it may be rounded down."""
        return (seconds + off - self._start + _NEAR) % _QUARTER <= self.took + 2 * _NEAR + off

    def is_during_day(self, seconds: float) -> bool:
        """Whether a time of day is one of a run that was so short that no result happens to be one."""
        took = self._end - self._start + 2 * _NEAR
        return self._strict and took <= _QUARTER / 10 and (seconds - self._start + _NEAR) % _QUARTER <= took

    def is_during(self, seconds: float) -> bool:
        """Whether it is a moment of the run itself, as far as its end is known: no result happens to be one."""
        return self._start - _ROUNDED <= seconds <= self._end + _ROUNDED

    def by_zones(self, seconds: float) -> tuple[float, ...]:
        """Return the moments that a date without a time zone may be: by UTC, and by the zones that the program set."""
        return (seconds, *(seconds - ahead for ahead in self._zones))

    def seconds_off(self, moment: float) -> float:
        """Return by how many seconds a moment is outside of the run; 0 for one in it, or if its time is not known."""
        return max(self._start - moment, moment - self._end, 0.0) if self._strict else 0.0

    def is_strange(self, seconds: float, off: float = 0.0) -> bool:
        """Whether a moment is none of the run, as far as the run's time is known; ``off``: as for ``may_have_been``."""
        return self._strict and not self.is_during(
            seconds if seconds > self._start else min(seconds + off, self._start)
        )

    def mask(self, line: str) -> Masked:
        """Replace what differs in every run."""
        kinds: set[str] = set()
        names: list[str] = []
        line = common_host(line)
        if "ENVBUILD_PROCESS" in line:
            before, line = line, _PARENT.sub(lambda found: found[1] + self.parent_process(found[2]), line)
            if line != before:  # as a pid: which numbers are the run's is known at its end
                kinds.add("names")
        if self._drawn is not None and self._drawn.search(line) is not None:
            names += self._drawn.findall(line)
            line = self._drawn.sub("⟨name⟩", line)
            kinds.add("names")
        if self._files is not None and len(line) >= _DIGITS and (named := SHA256.sub(self._named, line)) != line:
            line = named
            kinds.add("names")
        if self._files is not None and any(word in line for word in _SAYS_DIGEST):
            before, line = line, _PREFIX.sub(self._named_by_beginning, line)
            kinds |= {"names"} if line != before else set()
        if any(pattern.match(line) for pattern in self._ignored):
            return Masked("⟨ignored⟩", frozenset([IGNORED]))
        if _LOGGED_BY_CLOCK.match(line) is not None:
            return Masked("⟨log⟩", frozenset([BY_CLOCK]))
        if (
            BINARY.search(line) is not None
            or len(line) >= LONGEST_LINE
            or _DIGIT.search(line) is None
            or _MAYBE.search(line) is None
        ):
            return Masked(line, frozenset(kinds), names=tuple(names))
        if len(line) <= SHAPE or kinds:
            return self._masked(line, kinds, names)
        digest = hashlib.blake2b(line.encode("utf-8", "surrogatepass"))
        key = digest.digest(), not self._left_alone, self._era
        found = _long_lines.get(key)
        if found is None:
            found = self._masked(line, kinds, names)
            if _OF_RUN not in kinds:
                _long_lines.note(key, found, line)
        return found.of(line)

    def _masked(self, line: str, kinds: set[str], names: list[str]) -> Masked:
        """Apply the table to a line that may have something to mask."""
        line = self._apply(_without_row(line, kinds), kinds, names)
        strange = tuple(sorted(each.removeprefix(_STRANGE) for each in kinds if each.startswith(_STRANGE)))
        found = frozenset(each for each in kinds - {_GUESSED, _OF_RUN} if not each.startswith(_STRANGE))
        # In tables what is next to a number is as wide as the number leaves it.
        text = _squeezed(line) if found else line
        return Masked(text, found, _GUESSED in kinds, tuple(names), strange=strange)

    def _named(self, found: re.Match[str]) -> str:
        name = self.file_with(found[0])
        return found[0] if name is None else f"⟨digest of {name}⟩"

    def _named_by_beginning(self, found: re.Match[str]) -> str:
        if self._beginnings is None:
            files = self._files() if self._files is not None else {}
            self._beginnings = {digest[:_LEAST]: digest for digest in files}
        digest = self._beginnings.get(found[0][:_LEAST], "")
        name = self.file_with(digest) if digest.startswith(found[0]) else None
        return found[0] if name is None else f"⟨beginning of the digest of {name}⟩"

    def _apply(self, line: str, kinds: set[str], names: list[str]) -> str:
        """Apply the table rule by rule, those that cannot match left out."""
        if len(line) > SHAPE:
            return self._apply_to_long(line, kinds, names)
        done, left = -1, may_match(line)
        while left:
            for number in left:
                if number > done and number not in self._left_alone and TABLE[number].is_in(line):
                    done = number
                    before, line = (
                        line,
                        TABLE[number].pattern.sub(partial(self._replace, TABLE[number], kinds, names), line),
                    )
                    if line != before:
                        left = may_match(line)
                        break
            else:
                break
        return line

    def _apply_to_long(self, line: str, kinds: set[str], names: list[str]) -> str:
        """Apply each rule once: the shape of a long line is not known, and to search it costs as much as the line."""
        lower = line.translate(ZEROS).lower()
        for number, rule in enumerate(TABLE):
            if number in self._left_alone or not rule.may_be_in(lower) or not rule.is_in(line):
                continue
            before, line = line, rule.pattern.sub(partial(self._replace, rule, kinds, names), line)
            if line != before:
                lower = line.translate(ZEROS).lower()
        return line

    def _replace(self, rule: Rule, kinds: set[str], names: list[str], found: re.Match[str]) -> str:
        if rule.moment is not None:
            moment = rule.moment(found)
            if moment is not None and self._may_be_of_another(moment):
                kinds.add(_OF_RUN)
            if moment is None or not self.is_moment(moment):
                return found[0]
        if rule.text == IN_MILLISECONDS and kind_of(found["name"]) != "time":
            return found[0]
        keep = found["keep"] if rule.keeps else ""
        said = _said(keep or "", found.string, found.start())
        if rule.kind in _MEASURED and (rule.moment in (None, epoch, julian_moment)) and said.result:
            return found[0]  # a loss of 0.5 s is a loss, and a seed of so many seconds since 1970 a seed
        if said.counts or _is_row(found):
            return found[0]
        if rule.mark == "address" and _is_no_address(found[0]):
            return found[0]
        if rule.text == TIME_OF_DAY or rule.mark == "pid":
            kinds.add(_OF_RUN)
        if rule.text == TIME_OF_DAY and self._clocks is not None and self._clocks.is_data(found[0]):
            return found[0]
        if rule.text == TIME_OF_DAY and (
            ((self._strict or self._days) and not self._may_be_of_day(found)) or self._has_other_day(found)
        ):
            return found[0]
        if rule.mark == "pid" and not self.may_be_process(_number(found[0][len(keep or "") :])):
            return found[0]
        kinds.add(rule.kind)
        name = found[0][len(keep or "") :]
        if self._strict and self._may_be_strange(rule, found, name):
            kinds |= {f"{_STRANGE}{name}", _OF_RUN}
        elif self._strict and self._zones and (zone := self._zone_of(rule, found, name)) is not None:
            kinds.add(f"{_STRANGE}a time of the run, {zone / 3600:+g} h from UTC")  # another run may have another zone
        if rule.mark == "slug" or (rule.mark == "drawn" and name.isdecimal()):
            kinds.add(_GUESSED)  # two words, or a number: a program may have given them as well
        if rule.mark == "name":
            names.append(name)
        part = rule.kind in ("times", "rates") and _is_part(found, keep or "")
        if rule.guessed or part or (rule.kind in _MEASURED and rule.moment is None and said.unknown and not rule.sure):
            kinds.add(_GUESSED)
        return f"{keep or ''}⟨{rule.mark}⟩"

    def _zone_of(self, rule: Rule, found: re.Match[str], name: str) -> float | None:
        """Return by how many seconds a date of the run is ahead of UTC; None for one by UTC, or that says it itself."""
        for zone in (None, *self._zones):
            other = copy(self)
            other._zones = () if zone is None else (zone,)
            if not other._may_be_strange(rule, found, name):
                return zone
        return None

    def _may_be_strange(self, rule: Rule, found: re.Match[str], name: str) -> bool:
        """Whether what is masked is not of this run, or may be something else than what it looks like."""
        match rule.mark:
            case "worker":
                return True
            case "pid":
                return bool(self._own_processes) and _number(name) not in self._own_processes
            case "log":
                return self._is_other_log(name)
            case "port":
                return int(name) not in _PORTS
            case "address":
                return name.isdecimal() and int(name) % _OBJECTS != 0
            case "name":
                return rule.text == OF_TEMPLATE or (rule.text.startswith(_BEHIND_DATE) and name.isdecimal())
        if rule.kind != "times" or (rule.moment is None and rule.text != TIME_OF_DAY):
            return False
        around = found.string[max(0, found.start() - _NAME) : found.end() + _NAME]
        if _ESTIMATED.search(around) is not None:
            return False
        if rule.moment in (epoch, julian_moment):
            moment = rule.moment(found)
            return moment is not None and self.is_strange(moment)
        if rule.text == DATETIME:  # whose microseconds look like a time of day
            moment = shown_moment(found)
            return moment is None or all(self.is_strange(each, 1.0) for each in self.by_zones(moment))
        return self._is_other_date(name, rule.moment(found) if rule.moment is not None else None)

    def _is_other_date(self, text: str, noon: float | None) -> bool:
        """Whether a date or a time of day is none of the run, by the offset that is said, by UTC, or as ``by_zones``.

        Args:
            text: it.
            noon: of the day, in seconds since 1970; None for a time of day alone.
        """
        clock = _CLOCK_IN.search(text)
        day = _WEEKDAY.match(text)
        if day is not None and noon is not None and day[0].lower() != f"{_utc(noon):%a}".lower():
            return True
        if clock is None:
            return self._is_other_day(noon)
        parts = [float(part.replace(",", ".")) for part in clock.groups()]
        half = _HALF.match(text, clock.end())
        if half is not None:
            parts[0] = parts[0] % 12 + (12 if half[1].lower() == "p" else 0)
        seconds = parts[0] * 3600 + parts[1] * 60 + parts[2]
        offset = _OFFSET.match(text, clock.end())
        if offset is not None:
            seconds -= (int(offset[2]) * 3600 + int(offset[3]) * 60) * (-1 if offset[1] == "-" else 1)
        moments = self.by_zones(seconds) if offset is None else (seconds,)
        if noon is None:
            near = any((each - self._start + _NEAR) % _DAY <= self.took + 2 * _NEAR for each in moments)
            return not near and seconds > self.took + _NEAR
        return all(self.is_strange(noon - _DAY / 2 + each) for each in moments)

    def _is_other_log(self, text: str) -> bool:
        """Whether the date and time, or the thread, in the prefix of a line of a log is none of the run."""
        found = _GLOG.match(text)
        if found is None:
            return False
        thread = _number(found[5] or "0")
        if bool(self._processes) and thread not in _THREADS and thread >= self._processes.stop + _OTHER_THREADS:
            return True
        if found[1] == found[2] == "00":  # absl's, before a program has set a time zone: 0000 00:00:⟨since 1970⟩
            return not found[3].startswith("00:00:") or self.is_strange(float(found[3][6:] + found[4]))
        try:
            noon = datetime(_utc(self._start).year, int(found[1]), int(found[2]), 12, tzinfo=timezone.utc).timestamp()
        except ValueError:
            return True
        return bool(found[4]) or self._is_other_date(found[3], noon)

    def _is_other_day(self, noon: float | None) -> bool:
        """Whether a day is none on which the run was, by UTC; ``noon`` of it, in seconds since 1970."""
        return noon is not None and not self._start - _DAY / 2 - _NEAR <= noon <= self._end + _DAY / 2 + _NEAR

    def _may_be_of_day(self, found: re.Match[str]) -> bool:
        """Whether a time of day is of the run, or one that is estimated."""
        hours, minutes, seconds = (float(part.replace(",", ".")) for part in _HMS.findall(found[0])[:3])
        around = found.string[max(0, found.start() - _NAME) : found.end() + _NAME]
        return self.is_of_day(hours * 3600 + minutes * 60 + seconds) or _ESTIMATED.search(around) is not None

    def _has_other_day(self, found: re.Match[str]) -> bool:
        """Whether a time is that of another day: masked, it would be so in the runs alone that had this minute."""
        noon = noon_near(found.string, *found.span())
        if noon is None or self.is_moment(noon) or self._window[0] > self._window[1]:
            return False
        return _ESTIMATED.search(found.string, max(0, found.start() - _NAME), found.end() + _NAME) is None


def _number(digits: str) -> int:
    """Return the number that digits are, the first ones of very many."""
    return int(digits[:_LONGEST_NUMBER])


def _utc(seconds: float) -> datetime:
    return datetime.fromtimestamp(seconds, timezone.utc)


def _squeezed(line: str) -> str:
    plotted = _PLOTTED.search(line)
    end = plotted.start() if plotted is not None else len(line)
    return _SPACES.sub(" ", line[:end]) + line[end:]


def _without_row(line: str, kinds: set[str]) -> str:
    """Mask the numbers of a table's row that begins with the name of a measurement: mean and deviation of times."""
    found = _ROW.fullmatch(line) or _CURVE.fullmatch(line)
    if found is None or (kind := kind_of(found["name"])) not in ("time", "rate", "memory"):
        return line
    if name_leaves_doubt(found["name"], queues=False):
        return line
    if name_leaves_doubt(found["name"]):
        kinds.add(_GUESSED)
    kinds.add(kind if kind == "memory" else f"{kind}s")
    return " ".join((line[: found.end("name")].strip(), *(f"⟨{kind}⟩" for _ in found["rest"].split())))


def _any_of(drawn: Collection[str]) -> re.Pattern[str] | None:
    names = sorted(drawn, key=lambda name: (-len(name), name))[:_DRAWN]  # a whole UUID before its parts
    return re.compile("|".join(map(_whole, names))) if names else None


def _whole(name: str) -> str:
    """Return the pattern of a name; a short one is no part of another word or number, but may begin a UUID."""
    text = re.escape(name)
    if len(name) != _SHORT_NAME:
        return text
    return f"{text}{_REST_OF_UUID}" if _HEX.fullmatch(name) else rf"(?<![0-9A-Za-z.]){text}(?![0-9A-Za-z])"


def _is_row(found: re.Match[str]) -> bool:
    """Whether a number with separators between thousands may as well be two columns, such as ``17,250ms``."""
    before = found.string[found.start() - 1 : found.start()]
    return "," in found[0] and " " not in found[0] and before in ("", ",", ";", "\t")


def _is_part(found: re.Match[str], keep: str) -> bool:
    """Whether a whole number behind a name is one of so many, such as ``fps 24/30``: that may be a result."""
    return bool(keep) and found[0][len(keep) :].isdigit() and _OF_SO_MANY.match(found.string, found.end()) is not None


def _is_no_address(text: str) -> bool:
    """Whether a decimal number is none: objects are at multiples of 8, numbers in arrays of 4."""
    return text.isdigit() and int(text) % _ALIGNED != 0


class _Said(msgspec.Struct, frozen=True):
    """What the text in front of a number says of it.

    Attributes:
        result: it is one, whatever it looks like.
        counts: it counts something: ``steps_elapsed: 12``.
        unknown: it is given to something with a name that may be a result's.
    """

    result: bool
    counts: bool
    unknown: bool


def _said(keep: str, line: str, start: int) -> _Said:
    """Judge the text in front of a number; ``keep`` is the name by which it looks like a measurement."""
    text = line[max(0, start - _CLAUSE) : start]
    # Digits end a name, whatever they are, but for `f1` and `r2`: programs print few texts but for these.
    return _judged(keep, text if _WITH_DIGIT.search(text) is not None else text.translate(ZEROS))


@lru_cache(maxsize=4096)
def _judged(keep: str, text: str) -> _Said:
    before = (text + keep)[-_CLAUSE:]
    if keep.startswith("("):
        before = f"{before.removesuffix(keep).rstrip()}: "
    return _Said(
        result=_names_result(keep, text),
        counts=_ELAPSED.search(text[-_NAME:] + keep) is not None,
        unknown=assigns_unknown(before),
    )


def _names_result(name: str, text: str) -> bool:
    if name.startswith("("):  # of a unit: "error on the test set (ms): "
        return is_result("", text[-_NAME:]) or assigns_result(f"{text.rstrip()}: ")
    if not name and _NAMED_BEHIND.search(text) is not None:
        return False
    return is_result(name, _behind_digits(text[-_NAME:])) or (not name and assigns_result(text))


def _behind_digits(text: str) -> str:
    """Return what a name may be in: numbers end it, but for ``f1`` and ``r2``."""
    for at in range(len(text) - 1, -1, -1):
        if text[at].isdigit():
            return text[max(0, at - 2) if text[at - 1 : at + 1].lower() in ("f1", "r2") else at + 1 :]
    return text


_LONG_LINES, _LONG_TEXT = 4096, 1 << 25
"""How many long lines are known in their masked form, and the characters of all that differ from the lines."""


class _LongLines:
    """Long lines, by digest, that are masked alike in all runs: of a page hardly any differs from run to run."""

    def __init__(self) -> None:
        self._known: dict[tuple[bytes, bool, int], Masked] = {}
        self._size = 0

    def get(self, key: tuple[bytes, bool, int]) -> Masked | None:
        """Return the masked form of a line; its text is empty if that is the line itself."""
        return self._known.get(key)

    def note(self, key: tuple[bytes, bool, int], found: Masked, line: str) -> None:
        """Keep the masked form of a line."""
        same = found.text == line
        self._size += 0 if same else len(found.text)
        if len(self._known) >= _LONG_LINES or self._size > _LONG_TEXT:
            self._known.clear()
            self._size = 0 if same else len(found.text)
        self._known[key] = msgspec.structs.replace(found, text="") if same else found


_long_lines = _LongLines()
