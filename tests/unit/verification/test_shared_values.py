"""Values of processes that are read and written in two steps (envbuild/verification/causes/shared_values.py)."""

from __future__ import annotations

import ast

import pytest

from envbuild.verification.causes.shared_values import lost_updates, updated_by_several

_MADE = "hits = Value('l', 0)\n"


@pytest.mark.parametrize(
    ("source", "lines"),
    [
        ("def f(n):\n    n.value += 1\n", [3]),
        ("def f(n):\n    for _ in range(9):\n        if g():\n            n.value = n.value + 1\n", [5]),
        ("def f(n):\n    with open(p) as g:\n        n.value -= 1\n", [4]),
        ("def f(n):\n    with n.get_lock():\n        n.value += 1\n", []),
        ("def f(n):\n    with lock:\n        if g():\n            n.value += 1\n", []),
        ("def f(n, m):\n    n.value = m.value + 1\n", []),
        ("hits.value += 1\n", []),
        ("def f(n):\n    n.count += 1\n    n.value = 1\n", []),
    ],
)
def test_what_comes_in_between_is_lost(source: str, lines: list[int]) -> None:
    """Not where a lock is had, nor in the program itself, which alone does it at the end."""
    assert [*lost_updates(ast.parse(_MADE + source))] == lines


def test_other_values_are_not_shared() -> None:
    """A file that makes no shared ones has values of its own."""
    assert [*lost_updates(ast.parse("def f(n):\n    n.value += 1\n"))] == []


@pytest.mark.parametrize(
    ("source", "lines"),
    [
        ("def f(bins, k):\n    bins[k] += 1\n", [3]),
        ("def f(bins, k):\n    bins[k] = bins[k] * 2\n", [3]),
        ("def f(bins, k):\n    bins[k] = k\n    own = [0]\n    own[0] += 1\n", []),
        ("def f(bins, k):\n    with bins.get_lock():\n        bins[k] += 1\n", []),
    ],
)
def test_items_of_shared_arrays_too(source: str, lines: list[int]) -> None:
    """Those of what a function is given."""
    assert [*lost_updates(ast.parse("bins = mp.Array('d', 9, lock=False)\n" + source))] == lines
    assert [*lost_updates(ast.parse("bins = [0.0] * 9\n" + source))] == []


_SCORES = "Process(target=f, args=(0, Array('d', 4)))\ndef f(n, s):\n"
_POOL = "pool = ThreadPool(2)\npool.map(f, parts)\n"


@pytest.mark.parametrize(
    ("source", "lines"),
    [
        (_POOL + "def f(part):\n    for k in part:\n        sums[k] = sums.get(k, 0) + g(k)\n", (5,)),
        (_POOL + "def f(part):\n    own = {}\n    for k in part:\n        own[k] = own.get(k, 0) + 1\n", ()),
        (_POOL + "def f(part):\n    getcontext().prec = 7\n    part.size = 3\n", (4,)),
        (_POOL + "def f(part):\n    os.chdir(part)\ndef g():\n    os.chdir(here)\n", (4,)),
        (_POOL + "def f(part):\n    with lock:\n        sums[0] += part\n", ()),
        (
            _POOL
            + "def f(part):\n    add(part)\ndef add(part):\n    sums[0] += part\ndef other():\n    sums[1] += 1\n",
            (6,),
        ),
        ("pool = Pool(2)\npool.map(f, parts)\ndef f(part):\n    sums[0] += part\n", ()),
        ("class A(Thread):\n    def run(self):\n        self.model.w -= 0.1 * self.model.w\n", (3,)),
        ("Process(target=f)\ndef f():\n    db.execute('UPDATE jobs SET worker = 1')\n", (3,)),
        ("if os.fork() == 0: f(m)\ndef f(m):\n    pack_into('I', m, 0, unpack_from('I', m, 0)[0] + 1)\n", (3,)),
        (_POOL + "def f(part):\n    with lock:\n        ids.setdefault(part, len(ids))\n", (5,)),
        (_POOL + "def f(part):\n    with lock:\n        ids[part] = len(ids)\n", (5,)),
        (_POOL + "def f(part):\n    with lock:\n        ids[part] = len(part)\n", ()),
        (_POOL + "def f(part):\n    ids = {}\n    ids[part] = len(ids)\n", ()),
        (_POOL + "def f(part):\n    use(next(numbers), next(iter(part)))\n", (4,)),
        (_POOL + "def f(part):\n    own = iter(part)\n    use(next(own))\n", ()),
        ("pool = ThreadPool(2)\npool.map(A(), x)\nclass A:\n  def __call__(self, x):\n    next(self.turns)\n", (5,)),
        (_SCORES + "    s[n] = g(n)\n    best = max(range(4), key=lambda k: s[k])\n", (4,)),
        (_SCORES + "    s[n] = g(s[n])\n    t = r[0]\n", (3,)),
        ("Process(target=f)\nvisits = Manager().dict()\ndef f(v, p):\n    v[p] = v.get(p, 0) + 1\n", (4,)),
        ("def f(m):\n    m[0] += 1\n", ()),
        ("def (", ()),
    ],
)
def test_what_several_read_and_write_without_a_lock(source: str, lines: tuple[int, ...]) -> None:
    """In functions that threads run, and processes; what a function makes itself, or a process has, nobody else has."""
    assert updated_by_several(source) == lines
