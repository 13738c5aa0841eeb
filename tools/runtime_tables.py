"""The hook's tables as modules, generated: a module loads faster than a data file, and ships with the hook.

python -m tools.runtime_tables switches > envbuild/runtime/hook/table_switches.py
python -m tools.runtime_tables operations > envbuild/runtime/hook/table_operations.py
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence

from envbuild.determinism import operations as nondeterministic
from envbuild.determinism.operations import Operation
from envbuild.determinism.policy import table

_SWITCHES = '''\
"""The switches to set, by framework. Generated from envbuild/data/determinism.toml:

python -m tools.runtime_tables switches > envbuild/runtime/hook/table_switches.py
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    Row = tuple[str, str, str, bool | str, str]

# fmt: off
SWITCHES: dict[str, tuple[Row, ...]] = {
'''
_OPERATIONS = '''\
"""The operations that a framework may refuse. Generated from envbuild/data/nondeterministic.toml:

python -m tools.runtime_tables operations > envbuild/runtime/hook/table_operations.py
"""

from __future__ import annotations

# fmt: off
OPERATIONS: tuple[tuple[str, tuple[str, ...], str, str, tuple[str, ...]], ...] = (
'''


def switches() -> str:
    """Return the module of the switches."""
    frameworks: dict[str, list[str]] = {}
    for row in table().switch:
        cells = (row.name, row.versions, row.level, row.value, row.variable)
        frameworks.setdefault(row.framework, []).append(f"        ({', '.join(map(_literal, cells))}),\n")
    body = "".join(f"    {_literal(name)}: (\n{''.join(rows)}    ),\n" for name, rows in frameworks.items())
    return f'{_SWITCHES}{body}}}\n"""Name, versions, level, value and variable of each, in the order to set them."""\n'


def operations() -> str:
    """Return the module of the operations that are refused with an error that names them."""
    body = "".join(_operation(row) for row in nondeterministic.table() if row.errors)
    return f'{_OPERATIONS}{body})\n"""Framework, names in its error, name for people, why, and ways out of each."""\n'


def _operation(row: Operation) -> str:
    lines = [f"{_literal(row.framework)},", *_tuple(row.errors), *_text(row.name), *_text(row.why), *_tuple(row.ways)]
    return "    (\n" + "".join(f"        {line}\n" for line in lines) + "    ),\n"


def _tuple(values: Sequence[str]) -> Iterable[str]:
    return ["(", *(f"    {line}" for value in values for line in _text(value)), "),"]


def _text(value: str) -> Iterable[str]:
    """Return the lines of a literal, none of them too long for the linter."""
    if len(value) <= 96:
        return [f"{_literal(value)},"]
    parts = [value[index : index + 96] for index in range(0, len(value), 96)]
    return ["(", *(f"    {_literal(part)}" for part in parts), "),"]


def _literal(value: object) -> str:
    """Return a Python literal; a text in double quotes."""
    if not isinstance(value, str):
        return repr(value)
    escaped = value.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


if __name__ == "__main__":
    sys.stdout.write({"switches": switches, "operations": operations}[sys.argv[1]]())
