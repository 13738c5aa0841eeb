"""CUDA is refused with a clear word until it works."""

from __future__ import annotations

import pytest

from envbuild.errors import ResolveError
from envbuild.resolve.cuda import check_cuda


def test_none_passes() -> None:
    """A CPU image needs no CUDA."""
    check_cuda("none")


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("auto", 'cuda: "auto" is reserved: only none works so far'),
        ("12.5", 'cuda: "12.5" is reserved: only none works so far'),
        ("yes", 'cuda: "yes" is unknown: only none works so far'),
    ],
)
def test_the_rest_is_refused(value: str, message: str) -> None:
    """What will work one day is told from what never will."""
    with pytest.raises(ResolveError) as caught:
        check_cuda(value)
    assert (caught.value.message, caught.value.hint) == (message, "write cuda: none, or leave it out")
