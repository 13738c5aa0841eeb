"""Ray: its workers are started by raylet, ahead of time, and which of them takes a task is a race.

So numbers belong to tasks (tasks.py), whichever worker takes them. A task's place is its identity, which Ray derives
from that of the task that handed it in and its number there: the same in each run, unless an actor handed it in. An
actor's own identity has the time in it; its place is that of the process or task that made it with the number of the
call, left in Ray's key-value store, and its generators go on from one method to the next.

Source: ray/_private/function_manager.py and ray/actor.py of Ray 2.58; TaskID::ForNormalTask and ActorID::Of in
src/ray/common/id.cc.
"""

from __future__ import annotations

import sys
import time

from ..tasks import Call
from .for_pools import ORDER, named, replace

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ..process import Process

_STORE = "ray.experimental.internal_kv"
_NAMESPACE = "envbuild"
_PATIENCE = 5.0
"""Seconds to wait for an actor's place, which its maker leaves right after it asked for the actor."""


def set_up_functions(module: Any, process: Process) -> None:
    """Have each function that a worker looks up seed all generators before it begins, and each actor's constructor."""
    manager = module.FunctionActorManager
    look_up = manager.get_execution_info

    def looked_up(self: Any, *arguments: Any, **options: Any) -> Any:
        info = look_up(self, *arguments, **options)
        descriptor = options.get("function_descriptor") or arguments[-1]
        if descriptor.is_actor_method() and info.function_name != "__init__":
            return info
        place = _place_of_actor if descriptor.is_actor_method() else _place_of_task
        return info._replace(function=_seeded(info.function, place, process))

    replace(manager, "get_execution_info", look_up, looked_up)


def set_up_actors(module: Any, process: Process) -> None:
    """Leave each actor's place in Ray's key-value store."""
    make = module.ActorClass._remote

    def made(self: Any, *arguments: Any, **options: Any) -> Any:
        call = Call(process)
        actor = make(self, *arguments, **options)
        process.guarded("ray", lambda: _leave(actor, call.place), vital=False)
        return actor

    replace(module.ActorClass, "_remote", make, made)


def set_up_wait(module: Any, _: Process) -> None:
    """In an experiment with tasks in order, have results come in the order in which they were asked for."""
    if ORDER in sys.modules:
        sys.modules[ORDER].ray(module)


def _seeded(function: Any, place: Any, process: Process) -> Any:
    def seeded(*arguments: Any, **options: Any) -> Any:
        process.guarded("ray", lambda: _enter(process, place()), vital=False)
        return function(*arguments, **options)

    return named(function, seeded)


def _enter(process: Process, place: str) -> None:
    if place:
        process.enter_task(place, {})


def _place_of_task() -> str:
    identity = sys.modules["ray"].get_runtime_context().get_task_id()
    return f"ray task {identity}" if identity else ""


def _place_of_actor() -> str:
    """Return the place that the actor's maker left; empty, and the process keeps its own, where there is none."""
    get = sys.modules[_STORE]._internal_kv_get
    identity = sys.modules["ray"].get_runtime_context().get_actor_id()
    ends = time.monotonic() + _PATIENCE
    while identity:
        place = get(identity, namespace=_NAMESPACE)
        if place:
            return f"{place.decode()}/actor"
        if time.monotonic() > ends:
            break
        time.sleep(0.01)
    return ""


def _leave(actor: Any, place: str) -> None:
    identity = getattr(actor, "_actor_id", None)  # an actor of Ray's client has none: it lives on another machine
    if identity is not None:
        sys.modules[_STORE]._internal_kv_put(identity.hex(), place, overwrite=False, namespace=_NAMESPACE)
