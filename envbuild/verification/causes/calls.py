"""Calls in Python sources by the full name of what is called, read without running anything."""

from __future__ import annotations

import ast
import itertools
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from envbuild.core.patterns import lazy
from envbuild.verification.causes import sql
from envbuild.verification.causes.answers import (
    CLIENT,
    DATED_ANSWER,
    NO_NAME,
    POLLED,
    POLLED_PROGRAM,
    SLOW_CALLBACKS,
    addresses_of_clients,
    bound_to_no_name,
    dates_of_answers,
    limits_of_callbacks,
    polled,
    polled_programs,
)
from envbuild.verification.causes.chains import OTHERS
from envbuild.verification.causes.foreign import STARTING
from envbuild.verification.causes.object_texts import texts_of_objects
from envbuild.verification.causes.pieces import short_messages, used_in_pieces
from envbuild.verification.causes.queues import given_up, left_behind
from envbuild.verification.causes.set_orders import FOR_READERS, sets_in_order
from envbuild.verification.causes.shared_values import lost_updates
from envbuild.verification.causes.turns import loops_that_look
from envbuild.verification.dataflow.targets import is_none, last_name, named_calls, written
from envbuild.verification.dataflow.uses import Use, Uses

SET = "set.__iter__"
OBJECT_TEXT = "object.__repr__"
TIMEOUT = "timeout="
CALLBACK = "callback="
FINALIZER = "__del__"
ENQUEUED = "enqueue=True"
DAEMON = "daemon=True"
PIECES, MESSAGE = "piece by piece", "short message"
WITHOUT_WAITING = "blocking=False"
NOT_BLOCKING = "set_blocking False"
UNORDERED = "generator_unordered"
CANCELS = "cancel_futures=True"
JOBLIB_THREADS = "joblib.Parallel(prefer=threads)"
_OF_THREADS = frozenset((("prefer", "threads"), ("backend", "threading"), ("require", "sharedmem")))
PARTLY = "where="
OUT_OF_ORDER = "in_order=False"
ANY_RANK = "src=None"
FIRST_AT_BARRIER = "Barrier.wait"
MEANWHILE = "while running"
LOST_UPDATE = "value +="
FOREST = "forest n_jobs="
_FORESTS = frozenset(f"{kind}{what}" for kind in ("RandomForest", "ExtraTrees") for what in ("Classifier", "Regressor"))
"""Models of scikit-learn whose predictions threads add up in any order (``_forest._accumulate_prediction``)."""
_RECEIVING = frozenset(("torch.distributed.recv", "torch.distributed.irecv"))
"""What takes a tensor from whichever rank sends first, unless the call names one."""
ISOLATED = "$ python -I"
_NAN = (["nan"], ["NaN"])
_SEEDING = ("random.Random", "random.seed", "Random", "seed")
_COMMANDS = frozenset(
    ["date", "mktemp", "uuidgen", "shuf", "hostname", "uptime", "ps", "free", "nproc", "openssl rand", "sort -R"]
)
"""Programs whose output is another one each time, by their first words."""
_SHELL_RANDOM = "$RANDOM"
_PATHS = lazy(
    r"/dev/u?random|/proc/sys/kernel/random/\w+|/proc/(?:self|\d+)/(?:stat|status|statm|maps|sched|io)\b"
    r"|/proc/(?:uptime|stat|loadavg|meminfo|interrupts|diskstats)\b|/etc/hostname|\bSC_AVPHYS_PAGES\b"
)
"""Files that have another content in each run."""
_LIMITS = {
    "signal.alarm": 0, "signal.setitimer": 1, "threading.Timer": 0, "asyncio.wait_for": 1, "asyncio.timeout": 0
}  # fmt: skip
"""Which argument is a limit of time, in seconds."""
_WAITS = {"wait": 0, "result": 0, "exception": 0, "join": 0, "poll": 0, "settimeout": 0, "get": 1, "acquire": 1}
"""Which argument of a method, not by name, is a limit of time if it is a number."""
_LIMITED = lazy(r"(?:time_?out|time_?limit|time_?budget|max_?time|max_?seconds)(?:_s|_sec|_seconds)?\Z")
"""Names of arguments that are limits of time."""
_CONTEXTS = frozenset(("multiprocessing.get_context", "multiprocessing.Manager"))
"""What they return has functions and classes of ``multiprocessing``."""
_EXTENDED = frozenset(("threading.Thread", "threading.Timer", "multiprocessing.Process"))
"""Classes whose objects run concurrently once they are started, as those of classes that extend them do."""
_ATTRIBUTE = lazy(r"st_|authkey\Z")
"""Of files' status, and of processes."""
_FORKS = lazy(r"\A(?:multiprocess|billiard|torch\.multiprocessing)(\.|\Z)")
"""Packages with the interface of the standard library's ``multiprocessing``, by their own names."""
_BY_ADDRESS = frozenset(("id", "hash", "repr", "str"))
"""Built-in functions whose results hold addresses of objects."""
_FACTORIES = frozenset(("default", "default_factory", "factory"))
"""Arguments whose value is called without any."""
_HARMLESS = frozenset(("sorted", "len"))
"""Around a listing they make its order harmless."""
_SERVERS = frozenset((
    "socketserver.TCPServer", "socketserver.ThreadingTCPServer", "socketserver.UDPServer", "http.server.HTTPServer",
    "http.server.ThreadingHTTPServer",
))  # fmt: skip
"""What binds a socket to the address that it is given first."""
_EMPTY = frozenset(("numpy.empty", "numpy.empty_like", "numpy.ndarray"))
_REDUCING = frozenset(
    [
        "sum",
        "prod",
        "mean",
        "std",
        "var",
        "min",
        "max",
        "amin",
        "amax",
        "any",
        "all",
        "reduce",
        "nansum",
        "nanprod",
        "nanmean",
        "nanstd",
        "nanvar",
        "nanmin",
        "nanmax",
    ]
)
"""Functions of NumPy that leave elements out where others write some elements only."""
_IGNORING = lazy(r"-[A-Za-z]*[IE][A-Za-z]*")
"""Options by which Python does not read its environment."""
_REAPING = frozenset(("os.wait", "os.wait3", "os.wait4", "os.waitid", "os.waitpid"))
"""What says which child has ended; without use for that, it waits for one."""
ANY_CHILD = "os.waitpid(-1)"
OWN_PID = "os.getpid for others"
"""The number of the own process, given to a program or to another process, which may send it a signal then."""
_STEPS = 2
"""A parameter has a function by default, and an attribute gets it of the parameter."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Call:
    """One call.

    Attributes:
        name: as imported (``numpy.random.seed`` for ``np.random.seed``); ``.seed`` for a method of a value; a plain
            name for what the file does not import; ``SET`` where the elements of a set are taken one by one;
            ``OBJECT_TEXT`` where a text is made of an object whose class has none;
            ``TIMEOUT`` where a call is given a limit of time; ``UNORDERED`` where joblib gives results as they
            come; ``FOREST`` where a forest has several threads; ``ANY_RANK`` where a rank takes what any other one
            sends; ``PIECES`` where what came by then is read and used by itself; what a text in SQL asks for
            (``sql.asked_in``).
        line: 1-based.
        bare: it has no arguments, or ``None`` alone.
        ordered: it is inside ``sorted(…)`` or ``len(…)``, or called with ``maintain_order=True``.
        use: what becomes of its value.
        made: the line that made the set which is gone through; 0 if that is the same one.
        seconds: the limit of time that it is given, if that is a constant.
        given: its arguments by name that are constants, such as ``workers=1``; of a limit of time its name.
    """

    name: str
    line: int
    bare: bool = False
    ordered: bool = False
    use: Use = ""
    made: int = 0
    seconds: float | None = None
    given: frozenset[str] = field(default=frozenset(), compare=False)


def calls(source: str) -> tuple[Call, ...]:
    """Return all calls of a source in the order of their lines; none if it is no Python of this version.

    Also attributes (``.st_ino``, ``.authkey``), files of the kernel that a text names (``/dev/urandom``),
    programs that a shell or a list starts (``$ date``), and the calls of programs given as a text to ``python -c``.
    """
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return ()
    names = {**dict.fromkeys(_BY_ADDRESS - _bound(tree), ""), **_imported(tree)}
    try:
        uses = Uses(tree)
        found = [
            *_calls(tree, names, uses, ordered=False),
            *(Call(name=SET, line=line, made=made) for line, made in sets_in_order(tree)),
            *_beside(tree, uses),
        ]
        found += [*_of_elsewhere(tree, names), *_of_servers(tree, names)]
        return tuple(sorted(found, key=lambda call: call.line))
    except RecursionError:
        return ()


def _imported(tree: ast.Module) -> dict[str, str]:
    """Return what each imported name represents."""
    found: dict[str, str] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                first = alias.name.partition(".")[0]
                found[alias.asname or first] = alias.name if alias.asname else first
        elif isinstance(node, ast.ImportFrom) and not node.level:
            found.update({alias.asname or alias.name: f"{node.module}.{alias.name}" for alias in node.names})
    names = {name: _FORKS.sub(r"multiprocessing\1", module) for name, module in found.items()}
    names |= _contexts(tree, names)
    names |= _threads(tree, names) | _extending(tree, names, _SERVERS)
    for _ in range(_STEPS):
        names |= _aliases(tree, names)
    return names


def _aliases(tree: ast.Module, names: dict[str, str]) -> dict[str, str]:
    """Return names and attributes (``.clock``) that are given a function and nothing else: ``clock=time.monotonic``."""
    given: dict[str, list[str]] = {}
    for node in ast.walk(tree):
        for target, value in _pairs(node):
            function = _name(value, names) if isinstance(value, ast.Name | ast.Attribute) else ""
            known = "." in function[1:] and not function.startswith(".")
            given.setdefault(written(target), []).append(function if known else "")
    return {
        name: found[0] for name, found in given.items() if name and name not in names and {*found} == {found[0]} != {""}
    }


def _pairs(node: ast.AST) -> Iterator[tuple[ast.expr, ast.expr]]:
    """Yield what a statement, or a function by its defaults, gives values to; ``None`` where it gives them none."""
    if isinstance(node, ast.Assign):
        for target in node.targets:
            if isinstance(target, ast.Tuple) and isinstance(node.value, ast.Tuple):
                yield from zip(target.elts, node.value.elts, strict=False)
            else:
                yield target, node.value
    elif isinstance(node, ast.AnnAssign | ast.AugAssign | ast.For | ast.NamedExpr | ast.comprehension):
        value = node.value if isinstance(node, ast.AnnAssign | ast.NamedExpr) else None
        yield node.target, value or ast.Constant(None)
    elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
        own = [*node.args.posonlyargs, *node.args.args]
        defaults: list[ast.expr | None] = [*[None] * (len(own) - len(node.args.defaults)), *node.args.defaults]
        for each, default in (
            *zip(own, defaults, strict=True),
            *zip(node.args.kwonlyargs, node.args.kw_defaults, strict=True),
        ):
            yield ast.Name(each.arg), default or ast.Constant(None)


def _contexts(tree: ast.Module, names: dict[str, str]) -> dict[str, str]:
    """Return the names bound to contexts of ``multiprocessing``, as ``get_context()`` and ``Manager()`` give them."""
    return {name: "multiprocessing" for name, call in named_calls(tree) if _name(call.func, names) in _CONTEXTS}


def _threads(tree: ast.Module, names: dict[str, str]) -> dict[str, str]:
    """Return the file's own classes of threads and processes, each as the class of the standard library it extends."""
    return _extending(tree, names, _EXTENDED)


