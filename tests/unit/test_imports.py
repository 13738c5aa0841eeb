"""The import graph is the architecture: arrows point one way, and each third-party library has its place.

Imports inside functions count like those at the top, unless a test excludes them: a late import is still an arrow.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2] / "envbuild"

RULES: dict[str, str] = {
    "errors": "",
    "runtime": "",
    "core": "errors runtime",
    "lockfile": "core errors",
    "host": "core errors lockfile runtime",
    "cluster": "core errors host",
    "engine": "core errors",
    "engine.docker": "core errors engine",
    "engine.local": "core errors engine runtime",
    "net": "core errors",
    "trace": "core errors",
    "signing": "core errors",
    "spec": "core errors lockfile",
    "record": "cluster core errors host lockfile runtime",
    "store": "core errors lockfile net",
    "inputs": "core errors lockfile",
    "registry": "core errors net",
    "sbom": "core lockfile",
    "determinism": "core errors lockfile",
    "image.tar": "core errors lockfile",
    "image.os": "core engine errors image.tar lockfile",
    "image.python": "core errors image.tar lockfile",
    "image.cpython": "core errors image.tar lockfile",
    "image.bytecode": "core engine errors image.os image.python image.tar lockfile",
    "image.runtime": "core errors lockfile runtime",
    "image.plan": "core errors image.bytecode image.os image.runtime image.tar lockfile",
    "image.oci": "core engine errors image.plan image.tar lockfile",
    "image": "core engine errors lockfile image.bytecode image.cpython image.oci image.os image.plan image.python "
    "image.runtime image.tar",
    "sources": "core engine errors image.python image.tar lockfile",
    "resolve.debian": "core errors lockfile net",
    "resolve.python": "core errors lockfile net",
    "resolve.cuda": "core errors lockfile",
    "resolve.libraries": "core errors lockfile",
    "resolve": "core errors host lockfile spec",
    "runs": "cluster core engine errors host lockfile record runtime",
    "difference": "core host lockfile record runtime",
    "verification.masking": "core lockfile record",
    "verification.dataflow": "core",
    "verification.content": "core record runtime verification.dataflow verification.masking",
    "verification": "core difference errors host lockfile record runtime trace verification.content "
    "verification.masking",
    "verification.measurements": "core record verification verification.dataflow",
    "verification.causes": "core difference lockfile record trace verification.dataflow verification.masking",
    "reports": "core difference errors lockfile record",
    "operations": "*",
    "cli.render": "cluster core difference errors host inputs lockfile operations record runtime signing spec store "
    "trace verification verification.masking",
    "api": "core errors lockfile operations record",
    "cli": "*",
    "__main__": "cli",
}
"""What each package may import besides itself, from the ground up: a rule names only packages above it in this table.

Stages share values and no effects: no stage imports another stage or an adapter. Only the use cases import everything.
Renderers import values and the results of use cases; no console, since they return text.
"""

ONLY: dict[str, str | tuple[str, ...]] = {
    "docker": ("engine.docker.", "registry.credentials"),
    "requests": "engine.docker.",
    "jinja2": ("image.dockerfile", "reports.page", "cluster.batch", "cluster.kubernetes"),
    "markupsafe": "reports.page",
    "pygal": "reports.chart",
    "yaml": ("spec.yaml", "engine.local.descriptions", "cluster.kubernetes"),
    "typer": "cli.",
    "rich": "cli.",
    "pysequoia": "resolve.debian.",
    "debian": "resolve.debian.",
    "uv": "resolve.python.",
    "pynvml": "runtime.guard.gpu",
    "blake3": "inputs.",
    "urllib3": ("net.", "registry.", "resolve."),
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
    """Yield import statements, with whether they are late: made by a function, or for the type checker only."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.Import | ast.ImportFrom):
            yield child, late
        elif isinstance(child, ast.If) and "TYPE_CHECKING" in ast.unparse(child.test):
            yield from _imports(child, True)
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


def package(name: str) -> str:
    """Return the package of a module that has a rule: the longest that fits."""
    while name and name not in RULES:
        name = name.rpartition(".")[0]
    return name


ARROWS = {
    (package(module.name), package(target)): f"{module.name} imports {target}"
    for module in MODULES.values()
    for target in sorted(module.own | module.own_late)
    if package(target) != package(module.name)
}
"""An example of each arrow between packages."""


def test_every_module_has_a_rule() -> None:
    """A new module is put into a package on purpose; the root holds the errors and the Python interface."""
    assert [name for name in MODULES if not package(name)] == []
    assert [name for name in RULES if name not in MODULES] == []


def test_contributing_names_every_package() -> None:
    """A stranger finds where a change belongs: the map in CONTRIBUTING.md has a row for each package."""
    text = (ROOT.parent / "CONTRIBUTING.md").read_text()
    assert [name for name in RULES if "." not in name and name != "__main__" and f"| `{name}" not in text] == []


