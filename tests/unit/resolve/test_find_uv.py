"""Where uv is."""

from __future__ import annotations

import threading
import time

import pytest
import uv

from envbuild.resolve.python.uv import _find_uv, find_uv


def test_one_thread_looks_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """uv asks ``sysconfig``, whose table another thread sees half filled while it is made."""
    looking = 0

    def find() -> str:
        nonlocal looking
        looking += 1
        assert looking == 1
        time.sleep(0.01)
        looking -= 1
        return "/found/uv"

    monkeypatch.setattr(uv, "find_uv_bin", find)
    _find_uv.cache_clear()
    try:
        found: list[str] = []
        threads = [threading.Thread(target=lambda: found.append(find_uv())) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert found == ["/found/uv"] * 4
    finally:
        _find_uv.cache_clear()