def _extending(tree: ast.Module, names: dict[str, str], extended: Collection[str]) -> dict[str, str]:
    """Return the file's own classes that extend some of other modules, each with the one that it extends."""
    own = (node for node in ast.walk(tree) if isinstance(node, ast.ClassDef))
    return {node.name: base for node in own for each in node.bases if (base := _name(each, names)) in extended}


def _of_servers(tree: ast.Module, names: dict[str, str]) -> Iterator[Call]:
    """Yield where the file's own classes of servers begin what they extend with a port that the system chooses."""
    own = _extending(tree, names, _SERVERS)
    classes = [node for node in ast.walk(tree) if isinstance(node, ast.ClassDef) and node.name in own]
    for node in classes:
        for call in ast.walk(node):
            if isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute) and call.func.attr == "__init__":
                given = call.args[1:] if call.args and last_name(call.args[0]) == "self" else call.args
                if _lets_choose(given):
                    yield Call(name=own[node.name], line=call.lineno)


def _of_elsewhere(tree: ast.Module, names: dict[str, str]) -> Iterator[Call]:
    """Yield the file's own classes of threads and processes of which it makes none: another one does."""
    own = _threads(tree, names)
    made = {last_name(node.func) for node in ast.walk(tree) if isinstance(node, ast.Call)}
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef) and node.name in own.keys() - made:
            yield Call(name=own[node.name], line=node.lineno)


