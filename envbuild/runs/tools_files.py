"""Files that tools leave outside a project for themselves: no results, known by place and name.

What is of a tool's own form is left out without a word. What merely is where tools keep such files, or has a name like
one, is left out too, as it differs in every run or may be; but a program may have put a result there, so it is named.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from functools import cache

import msgspec

from envbuild.core.patterns import lazy
from envbuild.core.text import encodable, plural

MOST_OF_LOCK = 64
"""Bytes of a lock that are looked at."""
_ENGINES = (
    r"/(?:proc|sys|dev(?!/shm/))(?:/.*)?|/(?:var/)?run(?:/(?:envbuild|lock|secrets|user|systemd|mount|netns|nvidia[^/]*"
    r"|cdi|host|podman-init|dbus|udev|utmp|opengl-driver|motd[^/]*|\.containerenv)(?:/.*)?)?|/etc/(?:hosts|hostname|resolv\.conf|mtab)|/\.dockerenv"
    r"|/(?:usr/)?s?bin/(?:docker-init|catatonit|podman-init)"
)
_DRIVERS = (
    r"/(?:usr/)?lib(?:64)?/(?:[^/]+/)*lib[^/]*(?:cuda|nv)[^/]*\.so[.\d]*|/(?:usr/)?bin/nvidia-[^/]*|/lib/firmware/nvidia/.*"
    r"|/(?:etc|usr/share)/(?:nvidia|vulkan|glvnd|egl|OpenCL|X11)/.*|/etc/ld\.so\.conf\.d/[^/]*(?:nvcr|nvidia)[^/]*"
)
"""What engines put into a container together with GPUs."""
_HOUSEKEEPING = (
    r"/var/cache/(?:fontconfig|apt|debconf|ldconfig|man)(?:/.*)?|/var/lib/(?:apt|dpkg|systemd|fontconfig)/.*"
    r"|/var/log/(?:apt(?:/.*)?|journal(?:/.*)?|dpkg\.log|alternatives\.log|bootstrap\.log|[bw]tmp|lastlog|faillog|fontconfig\.log)"
    r"|/etc/ld\.so\.cache|/tmp/home"
)
_TOOLS = (
    "torchinductor_", "torchelastic_", "torch_extensions/", "joblib_memmapping_folder_", "loky-", "pymp-",
    "matplotlib-", r"ray(?:/|\Z)", r"kernel-[0-9a-f-]{20,}\.json", r"\.?tensorboard-info", "tfhub_modules",
    "hsperfdata_", r"pip-(?:build|install|unpack|req|ephem|wheel|modern|standalone)-", "openmpi-sessions", r"ompi\.",
    r"prte\.", r"pmix[.-]", r"\.X11-unix", r"\.X\d+-", r"\.ICE-unix", r"\.nvpipe", r"\.org\.chromium", "comgr-",
    r"\.ses\Z", r"mat-debug-\d+\.log\Z",
    r"dask-scratch-space/[\w-]+\.(?:dirlock|lock)\Z",
)  # fmt: skip
"""How the names of folders and files begin that tools make for themselves in temporary folders; the last are those
of ONNX Runtime's telemetry, and locks of Dask's workers."""
_MEMORY = (r"torch_\d+_", r"sem\.", "nccl-", r"cuda\.shm", "vader_segment", "loky-")
"""The same for shared memory: segments that were not given back."""
_OWN_MEMORY = ("psm_", "wnsm_", "pym-")
"""Segments that Python makes for a program, which may have left a result in one."""
_OF_RESULTS = (
    r"(?:npy|npz|pt|pth|ckpt|h5|hdf5|keras|safetensors|onnx|parquet|csv|tsv|jsonl|ipynb"
    r"|joblib|msgpack|feather|arrow|tfrecords?|pickle|sqlite3?|zip|gz|zst|png|pdf)"
)
"""Ends of names of what programs save: no tool has such files in its temporary folders."""
_COMPILED = r"__pycache__/[^/]+\.(?:pyc(?:\.\d+)?|pyo)|[^/]+-\d+\.py3\d+t?\.nbi|[^/]+-\d+\.py3\d+t?\.\d+\.nbc"
_CACHES = rf"fontlist-v[\d.]+\.json|{_COMPILED}"
"""Caches of libraries by their names, wherever their folder was moved to; Python's bytecode, and Numba's machine code
(``numba/core/caching.py``)."""
_HOMES = (
    r"\.nv", r"\.triton", r"\.keras", r"\.ipython", r"\.jupyter", r"\.matplotlib", r"\.numba_cache", r"\.cupy",
    r"\.astropy", r"\.theano", r"\.mozilla", r"\.fontconfig", r"\.npm", r"\.cargo", r"\.conda", r"\.kaggle", r"\.pki",
)  # fmt: skip
_SHARED = (
    r"(?:applications|fonts|icons|themes|mime|man|info|bash-completion|fish|zsh|Trash|keyrings|gvfs-metadata|jupyter|uv|pip"
    r"|pipx|pypoetry|virtualenvs?|hatch|conda|nltk_data|kotlin-debug-adapter|recently-used[^/]*)"
)
"""What tools keep in ``.local/share``; programs keep their own data there too."""
_FOLDERS = ("__pycache__", r"\.cache", r"\.config", rf"\.local(?!/share/(?!{_SHARED}(?:/|\Z))[^/]+/)", *_HOMES)
"""Folders of caches and settings, at any depth."""
_LOCKS = r"(?:lock|lck|pid|sock)"
_SUFFIXES = rf"(?:pyc|pyo|swp|nbi|nbc|{_LOCKS})"
_HISTORIES = r"\.(?:python_history|bash_history|lesshst|viminfo|wget-hsts|Xauthority)"
_CACHE = lazy(
    rf"(?P<folder>.*?/(?:(?:\.cache|\.config|\.local/share)/(?P<name>[^/]+)|(?P<home>{'|'.join(_HOMES)})))(?:/(?P<inner>.*))?"
)
"""What is kept below a folder of caches or settings, and for what."""
_OF_PROJECT = lazy(
    rf".*/(?:{_COMPILED}|\.pytest_cache/(?:README\.md|\.gitignore|CACHEDIR\.TAG|v/cache/\w+)"
    r"|\.git/(?:index|index\.lock|gc\.log)"
    rf"|\.envbuild/(?:(?!.*\.{_OF_RESULTS}\Z)[^/]+|(?:runs|verify|locks|sources|inputs|ranks|jobs|bisect-[^/]+)/.*)"
    r"|\.(?:mypy|ruff)_cache/(?:\.gitignore|CACHEDIR\.TAG|\d[\d.]*/.*))"
)
"""What tools write into folders of their own in a project."""
_DIGESTED = lazy(r"/[0-9a-f]{64}\Z")
_NAMED = 5
"""Of a kind, in so many sentences."""

_OWN = frozenset(("/etc/hostname", "/etc/hosts", "/etc/resolv.conf", "/run/envbuild", "/tmp/home"))  # noqa: S108
"""What every run has: of that noise, which needs no pattern."""


@cache
def _noise() -> re.Pattern[str]:
    """Return the pattern of all of it; compiling it takes milliseconds, and most programs write nothing outside."""
    return re.compile(
        rf"(?:{_engines()})|{_of_tools()}|{_of_programs()}|(?:{'|'.join(each.path for each in _stores().stores)})\Z"
        rf"|.*/(?:{'|'.join(_FOLDERS)})(?:/|\Z)|.*\.{_SUFFIXES}\Z|.*/{_HISTORIES}\Z"
    )


@cache
def _silent() -> re.Pattern[str]:
    """Return the pattern of that part of it which is no program's own without doubt."""
    return re.compile(rf"(?:{_engines()})|(?!.*\.{_OF_RESULTS}\Z)(?:{_of_tools()})")


