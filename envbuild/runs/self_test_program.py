"""What ``envbuild verify --self-test CHANNEL`` runs in the image: in every run but the first one bit is another one.

The channel is the first argument; ``none`` plants nothing. A run knows that it is not the first by ``ENVBUILD_VARY``,
which begins with its number.
"""

from __future__ import annotations

import array
import hashlib
import json
import os
import struct
import subprocess
import sys
from pathlib import Path

CHILD = "import sys; open('self-test-worker.bin', 'wb').write(bytes([64 ^ int(sys.argv[1])]) * 512)"


def planted(channel: str) -> int:
    """Return 1 in a run in which this channel's bit is to be another one, else 0."""
    return int(sys.argv[1] == channel and os.environ.get("ENVBUILD_VARY", "0").partition(":")[0] != "0")


def floats(bit: int) -> array.array[float]:
    """Return four floats; a bit changes the last place of one."""
    values = array.array("f", [0.5, 0.25, 0.125, 0.0625])
    number = struct.unpack("<I", struct.pack("<f", values[2]))[0] ^ bit
    values[2] = struct.unpack("<f", struct.pack("<I", number))[0]
    return values


def flipped(channel: str) -> bytes:
    """Return bytes of which one bit may be another one."""
    data = bytearray(4096)
    data[2048] ^= planted(channel)
    return bytes(data)


def tensors(path: Path) -> None:
    """Write a model in the format safetensors."""
    header = json.dumps({"w": {"dtype": "F32", "shape": [4], "data_offsets": [0, 16]}}).encode()
    header += b" " * (-len(header) % 8)
    path.write_bytes(struct.pack("<Q", len(header)) + header + floats(planted("tensor")).tobytes())


def trace() -> None:
    """Leave a step trace of three steps, as the hook does for frameworks."""
    sys.path.insert(0, "/opt/envbuild/lib")
    from _envbuild.hook.trace_file import Writer, step_body  # type: ignore[import-not-found]

    writer = Writer("/run/envbuild/trace-self-test.bin")
    writer.frame(b"H", json.dumps({"format": 1, "process": "", "pid": 1, "python": "3", "interval": 1}).encode())
    group = {"group": 0, "source": "program", "label": "step", "tensors": [["w", "float32", [4]]]}
    writer.frame(b"G", json.dumps(group).encode())
    for step in range(1, 4):
        data = floats(planted("trace") if step > 1 else 0).tobytes()
        digest = int.from_bytes(hashlib.sha256(data).digest()[:8], "little")
        body = step_body(
            group=0, step=step, covers=1, epoch=1, place=step, observed={}, batch=None, digests=[digest], figures=None
        )
        writer.frame(b"S", *body)
    writer.frame(b"E")


def main() -> None:
    """Leave a result in each channel."""
    Path("self-test.bin").write_bytes(flipped("file"))
    tensors(Path("self-test.safetensors"))
    Path("/tmp/self-test.bin").write_bytes(flipped("outside"))  # noqa: S108 - in a container of its own
    trace()
    subprocess.run([sys.executable, "-c", CHILD, str(planted("worker"))], check=True)
    print(f"accuracy {7062 ^ planted('stdout')}")
    print(f"loss {3118 ^ planted('stderr')}", file=sys.stderr)


if __name__ == "__main__":
    main()