@pytest.mark.parametrize("name", RULES)
def test_arrows_point_down(name: str) -> None:
    """A package imports what its rule names, and a rule names what is above it in the table; type imports included."""
    above = list(RULES)[: list(RULES).index(name)]
    allowed = set(above) if RULES[name] == "*" else set(RULES[name].split())
    assert allowed <= set(above)
    assert [example for (source, target), example in ARROWS.items() if source == name and target not in allowed] == []


@pytest.mark.parametrize("name", ["operations", "cli.render"])
def test_use_cases_and_renderers_print_nothing(name: str) -> None:
    """Use cases return values and report events, renderers return text; only a command prints or ends the process."""
    effects = {"print", "input", "exit", "sys.stdout", "sys.stderr", "sys.exit", "SystemExit", "os._exit"}
    for module in (module for module in MODULES if package(module) == name):
        nodes = ast.walk(ast.parse(FILES[module].read_text(encoding="utf-8")))
        used = {ast.unparse(node) for node in nodes if isinstance(node, ast.Name | ast.Attribute)}
        assert not used & effects, module
        assert not [each for each in used if each.endswith("Error.exit_code")], module


def test_there_are_no_cycles() -> None:
    """No module imports itself by way of others, not even late or for the type checker."""
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


COMMANDS = ("build", "ci", "lock", "registry", "run", "store", "submit", "trust")
"""Commands that are finished: they parse, call a use case and render its result."""


@pytest.mark.parametrize("name", COMMANDS)
def test_a_command_calls_use_cases_only(name: str) -> None:
    """A command knows no stage: what it does is in ``operations``, what it shows in ``cli.render``."""
    module = MODULES[f"cli.commands.{name}"]
    used = {package(target) for target in module.own | module.own_late}
    assert used <= {"cli", "cli.render", "core", "errors", "operations"}


def test_use_cases_print_nothing() -> None:
    """A use case reports events and returns a result: it writes to no stream and knows no exit code of an error."""
    found = []
    for name, path in FILES.items():
        if package(name) != "operations":
            continue
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            call = ast.unparse(node.func) if isinstance(node, ast.Call) else ""
            text = ast.unparse(node) if isinstance(node, ast.Attribute) else ""
            if call == "print" or text in ("sys.stdout", "sys.stderr") or text.endswith("Error.exit_code"):
                found.append(f"{name}: {call or text}")
    assert found == []


FRAMEWORKS = {"tensorflow", "keras", "torch", "jax", "numpy"}
PRIVATE = {"_sha2", "_sha256", "_envbuild"}
"""C modules of the standard library of some versions, and the runtime's own name in an image."""
PROBE = {"runtime.guard.gpu": {"pynvml"}}
"""What a module may import late in a separate process, where it is installed."""


def test_the_runtime_needs_only_the_standard_library() -> None:
    """What runs in an image imports nothing but the standard library; frameworks only late, once they are loaded."""
    for module in MODULES.values():
        if package(module.name) != "runtime":
            continue
        assert module.others <= sys.stdlib_module_names | PRIVATE, module.name
        late = module.others_late - sys.stdlib_module_names - PRIVATE - PROBE.get(module.name, set())
        assert not late or module.name.startswith("runtime.hook.frameworks."), module.name
        assert late <= FRAMEWORKS, module.name


@pytest.mark.parametrize("name", ["image.python.wheel", "image.bytecode.compile", "engine.local.namespace_step"])
def test_what_the_dockerfile_runs_needs_only_the_standard_library(name: str) -> None:
    """These files also run as plain scripts, inside a build container or in namespaces."""
    module = MODULES[name]
    assert module.own | module.own_late == set()
    assert module.others | module.others_late <= sys.stdlib_module_names


def test_the_process_that_starts_a_program_imports_little() -> None:
    """It runs without site-packages, and every run waits for it: the standard library's fast modules, one of ours."""
    module = MODULES["engine.local.program_process"]
    assert module.own | module.own_late == {"runtime.fastjson"}
    slow = {"contextlib", "enum", "json", "re", "signal", "socket", "subprocess", "typing"}
    assert module.others <= sys.stdlib_module_names - slow
    assert module.others_late <= {"typing"}


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
    assert {package(name) for name in seen} <= {"cli", "core", "errors"}


def test_the_test_reads_the_graph() -> None:
    """The graph is not empty: known arrows are in it, late and relative ones too."""
    assert "errors" in MODULES["lockfile.model"].own
    assert "yaml" in MODULES["spec.yaml"].others_late
    assert MODULES["runtime.guard.checks"].own
    assert ("runs", "engine") in ARROWS
    assert package("engine.docker.run") == "engine.docker"
    assert package("cli.render.lock") == "cli.render"
