"""A job for Kubernetes as YAML: a Job (several ranks: indexed, with a Service), JobSet or TrainJob. Pure.

What it consists of is in ``templates/kubernetes``; here are the values, all checked or written as YAML writes them.

Sources: https://kubernetes.io/docs/concepts/workloads/controllers/job/ (indexed completion, pod failure policy),
https://jobset.sigs.k8s.io/docs/reference/ (host names of pods, failure policy), https://www.kubeflow.org/docs/components/trainer/
(a TrainJob takes its pods from a TrainingRuntime, whose job and container are called ``node``),
https://github.com/NVIDIA/gpu-feature-discovery (labels of nodes).
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Literal

import jinja2

from envbuild.cluster import kubernetes_claims
from envbuild.cluster.kubernetes_claims import Device
from envbuild.core.package_data import template_dir
from envbuild.errors import UsageError

REFUSED = 78
"""The guard's exit code; another attempt on the same kind of node would end in the same way."""
LOCK_FOLDER = "/etc/envbuild/lock"
"""Where pods see the ConfigMap; the image's own copy, which the guard uses, is elsewhere."""
LARGEST_LOCK = 1_000_000
"""Bytes; Kubernetes takes 1 MiB for all of a ConfigMap."""
_PORT = 29500
_NAME = re.compile(r"[a-z0-9](?:[-a-z0-9]{0,50}[a-z0-9])?")
_LONGEST = {"job": 52, "jobset": 44, "trainjob": 44}
"""Letters of a name: those of pods may have 63, and the kinds add ``-NUMBER-abcde`` or ``-train-0-NUMBER-abcde``."""
_QUANTITY = re.compile(r"[1-9][0-9]{0,15}(?:[kMGTP]i?)?")
_LABEL = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._-]{0,61}[A-Za-z0-9])?")
_CONTAINER, _TRAINER_NODE = "train", "node"
_MOST_RANKS = 10_000

Kind = Literal["job", "jobset", "trainjob"]


@dataclass(frozen=True, kw_only=True, slots=True)
class LockText:
    """A lock as its file has it: name, content, SHA-256."""

    file: str
    text: str
    sha256: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Pods:
    """What to ask Kubernetes for; an empty text leaves it out.

    Attributes:
        name: of the Job.
        image: reference by digest.
        ranks: number of pods; several get ``RANK``, ``WORLD_SIZE`` and the first one's address.
        claim: PersistentVolumeClaim that holds the project; empty: an empty folder.
        namespace: of all objects.
        memory: of each pod, such as ``16Gi``.
        shared_memory: size of ``/dev/shm``, of which loader workers and NCCL need more than the default 64 MiB.
        kind: what runs the pods: Kubernetes' own Job, a JobSet, or Kubeflow's TrainJob.
        claims: ask for GPUs by a ResourceClaim of each pod (DRA), not by the device plugin's counters.
        lock: the lock to show to the cluster and to the pods as a ConfigMap; None: none.
    """

    name: str
    image: str
    kind: Kind = "job"
    claims: bool = False
    ranks: int = 1
    claim: str = ""
    namespace: str = ""
    memory: str = ""
    shared_memory: str = "1Gi"
    lock: LockText | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Needs:
    """What the lock asks for.

    Attributes:
        architecture: ``amd64`` or ``arm64``.
        cpus, gpus: of each rank.
        mig: profile of its GPU slices, such as ``3g.40gb``; empty for whole GPUs.
        model: GPU that nodes must have, as NVML names it; empty for any.
        devices: the same GPUs with all that a ResourceClaim can state.
    """

    architecture: str
    cpus: int
    gpus: int = 0
    mig: str = ""
    model: str = ""
    devices: tuple[Device, ...] = ()


def named(pods: Pods, lock: str) -> Pods:
    """Return a job with the name of a lock, in the letters that Kubernetes takes."""
    name = re.sub(r"[^a-z0-9]+", "-", lock.lower()).strip("-") or _CONTAINER
    return replace(pods, name=name[: _LONGEST[pods.kind]].rstrip("-"))


def manifest(pods: Pods, needs: Needs, command: Sequence[str], environment: Mapping[str, str]) -> str:
    """Return the objects of a job as YAML, from ``templates/kubernetes``.

    Args:
        pods: checked here.
        needs: of the lock.
        command: what the image's entry point, the guard, starts.
        environment: variables added to the image's.

    Raises:
        UsageError: a value does not fit; the message names the option.
    """
    _check(pods)
    if pods.claims and not needs.devices:
        raise UsageError("--dra: the lock asks for no GPU", "leave --dra out")
    engine = _engine()
    values = {
        "pods": pods,
        "needs": needs,
        "names": _names(pods),
        "product": _product(needs.model) if needs.model and not pods.claims else "",
        "requests": kubernetes_claims.requests(needs.devices) if pods.claims else (),
        # Kubernetes replaces $(NAME) in arguments; $$( is how it writes $( itself.
        "words": [word.replace("$(", "$$(") for word in command],
        "environment": list(environment.items()),
        "port": _PORT,
        "refused": REFUSED,
        "lock_folder": LOCK_FOLDER,
    }
    return "---\n".join(engine.get_template(f"{name}.yaml.j2").render(values) for name in _objects(pods))


