"""The keys of a spec: one table that parser, JSON Schema and reference are made from."""

from __future__ import annotations

from envbuild.core import types
from envbuild.spec import environment, validators
from envbuild.spec.fields import Choice, Field, Flag, ListOf, MapOf, Table, Text, Whole
from envbuild.spec.hardware_keys import hardware_table
from envbuild.spec.package_fields import FilePath, Folder, Requirement
from envbuild.spec.system_keys import ARCHITECTURES, os_table
from envbuild.spec.variants import variants_field

STANDALONE = ("3.10", "3.11", "3.12", "3.13", "3.14")
"""Feature releases that a spec may ask for where the operating system has another one."""


def _determinism_table() -> Table:
    return Table(
        expected="a mapping with seed, threads, level or strict",
        fields={
            "seed": Field(
                kind=Whole(low=0, high=2**32 - 1),
                doc="Root seed of Python, NumPy and the framework, and PYTHONHASHSEED.",
                default=42,
                examples=(7,),
            ),
            "threads": Field(
                kind=Whole(low=1, high=1024),
                doc="Threads of numerical libraries. Results depend on it; the host needs as many CPUs.",
                default=2,
                examples=(4,),
            ),
            "level": Field(
                kind=Choice(
                    values={
                        "seeds": "seeds only",
                        "ops": "seeds and deterministic operations",
                        "portable": "also the instructions of `hardware.cpu`, so that better CPUs give equal bits",
                    }
                ),
                doc="How much is pinned.",
                default="ops",
                examples=("seeds",),
            ),
            "strict": Field(
                kind=Flag(),
                doc="Refuse to start when a switch cannot be set and read back; false: warn.",
                default=True,
                examples=(False,),
            ),
        },
    )


def _run_table() -> Table:
    networks = {"none": "no network", "bridge": "the engine's default network", "host": "the host's network"}
    return Table(
        expected="a mapping with network or workspace",
        fields={
            "network": Field(
                kind=Choice(values=networks), doc="Network of a run.", default="none", examples=("bridge",)
            ),
            "workspace": Field(
                kind=Choice(values={"rw": "the program may write to its folder", "ro": "it may only read"}),
                doc="How the working folder is mounted.",
                default="rw",
                examples=("ro",),
            ),
        },
    )


def _system_fields() -> dict[str, Field]:
    return {
        "name": Field(
            kind=Text(
                expected="a name",
                check=validators.name,
                rules={"pattern": validators.schema_pattern(types.LockName)},
            ),
            doc="Names the lock (pylock.NAME.toml) and the image.",
            examples=("digits",),
        ),
        "os": Field(kind=os_table(), doc="The operating system.", default="debian-12", examples=("debian-13",)),
        "platforms": Field(
            kind=ListOf(item=Choice(values=ARCHITECTURES), expected="a list of platforms such as [amd64, arm64]"),
            doc="Platforms of the image, instead of `os.architecture`: each has a lock of its own "
            "(pylock.NAME-PLATFORM.toml), which shares pins with the others.",
            default=None,
            default_doc="none: one lock, for os.architecture",
            examples=(["amd64", "arm64"],),
        ),
        "packages": Field(
            kind=ListOf(
                item=Text(expected="a package name", check=validators.package),
                expected="a list of Debian packages",
            ),
            doc="Extra Debian packages: a name, or name=version for exactly that version.",
            default=[],
            examples=(["git", "ffmpeg"],),
        ),
    }


