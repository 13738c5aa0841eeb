"""One Python process: its seed, the switches set in it and read back, and its record.

The record is ``/run/envbuild/process-PID.json`` (docs/reference/guard.md), written when the script was opened, a
framework set up, arguments parsed, files of the project read, and at the end: a killed process keeps what was written.
Nothing here may break the program: where the folder is missing or read-only there is no record.
"""

from __future__ import annotations

import os
import posix  # for the record: a program's tests replace functions of ``os``, and count calls
import sys
from _functools import partial  # type: ignore[import-not-found]
from _io import FileIO
from _thread import RLock, allocate_lock, get_ident
from itertools import count

from ..guard import gate
from . import lineage
from .handlers import forget, is_programs, register_at_fork
from .observer import Observer, mounted_in

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from typing import Any

    from .fix_callers import Callers
    from .parameters import Parameters

FORMAT = 1
LOADERS = frozenset(("tensorflow", "torch", "jax"))
"""Frameworks that load NVIDIA's libraries: what is loaded after their import is compared with the lock."""


class Process:
    """The hook's state.

    Args:
        config: the module written from the lock: LOCK, SEED, LEVEL, THREADS, STRICT, ENVIRONMENT, CUDA.
        folder: where the record goes.
    """

    def __init__(self, config: Any, folder: str = gate.RUN_DIR) -> None:
        self.config = config
        self.folder = folder
        self.without = gate.left_out(os.environ)
        self.path = lineage.place(os.environ, os.getpid(), _arguments())
        self.inherited: dict[str, str] = {}
        self.reseeders: dict[str, Callable[[Process], None]] = {}
        self.draws: dict[str, Callable[[], str]] = {}
        self.modules: dict[str, Any] = {}
        self.switches: list[dict[str, Any]] = []
        self.libraries: list[dict[str, Any]] = []
        self.warnings: list[str] = []
        self.closing: list[Callable[[], None]] = []
        """Called when the process ends by itself; what they raise is a warning."""
        self.parallel: list[dict[str, Any]] = []
        """How gradients are added up over ranks: a kind and its settings for each model."""
        self.forked = False
        self.refusals: list[dict[str, Any]] | None = None
        """Operations that a framework refused; None until one is loaded that does."""
        self.entropy: Callable[[], list[dict[str, Any]]] | None = None
        """Returns the draws from the system's entropy; None unless this run is to diagnose (``EntropyLog``)."""
        self.listings: Callable[[], list[dict[str, Any]]] | None = None
        """Returns the lines that listed folders in a varied order; None unless they are varied (``vary``)."""
        self.turn: Callable[[], Callable[[], None]] | None = None
        """Returns what the thread that begins next calls first; None unless turns are varied (``turns``)."""
        self.own_turn: Callable[[], None] | None = None
        """Interrupts the first thread from now on; None unless turns are varied."""
        self.late_program: Callable[[], str] | None = None
        """Returns how long the Python that is started next waits, ms, as a text; None unless that is varied."""
        self.own_wait = 0.0
        """How long this one waits before it begins, s."""
        self.asked: Callable[[], list[dict[str, Any]]] | None = None
        """Returns the lines that asked for what an experiment fixed; None unless one does (``fix``)."""
        self.callers: Callers | None = None
        """Notes those lines."""
        self.lent: dict[str, str] = {}
        """Variables that a Python gets whose environment lacks the guard's marker (frameworks/starts.py)."""
        self.hidden: dict[str, str] = {}
        """Variables that this process had, and took out before the program saw them; each Python gets them."""
        self._count_anew()
        self.programs: dict[str, int] = {}
        """Programs that this process (or its task) has started so far, by name (``lineage.started``)."""
        self.starting = RLock()  # a signal's handler may start a program while one is started
        self.main_thread = get_ident()
        self.moving = False
        self.forking: dict[int, tuple[str, dict[str, str]]] = {}
        """The number that each thread's next child has, and what that inherits: threads may fork at once."""
        self.task = ""
        self.inherited_by_task: dict[str, str] = {}
        self.stopping = False
        self._parameters: Parameters | None = None
        self.observer = Observer(self.write, mounted=mounted_in(folder))
        self.writing = allocate_lock()
        if not lineage.is_beside(self.path):  # the variables are the whole process's
            os.environ[lineage.VARIABLE] = self.announcement()
        register_at_fork(before=self._note_states, after_in_child=self._after_fork, repeat=self._reseed_all)
        os.register_at_fork(before=self._count_fork)  # comes before the first of these
        self.recorded = self.looked = False
        if os.access(folder, os.W_OK):
            import atexit

            atexit.register(self.finish)
            self._look_before_exit()
            self.recorded = True
        self._check_hash_seed()

    @property
    def ops(self) -> bool:
        """Whether deterministic operations are asked for, beyond seeds."""
        return self.config.LEVEL in ("ops", "portable")

    @property
    def parameters(self) -> Parameters:
        """What argument parsers gave; most programs have none at most starts."""
        if self._parameters is None:
            from .parameters import Parameters

            self._parameters = Parameters()
        return self._parameters

    def seed(self, generator: str = "") -> int:
        """Return this process's 32-bit seed, for a generator that a forked child inherited a state of its own."""
        return lineage.derive(self.config.SEED, *self.origin(generator))

    def origin(self, generator: str) -> tuple[str, str]:
        """Return what decides a generator's numbers: the path of this process or its task, and what that inherited."""
        if self.task:
            return self.task, self.inherited_by_task.get(generator, "")
        return self.path, self.inherited.get(generator, "")

    def _own_seed(self, generator: str = "") -> int:
        """Return the process's seed for the record: which tasks it took is a race."""
        return lineage.derive(self.config.SEED, self.path, self.inherited.get(generator, ""))

    def seeds(self, generator: str, reseed: Callable[[Process], None], draw: Callable[[], str] | None = None) -> None:
        """Seed a generator now and in every child.

        Args:
            generator: its name.
            reseed: seeds it with ``seed(generator)``.
            draw: describes the generator's state without moving it; called before a fork, in the parent.
        """
        self.reseeders[generator] = reseed
        if draw:
            self.draws[generator] = draw
        task, self.task = self.task, ""
        reseed(self)
        if task:
            self.task = task
            self._reseed(generator)

    def switch(self, name: str, wanted: Any, put: Callable[[], Any], get: Callable[[], Any]) -> None:
        """Set a switch and read it back; it is an error (``STRICT``) or a warning if that shows another value.

        Args:
            name: what a reader would type, such as ``tf.random.set_seed``.
            wanted: the value asked for.
            put: sets it.
            get: reads it back; called again at the end of the process.
        """
        if name in self.without:
            return
        if self.moving and self.task:  # a seed once more, the task's and not the process's: nothing for the record
            put()
            return
        try:
            put()
            found = get()
        except Exception as error:  # the framework's own: nothing of it may reach the program
            if is_programs(error):
                raise
            found = f"{type(error).__name__}: {error}"
        ok = bool(found == wanted)
        self.switches = [entry for entry in self.switches if entry["name"] != name]
        self.switches.append({"name": name, "wanted": wanted, "found": found, "ok": ok, "get": get})
        if not ok:
            self._failed(f"{name}: wanted {wanted!r}, found {found!r}")

    def guarded(self, what: str, action: Callable[[], None], *, vital: bool = True) -> None:
        """Run a step; an exception becomes a warning, or ends the process if the step is vital and the lock strict."""
        try:
            action()
        except Exception as error:
            if is_programs(error):
                raise
            report = self._failed if vital else self.warn
            report(f"{what}: {type(error).__name__}: {error}")

    def announce_program(self, arguments: Sequence[str]) -> str:
        """Count a program that is started now, and return the value of ``ENVBUILD_PROCESS`` for it."""
        place = self.task or self.path
        if lineage.is_worker(arguments):
            return lineage.announce(os.environ, os.getpid(), place)
        started = lineage.started(self.programs, arguments, ordered=get_ident() == self.main_thread)
        return lineage.announce(os.environ, os.getpid(), place, started)

    def announcement(self) -> str:
        """Return the value of ``ENVBUILD_PROCESS`` for this process itself, and for what it becomes."""
        return lineage.announce(os.environ, os.getpid(), self.task or self.path)

    def place_of_worker(self, *, pooled: bool) -> str:
        """Count a ``multiprocessing`` child that is made now, and return its path; ``pooled``: it is one of a pool."""
        if pooled:
            number = f"{next(self.pooled)}"
        elif get_ident() == self.main_thread:
            number = f"{next(self.workers)}"
        else:
            number = f"{next(self.workers_of_threads)} of threads"
        return lineage.worker_of(self.task or self.path, number, pooled=pooled)

    def enter_worker(self, identity: Sequence[int], place: str) -> None:
        """Become a ``multiprocessing`` child: reseed everything by its place; a pool's may be killed at its end.

        Args:
            identity: its number, below those of the processes that made it.
            place: empty where it was made in a process without this package.
        """
        self.inherited = self.inherited or self.states()
        self._move(place or lineage.worker(self.path, identity))
        self.write()

    def enter_task(self, place: str, inherited: dict[str, str]) -> None:
        """Reseed everything for a task (tasks.py), which any worker of a pool may have taken."""
        self.task, self.inherited_by_task = place, inherited
        self._count_anew()
        self.programs = {}
        self._move(self.path)

    def _count_anew(self) -> None:
        self.calls = self.forks = 0
        self.forks_of_threads = count(1)
        self.workers, self.workers_of_threads, self.pooled = count(1), count(1), count(1)

    def write(self, *, final: bool = False) -> None:
        """Write the record as it is now; a thread that comes while another writes leaves it to the next write."""
        if not self.writing.acquire(final, 2 if final else -1):
            return
        try:
            self.guarded("record", lambda: _write(self.folder, self.as_dict(final=final)), vital=False)
        finally:
            self.writing.release()

    def finish(self) -> None:
        """Read every switch once more, since the program may have changed it, and write the record."""
        if self.task:
            self.task = ""
            self._move(self.path)
        for entry in self.switches:
            try:
                found = entry["get"]()
            except Exception as error:
                found = f"{type(error).__name__}: {error}"
            if found != entry["found"]:
                entry["at_exit"] = found
        self.check_libraries()
        for close in self.closing:
            self.guarded("end", close, vital=False)
        self._keep_memory()
        self.write(final=True)

    def _look_before_exit(self) -> None:
        """Have ``os._exit``, which skips all that is done at an end, still look for files in memory.

        Not in a forked child, which ends so as a rule: its parent, or who ends after that, sees the same folders, and
        the workers of a loader would each read the batches that the others are about to give.
        """
        leave = os._exit

        def _exit(status: int) -> Any:
            if not (self.looked or self.forked):
                self._keep_memory()
            leave(status)

        _exit.__wrapped__, _exit.__doc__ = leave, leave.__doc__  # type: ignore[attr-defined]
        _exit.__module__, _exit.__qualname__ = "os", "_exit"  # it is handed to pools
        os._exit = _exit

    def _keep_memory(self) -> None:
        def keep() -> None:
            from . import memory

            memory.keep(self.folder)

        self.looked = True
        self.guarded("memory", keep, vital=False)

    def check_libraries(self) -> None:
        """Compare the libraries of NVIDIA that are loaded by now with the lock."""
        if self.config.CUDA is None and not LOADERS.intersection(self.modules):
            return
        from . import libraries

        self.guarded("libraries", partial(libraries.check, self), vital=False)

    def as_dict(self, *, final: bool = False) -> dict[str, Any]:
        """Return the record; the loaded objects only at the end."""
        from ..masking import mask_arguments, mask_variable

        wanted = self.config.ENVIRONMENT
        changed = {
            name: mask_variable(name, os.environ.get(name))
            for name in wanted
            if os.environ.get(name) != wanted[name] and name not in self.without
        }
        return {
            "format": FORMAT,
            "pid": posix.getpid(),
            "parent": posix.getppid(),
            "path": self.path,
            "seed": self._own_seed(),
            "level": self.config.LEVEL,
            "python": sys.version.split()[0],
            "arguments": mask_arguments(_arguments()),
            "frameworks": {name: _version(name, module) for name, module in sorted(self.modules.items())},
            "generators": {name: self._own_seed(name) for name in sorted(self.reseeders)},
            "switches": [
                {key: _plain(value) for key, value in entry.items() if key != "get"} for entry in self.switches
            ],
            "libraries": self.libraries,
            "packages": self._foreign() if final and not self.forked else [],
            "parallel": self.parallel,
            "environment_changed": changed,
            "parameters": self._parameters.as_list() if self._parameters else [],
            **self.observer.as_dict(final=final),
            **({"objects": _objects()} if final else {}),
            "refused_ops": self.refusals or [],
            **({"entropy": self.entropy()} if self.entropy else {}),
            **({"listings": self.listings()} if self.listings else {}),
            **({"asked": self.asked()} if self.asked else {}),
            **(_missing() if final else {}),
            "warnings": self.warnings,
        }

    def _foreign(self) -> list[dict[str, Any]]:
        from . import foreign

        found: list[dict[str, Any]] = []
        self.guarded("packages", lambda: found.extend(foreign.packages(self.observer.within)), vital=False)
        return found

    def _count_fork(self) -> None:
        # When other threads fork is a race: the main thread's numbers do not depend on it.
        thread = get_ident()
        if thread == self.main_thread:
            self.forks += 1
            number = f"{self.forks}"
        else:
            number = f"{next(self.forks_of_threads)} of threads"
        self.forking[thread] = (number, {})

    def _note_states(self) -> None:
        if get_ident() in self.forking:
            self.forking[get_ident()][1].update(self.states())

    def _after_fork(self) -> None:
        """In a forked child: take its place, and leave behind what is the parent's."""
        forget()
        self.main_thread = get_ident()  # as the thread that forked has it
        number, self.inherited = self.forking.get(self.main_thread, ("", {}))
        self.path, self.task = lineage.fork(self.task or self.path, number), ""
        self._count_anew()
        self.forking = {}
        self.programs = {}
        self.writing, self.starting = allocate_lock(), RLock()
        self._parameters, self.forked = None, True
        self.observer.forked()

    def _reseed_all(self) -> None:
        """Have other numbers than the parent, of which the child inherited the state."""
        self._move(self.path)

    def reapply(self, generator: str) -> None:
        """Seed one generator once more, after something else did."""
        self._reseed(generator)

    def states(self) -> dict[str, str]:
        """Describe the generators that a child may inherit."""
        found: dict[str, str] = {}
        for generator, draw in self.draws.items():
            self.guarded(generator, partial(_put, found, generator, draw), vital=False)
        return found

    def _move(self, path: str) -> None:
        self.path = path
        self._announce()
        for generator in self.reseeders:
            self._reseed(generator)

    def _announce(self) -> None:
        """Leave children their parent's place; a program that cleared its environment leaves them none."""
        if lineage.VARIABLE in os.environ and not lineage.is_beside(self.path):
            os.environ[lineage.VARIABLE] = self.announcement()

    def _reseed(self, generator: str) -> None:
        self.moving = True
        try:
            self.guarded(generator, partial(self.reseeders[generator], self), vital=False)
        finally:
            self.moving = False

    def _check_hash_seed(self) -> None:
        """``-E`` and ``-I`` make the interpreter ignore PYTHONHASHSEED, which nothing can mend afterwards."""
        if sys.flags.ignore_environment and "PYTHONHASHSEED" in self.config.ENVIRONMENT and not self.path:
            self.warn("this Python was started with -E or -I and ignores PYTHONHASHSEED: the order of sets varies")

    def warn(self, message: str) -> None:
        """Print a warning once on standard error and in the record."""
        if message not in self.warnings:
            self.warnings.append(message)
            gate.say(f"envbuild: warning: {message}\n")

    def _failed(self, message: str) -> None:
        self.stop(
            "a deterministic switch did not take effect — the program was stopped",
            message,
            "set determinism.strict: false in spec.yaml to be warned only, then: "
            "envbuild lock spec.yaml && envbuild build",
        )

    def stop(self, headline: str, message: str, fix: str) -> None:
        """End the process with the guard's code; if the lock is not strict, warn."""
        if not self.config.STRICT or self.stopping:
            self.warn(message)
            return
        self.stopping = True
        self.warnings.append(message)
        for stream in (sys.stdout, sys.stderr):
            try:
                stream.flush()
            except Exception:
                pass
        self.write()
        gate.say(f"envbuild: {headline}\n  {message}\nwhat to do:\n  {fix}\n")
        os._exit(gate.REFUSED)


