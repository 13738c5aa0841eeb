"""The checker checked: a difference of one bit is planted in each channel, and ``verify`` must see each.

The program is envbuild's own (``runs.self_test_program``); the image, the engine and all of ``verify`` are those of the
project. Nothing is attested, and the records of these runs are removed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from envbuild.core.removal import remove_tree
from envbuild.errors import UsageError
from envbuild.operations.events import Silent
from envbuild.operations.verification.verify import Verification, VerifyOptions, verify
from envbuild.runs import self_test_program

if TYPE_CHECKING:
    from envbuild.operations.events import Events
    from envbuild.runs.request import RunEngine, RunRequest

CHANNELS: Mapping[str, str] = {
    "none": "",
    "file": "files",
    "tensor": "files",
    "stdout": "stdout",
    "stderr": "stderr",
    "outside": "outside",
    "trace": "steps",
    "worker": "files",
}
"""What is planted, and the kind of the channel that must differ."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ChannelCheck:
    """Whether a plant was seen.

    Attributes:
        name: what was planted; ``none``: nothing, and all has to be equal.
        seen: ``verify`` returned what is true: that exactly this channel differs, or that all are equal.
        reported: what it returned, as text.
    """

    name: str
    seen: bool
    reported: str


def self_test(request: RunRequest, engine: RunEngine, events: Events) -> tuple[ChannelCheck, ...]:
    """Plant and verify, one channel after the other.

    Args:
        request: whose image, mounts and options are used; its arguments are not.
        engine: runs the containers.
        events: receives the progress.

    Raises:
        UsageError: the project cannot be written to by its runs, or the controls are off.
        EngineError: the engine could not run the container.
    """
    if request.lock.run.workspace == "ro":
        raise UsageError(
            "the self-test writes files in copies of the project, and run: {workspace: ro} makes them read-only",
            "test with another project on this machine",
        )
    source = Path(self_test_program.__file__).read_text(encoding="utf-8")
    found = []
    with events.phase("self-test", total=len(CHANNELS), unit="channels") as advance:
        for name in CHANNELS:
            planted = msgspec.structs.replace(request, arguments=("python", "-c", source, name), verbatim=True)
            found.append(_check(name, planted, engine))
            advance(1)
    return tuple(found)


def _check(name: str, request: RunRequest, engine: RunEngine) -> ChannelCheck:
    """Verify with one plant, with two runs."""
    from envbuild.record import history

    result = verify(request, engine, VerifyOptions(count=2, diagnose=False, attest=False), Silent())
    for run in result.runs:
        remove_tree(history.run_folder(request.project, run.record.id))
    return judge(name, result)


def judge(name: str, result: Verification) -> ChannelCheck:
    """Return whether a verification found what is true of a plant."""
    verdict, kind = result.verdict, CHANNELS[name]
    differing = {each.kind for each in verdict.channels if each.differs}
    if verdict.outcome == "identical":
        return ChannelCheck(name=name, seen=not kind, reported=f"equal: {', '.join(verdict.compared)}")
    if verdict.outcome == "different":
        return ChannelCheck(name=name, seen=differing == {kind}, reported=f"different: {'; '.join(verdict.differs)}")
    last = (result.last_words.strip().splitlines() or ["no word"])[-1]
    return ChannelCheck(name=name, seen=False, reported=f"{verdict.outcome}: {last}")
