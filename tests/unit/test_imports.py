"""The import graph is the architecture: arrows point one way, and each third-party library has its place.

Imports inside functions count like those at the top, unless a test says otherwise: a late import is still an arrow.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2] / "envbuild"

VALUES = (
    "errors digest layout hardware host lock lock_document lock_types record record_outputs record_summary "
    "files progress resources suggest masking "
    "project requirement_files spec spec_checks spec_docs spec_env spec_fields spec_hardware spec_hardware_keys "
    "spec_hardware_kinds spec_keys spec_kinds spec_yaml host_file host_values locked_hardware moves processes "
    "text trace trace_divergence trace_file trace_values"
)
NETWORK = "net netconfig pipconfig"
FETCH = "fetch download part store vendor leases holdings"
RUN = "fingerprint kept run run_container run_gpus run_options runs surroundings workcopy repeat workspace"
LAYERS = {
    **dict.fromkeys(VALUES.split(), "values"),
    **dict.fromkeys(NETWORK.split(), "network"),
    **dict.fromkeys(FETCH.split(), "fetch"),
    **dict.fromkeys(RUN.split(), "run"),
    "inputs": "inputs",
    "results": "run",
    "verification": "verification",
    "starter": "starter",
    "guess": "starter",
    "runtime": "runtime",
    "engine.protocol": "protocol",
    "engine": "adapter",
    "resolve": "resolve",
    "image": "image",
    "registry": "registry",
    "hostprobe": "probe",
    "difference": "difference",
    "report": "report",
    "sbom": "sbom",
    "signing": "signing",
    "hostcheck": "wiring",
    "cli": "wiring",
    "__main__": "wiring",
}
"""Layer of each module or package; a longer name wins."""

ALLOWED = {
    "values": set(),
    "runtime": set(),
    "protocol": {"values"},
    "network": {"values"},
    "inputs": {"values"},
    "verification": {"values"},
    "starter": {"values"},
    "resolve": {"values", "network"},
    "fetch": {"values", "network"},
    "image": {"values", "protocol", "runtime"},
    "run": {"values", "protocol", "runtime", "probe"},
    "adapter": {"values", "protocol"},
    "registry": {"values", "network"},
    "probe": {"values", "runtime"},
    "difference": {"values", "runtime"},
    "report": {"values", "difference"},
    "sbom": {"values"},
    "signing": {"values"},
    "wiring": {*LAYERS.values()},
}
"""Layers that each layer may import besides its own: no stage another stage, no stage an adapter."""

ONLY = {
    "docker": ("engine.docker", "registry.credentials"),
    "requests": "engine.docker",
    "jinja2": ("image.", "report"),
    "markupsafe": "report",
    "pygal": "report.chart",
    "yaml": "spec_",
    "typer": "cli.",
    "rich": "cli.",
    "pysequoia": "resolve.",
    "debian": "resolve.",
    "uv": "resolve.",
    "pynvml": "runtime.guard.gpu",
    "blake3": "inputs.",
}
"""Third-party libraries that one place may import, by the start of its modules' names."""


@dataclass
class Module:
    """What a module imports: of envbuild by module name, of others by top-level name; ``late`` in functions only."""

    name: str
    own: set[str] = field(default_factory=set)
    own_late: set[str] = field(default_factory=set)
    others: set[str] = field(default_factory=set)
    others_late: set[str] = field(default_factory=set)


def _files() -> dict[str, Path]:
    found = {}
    for path in sorted(ROOT.rglob("*.py")):
        parts = path.relative_to(ROOT).with_suffix("").parts
        name = ".".join(parts).removesuffix("__init__").rstrip(".")
        found[name] = path
    return found


FILES = _files()


