"""Widgets of notebooks: ipywidgets draws a UUID for each model, by which cells and models name it.

A notebook's cell names the model that it shows (``model_id``). The notebook's metadata may have the state of all models
by their names, in the order of these, and a model names others in its state (``IPY_MODEL_250b64b9…``).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any

from envbuild.core.patterns import lazy
from envbuild.verification.content.json_texts import parsed

_VIEW, _STATE = "application/vnd.jupyter.widget-view+json", "application/vnd.jupyter.widget-state+json"
_NAME = lazy(r"[0-9a-f]{12}4[0-9a-f]{3}[89ab][0-9a-f]{15}")
"""As ``uuid4().hex`` gives it; what else a program calls a model counts."""
_REFERENCE = "IPY_MODEL_"
_NUMBERED = lazy(r"⟨name (\d{1,9})⟩", re.ASCII)


def names_of_models(text: str) -> tuple[str, ...]:
    """Return the drawn names of a notebook's models: as cells show them, as these refer to others, then the rest."""
    if _VIEW not in text:
        return ()
    notebook = parsed(text)
    if not isinstance(notebook, dict):
        return ()
    states = _states(notebook)
    found: dict[str, None] = {}
    _follow(found, (name for name in _shown(notebook) if _NAME.fullmatch(name)), states)
    alone = [name for name in states if name not in found and _NAME.fullmatch(name)]
    _follow(found, sorted(alone, key=lambda name: _NAME.sub("", repr(states[name]))), states)
    return tuple(found)


def _follow(found: dict[str, None], names: Iterable[str], states: dict[str, Any]) -> None:
    """Add names, and those of the models to which these refer in their states."""
    waiting = list(names)
    for name in waiting:  # grows
        if name not in found:
            found[name] = None
            waiting += _references(states.get(name))


def in_order(notebook: dict[str, Any]) -> None:
    """Put the models' states into the order of their numbers, once their names are replaced by these."""
    states = _states(notebook)
    numbers = {name: int(found[1]) for name in states if (found := _NUMBERED.fullmatch(name)) is not None}
    ordered = {name: states[name] for name in sorted(states, key=lambda name: numbers.get(name, 0))}
    states.clear()
    states.update(ordered)


def _states(notebook: dict[str, Any]) -> dict[str, Any]:
    table: Any = notebook
    for key in ("metadata", "widgets", _STATE, "state"):
        table = table.get(key) if isinstance(table, dict) else None
    return table if isinstance(table, dict) else {}


def _shown(notebook: dict[str, Any]) -> Iterator[str]:
    """Yield the names of the models that cells show, in order."""
    for cell in _list(notebook.get("cells")):
        for output in _list(cell.get("outputs") if isinstance(cell, dict) else None):
            data = output.get("data") if isinstance(output, dict) else None
            view = data.get(_VIEW) if isinstance(data, dict) else None
            if isinstance(view, dict) and isinstance(view.get("model_id"), str):
                yield view["model_id"]


def _references(value: Any) -> Iterator[str]:
    """Yield the names of other models in a model's state, in order."""
    if isinstance(value, str):
        name = value.removeprefix(_REFERENCE)
        if name != value and _NAME.fullmatch(name):
            yield name
    elif isinstance(value, dict | list):
        for each in value.values() if isinstance(value, dict) else value:
            yield from _references(each)


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []
