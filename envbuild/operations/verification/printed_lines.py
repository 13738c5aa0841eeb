"""What reads a program's output while it runs, for its record."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from envbuild.record.printed import Printed

if TYPE_CHECKING:
    from envbuild.record.printed import Stream
    from envbuild.verification.masking.printed import BoundedDigest


def load_reader() -> None:
    """Import what a reader takes once the program prints."""
    import envbuild.verification.masking.printed  # noqa: F401


class LazyReader:
    """Digests a stream of a run that starts now; what that takes is imported once the program prints.

    Args:
        stream: all are read alike.
    """

    def __init__(self, stream: Stream) -> None:
        self._start = time.time()
        self._digest: BoundedDigest | None = None

    def feed(self, data: memoryview) -> None:
        """Take the next piece."""
        if self._digest is None:
            from envbuild.verification.masking.masks import Masks
            from envbuild.verification.masking.printed import BoundedDigest

            self._digest = BoundedDigest(Masks(self._start))
        self._digest.feed(data)

    def result(self) -> Printed:
        """Return what the stream comes to."""
        return Printed() if self._digest is None else self._digest.result()
