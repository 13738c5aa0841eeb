"""Texts that hold the addresses of objects (envbuild/verification/causes/object_texts.py)."""

from __future__ import annotations

import ast

import pytest

from envbuild.verification.causes.object_texts import texts_of_objects

CLASS = "class C:\n    def __init__(self, n): self.n = n\n"


@pytest.mark.parametrize(
    ("source", "lines"),
    [
        ("c = C(1)\nkey = f'{c}'", [4]),
        ("c = C(1)\nkey = f'{c!r}'", [4]),
        ("c = C(1)\nkey = f'{c.n}'", []),
        ("c = C(1)\nkey = f'{c:>9}'", []),
        ("c = C(1)\nkey = '%s-%d' % (c, 1)", [4]),
        ("c = C(1)\nkey = '{}'.format(c)", [4]),
        ("c = C(1)\nkey = format(c)", [4]),
        ("key = str(C(1))", [3]),
        ("def key(of): return f'{of}'\nkey(C(1))", [3]),
        ("def key(self, of): return f'{of}'\nx.key(of=C(1))", [3]),
        ("def key(of): return f'{of}'\nkey(1)", []),
        ("def far(a): return f'{a}'\ndef near(b): return far(b)\nnear(C(1))", [3]),
        ("cs = [C(i) for i in range(3)]\nfor at, c in enumerate(cs): print(f'{at} {c}')", [4]),
        ("cs = [C(i) for i in range(3)]\nkey = f'{cs}'", [4]),
        ("cs = [C(1)]\nbest = sorted(cs, key=lambda c: str(c))", [4]),
        ("cs = [C(1)]\nbest = sorted(cs, key=lambda c: c.n)", []),
        ("self.net = C(1)\nkey = repr(self.net)", [4]),
        ("def loss(x): return x\nkey = f'{loss}'", [4]),
        ("key = str(lambda x: x)", [3]),
        ("class D(C): pass\nkey = f'{D(1)}'", [4]),
        ("class D(C):\n    def __repr__(self): return 'D'\nkey = f'{D(1)}'", []),
        ("class E(Enum): pass\nkey = f'{E(1)}'", []),
        ("@dataclass\nclass D: n: int\nkey = f'{D(1)}'", []),
    ],
)
def test_texts_of_objects(source: str, lines: list[int]) -> None:
    assert [*texts_of_objects(ast.parse(CLASS + source))] == lines
