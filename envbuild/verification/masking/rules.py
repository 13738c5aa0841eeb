"""The table of what differs in every run, as programs print it: patterns, and which of them a line may match.

Each rule has a kind, the mark that is put in the place of what it finds, and texts of which a line must have one to be
worth a search. ``masks`` decides whether what was found is a measurement.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import datetime, timezone
from functools import cache

import msgspec

from envbuild.core.patterns import lazy

NUMBER = r"[-+]?(?:(?:\d{1,3}(?:,\d{3})+|\d+)(?:\.\d+)?|\.\d+)(?:e[-+]?\d+)?"
_FREE = r"(?<![\w.])(?<!\d,)"
"""Before a number: it is not the rest of another one, nor of a long list of numbers."""
_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_WORK = (
    r"(?:its?|iters?|iterations?|steps?|samples?|examples?|imgs?|images?|tok|tokens?|batch(?:es)?|epochs?|frames?|rows?"
    r"|records?|items?|seqs?|sequences?|requests?|files?|lines?|[kmgt]?i?b|bytes|trials?|folds?|episodes?|candidates?"
    r"|documents?|docs?|queries|calls?|jobs?|tasks?|chunks?|updates?|transitions?|evals?|evaluations?"
    r"|rollouts?|fits|simulations?|sentences?|sents?|graphs?)"
)
"""What is counted in rates; other units, such as metres, belong to results."""
_COUNTED = (
    r"(?:epochs?|iters?|iterations?|steps?|rounds?|generations?|trials?|episodes?|folds?|batch(?:es)?|samples?|moves?|games?"
    r"|tries|attempts?|evaluations?|calls?|queries|updates?|frames?|tokens?|times|of|out)\b"
)
"""Behind a number: it counts something, as in ``took 37 epochs``, and is no time."""
_OF_RATE = (
    r"(?:sps|fps|wps|mfu|speed-?up|throughput"
    r"|(?:samples|steps|tokens|it|frames|images|imgs|examples|batches|iterations|iters|episodes)_per_sec(?:ond)?"
    r"|(?:its?|steps?|samples?|examples?|images?|tokens?|frames?|batches)/s(?:ec)?)"
)
_OF_TIME = (
    r"(?:time(?: taken(?: to find the best model)?)?"
    r"|elapsed|took|duration|runtime|seconds|secs?|latency|wall_?clock|train_wall)(?:_(?:s|sec|ms))?"
)
"""Without ``eta``, which is a learning rate as often, unless its number has a unit."""
_GAP = r"""(?:['"]?\s*[:=|]\s*['"]?|\s+)"""
"""Between a name and its number: in sentences, in dictionaries as Python and JSON write them, in tables."""
IN_MILLISECONDS = r"(?P<keep>\"(?P<name>[a-z_]{2,60}_ms)\": ?)" + NUMBER + r"(?![\w.])"
"""A number under a key of JSON that names its unit, as structured logs have it: a time if the whole key is one's."""
_IN_TIME = rf"(?!(?<=\b[io]n )time{_GAP}\d+(?![\d.,]|\s?(?:s|sec|seconds|ms)\b))"
"""Not ``evaluated in time 57``: so many were not late."""
_OF_CLOCK = r"(?:eta|elapsed|time|remaining|left|took|in|at)"
OF_TEMPLATE = (
    r"(?P<keep>/tmp/[A-Za-z][\w-]{0,60}[.-])(?-i:(?=[a-z0-9]*[A-Z])(?=[A-Z0-9]*[a-z]))"
    r"(?:[A-Za-z0-9]{10}|[A-Za-z0-9]{8}|[A-Za-z0-9]{6})(?![A-Za-z0-9])"
)
"""A name as ``mktemp`` makes it of ``/tmp/export.XXXXXX``; a program may have chosen one of several such names."""
_COUNTS = lazy(r"\{\d+(?:,\d*)?\}|0-9")
ZEROS = str.maketrans("123456789", "000000000")
SHAPE = 1000
"""Characters of a line up to which its shape is known: the line with zeros as its digits."""
_GREGORIAN = 0x01B21DD213814000
"""Steps of 100 ns from 1582-10-15, where UUIDs begin to count, to 1970."""
_SHAPES = 4096
"""How many shapes of lines are known at a time."""
_known: dict[str, tuple[int, ...]] = {}

Moment = Callable[["re.Match[str]"], "float | None"]
"""Returns the moment that a text names, in seconds since 1970; None if it is none."""


def _date(found: re.Match[str]) -> float | None:
    """Return the noon of a date; without a year it is this year's."""
    parts = found.groupdict()
    year = parts["year"] if "year" in parts else datetime.now(timezone.utc).year
    month = parts["month"].lower()
    try:
        number = _MONTHS.index(month[:3]) + 1 if month[:1].isalpha() else int(month)
        return datetime(int(year), number, int(parts["day"]), 12, tzinfo=timezone.utc).timestamp()
    except ValueError:
        return None


def shown_moment(found: re.Match[str]) -> float | None:
    """Return the second, since 1970, of a date as Python's ``repr`` has it (``DATETIME``); None if it is none."""
    year, month, day, hour, minute = (int(found[name]) for name in ("year", "month", "day", "hour", "minute"))
    try:
        return datetime(year, month, day, hour, minute, int(found["second"] or 0), tzinfo=timezone.utc).timestamp()
    except ValueError:
        return None


def epoch(found: re.Match[str]) -> float | None:
    """Return the moment of a number of seconds, milliseconds, microseconds or nanoseconds since 1970."""
    whole = found["whole"]
    return float(int(whole) / 10.0 ** (len(whole) - 10))


def julian_moment(found: re.Match[str]) -> float | None:
    """Return the moment of a Julian day, or of a modified one, behind its name."""
    days = float(found["days"]) + (2400000.5 if found["modified"] else 0.0)
    return (days - 2440587.5) * 86400


class Rule(msgspec.Struct, frozen=True):
    """One kind of text to mask.

    Attributes:
        kind: what it is counted as; ``mark``: what is put in its place.
        text: the pattern of what is replaced, but for its group ``keep``.
        gate: texts of which a line must have one, in lower case and whatever its digits, to be worth a search; none for
            any line.
        digits: the same with their digits, if these are more exact.
        moment: reads the moment that the text names, which has to be about when the run was.
        sure: no name in front of it makes it a result's.
        guessed: a result may have the same form: it is quoted if no experiment shows what it is.
    """

    kind: str
    mark: str
    text: str
    gate: tuple[str, ...]
    moment: Moment | None
    digits: tuple[str, ...] = ()
    sure: bool = False
    guessed: bool = False

    @property
    def keeps(self) -> bool:
        """Whether the pattern has a group ``keep``."""
        return "(?P<keep>" in self.text

    @property
    def pattern(self) -> re.Pattern[str]:
        """The compiled pattern; most programs print what few rules need."""
        return _compiled(self.text)

    def is_in(self, line: str) -> bool:
        """Whether a line has one of the texts with digits that it must have, if all have some."""
        return not self.digits or any(part in line for part in self.digits)

    def may_be_in(self, lower: str) -> bool:
        """Whether a line has one of the texts that it must have; ``lower`` is its shape in lower case."""
        return not self.gate or any(part.translate(ZEROS) in lower for part in self.gate)

    def may_match(self, shape: str, lower: str) -> bool:
        """Whether any line of a shape may match; ``lower`` is the shape in lower case."""
        if not self.may_be_in(lower):
            return False
        # With zeros for digits nothing is known of a pattern that takes one digit for another thing than the others.
        return _NAMED_DIGIT.search(_COUNTS.sub("", self.text)) is not None or self.pattern.search(shape) is not None


@cache
def _compiled(text: str) -> re.Pattern[str]:
    return re.compile(text, re.IGNORECASE)


_UUID_DIGITS = 32


def _moment_of_uuid(found: re.Match[str]) -> float | None:
    """Return the time in a UUID without dashes of version 1, 6 or 7; None for others, and for one with an address.

    Versions 1 and 6 have the machine's address behind the time, or what a program gave for it; in the place of an
    address, random digits have the bit set that marks addresses of groups (RFC 9562, section 6.10).
    """
    return moment_of_bare_uuid(found[0])


def _moment_of_message(found: re.Match[str]) -> float:
    """Return the time at the beginning of a mail's identity, which Python writes in hundredths of a second."""
    return int(found[0]) / 100


def moment_of_bare_uuid(digits: str) -> float | None:
    """Return the same of its digits."""
    return None if digits[12] != "7" and not int(digits[21], 16) & 1 else moment_of_uuid(digits)


def moment_of_uuid(name: str) -> float | None:
    """Return the time in a UUID of version 1, 6 or 7, in seconds since 1970 (RFC 9562); None for all others."""
    digits = name.replace("-", "")
    if len(digits) != _UUID_DIGITS:
        return None
    first, second, version, rest = digits[:8], digits[8:12], digits[12], digits[13:16]
    if version == "7":
        return int(first + second, 16) / 1000
    steps = {"1": rest + second + first, "6": first + second + rest}.get(version)
    return None if steps is None else (int(steps, 16) - _GREGORIAN) / 1e7


def _rule(
    kind: str,
    mark: str,
    gate: str,
    pattern: str,
    moment: Moment | None = None,
    *,
    sure: bool = False,
    guessed: bool = False,
) -> Rule:
    """Make a rule; ``gate`` has its texts with spaces between; ``~`` is a space in one of them."""
    parts = tuple(part.replace("~", " ") for part in gate.split())
    with_digits = all(_NAMED_DIGIT.search(part) is not None for part in parts)
    return Rule(kind, mark, pattern, parts, moment, parts if with_digits else (), sure, guessed)


_NAMED_DIGIT = lazy(r"[1-9]")
_LOGGED = r",(?P<ms>\d{3})(?:[.,](?P=ms))?(?:\d{3})?(?=[]\s)}>'\"|:;-]|,\s?[a-z\"'\[<])(?!\s*$)"
"""The fraction of a second as ``logging`` writes it, also twice. At the end of a line, or before another number, what
is behind a comma is a column: a result."""
_CLOCK = rf"\d{{1,2}}:\d\d:\d\d(?:[.:]\d+|{_LOGGED})?(?:\s?(?:am|pm))?(?:Z|\s?[+-](?:0\d|1[0-4]):?(?:00|15|30|45)\b)?"
_OF_PROFILE = r"(?:_\d{3}(?=\.json(?!\w)))?"
"""Milliseconds in the names of ONNX Runtime's profiles."""
DATETIME = (
    r"\bdatetime\((?P<year>20\d\d), (?P<month>\d\d?), (?P<day>\d\d?), (?P<hour>\d\d?), (?P<minute>\d\d?)"
    r"(?:, (?P<second>\d\d?)(?:, \d{1,6})?)?(?=\)|, (?:tzinfo|fold)=)"
)
"""A date with a time of day as Python's ``repr`` has it."""
_OF_SEARCH = r"\{('|&#x27;)me\.\.\.me\2: array\(\["
"""The beginning of ``cv_results_``, as ``reprlib`` shortens it; its quotes are group 2 behind the group ``keep``."""
OF_IPYTHON = r"(?:\d[\d.]*(?:e[-+]?\d+)? (?-i:s|ms|[µμu]s|ns)|(?:\d+d )?(?:\d+h )?\d+min \d+s|\d+d \d+h|\d+h \d+min)"
"""How long something took, as IPython's ``%time`` and ``%timeit`` write it (IPython/core/magics/execution.py)."""
RANDOM_ID = (
    r"(?P<keep>\brandom[-_]?id\\?['\"]?\s*[:=]\s*\\?['\"]?)[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}(?![0-9a-z])"
)
"""A UUID as marimo has it: of all versions, since its digits are those of a generator."""
TIME_OF_DAY = rf"(?<![\d:]){_CLOCK}(?!\d|:\S)"
TABLE = (
    # The prefix of glog: level, date, time, thread.
    _rule("names", "log", "", r"(?<![a-z0-9])(?P<keep>[IWEF])\d{4} \d\d:\d\d:\d[\d.]+(?:\s+\d+(?= ))?"),
    # Names made for the moment.
    _rule(
        "names",
        "name",
        "-",
        r"(?<![0-9a-z])[0-9a-f]{8}-[0-9a-f]{4}-[12467][0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}(?![0-9a-z])",
    ),  # versions 3 and 5 are made of a text, RFC 9562
    # In capitals, and glued to a word without digits: ``RUN1B4E28BA-…``.
    _rule(
        "names",
        "name",
        "-",
        r"(?<![0-9])(?:[0-9A-F]{8}-[0-9A-F]{4}-[12467][0-9A-F]{3}-[89AB][0-9A-F]{3}-[0-9A-F]{12}"
        r"|(?<=[g-zG-Z])[0-9a-f]{8}-[0-9a-f]{4}-[12467][0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12})(?![0-9A-Za-z])",
    ),
    _rule("names", "name", "random", RANDOM_ID),
    _rule("names", "name", "uuid", r"(?P<keep>\b[a-z_]*uuid['\"]?\s*[:=]\s*['\"]?)[0-9a-f]{32}\b"),
    # A UUID as ``uuid4().hex`` gives it, as MLflow names runs: one in 64 other texts of so many digits looks like one.
    _rule(
        "names",
        "name",
        "run session experiment trial job",
        r"(?P<keep>\b(?:run|session|experiment|trial|job)_(?:id|uuid)['\"]?\s*[:=]\s*['\"]?|\bmlruns/[\w-]+/"
        r"|\brun (?:[a-z]+-[a-z]+-\d{1,4} )?\(?)"
        r"[0-9a-f]{12}4[0-9a-f]{3}[89ab][0-9a-f]{15}(?![0-9a-z])",
    ),
    # Without dashes, as ``uuid1().hex`` gives it, alone or behind a word: the time in it is about when the run was.
    _rule(
        "names",
        "name",
        "",
        r"(?<![0-9a-z.])[0-9a-f]{12}[167][0-9a-f]{3}[89ab][0-9a-f]{15}(?![0-9a-z])",
        _moment_of_uuid,
    ),
    # The identity of a mail as ``email.utils.make_msgid`` makes it: time, process, number, name of the host.
    _rule(
        "times",
        "time",
        "message-id in-reply-to references",
        r"(?<=<)[0-9]{12}(?=\.[0-9]{1,7}\.[0-9]{1,20}(?:\.[^@>\s]+)?@[\w.-]+>)",
        _moment_of_message,
    ),
    _rule(
        "names",
        "name",
        "tmp pymp torchelastic",
        r"(?P<keep>\b(?:tmp|pymp-|torchelastic_))(?!_[a-z]+_\d+\b)[a-z0-9_]{8}\b",
    ),
    # ``mktemp`` of coreutils.
    _rule("names", "name", "tmp.", r"(?P<keep>/tmp\.)[A-Za-z0-9]{10}(?![A-Za-z0-9])"),
    # The same with a template of the program's own.
    _rule("names", "name", "/", OF_TEMPLATE),
    # Prefect's runs of tasks: the beginning of an identity, too short for it to be one that two runs have in common.
    _rule("names", "drawn", "task run '", r"(?P<keep> \| Task run '[^']{1,80}-)[0-9a-f]{3}(?=' - )"),
    _rule("names", "slug", "flow run '", r"(?P<keep> \| Flow run '|\bBeginning (?:sub)?flow run ')[a-z]+-[a-z]+(?=')"),
    # A cluster of Dask, as it is printed, and as a notebook shows it (distributed's templates).
    _rule(
        "names",
        "drawn",
        "cluster(",
        r"(?P<keep>\b[A-Z][A-Za-z]*Cluster\()[0-9a-f]{8}(?=, '(?:tcp|tls|ucxx?|wss?|inproc)://)",
    ),
    _rule(
        "names",
        "drawn",
        'px;">',
        r'(?P<keep><p style="color: #9D9D9D; margin-bottom: 0px;">)[0-9a-f]{8}(?=</p>)',
    ),
    _rule("names", "pid", "pid", r"(?P<keep>\bpid[ =:]+)\d+\b(?!\.\d)"),
    _rule("names", "pid", "process", r"(?P<keep>\bprocess[ _]?id[ =:]+)\d+\b"),
    _rule("names", "name", "wandb-client-artifact://", r"(?P<keep>\bwandb-client-artifact://)[0-9a-z]{16,}\b"),
    # The end of a version, in Lightning's progress bars: of a date, which several runs may have in common by chance.
    _rule("times", "date", "v_num", r"(?P<keep>\bv_num(?:: |=))(?=\d*[-_])[-_\d]{4}(?![-_0-9a-z.])", sure=True),
    # Of a run's identity; of one that is counted it is the whole number.
    _rule(
        "names",
        "name",
        "v_num",
        r"(?P<keep>\bit/s,? v_num(?:: |=)|\bv_num(?:: |=)(?=\d*[a-z]))[0-9a-z]{4}(?![0-9a-z.])",
    ),
    # Names that Python and loky give processes and threads: which of them did a part is luck.
    _rule(
        "names",
        "worker",
        "poolworker- process- poolexecutor-",
        r"\b(?:(?:Fork|Spawn|ForkServer)(?:PoolWorker|Process)|LokyProcess|ThreadPoolExecutor)-\d+(?:[:_]\d+)*\b",
    ),
    # Addresses.
    # Of objects; small ones where Python is loaded at a fixed address.
    _rule("addresses", "address", "at", r"(?P<keep>\bat )0x[1-9a-f][0-9a-f]{6,15}(?=>)"),
    _rule("addresses", "address", "0x", r"\b0x(?:0000)?(?:7[ef]|5[56])[0-9a-f]{10}\b"),
    # As ``reprlib`` shortens them.
    _rule("addresses", "address", "...x", r"(?P<keep>\.\.\.x)(?:7[ef]|5[56])[0-9a-f]{10}\b"),
    # Decimal, of threads: addresses from 0x7e0000000000 to 0x7fffffffffff.
    _rule("addresses", "address", "000000000000000", r"(?<![\w.])1(?:3[89]|40)\d{12}(?![\w.]\d|\d)"),
    _rule("addresses", "port", ":", r"(?P<keep>\b(?:localhost|127\.0\.0\.1|0\.0\.0\.0):)\d{5}\b"),
    _rule(
        "addresses",
        "port",
        "[lightgbm]",
        r"(?P<keep>\[LightGBM\] \[Info\] (?:Trying to bind|Binding|Listening on) port )\d{4,5}\b",
    ),
    _rule(
        "addresses", "port", "[local_listen_port", r"(?P<keep>\[local_listen_port: )\d{4,5}(?=\])"
    ),  # of LightGBM's models
    # Dates, of about when the run was; with a time of day if there is one.
    _rule(
        "times",
        "date",
        "20",
        r"(?<![0-9a-z])(?P<year>20\d\d)[-/.](?P<month>\d\d)[-/.](?P<day>\d\d)"
        rf"(?:[T _]+{_CLOCK}|[T_/]\d\d-\d\d-\d\d(?!\d){_OF_PROFILE}"
        r"|[T_](?:[01]\d|2[0-3])[0-5]\d[0-5]\d(?:\.\d{6}|\.\d{3})?(?!\d|\.\d)|Z)?",
        _date,
    ),
    # As servers log it (the Common Log Format).
    _rule(
        "times",
        "date",
        "/20",
        r"(?<![\w/])(?P<day>\d\d)/(?P<month>Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)/(?P<year>20\d\d)"
        r"[: ]\d\d:\d\d:\d\d(?:[.,]\d{3,6})?(?: [+-]\d{4})?(?!\d)",
        _date,
    ),
    _rule("times", "date", "/20", rf"\b(?P<month>\d\d?)/(?P<day>\d\d?)/(?P<year>20\d\d)(?:,?[T ]+{_CLOCK})?", _date),
    _rule("times", "date", ".20", rf"\b(?P<day>\d\d?)\.(?P<month>\d\d?)\.(?P<year>20\d\d)(?:,?[T ]+{_CLOCK})?", _date),
    _rule(
        "times",
        "date",
        "20",
        r"(?<!\d)(?P<year>20\d\d)(?P<month>\d\d)(?P<day>\d\d)(?:[-_T]?\d{6}|[-_T](?:[01]\d|2[0-3])(?:[0-5]\d){2}\d{6})(?!\d)",
        _date,
    ),
    _rule(
        "times",
        "date",
        " ".join(_MONTHS),
        rf"\b(?:(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun)[a-z]*,?\s+)?(?P<month>{'|'.join(_MONTHS)})[a-z]*\s+(?P<day>\d\d?),?\s+"
        rf"(?:{_CLOCK}\s+)?(?:UTC\s+)?(?P<year>20\d\d)\b",
        _date,
    ),
    # As syslog has it, without a year.
    _rule(
        "times",
        "date",
        " ".join(_MONTHS),
        rf"(?<![a-z])(?P<month>{'|'.join(_MONTHS)})[ ]{{1,2}}(?P<day>\d\d?) {_CLOCK}(?![\d:])"
        r"(?!\s+(?:[A-Z]+\s+)?20\d\d\b)",
        _date,
    ),
    # As TensorBoard's writers, and Transformers' ``logging_dir``, name folders.
    _rule(
        "times",
        "date",
        " ".join(_MONTHS),
        rf"(?<![a-z])(?P<month>{'|'.join(_MONTHS)})(?P<day>\d\d)_\d\d-\d\d-\d\d(?!\d)",
        _date,
    ),
    # As Python shows one in a list or an object: ``datetime.datetime(2026, 11, 28, 0, 23, 40, 247833)``.
    _rule("times", "date", "datetime(", DATETIME, _date),
    _rule("times", "date", "1", r"(?<![\d.])(?P<whole>\d{10}(?:\d{3}|\d{6}|\d{9})?)(?:\.\d+)?(?![\d.]*\d)", epoch),
    _rule(
        "times",
        "date",
        "jd julian",
        r"(?P<keep>\b(?:jd|julian (?:day|date)|(?P<modified>mjd|modified julian (?:day|date)))['\"]?(?:\s*[:=]\s*|\s+))"
        r"(?P<days>\d{5,7}\.\d+)(?![\w.])",
        julian_moment,
    ),
    _rule(
        "times",
        "date",
        "_",
        r"(?<!\d)(?P<month>[01]\d)(?P<day>[0-3]\d)_(?:[01]\d|2[0-3])[0-5]\d(?:[0-5]\d)?(?!\d)",
        _date,
    ),
    # The prefix of Kineto's lines (PyTorch's profiler): process and thread behind the date.
    _rule("names", "log", "cpp:", r"(?P<keep>⟨date⟩ )\d+:\d+(?= [\w.]+:\d+\] )"),
    # Behind a date in a name: what was drawn for the run.
    _rule(
        "names",
        "name",
        "⟨date⟩",
        r"(?P<keep>⟨date⟩[-_.])(?:[0-9a-f]{6,40}|(?=[a-z]*\d)(?![a-z]{4,}\d{1,3}(?![0-9a-z]))[0-9a-z]{8})(?![0-9a-z])",
    ),
    # tqdm's bar of what has no known end: ``train: 6it [00:05,  1.08it/s, loss=0.5]``.
    _rule(
        "times",
        "time",
        "/s s/",
        rf"(?P<keep>(?:^|(?<=[\s:|]))\d+(?:\.\d+)?[kMGT]?\s?(?P<unit>[^\W\d]\w*) ?\[)\d{{1,4}}:\d\d(?::\d\d)?"
        rf", +(?:{NUMBER}|\?)(?:s/ ?(?P=unit)|[kMGT]? ?(?P=unit)/s)(?=[],])",
    ),
    # alive-progress' last line: ``|████| 30/30 [100%] in 0.3s (97.42/s)``; without a total ``|████| 30 in 0.3s (97/s)``
    _rule(
        "rates",
        "rate",
        "/s)",
        rf"(?P<keep>(?:\[\d{{1,3}}%\]|\| (?:\(!\) )?\d+) in (?:\d+:)?{NUMBER}s? \()~?{NUMBER}/s(?=\))",
    ),
    # Rates, before durations, which they contain.
    _rule("rates", "rate", "/s", rf"{_FREE}{NUMBER}\s?{_WORK}\s?/\s?(?:s|sec|second)\b"),
    _rule("rates", "rate", "fps sps wps", rf"{_FREE}{NUMBER} (?:fps|sps|wps)\b"),
    _rule(
        "rates",
        "rate",
        "/it /step /epoch /batch /sample /trial /fold /episode /call /task /job",
        rf"{_FREE}{NUMBER}\s?(?:s|sec|ms|us|µs)/(?:it|iter|iteration|step|epoch|batch|sample|trial|fold|episode|call|task|job)\b",
    ),
    # In words: ``0.06 s per epoch``.
    _rule(
        "rates",
        "rate",
        "~per~ ~each~",
        rf"{_FREE}{NUMBER}\s?(?:(?-i:s|ms|us|[µμ]s)|secs?|seconds?|milliseconds?|minutes?|mins?)"
        r" (?:per|each) (?:it|iter|iteration|step|epoch|round|batch|sample|image|example|token|fold)\b(?! of\b)",
    ),
    # Detectron2's: ``0.0123 s / it``, ``s / iter. per device``, ``s / img``.
    _rule(
        "rates", "rate", "/", rf"{_FREE}{NUMBER}\s?(?:s|sec|ms|us|µs) / (?:it|iter|iteration|step|img|image|sample)\b"
    ),
    # Orbax': what TensorStore wrote depends on which of its threads was first.
    _rule(
        "memory",
        "memory",
        "/raw throughput: ratio (raw/logical):",
        rf"(?P<keep>/io/raw throughput: (?:⟨rate⟩|{NUMBER} [kmgt]?ib/s) \(total gbytes: |\bratio \(raw/logical\): )"
        rf"{NUMBER}(?: [kmgt]?ib(?=\)))?(?: \({NUMBER} [kmgt]?ib(?= / ))?",
    ),
    # gensim's, also in the models that it saves: words by themselves may be spoken.
    _rule("rates", "rate", "effective", rf"{_FREE}{NUMBER} effective words/s\b"),
    _rule(
        "rates",
        "rate",
        "words/s",
        rf"(?P<keep>% (?:examples|words), ){NUMBER} words/s(?:, in_qsize -?\d+, out_qsize -?\d+)?",
        sure=True,
    ),
    _rule(
        "rates",
        "rate",
        "rate speed",
        rf"(?P<keep>\b(?:rate|speed)\s?[=:]\s?){NUMBER}\s?/\s?s(?:ec)?\b",
        guessed=True,
    ),
    _rule("rates", "rate", "~per~second", rf"{_FREE}{NUMBER}\s{_WORK} per second\b"),
    # Of what the line has counted before: ``30 checks, checksum 12, 45123 checks/s``.
    _rule(
        "rates",
        "rate",
        "s/s",
        rf"(?P<keep>\b\d+ (?P<unit>[a-z]{{3,20}}s)\b[^\n/]*?[, (]){NUMBER} (?P=unit)/s(?:ec(?:ond)?)?\b",
        guessed=True,
    ),
    # Of what was counted right before: ``800 rows, 12345 per second``.
    _rule(
        "rates",
        "rate",
        "~per~second",
        rf"(?P<keep>\b\d[\d,]* [a-z]+,? (?:at )?\(?){NUMBER} (?:per second|/ ?s(?:ec)?)\b",
        guessed=True,
    ),
    # ApacheBench's unit, and the name in front of it: `Requests per second:    360.31 [#/sec] (mean)`.
    _rule(
        "rates",
        "rate",
        "~per~sec",
        rf"(?P<keep>\b(?:{_WORK}|transactions|operations|ops|messages|packets) per sec(?:ond)?\s*(?::\s+|=\s*))"
        rf"(?=\d){NUMBER}(?:\s\[#/sec\])?(?![\w.])(?!\s*/)",
    ),
    _rule("rates", "rate", "?", r"\?\s?[a-z]+/s\b"),
    _rule(
        "rates",
        "rate",
        "sps fps wps mfu speedup speed-up throughput per_sec /s",
        rf"(?P<keep>\b(?:[a-z]{{1,40}}_){{0,6}}{_OF_RATE}{_GAP}){NUMBER}",
    ),
    _rule("rates", "rate", "flop/s flops/s", rf"{_FREE}{NUMBER}\s?[kmgtp]?flops?/s(?:/[a-z]+)?\b"),
    _rule("rates", "rate", "flop/s flops/s", rf"(?P<keep>\b[kmgtp]?flops?/s(?:/[a-z]+)?\)?{_GAP}){NUMBER}"),
    # Whatever tqdm counts: papermill's cells, datasets' examples.
    _rule(
        "rates",
        "rate",
        "<",
        rf"(?P<keep>\[\d{{1,3}}:\d\d(?::\d\d)?<(?:\d{{1,3}}:\d\d(?::\d\d)?|\?), +)"
        rf"(?:{NUMBER}|\?)(?:s/|[kMGT]?)[^\W\d]\w*(?:/s)?(?=[],])",
    ),
    # Memory.
    _rule(
        "memory",
        "memory",
        "mem rss ram",
        rf"(?P<keep>(?<!\bmodel )\b(?:mem|memory|rss|vram|ram)(?:[ _](?:usage|used|allocated|reserved|peak))*{_GAP})"
        rf"{NUMBER}(?:\s?/\s?{NUMBER})?\s?[kmgt]?i?b(?:ytes)?\b(?:\s?\({NUMBER}\s?%\))?",
    ),
    # The next amount of it: ``memory: 3.1 MiB now, 4.2 MiB at most``.
    _rule(
        "memory",
        "memory",
        "⟨memory⟩",
        rf"(?P<keep>⟨memory⟩ (?:now|current|used|in use), (?:(?:peak|max):? )?){NUMBER}\s?[kmgt]?i?b(?:ytes)?\b",
        guessed=True,
    ),
    _rule(
        "memory",
        "memory",
        "tracemalloc",
        rf"(?P<keep>\b(?:current|peak|overhead|traced)\s?[=:]\s?){NUMBER}\s?[kmgt]?i?b(?:ytes)?\b",
    ),
    # Ultralytics': epochs and the memory of the GPU in front of the losses.
    _rule("memory", "memory", "/", rf"(?P<keep>\A\s*\d+/\d+\s+){NUMBER}G(?=\s+\d)"),
    _rule("memory", "memory", "max_mem", rf"(?P<keep>\bmax_mem(?:ory)?: ){NUMBER}M\b"),  # Detectron2's
    # fairseq's: `ups` and `wall` by themselves may be anything.
    _rule("rates", "rate", "ups", rf"""(?P<keep>\bwps{_GAP}⟨rate⟩['"]?\s*[|,]\s*['"]?ups{_GAP}){NUMBER}"""),
    _rule(
        "times",
        "time",
        "train_wall",
        rf"""(?P<keep>\btrain_wall{_GAP}{NUMBER}\b.*?(?:\|\s|['"])wall(?:['"]:\s['"]?|\s)){NUMBER}""",
    ),
    # What GNU time prints with -v.
    _rule("times", "time", "percent", rf"(?P<keep>^\s*Percent of CPU this job got: ){NUMBER}%$"),
    _rule(
        "times",
        "time",
        "switches: faults:",
        rf"(?P<keep>^\s*(?:Involuntary context switches|Voluntary context switches|Major \(requiring I/O\) page faults"
        rf"|Minor \(reclaiming a frame\) page faults): ){NUMBER}$",
    ),
    _rule(
        "memory",
        "memory",
        "size (kbytes)",
        rf"(?P<keep>^\s*(?:Maximum|Average) resident set size \(kbytes\): ){NUMBER}$",
    ),
    # The head of what ``pstats`` prints: calls are counted as in its rows, those of imports among them.
    _rule(
        "times",
        "calls",
        "function",
        r"(?P<keep>^\s*)\d+ function calls(?: \(\d+ primitive calls\))?(?= in \d+\.\d+ seconds\s*$)",
    ),
    _rule(
        "times",
        "calls",
        "list reduced from",
        r"(?P<keep>^\s*List reduced from )\d+(?= to \d+ due to restriction <)",
    ),
    # What ``python -X importtime`` prints of each module: its own time, and with what it imports.
    _rule(
        "times", "time", "import~time:", r"(?P<keep>^import time: )[ \d]{8,}\d \| [ \d]{9,}\d(?= \| +\S+$)", sure=True
    ),
    # ``timeit``'s: how many loops it took for so long, in each of several; IPython's ``%timeit``.
    _rule(
        "times",
        "loops",
        "~loop,~best~of ~loops,~best~of",
        rf"(?P<keep>^)[125]0* loops?(?=, best of \d+: {NUMBER} (?:[num]?sec) per loop\s*$)",
        sure=True,
    ),
    _rule(
        "times", "time", "⟨loops⟩,~best~of", rf"(?P<keep>^⟨loops⟩, best of \d+: ){NUMBER} [num]?sec(?= per loop\s*$)"
    ),
    _rule(
        "times",
        "loops",
        "per~loop~(mean",
        r"(?P<keep> per loop \(mean ± std\. dev\. of \d+ runs?, )10{0,2}(?:0?,000)* loops?(?= each\)\s*$)",
        sure=True,
    ),
    _rule(
        "times",
        "time",
        "⟨loops⟩~each)",
        rf"(?P<keep>^){OF_IPYTHON} ± {OF_IPYTHON}(?= per loop \(mean ± std\. dev\. of \d+ runs?, ⟨loops⟩ each\)\s*$)",
        sure=True,
    ),
    # IPython's ``%time``: its units follow the time.
    _rule(
        "times",
        "time",
        "cpu~times:",
        rf"(?P<keep>^CPU times: )(?:user {OF_IPYTHON}, sys: {OF_IPYTHON}, )?total: {OF_IPYTHON}\s*$",
        sure=True,
    ),
    _rule("times", "time", "wall~time:", rf"(?P<keep>^Wall time: ){OF_IPYTHON}\s*$"),
    # Times of day and durations.
    _rule("times", "time", "<", r"\b\d{1,3}:\d\d(?::\d\d)?<(?:\d{1,3}:\d\d(?::\d\d)?|\?)"),
    _rule("times", "time", ":", TIME_OF_DAY),
    _rule("times", "time", "h", r"(?<![a-z0-9])\d\dh\d\dm\d\ds?(?![a-z0-9])"),
    _rule(
        "times",
        "time",
        ":",
        rf"(?P<keep>\b{_OF_CLOCK}{_GAP})\d{{1,3}}:\d\d\b(?!:)(?:\s?[ap]m\b)?",
    ),
    # CatBoost's: ``0:  learn: 1.6192996  total: 54ms  remaining: 491ms``, with tabs between.
    _rule("times", "time", "remaining:", rf"(?P<keep>\ttotal: ){NUMBER}[mu]?s(?=\tremaining: )", sure=True),
    _rule("times", "time", "elapsed", rf"(?P<keep>\belapsed:\s*){NUMBER}\s?min\b"),  # joblib's
    _rule(
        "times",
        "time",
        "time elapsed took duration sec latency runtime clock wall",
        rf"(?P<keep>\b{_IN_TIME}(?:[a-z]{{1,40}}[_/]){{0,6}}{_OF_TIME}"
        rf"{_GAP})(?!{NUMBER}\s*(?:{_COUNTED}|%)){NUMBER}(?:\s?(?:s|sec|seconds|ms))?\b(?!:\d\d)",
    ),
    _rule("times", "time", '_ms":', IN_MILLISECONDS, guessed=True),
    _rule(
        "times",
        "time",
        "s minutes mins hour",
        rf"{_FREE}{NUMBER}\s?(?:(?-i:ns|us|[µμ]s|ms)|secs?|seconds?|minutes?|mins|hours?)\b",
    ),
    # Not "0.1 min, 0.9 max", nor "loss 0.5 (0.1 min)".
    _rule(
        "times",
        "time",
        "min",
        r"(?P<keep>^(?!.*\b(?:max|avg|mean|median|maximum)\b).*?\b(?:in|took|time|elapsed):?\s*)"
        rf"{NUMBER}\s?min\b(?!\s*[:=\w])",
    ),
    _rule("times", "time", "s m", r"(?-i:(?<![\w.])(?:\d+h\s?)?(?:\d+m\s?)?\d+(?:\.\d+)?s\b|(?<![\w.])\d+h\s?\d+m\b)"),
    _rule("times", "time", "s) sec) seconds)", rf"(?P<keep>\((?:[nuµm]?s|sec|seconds)\)\s?[:=]\s*){NUMBER}(?![\w.])"),
    _rule(
        "times",
        "time",
        "~s",
        rf"{_FREE}{NUMBER} (?-i:s)(?=$|\s*[\])}},;.|]|\s(?:so far|elapsed|in (?:total|all)|left|remaining)\b)",
    ),
    _rule("times", "time", "~s", rf"(?P<keep>\b(?:in|after|took|for|:|=)\s+){NUMBER} s(?=$|[\s,;.)\]])"),
    _rule(
        "times",
        "time",
        "~s",
        rf"(?P<keep>\b(?:needed|needs|used|uses|spent|spends|required|requires|took)\s+)"
        rf"{NUMBER} (?-i:s)(?=\s(?:of\s)?(?:CPU|wall)\b)",
    ),
    _rule(
        "times",
        "time",
        "waited slept paused",
        rf"(?P<keep>\b(?:waited|slept|paused)\s+(?:for\s+)?){NUMBER} (?-i:m?s)(?=\s(?:for|on|until|before|to)\b)",
    ),
    # A part of the time before it: ``took 0.04 s, 0.037 s of it asleep``, ``2.5 s (1.3 s waiting for data)``.
    _rule(
        "times",
        "time",
        "⟨time⟩",
        rf"(?P<keep>⟨time⟩(?:,| \(|;| -)\s?(?:(?:and )?(?:of which|of that|of it|including|incl\.)\s)?){NUMBER} (?-i:s)"
        r"(?=\s(?:of (?:it|which|that|them)|(?:a)?sleep(?:ing)?|idle|wait(?:ing|ed)|spent|in|for|on|was|were)\b)",
        guessed=True,
    ),
    # Meters with means, as PyTorch's example for ImageNet has them: ``Time  0.011 ( 0.012)\tData  0.004 ( 0.005)``
    _rule(
        "times",
        "time",
        "⟨time⟩~(",
        rf"(?P<keep>(?<![a-z])time:?\s+⟨time⟩ \()\s*{NUMBER}(?:\s?(?:s|sec|ms))?(?=\))",
        guessed=True,
    ),
    # spaCy's, in the table of scores: words in a second.
    _rule("rates", "rate", "speed", r"(?P<keep>^(?-i:SPEED) {2,})\d+(?=\s*$)", guessed=True),
    # A search's results as scikit-learn's pages of estimators shorten them: ``mean_fit_time``, ``mean_score_time``.
    _rule(
        "times",
        "time",
        "{'me...me':~array([ {&#x27;me...me&#x27;:~array([",
        rf"(?P<keep>{_OF_SEARCH})[^\]]*(?=\]\), \2me\.\.\.me\2: array\(\[[^\]]*\]\), \2me\.\.\.re\2: )",
        guessed=True,
    ),
    _rule(
        "times",
        "time",
        "⟨time⟩])",
        rf"(?P<keep>{_OF_SEARCH}⟨time⟩\]\), \2me\.\.\.me\2: array\(\[)[^\]]*(?=\]\), \2me\.\.\.re\2: )",
        guessed=True,
    ),
    # timm's, with rates: ``Time: 0.3s, 325.6/s  (0.4s, 300.1/s)  LR: 1.0e-05  Data: 0.1 (0.2)``.
    _rule(
        "rates",
        "rate",
        "/s",
        rf"(?P<keep>(?<![a-z])time:\s+(?:⟨time⟩ \()?⟨time⟩,\s+){NUMBER}/s(?:\s+\(⟨time⟩,\s+{NUMBER}/s(?=\))|(?=\)))",
        guessed=True,
    ),
    _rule(
        "times",
        "time",
        "data",
        r"(?P<keep>(?<![a-z])time:?\s+⟨time⟩(?: \(⟨time⟩\)|,\s+⟨rate⟩\)\s+LR: \S+),?\s+data(?:[ _]time)?:?\s+)"
        r"\d[\d.]* \(\s*\d[\d.]*\)",
        guessed=True,
    ),
)
"""In the order in which they are applied."""
OF_DAY = frozenset(number for number, rule in enumerate(TABLE) if rule.text == TIME_OF_DAY)
"""Numbers of the rules that find times of day."""


def may_match(line: str) -> tuple[int, ...]:
    """Return the numbers of the rules that a line may match, by its shape: what it is with zeros as its digits.

    Programs print lines of few shapes, and most rules take all digits alike: what does not match a shape matches no
    line of it.
    """
    shape = line.translate(ZEROS)
    found = _known.get(shape)
    if found is None:
        lower = shape.lower()
        found = tuple(number for number, rule in enumerate(TABLE) if rule.may_match(shape, lower))
        if len(shape) <= SHAPE:
            if len(_known) >= _SHAPES:
                _known.clear()
            _known[shape] = found
    return found
