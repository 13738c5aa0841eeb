"""Whose a container is: its label has the mark of the process that made it.

A command that is killed leaves its containers behind. Nobody but the kernel knows that it is gone.
"""

from __future__ import annotations

import json
from contextlib import suppress

from envbuild.core.process_mark import lives
from envbuild.engine.docker.http import ApiError, EngineClient
from envbuild.errors import EngineError

LABEL = "envbuild.owner"


def remove_dead(client: EngineClient) -> None:
    """Remove the containers of processes that are gone: those of a command that was killed."""
    with suppress(ApiError, EngineError):
        query = {"all": 1, "filters": json.dumps({"label": [LABEL]})}
        for container in client.call("GET", "/containers/json", query) or ():
            if lives(str((container.get("Labels") or {}).get(LABEL, ""))) is False:
                with suppress(ApiError):
                    client.call("DELETE", f"/containers/{container['Id']}", {"force": 1, "v": 1})
