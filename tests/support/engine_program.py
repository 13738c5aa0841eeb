"""Programs that tests start as processes of their own: ``run JSON`` and ``step JSON``.

The JSON holds the fields of ``ContainerRun`` (mounts as pairs) or of ``Step``.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from envbuild.engine.docker import connect
from envbuild.engine.protocol import ContainerRun, Mount, Step


def main() -> int:
    """Do what the arguments say."""
    verb, fields = sys.argv[1], json.loads(sys.argv[2])
    fields["command"] = tuple(fields["command"])
    if verb == "run":
        fields["mounts"] = tuple(Mount(source=Path(s), target=t) for s, t in fields.get("mounts", ()))
        code = connect().run_container(ContainerRun(**fields))
        if code.out_of_memory:
            print("out of memory", file=sys.stderr)
        return code
    with connect().run_step(Step(**{**fields, "base": Path(fields["base"])})) as stream:
        while stream.read(1 << 20):
            pass
    return 0


if __name__ == "__main__":
    sys.exit(main())
