"""The hardware part of a lock, from a spec's requirements and a host description; pure: it needs no GPU.

What the spec states by hand wins over the host description; what neither has is not compared. A lock keeps the values
of its host: locking again without a description changes none of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec

from envbuild.core import types
from envbuild.core.text import quote
from envbuild.core.types import Policy
from envbuild.errors import Problem, SpecError
from envbuild.host import file, values
from envbuild.host.facts import HostFacts
from envbuild.host.values import HostValues
from envbuild.lockfile.hardware import POLICIES, Cuda, Gpu, GpuDevice, Hardware
from envbuild.spec.hardware import GPU_FIELDS, HardwareRequirements, Requirement

GIVE_ONE = (
    "describe it: envbuild lock --host detect on it, or envbuild probe -o FILE there and lock --host FILE here; "
    "or write values of your own: {value: …, policy: …}"
)
ANOTHER = "change the spec, or describe another host: envbuild probe -o FILE there and lock --host FILE here"
_KEYS = {"cpu.flags": "cpu-flags"}
_IDENTITY = ("gpu.model", "gpu.compute-capability", "gpu.mig")


def lock_hardware(
    wanted: HardwareRequirements,
    host: HostFacts | None,
    cuda: Cuda | None,
    old: Hardware | None,
    *,
    source: str = "spec.yaml",
) -> Hardware:
    """Return what a host must be.

    Args:
        wanted: the spec's section.
        host: description of the host to lock for; None for none.
        cuda: NVIDIA's libraries among the wheels; None for none.
        old: hardware of the lock that is replaced: without ``host`` its host's values are kept. None forgets them.
        source: what messages call the spec.

    Raises:
        SpecError: values are left to a host description that is not there or does not know them, or the spec and the
            description contradict each other; all at once.
    """
    known, digest = None, ""
    if host is not None:
        known, digest = values.of_host(host), file.digest(host)
    elif old is not None and old.host:
        known, digest = values.of_lock(old), old.host
    join = _Join(wanted=wanted, known=known)
    if wanted.detect and known is None:
        join.problem("", "is detect, but no host is described")
    gpu = join.gpu(cuda)
    hardware = Hardware(
        kernel=join.kernel(),
        cpu=join.cpu(),
        cpu_flags=tuple(sorted(join.take("cpu.flags", (), known.flags if known else ()))),
        fingerprint=wanted.fingerprint,
        host=digest,
        by_hand=_by_hand(wanted, known, gpu) if known else (),
        gpu=gpu,
        gpu_optional=wanted.gpu == "optional" and gpu is not None,
    )
    if join.problems:
        raise SpecError(source, list(join.problems.values()), GIVE_ONE if host is None else ANOTHER)
    hardware = msgspec.structs.replace(hardware, policy=_policies(hardware, join.policies))
    return _checked(hardware, source)


@dataclass(kw_only=True)
class _Join:
    """Joins what is reported with what is known; collects problems and policies by field."""

    wanted: HardwareRequirements
    known: HostValues | None
    problems: dict[str, Problem] = field(default_factory=dict)
    policies: dict[str, str] = field(default_factory=dict)

    def problem(self, name: str, message: str) -> None:
        """Add a problem; the first one of a field stays."""
        path = f"hardware.{_KEYS.get(name, name)}".rstrip(".")
        self.problems.setdefault(name, Problem(path=path, message=message))

    def take(self, name: str, nothing: Any, host: Any) -> Any:
        """Return a field's value: by hand, else the host's, else ``nothing``; remembers its policy.

        Args:
            name: in ``POLICIES``.
            nothing: what represents unknown.
            host: what the host description has, perhaps ``nothing``.
        """
        printed = self.wanted.fields.get(name, Requirement())
        if printed.policy:
            self.policies[name] = printed.policy
        if printed.value is not None:
            return printed.value
        if self.known is not None and name in self.known.lost:
            if printed.policy != "any":
                self.problem(name, "was in the spec when this lock was made, so what the host has there is not known")
            return nothing
        if self.known is None or host == nothing:
            if printed.policy not in ("", "any"):
                self.problem(name, f"{quote(printed.policy)} takes the host's value, but {self.why_unknown(name)}")
            return nothing
        return host

    def why_unknown(self, name: str) -> str:
        """Explain why a field has no value of the host's."""
        if self.known is None:
            return "no host is described"
        if name.startswith("gpu.") and not self.known.devices:
            return f"the host described {self.known.no_gpu}"
        return "the host description does not know it"

    def kernel(self) -> str:
        """Return the range of kernels."""
        if self.wanted.kernel:
            return self.wanted.kernel.removeprefix("any")
        if self.known is not None and "kernel" in self.known.lost:
            self.problem("kernel", "was in the spec when this lock was made, so what the host has there is not known")
            return ""
        return self.known.kernel if self.known else ""

    def cpu(self) -> str:
        """Return the CPU's level."""
        return str(self.take("cpu", "any", self.known.cpu if self.known else "any"))

    def gpu(self, cuda: Cuda | None) -> Gpu | None:
        """Return what the GPUs must be; None for no GPU."""
        wanted, known = self.wanted, self.known
        if wanted.gpu == "none":
            return None
        optional = wanted.gpu == "optional"
        devices: tuple[GpuDevice, ...] = known.devices if known else ()
        if wanted.gpu == "detect" and not devices:
            why = f"the host described {known.no_gpu}" if known else "no host is described"
            self.problem("gpu", f"is detect, but {why}")
        elif wanted.detect and known and known.broken and not devices:
            self.problem("", f"is detect, but the host described {known.no_gpu}; write {{gpu: none}} if it needs none")
        if wanted.devices:
            devices = self.by_hand()
        elif wanted.gpu == "some" or (devices and not optional and (cuda or wanted.detect or wanted.gpu == "detect")):
            devices = self.kinds(devices)
        elif cuda is None:
            return None
        else:
            self.policies["gpu.count"] = "at least"
            devices = (GpuDevice(),)
        driver = "" if optional else self.take("gpu.driver", "", known.driver if known else "")
        if not driver and cuda is not None and "gpu.driver" not in wanted.fields:
            driver, self.policies["gpu.driver"] = cuda.driver, "at least"
        return Gpu(driver=driver, exclusive=wanted.exclusive, devices=devices)

    def by_hand(self) -> tuple[GpuDevice, ...]:
        """Return the kinds of GPU that the spec lists."""
        for device in self.wanted.devices:
            self.policies |= {name: printed.policy for name, printed in device.items() if printed.policy}
        return values.grouped(
            GpuDevice(**_attributes({name: printed.value for name, printed in device.items()}))
            for device in self.wanted.devices
        )

    def kinds(self, found: tuple[GpuDevice, ...]) -> tuple[GpuDevice, ...]:
        """Return the host's kinds of GPU that the spec means, with what it reports about them."""
        printed = {name: one.value for name, one in self.wanted.fields.items() if one.value is not None}
        meant = found
        for name in _IDENTITY:
            if name in printed and found:
                meant = tuple(kind for kind in meant if getattr(kind, _attribute(name)) in ("", printed[name]))
                if not meant:
                    self.problem(
                        name, f"is {quote(str(printed[name]))}, but the host described has {_has(found, name)}"
                    )
                    meant = found
        fields = [f"gpu.{key}" for key in GPU_FIELDS if key != "count"]
        kinds = values.grouped(
            msgspec.structs.replace(kind, **_attributes({name: self.device_field(name, kind) for name in fields}))
            for kind in meant or (GpuDevice(),)
        )
        count = self.take("gpu.count", 0, sum(kind.count for kind in meant))
        if self.known is not None and self.known.closed and "gpu.count" not in printed:
            # It has no facts; whether it counts, only a person can decide.
            them = ", ".join(self.known.closed)
            self.problem("gpu.count", f"is left to the host, but a GPU there cannot be opened: {them}")
        if count in (0, sum(kind.count for kind in kinds)):
            return kinds
        if len(kinds) > 1:
            self.problem("gpu.count", f"is {count}, but of which kind? {values.many(kinds)}; list them in devices")
        return tuple(msgspec.structs.replace(kind, count=count) for kind in kinds[:1])

    def device_field(self, name: str, kind: GpuDevice) -> Any:
        """Return a field of one kind of GPU as ``take`` does."""
        return self.take(name, getattr(GpuDevice(), _attribute(name)), getattr(kind, _attribute(name)))


