"""Where podman's Docker-compatible API is not Docker's. Its name (``Libpod/4.3.1``) shows it.

- A container that removes itself answers the wait for its removal with exit code 0, whatever the program's was.
  Podman's own API is asked for the code; the request is sent before the start, since a removed container has none.
- Layers an archive lacks are not taken from the store: all are sent.
- Each container gets the variables ``TERM`` and ``container``, which a build step must not see.
- Once its container is gone nothing shows whether a program ran out of memory: it is not reported.

Seen with podman 4.3 (Debian 12). Podman's own API: https://docs.podman.io/en/v4.3/_static/api.html
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from envbuild.engine.docker.http import ApiError, EngineClient, PendingAnswer, engine_refused

_EXITED = (("condition", "exited"), ("condition", "stopped"), ("interval", "20ms"))
CLEAN = ("/bin/sh", "-c", 'unset TERM container; exec "$@"', "sh")
"""What a build step's command is started through."""


@contextmanager
def exit_code_asked(client: EngineClient, identity: str) -> Iterator[PendingAnswer]:
    """Ask podman for the exit code of a container that is created and attached to, but not started."""
    with client.asked("POST", f"/libpod/containers/{identity}/wait", _EXITED) as answer:
        yield answer


def exit_code(answer: PendingAnswer) -> int:
    """Wait for the exit code; raises ``EngineError`` if podman has lost it."""
    try:
        return int(answer.result())
    except ApiError as error:
        raise engine_refused("learn the program's exit code", error.message) from None