def _bound(tree: ast.Module) -> set[str]:
    """Return the names that the file gives a meaning of its own."""
    stored = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load)}
    return stored | {node.arg for node in ast.walk(tree) if isinstance(node, ast.arg)}


def _calls(node: ast.AST, names: dict[str, str], uses: Uses, *, ordered: bool) -> Iterator[Call]:
    if isinstance(node, ast.FunctionDef) and node.name in FOR_READERS:
        names = names | {"repr": "builtins.repr", "str": "builtins.str"}
    if isinstance(node, ast.Call):
        name = _name(node.func, names)
        if name == "os.getpid" and uses.is_given_to(node, OTHERS):
            name = OWN_PID
        if name and not _is_harmless(node, name) and not (name in _REAPING and uses.is_dropped(node)):
            name = ANY_CHILD if name == "os.waitpid" and _is_any_child(node) else name
            in_order = ordered or _maintains_order(node)
            yield Call(
                name=name,
                line=node.lineno,
                bare=_bare(node),
                ordered=in_order,
                use=uses.of(node),
                seconds=_seconds(node.args[_LIMITS[name] :], uses) if name in _LIMITS else None,
                given=frozenset(
                    f"{word.arg}={word.value.value!r}" for word in node.keywords if isinstance(word.value, ast.Constant)
                ),
            )
        for argument, limit in _limits(node, uses):
            if not uses.is_tried_again(node):
                named = frozenset([argument] if argument else ())
                yield Call(name=TIMEOUT, line=node.lineno, seconds=uses.number(limit), given=named)
        yield from (Call(name=each, line=node.lineno) for each in _by_arguments(node, name))
        if _writes_partly(node, name):
            yield Call(name=PARTLY, line=node.lineno)
        ordered = ordered or name in _HARMLESS
        yield from _given(node, names)
    for child in ast.iter_child_nodes(node):
        yield from _calls(child, names, uses, ordered=ordered)