def _by_hand(wanted: HardwareRequirements, known: HostValues, gpu: Gpu | None) -> tuple[str, ...]:
    """Name the fields that the host did not decide; ``gpu``: it has none, so nothing about GPUs is its."""
    names = {name for name, printed in wanted.fields.items() if printed.value is not None}
    names |= {"kernel"} if wanted.kernel else set()
    names |= {"gpu.devices"} if wanted.devices else set()
    if gpu and not known.devices and "gpu.devices" not in known.lost:
        names = {name for name in names if not name.startswith("gpu.")} | {"gpu"}
    return tuple(sorted(names))


def _policies(hardware: Hardware, printed: Mapping[str, str]) -> dict[str, Policy]:
    """Return the policies that are not the default, of fields that have a value."""
    have = {"cpu": hardware.cpu != "any", "cpu.flags": bool(hardware.cpu_flags)}
    if hardware.gpu:
        have |= {"gpu.driver": bool(hardware.gpu.driver), "gpu.count": True}
        for name in POLICIES.keys() - have.keys():
            nothing = getattr(GpuDevice(), _attribute(name))
            have[name] = any(getattr(kind, _attribute(name)) != nothing for kind in hardware.gpu.devices)
    return {name: word for name, word in sorted(printed.items()) if have.get(name) and word != POLICIES[name]}


def _checked(hardware: Hardware, source: str) -> Hardware:
    """Refuse facts of a host description that a lock cannot hold, with their field."""
    table = {"hardware": types.without_defaults(hardware)}
    try:
        msgspec.convert(table["hardware"], Hardware)
    except msgspec.ValidationError as error:
        path, _, sentence = types.explain(error, table["hardware"]).partition(": ")
        place = path.replace("tool.envbuild", "hardware", 1)
        problem = Problem(path=place, message=f"{sentence} in the host description")
        raise SpecError(source, [problem], "correct the host description, or write the field into the spec") from None
    return hardware


def _attributes(fields: Mapping[str, Any]) -> dict[str, Any]:
    return {_attribute(name): value for name, value in fields.items()}


def _attribute(name: str) -> str:
    return name.removeprefix("gpu.").replace("-", "_")


def _has(kinds: Iterable[GpuDevice], name: str) -> str:
    """Describe what GPUs have in a field."""
    if name == "gpu.model":
        return values.many(kinds)
    return ", ".join(sorted({getattr(kind, _attribute(name)) for kind in kinds}))