def _imports(node: ast.AST, late: bool = False) -> Iterator[tuple[ast.Import | ast.ImportFrom, bool]]:
    """Yield import statements, with whether a function has to be called for them; type-checking blocks are left out."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.Import | ast.ImportFrom):
            yield child, late
        elif isinstance(child, ast.If) and "TYPE_CHECKING" in ast.unparse(child.test):
            continue
        else:
            function = isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
            yield from _imports(child, late or function)


def _targets(name: str, path: Path, node: ast.Import | ast.ImportFrom) -> Iterator[str]:
    """Yield absolute dotted names of what one statement imports."""
    if isinstance(node, ast.Import):
        yield from (alias.name for alias in node.names)
        return
    base = node.module or ""
    if node.level:
        package = ["envbuild", *name.split(".")] if path.stem == "__init__" else ["envbuild", *name.split(".")[:-1]]
        package = [part for part in package if part][: len(package) - (node.level - 1)]
        base = ".".join([*package, *([base] if base else [])])
    yield from (f"{base}.{alias.name}" for alias in node.names)


def _read(name: str, path: Path) -> Module:
    module = Module(name)
    for node, late in _imports(ast.parse(path.read_text(encoding="utf-8"))):
        for target in _targets(name, path, node):
            if target == "envbuild" or target.startswith("envbuild."):
                own = target.removeprefix("envbuild").lstrip(".")
                while own not in FILES:
                    own = own.rpartition(".")[0]
                if own and own != name:
                    (module.own_late if late else module.own).add(own)
            else:
                (module.others_late if late else module.others).add(target.partition(".")[0])
    return module


MODULES = {name: _read(name, path) for name, path in FILES.items() if name}


def layer(name: str) -> str:
    """Return a module's layer."""
    while name and name not in LAYERS:
        name = name.rpartition(".")[0]
    return LAYERS.get(name, "")


def test_every_module_has_a_layer() -> None:
    """A new module is put into a layer on purpose: add it to LAYERS, or move it into a package that has one."""
    assert [name for name in MODULES if not layer(name)] == []


def test_arrows_point_one_way() -> None:
    """Values import values; no stage imports another stage or an adapter; only the command line wires."""
    wrong = [
        f"{module.name} ({layer(module.name)}) imports {target} ({layer(target)})"
        for module in MODULES.values()
        for target in sorted(module.own | module.own_late)
        if layer(target) != layer(module.name) and layer(target) not in ALLOWED.get(layer(module.name), set())
    ]
    assert wrong == []


def test_there_are_no_cycles() -> None:
    """No module imports itself by way of others, not even late."""
    done: set[str] = set()

    def visit(name: str, trail: tuple[str, ...]) -> None:
        assert name not in trail, " → ".join([*trail[trail.index(name) :], name])
        if name in done:
            return
        for target in sorted(MODULES[name].own | MODULES[name].own_late):
            visit(target, (*trail, name))
        done.add(name)

    for name in MODULES:
        visit(name, ())


@pytest.mark.parametrize("library", ONLY)
def test_each_library_has_its_place(library: str) -> None:
    """A library behind a boundary is imported there and nowhere else."""
    users = [m.name for m in MODULES.values() if library in m.others | m.others_late]
    assert [name for name in users if not name.startswith(ONLY[library])] == []


FRAMEWORKS = {"tensorflow", "keras", "torch", "jax", "numpy"}
PRIVATE = {"_sha2", "_sha256", "_envbuild"}
"""C modules of the standard library of some versions, and the runtime's own name in an image."""
PROBE = {"runtime.guard.gpu": {"pynvml"}}
"""What a module may import late in a process of its own, where it is installed."""


def test_the_runtime_needs_only_the_standard_library() -> None:
    """What runs in an image imports nothing but the standard library; frameworks only late, once they are loaded."""
    for module in MODULES.values():
        if layer(module.name) != "runtime":
            continue
        assert module.others <= sys.stdlib_module_names | PRIVATE, module.name
        late = module.others_late - sys.stdlib_module_names - PRIVATE - PROBE.get(module.name, set())
        assert not late or module.name.startswith("runtime.hook.frameworks."), module.name
        assert late <= FRAMEWORKS, module.name


@pytest.mark.parametrize("name", ["image.wheel", "image.compile", "engine.namespace_step"])
def test_what_the_dockerfile_runs_needs_only_the_standard_library(name: str) -> None:
    """These files also run as plain scripts, inside a build container or in namespaces."""
    module = MODULES[name]
    assert module.own | module.own_late == set()
    assert module.others | module.others_late <= sys.stdlib_module_names


def test_help_loads_nothing_heavy() -> None:
    """``envbuild --help`` stays quick: the command line imports stages and big libraries only when it runs them."""
    pending, seen, libraries = ["cli.app"], set(), set()
    while pending:
        name = pending.pop()
        if name in seen:
            continue
        seen.add(name)
        libraries |= MODULES[name].others - sys.stdlib_module_names
        pending += MODULES[name].own
    assert libraries <= {"typer"}
    assert {layer(name) for name in seen} <= {"values", "wiring"}


def test_the_test_reads_the_graph() -> None:
    """The graph is not empty: known arrows are in it, late and relative ones too."""
    assert "errors" in MODULES["lock"].own
    assert "yaml" in MODULES["spec_yaml"].others_late
    assert MODULES["runtime.guard.checks"].own
    assert layer("engine.protocol") == "protocol"
