"""What a careless builder would let into an image: everything that the variations change, put into it on purpose.

With ``--leak`` the matrix must find every variation: one that it does not find does not reach what it means to change.
"""

from __future__ import annotations

import json
import os
import socket
import sys
import tarfile
import tempfile
import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from tests.reproducibility.variations import VARIATIONS

_LOOK = "date +%Y; uname -r; ls -U /usr; nproc"
_PREFIX = "leak."


def install() -> None:
    """Make images carry what this process and a build container see, one label for each thing."""
    from envbuild.image.oci import layout
    from envbuild.image.plan.model import Plan

    original = layout.image
    place = Path(os.environ["ENVBUILD_STORE"]).with_name("leaks.json")

    def image(plan: Plan, layers: Any) -> Any:
        kinds = [layer.kind for layer in plan.layers]
        if "os" not in kinds:  # the lower layers alone, which go to the engine while the others are made
            return original(plan, layers)
        if not place.exists():  # the image is written out a second time, to be explained
            system = layers[kinds.index("os")]
            place.write_text(json.dumps({f"{_PREFIX}{name}": value for name, value in _seen(system.path).items()}))
        known = json.loads(place.read_text())
        config = {**plan.config, "Labels": {**plan.config["Labels"], **known}}
        return original(replace(plan, config=config), layers)

    layout.image = image


def _seen(os_layer: Path) -> Mapping[str, str]:
    inside = _container(os_layer)
    mask = os.umask(0o022)
    os.umask(mask)
    variables = {name for row in VARIATIONS for name in row.environ}
    environ = {name: os.environ.get(name, "") for name in sorted(variables)}
    cell = Path(os.environ["ENVBUILD_STORE"]).parent
    return {
        "clock": json.dumps([time.gmtime().tm_year, inside["year"]]),
        "zone": time.strftime("%Z", time.localtime(0)),
        "locale": json.dumps([environ["LANG"], environ["LC_ALL"]]),
        "umask": f"{mask:03o}",
        "host": socket.gethostname(),
        "kernel": json.dumps([os.uname().release, inside["kernel"]]),
        "user": str(os.getuid()),
        "home": str(Path.home()).replace(str(cell), "(cell)"),
        "path": str(len(Path.cwd().parts)),
        "order": json.dumps([[path.name for path in Path("/usr").iterdir()], inside["order"]]),
        "cpus": json.dumps([len(os.sched_getaffinity(0)), inside["cpus"]]),
        "store": (cell / "held").read_text(),
        "downloads": str(getattr(sys.modules.get("envbuild.store.fetch"), "backwards", False)),
        "temporary": tempfile.gettempdir().replace(str(cell), "(cell)"),
        "python": json.dumps([sys.flags.optimize, sys.flags.hash_randomization, environ["PYTHONHASHSEED"]]),
        "tools": json.dumps([environ["SOURCE_DATE_EPOCH"], environ["DPKG_FORCE"]]),
    }


def _container(os_layer: Path) -> dict[str, Any]:
    """Look around in a build container."""
    from envbuild.engine.docker.adapter import connect
    from envbuild.engine.local.namespaces import NamespaceSteps
    from envbuild.engine.protocol import Step

    step = Step(
        base=os_layer,
        base_key=f"leak-{os_layer.stat().st_size}",
        command=("/bin/sh", "-c", f"({_LOOK}) >/tmp/seen"),
        environment={"PATH": "/usr/bin:/bin"},
        result="/tmp/seen",
    )
    engine = os.environ.get("ENVBUILD_ENGINE") != "local"
    runner = connect() if engine else NamespaceSteps(Path(os.environ["ENVBUILD_STORE"]).with_name("leak-steps"))
    with runner.run_step(step) as stream, tarfile.open(fileobj=stream, mode="r|") as archive:
        member = archive.next()
        content = archive.extractfile(member) if member is not None else None
        assert content is not None
        year, kernel, *order, cpus = content.read().decode().splitlines()
    return {"year": year, "kernel": kernel, "order": order, "cpus": cpus}
