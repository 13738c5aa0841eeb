"""Programs that tests start as processes of their own: ``run JSON``, ``step JSON`` and ``deliver JSON``.

The JSON holds the fields of ``ContainerRun`` (mounts as pairs) or of ``Step``; or ``layers``, the tars of an image, its
``tag``, ``counts`` (the parts that go ahead), ``hang``, to wait for a signal after those, and ``alter``, to change a
byte of the lowest layer after its digest was taken. From that wait on, and after its end, a child keeps its registry's
port open until standard input ends: concurrent deliveries take what nobody listens for as left behind.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from envbuild.core.progress import Silent
from envbuild.engine.protocol import ContainerRun, Mount, Parcel, Step
from envbuild.errors import EngineError
from envbuild.operations.engines import connect
from tests.support.parcels import parts


def main() -> int:
    """Do what the arguments name."""
    verb, fields = sys.argv[1], json.loads(sys.argv[2])
    if "command" in fields:
        fields["command"] = tuple(fields["command"])
    if verb == "run":
        fields["mounts"] = tuple(Mount(source=Path(s), target=t) for s, t in fields.get("mounts", ()))
        code = connect().run_container(ContainerRun(**fields))
        if code.out_of_memory:
            print("out of memory", file=sys.stderr)
        return code
    if verb == "deliver":
        return deliver(**fields)
    with connect().run_step(Step(**{**fields, "base": Path(fields["base"])})) as stream:
        while stream.read(1 << 20):
            pass
    return 0


def deliver(layers: list[str], tag: str, counts: list[int], hang: bool, alter: bool) -> int:
    """Deliver an image, and print how, or what the engine reported against it."""
    ready = list(parts([Path(layer) for layer in layers], tag, counts))
    if alter:
        data = bytearray(Path(layers[0]).read_bytes())
        data[600] ^= 1
        Path(layers[0]).write_bytes(data)

    def parcels() -> Iterator[Parcel]:
        for number, found in enumerate(ready):
            if hang and number == len(counts):
                if os.fork() == 0:
                    os.read(0, 1)
                    os._exit(0)
                print("waiting", flush=True)
                for _ in range(12_000):  # no long sleep: a signal just before its system call is heard after it
                    time.sleep(0.05)
            yield found

    try:
        delivered = connect().deliver(parcels(), tag, Silent())
        print(json.dumps({"how": delivered.how, "sent": sorted(delivered.sent), "why": delivered.why}))
    except EngineError as error:
        print(json.dumps({"error": error.message}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