def _given(node: ast.Call, names: dict[str, str]) -> Iterator[Call]:
    """Yield the functions that a call is given, to be called by it: ``sorted(…, key=id)``, ``map(hash, …)``."""
    makes = last_name(node.func) == "defaultdict"
    given = [(value, makes) for value in node.args]
    for value, bare in (*given, *((word.value, word.arg in _FACTORIES) for word in node.keywords)):
        if isinstance(value, ast.Attribute) or (isinstance(value, ast.Name) and value.id in names):
            name = _name(value, names)
            if name and not name.startswith("."):
                yield Call(name=name, line=value.lineno, bare=bare)


def _beside(tree: ast.Module, uses: Uses) -> Iterator[Call]:
    """Yield what gives other values in each run and is no call of Python."""
    documented = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    seeded = any(
        isinstance(node, ast.Constant) and isinstance(node.value, str) and sql.sets_seed(node.value)
        for node in ast.walk(tree)
    )
    yield from (Call(name=f"except {raised}", line=line) for raised, line in given_up(tree))
    yield from (Call(name=DAEMON, line=line) for line in left_behind(tree))
    short = short_messages(tree)
    yield from (Call(name=MESSAGE if line in short else PIECES, line=line) for line in used_in_pieces(tree))
    yield from (Call(name=POLLED, line=line) for line in polled(tree))
    yield from (Call(name=POLLED_PROGRAM, line=line) for line in polled_programs(tree))
    yield from (Call(name=NO_NAME, line=line) for line in bound_to_no_name(tree))
    yield from (Call(name=CLIENT, line=each.lineno, use=uses.of(each)) for each in addresses_of_clients(tree))
    yield from (Call(name=SLOW_CALLBACKS, line=line) for line in limits_of_callbacks(tree))
    yield from (Call(name=DATED_ANSWER, line=each.lineno, use=uses.of(each)) for each in dates_of_answers(tree))
    if not any(last_name(call.func) == "Timer" for call in ast.walk(tree) if isinstance(call, ast.Call)):
        yield from (Call(name=MEANWHILE, line=line) for line, works in loops_that_look(tree) if works)
    yield from (Call(name=LOST_UPDATE, line=line) for line in lost_updates(tree))
    if any(map(_is_nan, ast.walk(tree))):
        yield from _seeded_by_nan(tree)
    yield from (Call(name=OBJECT_TEXT, line=line) for line in texts_of_objects(tree))
    barriers = {name for name, call in named_calls(tree) if last_name(call.func) == "Barrier"}
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and _ATTRIBUTE.match(node.attr) and isinstance(node.ctx, ast.Load):
            yield Call(name=f".{node.attr}", line=node.lineno, use=uses.of(node))
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in documented:
            for path in _PATHS.findall(node.value):
                yield Call(name=re.sub(r"/proc/\d+/", "/proc/self/", path), line=node.lineno, use=uses.of(node))
            asked = sql.asked_in(node.value, seeded=seeded)
            yield from (Call(name=name, line=node.lineno + below) for name, below in asked)
        elif isinstance(node, ast.FunctionDef) and node.name == FINALIZER:
            yield Call(name=FINALIZER, line=node.lineno)
        elif isinstance(node, ast.Compare | ast.Assign | ast.NamedExpr | ast.UnaryOp | ast.If):
            waited = _waits_at(barriers, node)
            yield from (Call(name=FIRST_AT_BARRIER, line=each.lineno, use="decides") for each in waited)
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name | ast.Attribute) and node.args:
            name = node.func.id if isinstance(node.func, ast.Name) else node.func.attr
            if name in STARTING:
                yield from (Call(name=f"$ {each}", line=node.lineno) for each in _started(node.args[0]))
                if _is_isolated(node):
                    yield Call(name=ISOLATED, line=node.lineno)
            yield from _given_as_text(node, name)


