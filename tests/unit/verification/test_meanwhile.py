"""Lines that read what threads change while these run."""

from __future__ import annotations

import pytest

from envbuild.verification.causes.meanwhile import read_meanwhile

WRITER = """class Writer:
    def ahead(self):
        while not self.closed:
            self.draft.append(1)
    def decode(self):
        thread = threading.Thread(target=self.ahead)
        thread.start()
"""


@pytest.mark.parametrize(
    ("rest", "found"),
    [
        ("        use(len(self.draft))\n        thread.join()\n", (8,)),
        ("        thread.join()\n        use(len(self.draft))\n", ()),
        ("        use(self.other)\n        thread.join()\n", ()),
        ("        use(self.closed)\n        self.closed = True\n        thread.join()\n", ()),
        ("        use(self.draft)\n", (8,)),
    ],
)
def test_what_is_read_before_the_thread_has_ended(rest: str, found: tuple[int, ...]) -> None:
    """Between its start and what waits for it; what the thread only reads is the same."""
    assert read_meanwhile(WRITER + rest) == found


def test_values_and_items_that_a_thread_gives() -> None:
    """Of attributes; without threads, and in no Python, there is nothing."""
    for change in ("self.mean = 1", "self.mean[0] = 1", "self.mean += 1", "self.mean.update(a=1)"):
        source = (
            f"class M(threading.Thread):\n  def run(self):\n    {change}\n"
            "def main(m):\n  m.start()\n  a(m.mean)\n  m.join()\n"
        )
        assert read_meanwhile(source) == (6,)
        assert read_meanwhile(source.replace("Thread", "Other")) == ()
    assert read_meanwhile("def (") == ()
