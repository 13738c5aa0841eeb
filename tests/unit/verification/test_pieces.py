"""Pieces of a stream that a program uses as they come: where one ends depends on when it is read."""

from __future__ import annotations

import ast

import pytest

from envbuild.verification.causes.pieces import short_messages, used_in_pieces

LOOP = "while chunk := r.recv(4096):\n"
SPLIT = "    lines = (rest + chunk).split(b'\\n')\n    rest = lines.pop()\n"


@pytest.mark.parametrize(
    ("source", "lines"),
    [
        (LOOP + "    for line in chunk.decode().splitlines():\n        use(line)\n", [1]),
        ("found = json.loads(s.recv(65536))\n", [1]),
        ("data = os.read(fd, 1024)\nuse(data)\n", [1]),
        ("text = s.recv(64).decode()\n", [1]),
        ("async def f():\n    data = await loop.run(s.recv(64))\n", [2]),
        (
            LOOP + "    *lines, rest = (rest + chunk).split(b'\\n')\n    means.append(mean(float(v) for v in lines))\n",
            [1],
        ),
        (LOOP + "    *lines, rest = (rest + chunk).split(b'\\n')\n    w = step(w, lines)\n", [1]),
        (LOOP + SPLIT + "    views = [line.decode() for line in lines]\n", [1]),
        (LOOP + SPLIT + "    for line in lines:\n        use(line)\n", []),
        (LOOP + SPLIT + "    rows.extend(lines)\n", []),
        (LOOP + "    *lines, rest = (rest + chunk).split(b'\\n')\n    for line in lines:\n        use(line)\n", []),
        (LOOP + "    *lines, rest = (rest + chunk).split(b'\\n')\n    rows.extend(map(float, lines))\n", []),
        (LOOP + "    *lines, rest = (rest + chunk).split(b'\\n')\n    rows += [float(v) for v in lines]\n", []),
        (LOOP + "    *lines, rest = (rest + chunk).split(b'\\n')\n    rows.extend(lines)\n", []),
        # put together, passed on, or nothing but counted
        (LOOP + "    buffer += chunk\n    use(buffer)\n", []),
        ("while True:\n    chunk = s.recv(9)\n    if not chunk:\n        break\n    parts.append(chunk)\n", []),
        ("data = b''\nwhile len(data) < 8:\n    data += s.recv(8 - len(data))\n", []),
        ("def read(n):\n    chunk = s.recv(n)\n    return chunk\n", []),
        ("digest.update(s.recv(9))\n", []),
        ("(value,) = struct.unpack('d', os.read(fd, 8))\n", []),
        # a whole object, a byte, a datagram
        ("found = connection.recv()\nuse(found)\n", []),
        ("os.read(fd, 1)\n", []),
        ("data, address = s.recvfrom(2048)\nuse(data)\n", []),
    ],
)
def test_pieces_that_are_used_by_themselves(source: str, lines: list[int]) -> None:
    """Not those that are put behind what came before."""
    assert [*used_in_pieces(ast.parse(source))] == lines


@pytest.mark.parametrize(
    ("source", "lines"),
    [
        ("text = s.recv(64).decode()\n", [1]),
        ("while True:\n    conn, _ = s.accept()\n    text = conn.recv(64).decode()\n", [3]),
        ("while True:\n    use(conn.recv(64))\n", []),
        ("text = s.recv(65536).decode()\n", []),
        ("text = s.recv(n).decode()\n", []),
    ],
)
def test_the_short_message_of_a_connection(source: str, lines: list[int]) -> None:
    """It is sent at once; what comes again and again over one connection is a stream."""
    assert sorted(short_messages(ast.parse(source))) == lines


def test_datagrams_come_as_a_whole() -> None:
    source = "s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)\nwhile True:\n    use(s.recv(512))\n"
    assert [*used_in_pieces(ast.parse(source))] == []
    assert [*used_in_pieces(ast.parse(source.replace("SOCK_DGRAM", "SOCK_STREAM")))] == [3]
