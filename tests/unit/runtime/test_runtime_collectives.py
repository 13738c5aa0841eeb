"""How frameworks sum values over ranks is recorded, and what depends on time is warned of; with stand-ins of them."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from envbuild.runtime.hook.frameworks import for_collectives


class Hook:
    """As much of the hook's state as these steps use."""

    def __init__(self) -> None:
        self.parallel: list[dict[str, Any]] = []
        self.warned: list[str] = []
        self.modules: dict[str, Any] = {}

    def write(self) -> None:
        """Write nothing."""

    def warn(self, message: str) -> None:
        self.warned.append(message)

    def guarded(self, what: str, action: Any, *, vital: bool) -> None:
        assert not vital
        action()


def engine(**zero: Any) -> Any:
    class DeepSpeedEngine:
        def __init__(self) -> None:
            self._config = SimpleNamespace(zero_config=SimpleNamespace(**zero))

    return DeepSpeedEngine


@pytest.mark.parametrize(("stage", "overlap", "warned"), [(2, True, 1), (1, True, 1), (2, False, 0), (3, True, 0)])
def test_overlapping_sums_are_warned_of(stage: int, overlap: bool, warned: int) -> None:
    """DeepSpeed with ZeRO 1 and 2; the settings of all are recorded."""
    hook, module = Hook(), SimpleNamespace(DeepSpeedEngine=engine(stage=stage, overlap_comm=overlap))
    for_collectives.set_up_deepspeed(module, hook)  # type: ignore[arg-type]
    module.DeepSpeedEngine()
    assert hook.parallel[0]["settings"]["zero.overlap_comm"] is overlap
    assert hook.parallel[0]["settings"]["zero.stage"] == stage
    assert [text for text in hook.warned if "overlap_comm" in text] == hook.warned
    assert len(hook.warned) == warned


@pytest.mark.parametrize(("value", "warned"), [("0", 0), ("", 1), ("67108864", 1)])
def test_fused_messages_are_warned_of(monkeypatch: pytest.MonkeyPatch, value: str, warned: int) -> None:
    """Horovod fuses unless the threshold is 0, which is recorded."""
    monkeypatch.setenv("HOROVOD_FUSION_THRESHOLD", value)
    hook = Hook()
    for_collectives.set_up_horovod(object(), hook)  # type: ignore[arg-type]
    assert hook.parallel == [{"kind": "Horovod", "settings": {"fusion threshold": value or "default"}}]
    assert len(hook.warned) == warned


def test_parameter_servers_are_warned_of() -> None:
    """TensorFlow refuses no strategy of its own."""
    hook, module = Hook(), SimpleNamespace(ParameterServerStrategyV2=type("ParameterServerStrategyV2", (), {}))
    for_collectives.set_up_parameter_servers(module, hook)  # type: ignore[arg-type]
    module.ParameterServerStrategyV2()
    assert len(hook.warned) == 1
