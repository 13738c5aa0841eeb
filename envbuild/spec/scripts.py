"""Debian packages with the programs that a project starts, by its shell scripts, makefiles and Python code.

Compilers that libraries start on its behalf are among them (``torch.compile``). Files are read, never run. What
downloads is left out, since runs have no network, and so is what programs do without where it is missing (git).
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator
from pathlib import Path

from envbuild.spec.programs import PACKAGES

_MAKEFILES = frozenset({"Makefile", "makefile", "GNUmakefile"})
_SHELL = frozenset({".sh", ".bash"})
_OTHERS = frozenset({"ci", "docker", "container", "build", "dist", "tests", "test", "docs", "doc", "site-packages"})
"""Folders whose scripts are about the project and not part of a run."""
_MAX_FILES, _MAX_BYTES = 200, 1 << 18
_LEFT_OUT = frozenset(
    {"git", "curl", "wget", "aria2c", "ssh", "rsync", "ping", "ip", "sudo", "xdg-open", "time", "ps", "file", "lspci"}
)
_KNOWN = PACKAGES.keys() - _LEFT_OUT - {name for name in PACKAGES if " " in name or name.endswith(".h")}
_BREAK = re.compile(r"\|\||&&|[;|&(){}`\n]|\$\(")
_BEFORE = frozenset({"if", "then", "else", "elif", "while", "until", "do", "!", "exec", "nohup", "time", "env", "nice"})
"""Words of a shell after which a command follows."""
_ASSIGNED = re.compile(r"[A-Za-z_]\w*=")
_VARIABLE = re.compile(r"^([A-Za-z_]\w*)[ \t]*[:?]?=[ \t]*([^\s#]+)", re.MULTILINE)
_USED = re.compile(r"\$[({](\w+)[)}]")
_DEFAULTS = {"CC": "gcc", "CXX": "g++", "FC": "gfortran", "MAKE": "make"}
"""What make takes for the variables of its own rules, in Debian's names."""
_PYTHON = re.compile(r"python[\d.]*|Rscript")
_MODULES = frozenset({"subprocess", "os", "sp"})
_COMPILED = {
    "torch.utils.cpp_extension": ("C++ compiler", "ninja"),
    "pyximport": ("C compiler",),
}
"""Modules that compile code while the program runs, and with what."""
_INDUCTOR, _UNCOMPILED = "torch.compile", frozenset({"eager", "aot_eager", "cudagraphs"})
"""What compiles by way of C++ on CPUs, and its backends that compile nothing."""
_STARTERS = frozenset({"run", "call", "check_call", "check_output", "Popen", "system", "popen", "getoutput"})


def packages_of(folder: Path, sources: Iterable[tuple[str, ast.Module]]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return packages, and the files that start their programs.

    Args:
        folder: the project's; its scripts are looked for there and in its folders.
        sources: parsed Python files, with their paths in the project.
    """
    found: dict[str, str] = {}
    files = []
    for path in _scripts(folder):
        text = _text(path)
        names = {*(_made(text) if path.name in _MAKEFILES else _started(text))} & _KNOWN
        if names:
            files.append(path.relative_to(folder).as_posix())
            found |= dict.fromkeys(sorted(names), "")
    for name, tree in sources:
        if names := {*_of_python(tree)} & _KNOWN | {*_compilers(tree)}:
            files.append(name)
            found |= dict.fromkeys(sorted(names), "")
    packages = {each for name in found for each in PACKAGES[name].split(", ")}
    return tuple(sorted(packages)), tuple(files)


def _scripts(folder: Path) -> Iterator[Path]:
    """Yield the scripts and makefiles of a folder and of those in it, in order."""
    count = 0
    inner = [each for each in sorted(folder.iterdir()) if each.is_dir() and not each.is_symlink()]
    for here in (folder, *(each for each in inner if each.name[0] != "." and each.name.lower() not in _OTHERS)):
        try:
            names = sorted(here.iterdir())
        except OSError:
            continue
        for path in names:
            if path.name in _MAKEFILES or path.suffix in _SHELL:
                count += 1
                if count > _MAX_FILES:
                    return
                yield path


def _text(path: Path) -> str:
    try:
        if not path.is_file() or path.stat().st_size > _MAX_BYTES:
            return ""
        return path.read_text(encoding="utf-8", errors="replace").replace("\\\n", " ")
    except OSError:
        return ""


def _started(text: str) -> Iterator[str]:
    """Yield the first words of a shell's commands; of quoted text and comments nothing."""
    plain = re.sub(r"(?m)(?:^|(?<=\s))#.*$", "", re.sub(r"'[^'\n]*'", "''", text))
    for command in _BREAK.split(plain):
        for word in command.split():
            if word in _BEFORE or _ASSIGNED.match(word) or word.startswith(("@", "-")):
                continue
            yield word
            break


def _made(text: str) -> Iterator[str]:
    """Yield the programs that a makefile's recipes start, and make itself if one of them compiles or runs a program."""
    values = {**_DEFAULTS, **dict(_VARIABLE.findall(text))}
    recipes = "\n".join(line.lstrip("\t@+-") for line in text.splitlines() if line.startswith("\t"))
    words = [*_started(_USED.sub(lambda found: values.get(found[1], ""), recipes))]
    yield from words
    if any(word in _KNOWN or _PYTHON.fullmatch(word) for word in words):
        yield "make"


def _starts(function: ast.expr) -> bool:
    """Return whether a function starts a program; a method of another object (``model.run``) starts none."""
    if not isinstance(function, ast.Attribute) or function.attr not in _STARTERS:
        return False
    return isinstance(function.value, ast.Name) and function.value.id in _MODULES


def _of_python(tree: ast.Module) -> Iterator[str]:
    """Yield the programs that calls such as ``subprocess.run([...])`` and ``os.system("...")`` start."""
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call) or not node.args or not _starts(node.func):
            continue
        first = node.args[0]
        if isinstance(first, ast.List) and first.elts:
            first = first.elts[0]
            if isinstance(first, ast.Constant) and isinstance(first.value, str):
                yield first.value
        elif isinstance(first, ast.Constant) and isinstance(first.value, str):
            yield from _started(first.value)


def _compilers(tree: ast.Module) -> Iterator[str]:
    """Yield what libraries start to compile code while the program runs."""
    without = {
        node.func
        for node in ast.walk(tree)
        if isinstance(node, ast.Call)
        for word in node.keywords
        if word.arg == "backend" and getattr(word.value, "value", None) in _UNCOMPILED
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and node not in without and ast.unparse(node) == _INDUCTOR:
            yield "C++ compiler"
        elif isinstance(node, ast.Import | ast.ImportFrom):
            names = [node.module or ""] if isinstance(node, ast.ImportFrom) else [each.name for each in node.names]
            for name in names:
                yield from _COMPILED.get(name, ())