def _is_nan(node: ast.AST) -> bool:
    """Whether an expression is no number: ``math.nan``, ``float("nan")``."""
    if isinstance(node, ast.Call):
        return last_name(node.func) == "float" and [getattr(each, "value", "") for each in node.args] in _NAN
    return isinstance(node, ast.Attribute | ast.Name) and last_name(node) == "nan"


def _seeded_by_nan(tree: ast.Module) -> Iterator[Call]:
    """Yield where a generator of the standard library is given a seed that is no constant."""
    for node in ast.walk(tree):
        seeds = isinstance(node, ast.Call) and ast.unparse(node.func) in _SEEDING
        if seeds and isinstance(node, ast.Call) and node.args and not isinstance(node.args[0], ast.Constant):
            yield Call(name=f"random.{last_name(node.func)}(nan)", line=node.lineno)


def _waits_at(barriers: Collection[str], node: ast.AST) -> Iterator[ast.Call]:
    """Yield the calls directly below a node that wait at a barrier: their value says who came when."""
    for each in ast.iter_child_nodes(node):
        if (
            isinstance(each, ast.Call)
            and isinstance(each.func, ast.Attribute)
            and each.func.attr == "wait"
            and last_name(each.func.value) in barriers
        ):
            yield each


def _by_arguments(node: ast.Call, name: str) -> Iterator[str]:
    """Yield what an argument makes of a call: results as they come, a lock only if it is free."""
    given = {word.arg: word.value for word in node.keywords}
    if any(getattr(value, "value", None) == UNORDERED for value in given.values()):
        yield UNORDERED
    if _is_false(given.get("in_order", node)):
        yield OUT_OF_ORDER
    if getattr(given.get("enqueue"), "value", None) is True:
        yield ENQUEUED
    if getattr(given.get("cancel_futures"), "value", None) is True:
        yield CANCELS
    if name == "joblib.Parallel" and _is_many(given.get("n_jobs")) and _in_threads(given):
        yield JOBLIB_THREADS
    if last_name(node.func) in _FORESTS and _is_many(given.get("n_jobs")):
        yield FOREST
    if name in _RECEIVING and is_none(dict(enumerate(node.args)).get(1, given.get("src", ast.Constant(None)))):
        yield ANY_RANK
    if name.endswith("_async") and not is_none(given.get("callback", ast.Constant(None))):
        yield CALLBACK
    if name == ".acquire" and _is_false((*node.args, given.get("blocking", node))[0]):
        yield WITHOUT_WAITING
    if (name == "os.set_blocking" and _is_false((*node.args, node, node)[1])) or (
        last_name(node.func) == "setblocking" and _is_false((*node.args, node)[0])
    ):
        yield NOT_BLOCKING


