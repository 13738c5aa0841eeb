"""TensorFlow's sets of objects keep the order in which they were filled; with a stand-in of its module."""

from __future__ import annotations

import types
from typing import Any

from envbuild.runtime.hook.frameworks import for_object_sets


class _Key:
    """Compares by identity, and has a hash by which a plain set has the last one first."""

    def __init__(self, number: int) -> None:
        self.number = number

    def __hash__(self) -> int:
        return 7 - self.number


def _sets() -> Any:
    """Return a class as TensorFlow's: a set in ``_storage``, of keys that wrap what is added."""

    class ObjectIdentitySet:
        __slots__ = ("_storage",)

        def __init__(self, *arguments: Any) -> None:
            self._storage = {self._wrap_key(each) for each in list(*arguments)}

        def _wrap_key(self, key: Any) -> Any:
            return key

        def add(self, key: Any) -> None:
            self._storage.add(key)

        def discard(self, key: Any) -> None:
            self._storage.discard(key)

        def __iter__(self) -> Any:
            return iter(list(self._storage))

    return ObjectIdentitySet


def _process() -> Any:
    return types.SimpleNamespace()


def test_objects_come_in_the_order_in_which_they_were_added() -> None:
    """Also those given at once; what was taken out and added again comes last."""
    keys = [_Key(number) for number in range(8)]
    plain = _sets()
    assert [each.number for each in plain(keys)] != list(range(8)), "the stand-in shows nothing"
    module = types.SimpleNamespace(ObjectIdentitySet=_sets())
    for_object_sets.set_up(module, _process())
    found = module.ObjectIdentitySet(keys[:6])
    found.add(keys[6])
    found.add(keys[7])
    found.add(keys[2])
    assert [each.number for each in found] == list(range(8))
    found.discard(keys[0])
    found.add(keys[0])
    assert [each.number for each in found] == [1, 2, 3, 4, 5, 6, 7, 0]


def test_what_is_made_of_such_a_set_keeps_the_order() -> None:
    """Intersections and differences; it is a set to whoever asks."""
    keys = [_Key(number) for number in range(8)]
    found = for_object_sets.InOrder(keys)
    assert isinstance(found, set)
    assert [each.number for each in found.intersection(reversed(keys[2:5]))] == [2, 3, 4]
    assert [each.number for each in found.difference(keys[2:5])] == [0, 1, 5, 6, 7]
    assert keys[3] in found
    assert len(found) == 8
    found.clear()
    assert not found
    assert not list(found)


def test_a_release_with_other_sets_is_left_alone() -> None:
    """Without the class, or with a storage of another kind, nothing is changed."""
    other = type("ObjectIdentitySet", (), {"__slots__": ("_items",)})
    before = other.__init__
    for_object_sets.set_up(types.SimpleNamespace(), _process())
    for_object_sets.set_up(types.SimpleNamespace(ObjectIdentitySet=other), _process())
    assert other.__init__ is before