def _engines() -> str:
    return rf"(?:{_ENGINES}|{_DRIVERS}|{_HOUSEKEEPING}|.*/(?:{_CACHES}))\Z"


def _of_tools() -> str:
    return rf"/(?:tmp|var/tmp)/(?:{'|'.join(_TOOLS)})|/dev/shm/(?:{'|'.join(_MEMORY)})"


def _of_programs() -> str:
    return rf"/dev/shm/(?:{'|'.join(_OWN_MEMORY)})"  # noqa: S108 - a path in the container


def is_noise(path: str) -> bool:
    """Return whether a file's place or name shows that it is no result: a tool's cache, lock, or the engine's own."""
    return path in _OWN or _noise().match(path) is not None


def is_lock(path: str) -> bool:
    """Whether nothing but the end of a file's name shows that it is no result, so that its content has to be seen."""
    return (
        re.search(rf"\.{_LOCKS}\Z", path) is not None and _CACHE.fullmatch(path) is None and not _silent().match(path)
    )


def holds_nothing(data: bytes | None) -> bool:
    """Whether a lock has nothing in it; None: it cannot be read, or is no file.

    One with a number may have that of a process, or a result.
    """
    return data is not None and len(data) <= MOST_OF_LOCK and not data.strip()


class _Store(msgspec.Struct, frozen=True):
    path: str
    note: str