def _in_threads(given: Mapping[str | None, ast.expr]) -> bool:
    """Whether joblib's tasks are done by threads, by its arguments."""
    pairs = {(name, getattr(value, "value", None)) for name, value in given.items()}
    return not pairs.isdisjoint(_OF_THREADS)


def _is_many(jobs: ast.expr | None) -> bool:
    """Whether an argument asks for several threads, or may do so."""
    return jobs is not None and not (isinstance(jobs, ast.Constant) and jobs.value in (None, 1))


def _limits(node: ast.Call, uses: Uses) -> Iterator[tuple[str, ast.expr]]:
    """Yield name and value of what a call is given as a limit of time; no name for a number that methods wait."""
    for word in node.keywords:
        if _LIMITED.match(word.arg or "") and not is_none(word.value):
            yield word.arg or "", word.value
        elif word.arg == "options" and isinstance(word.value, ast.Dict):  # of SciPy's solvers
            pairs = zip(word.value.keys, word.value.values, strict=True)
            names = [(str(getattr(key, "value", "")), value) for key, value in pairs]
            yield from ((name, value) for name, value in names if _LIMITED.match(name))
    at = _WAITS.get(node.func.attr) if isinstance(node.func, ast.Attribute) else None
    if at is None or len(node.args) != at + 1 or uses.number(node.args[at]) is None:
        return
    if not at or isinstance(getattr(node.args[0], "value", None), bool):  # no key of a dictionary
        yield "", node.args[at]


def _is_isolated(node: ast.Call) -> bool:
    """Whether a Python is started that does not get, or does not read, PYTHONHASHSEED."""
    first, *rest = node.args[0].elts if isinstance(node.args[0], ast.List | ast.Tuple) else [node.args[0]]
    texts = [each.value for each in (first, *rest) if isinstance(each, ast.Constant) and isinstance(each.value, str)]
    if last_name(first) != "executable" and not (texts and re.search(r"(?:\A|/)python[\d.]*(?:\s|\Z)", texts[0])):
        return False
    words = " ".join(texts).split()[isinstance(first, ast.Constant) :]
    flags = itertools.takewhile(lambda word: word.startswith("-") and word not in ("-c", "-m"), words)
    given = next((word.value for word in node.keywords if word.arg == "env"), None)
    bare = isinstance(given, ast.Dict) and None not in given.keys  # with ** it has what this process has
    named = isinstance(given, ast.Dict) and any(getattr(key, "value", "") == "PYTHONHASHSEED" for key in given.keys)
    return any(_IGNORING.fullmatch(word) for word in flags) or (bare and not named)


def _started(argument: ast.expr) -> Iterator[str]:
    """Yield the known programs in a command line, which is a text for a shell or a list of words."""
    words = [
        node.value for node in ast.walk(argument) if isinstance(node, ast.Constant) and isinstance(node.value, str)
    ]
    lists = isinstance(argument, ast.List | ast.Tuple)
    shell = not lists or words[:1] in (["sh"], ["bash"], ["/bin/sh"], ["/bin/bash"])
    lines = words if shell else [" ".join(words)]
    for line in lines:
        parts = re.split(r"[|;&`()]|\$\(", line) if shell else [line]
        for part in parts:
            command = part.strip().rpartition("/")[2] if not part.strip().count(" ") else part.strip()
            if "--random-source" not in command:
                yield from (each for each in sorted(_COMMANDS) if f"{command} ".startswith(f"{each} "))
        if shell and _SHELL_RANDOM in line:
            yield _SHELL_RANDOM


