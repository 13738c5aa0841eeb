"""TensorFlow's sets of objects, which compare by identity, and so have the order of addresses.

What TensorFlow traces follows that order: the variables that a function watches above all, and with them the files of
an exported model (``model.export``). The sets are gone through in the order in which they were filled.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from typing import Any

    from ..process import Process

    _Set = set[Any]
else:
    _Set = set


class InOrder(_Set):
    """A set whose elements come in the order in which they were added, by the methods that TensorFlow uses."""

    def __init__(self, elements: Iterable[Any] = ()) -> None:
        super().__init__()
        self._order: dict[Any, None] = {}
        self.update(elements)

    def __iter__(self) -> Iterator[Any]:
        """Go through them in their order."""
        return iter(self._order)

    def add(self, element: Any) -> None:
        """Add one; it keeps its place if it is there."""
        super().add(element)
        self._order.setdefault(element)

    def discard(self, element: Any) -> None:
        """Take one out if it is there."""
        super().discard(element)
        self._order.pop(element, None)

    def update(self, *groups: Iterable[Any]) -> None:
        """Add several."""
        for group in groups:
            for element in group:
                self.add(element)

    def clear(self) -> None:
        """Take all out."""
        super().clear()
        self._order.clear()

    def intersection(self, *groups: Iterable[Any]) -> InOrder:
        """Return those that are in other groups too, in the order of this set."""
        others = [set(group) for group in groups]
        return InOrder(each for each in self._order if all(each in other for other in others))

    def difference(self, *groups: Iterable[Any]) -> InOrder:
        """Return those that are in no other group, in the order of this set."""
        others = {each for group in groups for each in group}
        return InOrder(each for each in self._order if each not in others)


def set_up(module: Any, process: Process) -> None:
    """Have sets that are made from now on keep their order; a release without them is left as it is."""
    sets = getattr(module, "ObjectIdentitySet", None)
    if sets is None or "_storage" not in getattr(sets, "__slots__", ()):
        return
    made = sets.__init__

    def in_order(self: Any, *arguments: Any) -> None:
        made(self)
        given: list[Any] = list(*arguments)
        self._storage = InOrder(self._wrap_key(each) for each in given)

    sets.__init__ = in_order
