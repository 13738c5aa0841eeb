"""What is varied: each variation is one row of the table, and changes one thing of the surroundings."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

CLOCK_AHEAD = 11 * 365 * 86_400
"""Seconds: eleven years."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Variation:
    """One kind of surroundings.

    Attributes:
        name: the row's name.
        environ: variables of the command; ``{folder}`` represents the cell's own folder.
        prefix: command that runs the command.
        words: what ``inside.py`` changes.
        library: the library of ``elsewhere.c`` that the command and the programs in build containers are given.
        folder: where the cell's project is, below its own folder.
        umask: of the command.
        store: ``empty``, ``half`` or ``full``: what it holds of an earlier build, downloads and layers.
        root: needs root to be tried.
        leaks: what it changes, as ``leaks.py`` calls it.
    """

    name: str
    environ: Mapping[str, str] = field(default_factory=dict)
    prefix: tuple[str, ...] = ()
    words: tuple[str, ...] = ()
    library: str = ""
    folder: str = "project"
    umask: int = 0o022
    store: str = "empty"
    root: bool = False
    leaks: str = ""


_PYTHON = {
    "PYTHONHASHSEED": "4711",
    "PYTHONDONTWRITEBYTECODE": "1",
    "PYTHONOPTIMIZE": "2",
    "PYTHONWARNINGS": "ignore",
    "PYTHONUTF8": "0",
    "PYTHONIOENCODING": "latin-1:replace",
    "PYTHONPYCACHEPREFIX": "{folder}/pyc",
    "PYTHONUNBUFFERED": "1",
    "PYTHONNOUSERSITE": "1",
}
_BUILD = {
    "SOURCE_DATE_EPOCH": "1700000000",
    "FORCE_SOURCE_DATE": "1",
    "DPKG_ROOT": "/nowhere",
    "DPKG_FORCE": "all",
    "DPKG_MAINTSCRIPT_NAME": "prerm",
    "DPKG_COLORS": "always",
    "DEB_BUILD_OPTIONS": "nocheck parallel=7",
    "DEBIAN_FRONTEND": "dialog",
    "TAR_OPTIONS": "--mtime=2001-01-01 --owner=7",
    "GZIP": "-1",
    "XZ_OPT": "-0",
    "LD_BIND_NOW": "1",
    "MAKEFLAGS": "-j7",
    "PERL_HASH_SEED": "99",
    "VIRTUAL_ENV": "/nowhere",
    "UV_COMPILE_BYTECODE": "1",
    "PIP_NO_COMPILE": "1",
    "COLUMNS": "40",
    "NO_COLOR": "1",
}
NOBODY = 65_534
_USER = (
    "setpriv",
    f"--reuid={NOBODY}",
    f"--regid={NOBODY}",
    "--groups={socket_group}",
    # Reading is all it may: the interpreter may be in a home folder.
    "--inh-caps=-all,+{access}",
    "--ambient-caps=-all,+{access}",
)
_HOST = ("unshare", "--uts", "sh", "-c", 'hostname elsewhere.example && exec "$@"', "sh")

_SINGLE = (
    Variation(name="plain"),
    Variation(name="clock 11 years ahead", library="clock", leaks="clock"),
    Variation(name="time zone", environ={"TZ": "Pacific/Kiritimati"}, leaks="zone"),
    Variation(
        name="locale",
        environ={"LANG": "tr_TR.UTF-8", "LANGUAGE": "tr:de", "LC_ALL": "C", "LC_NUMERIC": "de_DE"},
        leaks="locale",
    ),
    Variation(name="umask 077", umask=0o077, leaks="umask"),
    Variation(name="host name", prefix=_HOST, root=True, leaks="host"),
    Variation(name="kernel release", library="kernel", leaks="kernel"),
    Variation(name="user nobody", prefix=_USER, root=True, leaks="user"),
    Variation(
        name="home", environ={"HOME": "{folder}/elsewhere", "USER": "else", "XDG_CONFIG_HOME": "/nowhere"}, leaks="home"
    ),
    Variation(name="build path", folder="ein anderer Ort/mit Ümlaut/" + "lang" * 30, leaks="path"),
    Variation(name="file order", library="order", leaks="order"),
    Variation(name="one CPU", prefix=("taskset", "-c", "0"), words=("one-cpu",), leaks="cpus"),
    Variation(name="store filled", store="full", leaks="store"),
    Variation(name="store half filled", store="half", leaks="store"),
    Variation(name="downloads backwards", words=("backwards",), leaks="downloads"),
    Variation(name="TMPDIR", environ={"TMPDIR": "{folder}/elsewhere"}, leaks="temporary"),
    Variation(name="PYTHON*", environ=_PYTHON, leaks="python"),
    Variation(name="DPKG_*, dates, tools", environ=_BUILD, leaks="tools"),
)


def _together() -> Variation:
    """Everything at once, but for what a store holds."""
    return Variation(
        name="everything at once",
        environ={name: value for row in _SINGLE for name, value in row.environ.items()},
        prefix=(*_HOST, "taskset", "-c", "0", *_USER),
        words=("one-cpu", "backwards"),
        library="all",
        folder=next(row.folder for row in _SINGLE if row.name == "build path"),
        umask=0o077,
        root=True,
        leaks="user",
    )


VARIATIONS = (*_SINGLE, _together())

QUICK = ("plain", "everything at once")
"""The rows that are built for every change of the code."""