def _given_as_text(node: ast.Call, name: str) -> Iterator[Call]:
    """Yield the calls of a program that stands in the source as a text: ``python -c``, ``exec``."""
    texts = [node.args[0]] if name in ("exec", "eval") else []
    for each in ast.walk(node) if name in STARTING else ():
        if isinstance(each, ast.List | ast.Tuple):
            pairs = zip(each.elts, each.elts[1:], strict=False)
            texts += [b for a, b in pairs if isinstance(a, ast.Constant) and a.value == "-c"]
    for text in texts:
        if isinstance(text, ast.Constant) and isinstance(text.value, str):
            yield from (replace(call, line=text.lineno + call.line - 1) for call in calls(text.value))


def _is_harmless(call: ast.Call, name: str) -> bool:
    """Whether the arguments of a call show that it repeats."""
    if name == "pyarrow.compute.random":  # seeded by a number, from the system by default
        return any(word.arg == "initializer" and getattr(word.value, "value", 0) != "system" for word in call.keywords)
    if name == "numpy.ndarray" and (len(call.args) > 2 or any(word.arg == "buffer" for word in call.keywords)):
        return True  # it shows memory that somebody else has
    if name in _SERVERS:
        return not _lets_choose(call.args)
    return (name == ".bind" and _has_port(call)) or (name in _EMPTY and _of_objects(call))


def _of_objects(call: ast.Call) -> bool:
    """Whether an array is one of objects, which NumPy fills with ``None``."""
    given = [*call.args[1:2], *(word.value for word in call.keywords if word.arg == "dtype")]
    return any(
        last_name(each) in ("object", "object_") or getattr(each, "value", "") in ("O", "object") for each in given
    )


def _writes_partly(call: ast.Call, name: str) -> bool:
    """Whether a function of NumPy writes some elements of a new array only: ``where=`` and no ``out=``."""
    given = {word.arg for word in call.keywords if not (word.arg == "out" and is_none(word.value))}
    reduces = name.rpartition(".")[2] in _REDUCING
    return name.startswith("numpy.") and "where" in given and "out" not in given and not reduces


def _is_any_child(call: ast.Call) -> bool:
    """Whether ``waitpid`` is to wait for whichever child ends first."""
    return bool(call.args) and ast.unparse(call.args[0]) == "-1"


def _is_false(value: ast.expr) -> bool:
    return isinstance(value, ast.Constant) and value.value == 0  # False is


def _maintains_order(call: ast.Call) -> bool:
    return any(
        word.arg == "maintain_order" and isinstance(word.value, ast.Constant) and word.value.value is True
        for word in call.keywords
    )


def _name(node: ast.expr, names: dict[str, str]) -> str:
    """Return the full name of what is called; empty for what has none."""
    parts: list[str] = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    if isinstance(node, ast.Call) and parts and _name(node.func, names) in _CONTEXTS:
        return ".".join(["multiprocessing", *reversed(parts)])
    if isinstance(node, ast.Name) and (node.id in names or not parts):
        return ".".join([names.get(node.id) or node.id, *reversed(parts)])
    return (names.get(f".{parts[0]}") or f".{parts[0]}") if parts else ""


def _has_port(node: ast.Call) -> bool:
    """Whether an address is given with a port that is not 0, so that the system chooses none, or is a path."""
    address = node.args[0] if node.args else None
    if isinstance(address, ast.JoinedStr) or isinstance(getattr(address, "value", None), str | bytes):
        return True
    port = address.elts[1] if isinstance(address, ast.Tuple) and len(address.elts) > 1 else None
    return isinstance(port, ast.Constant) and port.value != 0


def _lets_choose(arguments: Sequence[ast.expr]) -> bool:
    """Whether an address is given first with port 0, for which the system chooses one."""
    address = arguments[0] if arguments else None
    port = address.elts[1] if isinstance(address, ast.Tuple) and len(address.elts) > 1 else None
    return isinstance(port, ast.Constant) and port.value == 0


def _bare(node: ast.Call) -> bool:
    given = [*node.args, *(keyword.value for keyword in node.keywords)]
    return all(map(is_none, given))


def _seconds(given: Sequence[ast.expr], uses: Uses) -> float | None:
    """Return the first argument if it is a number that the file shows."""
    return uses.number(given[0]) if given else None