def _objects(pods: Pods) -> list[str]:
    """Return the templates of a job's objects, in the order in which Kubernetes needs them."""
    first = [*(["claims"] if pods.claims else []), *(["config-map"] if pods.lock is not None else [])]
    if pods.kind == "trainjob":
        return [*first, "training-runtime", "trainjob"]
    if pods.kind == "job" and pods.ranks > 1:  # a JobSet's controller makes the Service
        return [*first, "service", "job"]
    return [*first, pods.kind]


def _names(pods: Pods) -> dict[str, str]:
    """Return the names that objects know each other by."""
    container = (
        _TRAINER_NODE if pods.kind == "trainjob" else _CONTAINER
    )  # Trainer finds its own job and container by it
    first = f"{pods.name}-0" if pods.kind == "job" else f"{pods.name}-{container}-0-0"
    return {
        "container": container,
        "first": f"{first}.{pods.name}",
        "claim": kubernetes_claims.NAME,
        "claims": f"{pods.name}-{kubernetes_claims.NAME}",
        "lock": f"{pods.name}-lock-{pods.lock.sha256[:12]}" if pods.lock is not None else "",
    }


def _engine() -> jinja2.Environment:
    engine = jinja2.Environment(
        loader=jinja2.FileSystemLoader(template_dir() / "kubernetes"),
        undefined=jinja2.StrictUndefined,
        autoescape=False,  # noqa: S701 - YAML; each value is written by ``scalar``, or is one of this module's
        keep_trailing_newline=True,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    engine.filters |= {"scalar": _scalar, "block": _block}
    return engine


def _scalar(text: str) -> str:
    """Return a text as one line of YAML that reads as this text: plain where that is possible, else in quotes."""
    import yaml

    for style in (None, "'", '"'):
        written = str(yaml.safe_dump(text, default_style=style, width=math.inf, allow_unicode=True))
        line = written.removesuffix("\n").removesuffix("\n...")
        if "\n" not in line:
            break
    return line


def _block(text: str, indent: int) -> str:
    """Return a text of several lines as a block of YAML at a depth, or in quotes where a block would not keep it."""
    import yaml

    spaces = " " * indent
    block = "\n".join(["|", *(f"{spaces}{line}" if line else "" for line in text.removesuffix("\n").split("\n"))])
    with suppress(yaml.YAMLError):
        printable = text.strip() and all(
            line.isprintable() for line in text.split("\n")
        )  # readers of YAML differ in what they keep
        if printable and yaml.safe_load(f"x: {block}\n") == {"x": text}:
            return block
    return _scalar(text)


def _product(model: str) -> str:
    """Return a GPU's model as the label of a node has it: dashes for spaces."""
    label = model.replace(" ", "-")
    if not _LABEL.fullmatch(label):
        raise UsageError(f"the lock's gpu.model {model!r} is no label of a node", "lock on a node: --host host.toml")
    return label


def _check(pods: Pods) -> None:
    texts = (
        ("--name", pods.name, _NAME, "a name of lower-case letters, digits and dashes"),
        ("--namespace", pods.namespace, _NAME, "a name of lower-case letters, digits and dashes"),
        ("--claim", pods.claim, _NAME, "the name of a PersistentVolumeClaim"),
        ("--memory", pods.memory, _QUANTITY, "a quantity such as 16Gi"),
        ("--shared-memory", pods.shared_memory, _QUANTITY, "a quantity such as 8Gi"),
    )
    for option, text, pattern, expected in texts:
        if text and not pattern.fullmatch(text):
            raise UsageError(f"{option}: expected {expected}, found {text!r}", "see the help: envbuild manifest -h")
    if len(pods.name) > _LONGEST[pods.kind]:
        expected = f"at most {_LONGEST[pods.kind]} letters for a {pods.kind}"
        raise UsageError(f"--name: expected {expected}, found {len(pods.name)}", "see the help: envbuild manifest -h")
    if pods.lock is not None and len(pods.lock.text.encode()) > LARGEST_LOCK:
        raise UsageError(
            f"--config-map: expected a lock of at most {LARGEST_LOCK:,} bytes, found {len(pods.lock.text.encode()):,}",
            "leave --config-map out; the lock is in the image: envbuild inspect --lock REF",
        )
    if not 1 <= pods.ranks <= _MOST_RANKS:
        raise UsageError(f"--ranks: expected a number from 1 to {_MOST_RANKS}, found {pods.ranks}", "one by default")
