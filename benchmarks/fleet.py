"""A fleet by simulation: how long until all nodes have one changed layer, from one registry or from mirrors of racks.

Each link carries its bytes at a fixed rate, shared equally by what goes over it at that time; requests before the
layer cost a round trip each. Nothing else is modelled: no disks, no losses, no retries. Usage:

    python -m benchmarks.fleet                        # 1,000 nodes, 200 MB
    python -m benchmarks.fleet --nodes 64 --layer 16e6
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from dataclasses import dataclass

REQUESTS = 4
"""Of a node that lacks one layer: manifest, configuration, the layer, and where the registry asks for it a token."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Fleet:
    """Nodes, how many are in a rack, bytes of the layer, bytes a second of links, and seconds of a round trip."""

    nodes: int
    rack: int
    layer: float
    registry: float
    node: float
    trip: float


def shared(starts: list[float], layer: float, source: float, each: float) -> list[float]:
    """Return when each of several downloads ends that share a source's rate equally, none faster than its own link."""
    waiting, left, ends = sorted(starts), [], []  # left: bytes that each of those that have begun still has to get
    now = 0.0
    while waiting or left:
        rate = min(each, source / len(left)) if left else 0.0
        finish = now + min(left) / rate if left else float("inf")
        begin = waiting[0] if waiting else float("inf")
        then = min(finish, begin)
        left = [rest - rate * (then - now) for rest in left]
        now = then
        if begin <= finish:
            waiting.pop(0)
            left.append(layer)
        else:
            done = [rest for rest in left if rest <= layer * 1e-9]
            ends += [now] * len(done)
            left = [rest for rest in left if rest > layer * 1e-9]
    return ends


def rows(fleet: Fleet) -> Iterator[tuple[str, float, float]]:
    """Yield a way, the bytes that leave the registry, and the seconds until the last node has the layer."""
    starts = [REQUESTS * fleet.trip] * fleet.nodes
    yield "one registry", fleet.nodes * fleet.layer, max(shared(starts, fleet.layer, fleet.registry, fleet.node))
    racks = -(-fleet.nodes // fleet.rack)
    filled = shared([REQUESTS * fleet.trip] * racks, fleet.layer, fleet.registry, fleet.node)
    last = max(
        max(shared([max(there, start) for start in starts[: fleet.rack]], fleet.layer, fleet.node, fleet.node))
        for there in filled
    )
    yield f"a mirror in each rack of {fleet.rack}, filled first", racks * fleet.layer, last
    yield (
        "one store on a file system that all share",
        fleet.layer,
        max(shared([REQUESTS * fleet.trip], fleet.layer, fleet.registry, fleet.node)),
    )


def main() -> None:
    """Print a table."""
    parser = argparse.ArgumentParser(description="until all nodes of a fleet have one changed layer")
    for name, value, text in (
        ("nodes", 1000, "number"),
        ("rack", 40, "nodes of a rack"),
        ("layer", 200e6, "bytes of the layer"),
        ("registry", 1.25e9, "bytes a second that leave the registry"),
        ("node", 1.25e9, "bytes a second of a node's link"),
        ("trip", 0.001, "seconds of a round trip"),
    ):
        parser.add_argument(f"--{name}", type=type(value), default=value, help=f"{text} ({value:g})")
    fleet = Fleet(**vars(parser.parse_args()))
    print("| way | bytes from the registry | until the last node has the layer |\n| --- | --- | --- |")
    for way, sent, seconds in rows(fleet):
        print(f"| {way} | {sent / 1e9:.1f} GB | {seconds:.1f} s |")


if __name__ == "__main__":
    main()