class _Stores(msgspec.Struct, frozen=True):
    forms: dict[str, str]
    downloads: dict[str, str]
    stores: tuple[_Store, ...]


@cache
def _stores() -> _Stores:
    from envbuild.core import package_data

    return msgspec.toml.decode(package_data.data("stores.toml"), type=_Stores)


def notes_on(paths: Iterable[str], *, offline: bool = False) -> Iterator[str]:
    """Yield a sentence for each place of files that were left out and may hold results.

    Args:
        paths: files that were taken for no results.
        offline: the run had no network, so that nothing was downloaded.
    """
    unknown = [path for path in paths if path not in _OWN and not _silent().match(path)]
    if not unknown:  # to read the table takes 3 ms, and most programs leave nothing there
        return
    known, found = _stores(), set[str]()
    folders, others, strange = set[str](), set[str](), dict[str, list[str]]()
    for path in sorted(unknown):
        notes = {store.note for store in known.stores if re.fullmatch(store.path, path) is not None}
        found |= notes
        kept = None if notes else _CACHE.fullmatch(path)
        if kept is None:
            others |= set() if notes else {encodable(path)}
        elif (form := known.forms.get(kept["name"] or kept["home"])) is None:
            folders.add(encodable(kept["folder"]))
        elif kept["inner"] and (
            re.fullmatch(form, kept["inner"]) is None
            or (offline and re.fullmatch(known.downloads.get(kept["name"] or kept["home"], "(?!)"), kept["inner"]))
        ):
            strange.setdefault(encodable(kept["folder"]), []).append(encodable(kept["inner"]))
    yield from sorted(found)
    yield from _first([f"{each} was taken for a cache or settings of a tool, and not looked at" for each in folders])
    yield from _first(
        f"{folder} was taken for a cache or settings of a tool, and {_some(names)} in it not looked at"
        for folder, names in strange.items()
    )
    yield from _first([f"{each} was taken for a lock or another file of a tool, and not looked at" for each in others])


def notes_on_project(paths: Iterable[str]) -> Iterator[str]:
    """Yield the same of folders of tools in a project, which are not looked at (``workspace.SKIPPED``).

    Args:
        paths: files that the program wrote there, relative to the project.
    """
    others = (encodable(path) for path in paths if _OF_PROJECT.fullmatch(f"/{path}") is None)
    yield from _first([f"{each} is in a folder of a tool, and was not looked at" for each in others])


def notes_on_special(before: Iterable[str], after: Iterable[str]) -> Iterator[str]:
    """Yield a sentence for each FIFO, socket or device that a program left: it has a name and no content.

    And for folders whose extended attributes it has set; see ``workspace.scan``.
    """
    left = {*after}.difference(before)
    folders = {path for path in left if _DIGESTED.search(path) is not None}
    yield from _first(
        f"{encodable(path)} was not looked at: it is a FIFO, a socket or a device" for path in left - folders
    )
    yield from _first(
        f"extended attributes of the folder {encodable(_DIGESTED.sub('', path))} were not looked at" for path in folders
    )


def notes_on_empty(folders: Iterable[str]) -> Iterator[str]:
    """Yield a sentence for each empty folder that a program left outside its project."""
    yield from _first(f"{encodable(path)} was not looked at: it is an empty folder" for path in folders)


def notes_beyond(folders: Iterable[str]) -> Iterator[str]:
    """Yield the same of folders of tools in a project with more files than are looked at."""
    yield from _first(f"{encodable(each)} has very many files, of which the first were looked at" for each in folders)


def _some(names: list[str]) -> str:
    return f"{names[0]} and {plural(len(names) - 1, 'other file')}" if names[1:] else names[0]


def _first(sentences: Iterable[str]) -> Iterator[str]:
    """Yield the first few of several sentences of a kind, and how many more there are."""
    every = sorted(sentences)
    yield from every[:_NAMED]
    if len(every) > _NAMED:
        yield f"{len(every) - _NAMED} more such files or folders were not looked at"
