"""Queues with one order (envbuild/verification/causes/queues.py)."""

from __future__ import annotations

import ast

import pytest

from envbuild.verification.causes.queues import given_up, has_one_order

_WORKER = "def work(number, out):\n    out.put(number)\n"
_PUTS_ITSELF = "q = Queue()\nq.put(1)\nfor _ in range(3): print(q.get())\n"


def _at(source: str) -> int:
    return 1 + source[: source.index("Queue()")].count("\n")


@pytest.mark.parametrize(
    "source",
    [
        f"{_WORKER}q = Queue()\nProcess(target=work, args=(1, q)).start()\nprint(q.get(timeout=0.3))\n",
        f"{_WORKER}def main():\n    q = Queue()\n    Thread(target=work, args=(1, q)).start()\n    q.get()\n",
        "def take(q): print(q.get())\nq = Queue()\nThread(target=take, args=(q,)).start()\nq.put(1)\n",
        _PUTS_ITSELF,
        "q = Queue()\ndef take():\n    while True: write(q.get())\nThread(target=take).start()\nq.put(1)\n",
        "def main():\n    q = Queue()\n    def give(): q.put(1)\n    Thread(target=give).start()\n    q.get()\n",
    ],
)
def test_one_puts_and_one_takes(source: str) -> None:
    """What is taken comes in the order in which it was put in."""
    assert has_one_order(source, _at(source))


@pytest.mark.parametrize(
    "source",
    [
        f"{_WORKER}q = Queue()\nfor k in range(2): Thread(target=work, args=(k, q)).start()\n",
        f"{_WORKER}q = Queue()\nThread(target=work, args=(1, q)).start()\nwhile not q.empty(): q.get()\n",
        f"{_WORKER}q = Queue()\nThread(target=work, args=(1, q)).start()\nq.get_nowait()\n",
        f"{_WORKER}q = Queue()\n[Process(target=work, args=(k, q)) for k in range(2)]\n",
        f"{_WORKER}q = Queue()\nThread(target=work, args=(1, q)).start()\nThread(target=work, args=(2, q)).start()\n",
        f"{_WORKER}q = Queue()\nThread(target=work, args=(1, q)).start()\nq.put(2)\n",
        f"{_WORKER}q = Queue()\nThread(target=work, args=(1, q)).start()\nwork(2, q)\n",
        "q = Queue()\ndef give(): q.put(1)\nfor k in range(2): Thread(target=give).start()\n",
        "q = Queue()\ndef give(): q.put(1)\nThread(target=give).start()\ngive()\n",
        "q = Queue()\ndef give(): q.put(1)\nThread(target=give).start()\nq.put(2)\n",
        "q = Queue()\ndef give(): q.put(1)\ndef main(): Thread(target=give).start()\n",
        f"{_WORKER}begin = lambda f, q: Thread(target=f, args=(1, q)).start()\nq = Queue()\nbegin(work, q)\n",
        "def work(): q.put(1)\nq = Queue()\nThread(target=work).start()\nThread(target=work).start()\n",
        "def take(q): print(q.get())\nq = Queue()\nfor _ in t: Thread(target=take, args=(q,)).start()\nq.put(1)\n",
        "class Box:\n    def __init__(self): self.q = Queue()\n",
        "q = Queue()\nothers.append(q)\n",
        "q = Queue()\nThread(target=f).start()\nq.get(timeout=0.2)\n",
        "def work(q): helper(q)\nq = Queue()\nThread(target=work, args=(q,)).start()\n",
        "q = Queue(\n",
    ],
)
def test_several_do_or_nobody_knows(source: str) -> None:
    """Two that begin, one that begins several, or a queue that goes where it is not followed."""
    assert not has_one_order(source, 1 + source[: source.index("Queue(")].count("\n"))


_TRY = "    try:\n        {}\n    except queue.{}:\n        {}\n"


@pytest.mark.parametrize(
    ("source", "raised"),
    [
        ("while True:\n" + _TRY.format("q.put_nowait(x)", "Full", "pass"), "Full"),
        ("for x in xs:\n" + _TRY.format("q.put(x, timeout=0.01)", "Full", "lost += 1") + "    n += 1\n", "Full"),
        ("for x in xs:\n" + _TRY.format("x = q.get_nowait()", "Empty", "pass") + "    step(x)\n", "Empty"),
        ("def take():\n" + _TRY.format("return q.get(block=False)", "Empty", "return None"), ""),
        ("def take():\n" + _TRY.format("x = q.get(False)", "Empty", "x = 0"), "Empty"),
        ("while True:\n" + _TRY.format("xs.append(q.get_nowait())", "Empty", "break"), ""),
        ("while True:\n" + _TRY.format("xs.append(q.get_nowait())", "Empty", "time.sleep(0.1)"), ""),
        ("while True:\n" + _TRY.format("x = q.get(timeout=1)", "Empty", "continue") + "    step(x)\n", ""),
        ("while True:\n" + _TRY.format("q.put(x, timeout=1); break", "Full", "time.sleep(0.1)"), ""),
        ("for x in xs:\n" + _TRY.format("d[x]", "KeyError", "pass") + "    n += 1\n", ""),
        ("try:\n    q.put_nowait(x)\nexcept (OSError, Full):\n    lost += 1\n", "Full"),
    ],
)
def test_who_goes_on_where_a_queue_has_no_room_or_no_value(source: str, raised: str) -> None:
    """Not who tries again, nor who empties a queue."""
    assert [each for each, _ in given_up(ast.parse(source))] == ([raised] if raised else [])