def _python_fields() -> dict[str, Field]:
    pythons = STANDALONE
    return {
        "python": Field(
            kind=Text(
                expected="a Python release such as 3.11 or 3.12.7",
                check=validators.python,
                rules={
                    "anyOf": [
                        {"enum": [*pythons, *map(float, pythons)]},
                        {"type": "string", "pattern": r"^3\.[0-9]{1,2}(\.[0-9]{1,2})?$"},
                    ]
                },
                loose=("number",),
            ),
            doc="Release of Python: the operating system's own if it has that feature release, else a standalone build "
            "of CPython, 3.10 to 3.14. With a third number always such a build.",
            default=None,
            default_doc="the operating system's own, such as 3.11 on debian-12; what a base image has",
            examples=("3.12", "3.12.7"),
        ),
        "requirements": Field(
            kind=ListOf(
                item=Requirement(),
                alone=FilePath(alone=True),
                expected="a list of requirements, or the path of a requirements file",
            ),
            doc="What to install: PEP 508 lines, files as -r PATH, projects as ./FOLDER, -e . or git+https://…@REF; or "
            "one file's path.",
            default=[],
            examples=(["tensorflow-cpu==2.21.*", "scikit-learn"], "requirements.txt"),
        ),
        "extras": Field(
            kind=ListOf(item=Text(expected="a name", check=validators.group), expected="a list of extras"),
            doc="Extras of the `pyproject.toml` next to the spec whose packages are installed too.",
            default=[],
            examples=(["cuda"],),
        ),
        "groups": Field(
            kind=ListOf(item=Text(expected="a name", check=validators.group), expected="a list of groups"),
            doc="Dependency groups (PEP 735) of the `pyproject.toml` next to the spec that are installed too.",
            default=[],
            examples=(["dev"],),
        ),
        "exclude-newer": Field(
            kind=Text(expected="a time in UTC", check=validators.snapshot),
            doc="Take Python packages as the indexes had them at this time (UTC): files uploaded later are left out.",
            default=None,
            default_doc="what the indexes have at lock time",
            examples=("2026-07-11", "20260711T000000Z"),
        ),
        "wheels": Field(
            kind=ListOf(item=Folder(), expected="a list of folders"),
            doc="Folders with your own wheels. A name that they have is taken from no index.",
            default=[],
            examples=(["wheels"],),
        ),
        "sources": Field(
            kind=ListOf(
                item=Text(expected="a package name", check=validators.project),
                alone=Choice(values={"all": "of any package that needs it"}),
                expected="a list of Python packages, or all",
            ),
            doc="Python packages that may be built from source where no wheel fits, and projects: their code runs when "
            "locking, in a sandbox. `all`: any package.",
            default=[],
            examples=(["antlr4-python3-runtime"], "all"),
        ),
        "build-packages": Field(
            kind=ListOf(
                item=Text(expected="a package name", check=validators.build_package),
                expected="a list of Debian packages",
            ),
            doc="Debian packages of the system in which sources are built, such as compilers; the image has none.",
            default=[],
            examples=(["gcc", "python3-dev"],),
        ),
        "build-requirements": Field(
            kind=MapOf(
                key=_package_problem,
                value=ListOf(
                    item=Text(expected="a requirement such as torch==2.14.1", check=validators.requirement),
                    expected="a list of requirements",
                ),
                expected="a mapping of packages in sources to lists of requirements",
            ),
            doc="Python packages that a package's build needs and its sources do not state, such as the framework that "
            "its extension is compiled for, or CUDA's compiler.",
            default={},
            examples=({"flash-attn": ["torch==2.14.1", "nvidia-cuda-nvcc==13.0.*", "ninja"]},),
        ),
        "build-env": Field(
            kind=MapOf(
                key=environment.refuse_in_builds,
                value=Text(expected='a text ("" for empty)', check=validators.plain, loose=("number", "boolean")),
                expected="a mapping of names to texts",
                rules={"propertyNames": {"pattern": validators.schema_pattern(types.EnvName)}},
            ),
            doc="Environment variables of builds of sources, such as the GPU architectures to compile for.",
            default={},
            examples=({"TORCH_CUDA_ARCH_LIST": "9.0"},),
        ),
        "missing-libraries": Field(
            kind=ListOf(
                item=Text(
                    expected="the name of a shared library",
                    check=validators.missing_library,
                    rules={"pattern": validators.schema_pattern(types.MissingLibrary)},
                ),
                expected="a list of shared libraries",
            ),
            doc="Shared libraries that wheels link to and that may be missing from the image: SONAME or "
            "PACKAGE:SONAME; `*` for any text.",
            default=[],
            examples=(["libpulse.so.0", "open3d:libtorch*"],),
        ),
        "cuda": Field(
            kind=Text(
                expected="none, auto or a version such as 12.5",
                check=validators.cuda,
                rules={"pattern": r"^(none|auto|[0-9]{1,2}(\.[0-9]{1,2})?)$"},
                loose=("number",),
            ),
            doc="CUDA libraries among the wheels: `none` asked for, `auto` for the framework's own, or a version.",
            default="none",
            examples=("auto", "12.5", "13"),
        ),
        "cudnn": Field(
            kind=Text(expected="a version such as 9.3", check=validators.cudnn, loose=("number",)),
            doc="Version of cuDNN, as many parts as matter; only with cuda.",
            default=None,
            default_doc="the framework's own",
            examples=("9.3",),
        ),
    }


def _package_problem(name: str, text: str) -> str:
    """Return what is wrong with the name of a Python package; empty if nothing is."""
    try:
        validators.project(name)
    except ValueError as error:
        return str(error)
    return ""


def _run_fields() -> dict[str, Field]:
    return {
        "hardware": Field(
            kind=hardware_table(),
            doc="What a host must be for a run to start.",
            default={},
            examples=({"kernel": ">=5.10", "cpu": "x86-64-v3"}, "detect"),
        ),
        "determinism": Field(
            kind=_determinism_table(),
            doc="What is pinned so that results repeat.",
            default={},
            examples=({"seed": 7, "threads": 4},),
        ),
        "inputs": Field(
            kind=ListOf(item=Text(expected="a relative path", check=validators.relative), expected="a list of paths"),
            doc="Data files and folders inside the spec's folder; their digests are locked.",
            default=[],
            examples=(["data"],),
        ),
        "env": Field(
            kind=MapOf(
                key=environment.refuse,
                value=Text(expected='a text ("" for empty)', check=validators.plain, loose=("number", "boolean")),
                expected="a mapping of names to texts",
                rules={"propertyNames": {"pattern": validators.schema_pattern(types.EnvName)}},
            ),
            doc="Environment variables of the image, values taken as typed.",
            default={},
            examples=({"KERAS_BACKEND": "tensorflow"},),
        ),
        "run": Field(kind=_run_table(), doc="Defaults of envbuild run.", default={}, examples=({"network": "bridge"},)),
    }


def _root() -> Table:
    fields = {**_system_fields(), **_python_fields(), **_run_fields()}
    fields["variants"] = variants_field(fields)
    elsewhere = {
        leaf: f"{key}.{leaf}"
        for key, spec in fields.items()
        if isinstance(spec.kind, Table)
        for leaf in spec.kind.fields
    }
    elsewhere |= {
        "environment": "env",
        "dependencies": "requirements",
        "pip": "requirements",
        "apt": "packages",
        "base": "os.image",
        "data": "inputs",
        "arch": "os.architecture",
        "platform": "platforms",
        "architectures": "platforms",
        "gpus": "hardware.gpu",
        "driver": "hardware.gpu.driver",
        "model": "hardware.gpu.model",
    }
    return Table(fields=fields, expected="a mapping of keys such as name and requirements", elsewhere=elsewhere)


ROOT = _root()