def _put(found: dict[str, str], generator: str, draw: Callable[[], str]) -> None:
    found[generator] = draw()


def _write(folder: str, record: dict[str, Any]) -> None:
    if posix.access(folder, os.W_OK):
        from ..fastjson import dumps

        gate.write_atomic(f"{folder}/process-{posix.getpid()}.json", dumps(record) + "\n")


def _missing() -> dict[str, str]:
    """Return the module, or the file by a relative path, for want of which the program ended.

    The interpreter keeps the exception that it has printed. Libraries raise one of their own in place of that of a
    program or compiler that was not there; what they say then is all that names it.
    """
    error = getattr(sys, "last_value", None)
    if isinstance(error, ModuleNotFoundError) and isinstance(error.name, str):
        return {"missing_module": error.name}
    path = error.filename if isinstance(error, FileNotFoundError) else None
    if isinstance(path, str) and path.isprintable() and not os.path.isabs(path):
        return {"missing_file": path}
    for each in _causes(error):
        program = str(each.filename) if isinstance(each, FileNotFoundError) else _compiler(each)
        if program and program.isprintable() and "/" not in program:
            return {"missing_file": program}
    return {}


def _causes(error: object) -> Iterator[BaseException]:
    """Yield an exception and those that it was raised for, as a traceback shows them; ten at most."""
    for _ in range(10):
        if not isinstance(error, BaseException):
            return
        yield error
        error = error.__cause__ or (None if error.__suppress_context__ else error.__context__)


def _compiler(error: BaseException) -> str | None:
    """Return which compiler, or header of Python, an exception's words say is not there."""
    try:
        text = str(error)[:20_000]
    except Exception:  # the program's own class
        return None
    if "Python.h: No such file" in text:
        return "Python.h"
    if "compiler" in text and ("No " in text or "not found" in text or "find" in text):
        return "C++ compiler" if "C++ compiler" in text else "C compiler" if "C compiler" in text else None
    return None


def _objects() -> dict[str, Any]:
    from . import objects

    return objects.loaded()


def _version(name: str, module: Any) -> str:
    package = sys.modules.get(name.partition(".")[0], module)
    return str(getattr(package, "__version__", ""))


def _arguments() -> list[str]:
    """Return the interpreter's whole command line; Python 3.9 has no ``sys.orig_argv``."""
    found = getattr(sys, "orig_argv", None)
    if found is None:
        try:
            with FileIO("/proc/self/cmdline") as stream:
                found = [os.fsdecode(word) for word in stream.readall().split(b"\0")[:-1]]
        except OSError:
            found = getattr(sys, "argv", [])
    return list(found)


def _plain(value: Any) -> Any:
    """Make a value fit for JSON."""
    return value if value is None or isinstance(value, (bool, int, float, str)) else str(value)
