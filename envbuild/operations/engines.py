"""Which engine a command uses: the one that is asked for, else the local one if it works, else a container engine."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Literal, cast

from envbuild.core.settings import origin, setting
from envbuild.errors import EngineError, UsageError
from envbuild.store.objects import Store, StoreRefusedError

if TYPE_CHECKING:
    from envbuild.engine.docker.adapter import DockerEngine
    from envbuild.engine.local.engine import LocalEngine
    from envbuild.engine.local.trees import Trees
    from envbuild.engine.protocol import Engine, StepRunner
    from envbuild.operations.events import Events

Kind = Literal["auto", "local", "docker", "podman"]
_KINDS = ("auto", "local", "docker", "podman")
_ADDRESSES = ("DOCKER_HOST", "CONTAINER_HOST", "DOCKER_CONTEXT")
"""Variables that name a container engine: who sets one wants it."""


def chosen_kind(environment: Mapping[str, str] | None = None) -> Kind:
    """Return what ``ENVBUILD_ENGINE`` asks for; ``auto`` without it.

    Raises:
        UsageError: it names no kind of engine.
    """
    variables = os.environ if environment is None else environment
    kind = setting("engine", variables) or "auto"
    if kind not in _KINDS:
        where, attempt = origin("engine", variables)
        raise UsageError(f"{where} is {kind!r}; expected {', '.join(_KINDS)}", attempt)
    if kind == "auto" and any(variables.get(name) for name in _ADDRESSES):
        return "docker" if variables.get("DOCKER_HOST") or variables.get("DOCKER_CONTEXT") else "podman"
    return cast(Kind, kind)


def connect(store: Store | None = None) -> Engine:
    """Find the engine to use.

    Args:
        store: where the local engine keeps layers; the default one.

    Raises:
        UsageError: ``ENVBUILD_ENGINE`` names no kind of engine; or the local one may not write the store, and no other
            answers.
        EngineError: the one that was asked for does not work; or none does, and the message has a reason for each.
    """
    kind = chosen_kind()
    if kind in ("docker", "podman"):
        return connect_container_engine()
    try:
        engine = local_engine(store)
        why = engine.reason_against()
    except StoreRefusedError as refused:  # a container engine may hold the image, and writes nothing there
        if kind == "local":
            raise
        try:
            return connect_container_engine()
        except EngineError:
            raise refused from None
    if why is None:
        return engine
    if kind == "local":
        raise EngineError(f"the local engine does not work here: {why[0]}", why[1])
    try:
        return connect_container_engine()
    except EngineError as error:
        raise EngineError(f"the local engine does not work here: {why[0]}\n{error.message}", why[1]) from None


def connect_container_engine() -> DockerEngine:
    """Find Docker or podman; raises ``EngineError`` if none answers."""
    from envbuild.engine.docker.adapter import connect

    return connect()


def local_engine(store: Store | None = None) -> LocalEngine:
    """Return the local engine, whether it works here or not."""
    from envbuild.core.fs import boot_id
    from envbuild.engine.local.engine import LocalEngine

    return LocalEngine(store or Store(), boot_id())


def layer_trees(store: Store) -> Trees:
    """Return a store's layers that are unpacked for the local engine."""
    from envbuild.core.fs import boot_id
    from envbuild.engine.local.engine import trees_of

    return trees_of(store, boot_id())


def is_local(engine: Engine | None) -> bool:
    """Whether an engine takes layers as trees."""
    from envbuild.engine.local.engine import LocalEngine

    return isinstance(engine, LocalEngine)


def note_way(engine: Engine | None, events: Events, *, differs: bool = False) -> None:
    """Report it if the local engine runs programs in another way than usual, and why.

    Args:
        differs: leave out what programs do not see.
    """
    from envbuild.engine.local.engine import LocalEngine

    if isinstance(engine, LocalEngine) and (text := engine.way().note(differs=differs)):
        from envbuild.operations.events import Note

        events.report(Note(text=text))


def step_runner(engine: Engine | None, store: Store) -> StepRunner:
    """Find what runs build steps; the image is the same whatever runs them.

    A user without lent identities cannot make an OS layer in namespaces: a container engine does it, if one answers.

    Args:
        engine: what the command uses; None if it needs none but for build steps.
        store: root file systems are there while their step runs in namespaces.

    Raises:
        UsageError, EngineError: as for ``connect``.
    """
    from envbuild.engine.local.engine import LocalEngine

    kind = chosen_kind()
    if engine is None and kind in ("docker", "podman"):
        return connect_container_engine()
    if engine is not None and not isinstance(engine, LocalEngine):
        return engine
    local = engine or local_engine(store)
    if kind == "local" or (local.reason_against() is None and local.makes_owners()):
        return local
    try:
        return connect_container_engine()
    except EngineError:
        return local


def remove_changed_layers(engine: Engine, reference: str, events: Events) -> None:
    """Remove what somebody has changed of an image in the store, so that it is made again: a run would use it as it is.

    Raises:
        IntegrityError: it cannot be removed.
    """
    from envbuild.engine.local.engine import LocalEngine
    from envbuild.operations.events import Note

    if isinstance(engine, LocalEngine):
        for digest in engine.remove_changed(reference):
            text = f"the layer {digest[:12]}… in the store was changed after it was made; it is made again"
            events.report(Note(text=text))
