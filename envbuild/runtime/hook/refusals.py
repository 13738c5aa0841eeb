"""An operation that a framework refused because it has no deterministic kernel: its name, the line, and ways out.

The program's own traceback and exit code stay what they are. What ended the main thread is in ``sys.last_exc`` or
``sys.last_value`` once the interpreter has printed it, whatever ``sys.excepthook`` a program may have put in; other
threads end in ``threading.excepthook``. Our lines come after the traceback, and into the record.
"""

from __future__ import annotations

import os
import sys

from ..guard import gate

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import TracebackType
    from typing import Any

    from .process import Process

DEPTH = 8
"""Exceptions to follow from one to what caused it."""
_FRAMEWORKS = ("tensorflow", "torch", "jax")
_TENSORFLOW = (("{{node ", "}}"), ("implementation of ", " "), ("[Op:", "]"))
_SIGNS = ("does not have a deterministic implementation", "this operation is not deterministic", "determini")
"""In an error's text: PyTorch's and XLA's words, then those of TensorFlow's (deterministic, determinism)."""


def watch(process: Process) -> None:
    """Look at the exception that ends the program; called by each framework that can refuse operations."""
    if process.refusals is not None:
        return
    process.refusals = []
    if process.recorded:
        process.closing.append(lambda: _at_exit(process))
    else:
        import atexit

        atexit.register(lambda: process.guarded("refused operations", lambda: _at_exit(process), vital=False))
    _watch_threads(process)


def _watch_threads(process: Process) -> None:
    threading: Any = sys.modules.get("threading")
    if threading is None:
        return
    original = threading.excepthook

    def excepthook(arguments: Any) -> Any:
        result = original(arguments)
        process.guarded("refused operations", lambda: report(arguments.exc_value, process), vital=False)
        return result

    threading.excepthook = excepthook


def _at_exit(process: Process) -> None:
    report(getattr(sys, "last_exc", None) or getattr(sys, "last_value", None), process)


def report(error: BaseException | None, process: Process) -> None:
    """Say which operation was refused, if that is what an exception is about, and keep it for the record."""
    found = describe(error, process) if error is not None else None
    if found is None or process.refusals is None or found in process.refusals:
        return
    process.refusals.append(found)
    gate.say(render(found))
    process.write()


def describe(error: BaseException, process: Process) -> dict[str, Any] | None:
    """Return ``op``, ``framework``, ``file``, ``line``, ``code``, ``why`` and ``ways``; None if it is another error."""
    for link in _chain(error):
        text = str(link) if isinstance(link, Exception) else ""
        if not any(sign in text for sign in _SIGNS):
            continue
        framework = _framework(link, text, process)
        if framework:
            op, name, why, ways = _known(framework, text)
            file, line = _place(link.__traceback__ or error.__traceback__, process)
            code = _code(file, line)
            return {
                "op": name or op or "an operation",
                "error_name": op,
                "framework": framework,
                "file": file,
                "line": line,
                "code": code,
                "why": why,
                "ways": list(ways),
            }
    return None


def render(found: dict[str, Any]) -> str:
    """Return the lines for standard error."""
    place = f"{found['file']}:{found['line']}" if found["file"] else "no line of the program's own"
    lines = [f"envbuild: {found['op']} is not deterministic and was refused"]
    lines.append(f"  at    {place}{'   ' + found['code'] if found['code'] else ''}")
    if found["why"]:
        lines.append(f"  why   {found['why']}")
    ways = found["ways"] or ["run it on the CPU", "write it with other operations"]
    lines += [f"  {'try' if index == 0 else 'or ':<5} {way}" for index, way in enumerate(ways)]
    lines.append("  or    accept other bits here: determinism.level: seeds in spec.yaml, then lock and build again")
    return "\n".join(lines) + "\n"


def _chain(error: BaseException) -> list[BaseException]:
    """Return an exception and what caused it, the innermost first: it has the deepest line."""
    found: list[BaseException] = []
    link: BaseException | None = error
    while link is not None and link not in found and len(found) < DEPTH:
        found.append(link)
        link = link.__cause__ or (None if link.__suppress_context__ else link.__context__)
    return found[::-1]


def _framework(error: BaseException, text: str, process: Process) -> str:
    """Return whose error it is: by its class, else by what is loaded and how it is worded."""
    package = type(error).__module__.partition(".")[0]
    if package in _FRAMEWORKS:
        return package
    if package in ("jaxlib", "jax"):
        return "jax"
    if "torch" in process.modules and any(sign in text for sign in _SIGNS[:2]):
        return "torch"
    return "tensorflow" if isinstance(error, RuntimeError) and "tensorflow" in process.modules else ""


def _known(framework: str, text: str) -> tuple[str, str, str, tuple[str, ...]]:
    """Return the operation's name in the error, and name, reason and ways out as far as the table knows them."""
    from .table_operations import OPERATIONS

    found = _operations(framework, text)
    own = [row for row in OPERATIONS if row[0] == framework]
    for op in found:
        for _, names, name, why, ways in own:
            if op in names:
                return op, name, why, ways
    for _, names, name, why, ways in own:
        if any(" " in word and word in text for word in names):
            return "", name, why, ways
    return found[0] if found else "", "", "", ()


def _operations(framework: str, text: str) -> list[str]:
    """Cut names of the operation out of an error's text, the likeliest first."""
    if framework == "torch":
        before = text.partition(" does not have a deterministic implementation")[0]
        return ["CuBLAS" if "CuBLAS" in text else before.rpartition("\n")[2].strip()]
    if framework == "jax":
        return [text.partition("HLO instruction ")[2].partition(" ")[0].strip("%,.")]
    found = [text.partition(start)[2].partition(end)[0] for start, end in _TENSORFLOW]
    found.append(text.rpartition("}} ")[2].partition(" ")[0])
    names = [_node(name.strip(" .'\"`")) for name in found]
    return [name for name in names if name and not name.startswith("__")]


def _node(name: str) -> str:
    """Return the operation in a node's name: ``model/Bincount_1`` is the second ``Bincount`` there."""
    last = name.rpartition("/")[2]
    head, _, number = last.rpartition("_")
    return head if head and number.isdigit() else last


def _place(trace: TracebackType | None, process: Process) -> tuple[str, int]:
    """Return the file and line of the innermost frame that belongs to the program, not to a library."""
    roots = {"/usr/lib", sys.base_prefix, sys.prefix, gate.PREFIX, *map(_home, process.modules.values())}
    outside = tuple(f"{root.rstrip('/')}/" for root in roots if root not in ("", "/", "/usr"))
    found = ("", 0)
    while trace is not None:
        code, module = trace.tb_frame.f_code, trace.tb_frame.f_globals.get("__name__")
        file = code.co_filename
        library = "/site-packages/" in file or "/dist-packages/" in file or "__autograph_generated_file" in file
        if file.startswith("<"):  # python -c, or code that a library made
            library = module != "__main__"
        if not library and not file.startswith(outside):
            found = (file if file.startswith("<") else os.path.abspath(file), trace.tb_lineno)
        trace = trace.tb_next
    return found


def _home(module: Any) -> str:
    """Return the folder of a framework's package, with what was installed next to it."""
    package = sys.modules.get(str(getattr(module, "__name__", "")).partition(".")[0], module)
    return os.path.dirname(os.path.dirname(getattr(package, "__file__", None) or ""))


def _code(file: str, line: int) -> str:
    if not file:
        return ""
    import linecache

    return linecache.getline(file, line).strip()[:120]
