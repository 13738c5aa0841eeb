"""A job for Kubernetes as values for YAML: a Job, or an Indexed Job with a headless Service for several ranks. Pure.

Sources: https://kubernetes.io/docs/concepts/workloads/controllers/job/ (indexed completion, pod failure policy),
https://github.com/NVIDIA/gpu-feature-discovery (labels of nodes).
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from envbuild.errors import UsageError

REFUSED = 78
"""The guard's exit code; another attempt on the same kind of node would end in the same way."""
_PORT = 29500
_INDEX = "metadata.annotations['batch.kubernetes.io/job-completion-index']"
_NAME = re.compile(r"[a-z0-9](?:[-a-z0-9]{0,50}[a-z0-9])?")
_QUANTITY = re.compile(r"[1-9][0-9]{0,15}(?:[kMGTP]i?)?")
_LABEL = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._-]{0,61}[A-Za-z0-9])?")
_CONTAINER = "train"
_MOST_RANKS = 10_000

Values = dict[str, Any]


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
    """

    name: str
    image: str
    ranks: int = 1
    claim: str = ""
    namespace: str = ""
    memory: str = ""
    shared_memory: str = "1Gi"


@dataclass(frozen=True, kw_only=True, slots=True)
class Needs:
    """What the lock asks for.

    Attributes:
        architecture: ``amd64`` or ``arm64``.
        cpus, gpus: of each rank.
        mig: profile of its GPU slices, such as ``3g.40gb``; empty for whole GPUs.
        model: GPU that nodes must have, as NVML names it; empty for any.
    """

    architecture: str
    cpus: int
    gpus: int = 0
    mig: str = ""
    model: str = ""


def named(pods: Pods, lock: str) -> Pods:
    """Return a job with the name of a lock, in the letters that Kubernetes takes."""
    return replace(pods, name=re.sub(r"[^a-z0-9]+", "-", lock.lower()).strip("-")[:52].rstrip("-") or _CONTAINER)


def manifest(pods: Pods, needs: Needs, command: Sequence[str], environment: Mapping[str, str]) -> tuple[Values, ...]:
    """Return the objects of a job.

    Args:
        pods: checked here.
        needs: of the lock.
        command: what the image's entry point, the guard, starts.
        environment: variables added to the image's.

    Raises:
        UsageError: a value does not fit; the message names the option.
    """
    _check(pods)
    metadata: Values = {"name": pods.name, **({"namespace": pods.namespace} if pods.namespace else {})}
    labels = {"app.kubernetes.io/name": pods.name, "app.kubernetes.io/managed-by": "envbuild"}
    several = pods.ranks > 1
    spec: Values = {
        "backoffLimit": 0 if several else 3,
        "podFailurePolicy": {"rules": _rules(several)},
        "template": {"metadata": {"labels": labels}, "spec": _pod(pods, needs, command, environment)},
    }
    if several:
        spec |= {"completions": pods.ranks, "parallelism": pods.ranks, "completionMode": "Indexed"}
    job = {"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata | {"labels": labels}, "spec": spec}
    if not several:
        return (job,)
    ports = [{"name": "master", "port": _PORT}]
    service = {"clusterIP": "None", "publishNotReadyAddresses": True, "selector": labels, "ports": ports}
    return {"apiVersion": "v1", "kind": "Service", "metadata": metadata, "spec": service}, job


def _rules(several: bool) -> list[Values]:
    """Return when a failed pod ends the job: the guard's refusal always; a pod that was evicted alone tries again."""
    refused = {"containerName": _CONTAINER, "operator": "In", "values": [REFUSED]}
    rules: list[Values] = [{"action": "FailJob", "onExitCodes": refused}]
    if not several:  # the others of a job could not go on with a new one
        rules.append({"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]})
    return rules


def _pod(pods: Pods, needs: Needs, command: Sequence[str], environment: Mapping[str, str]) -> Values:
    selector = {"kubernetes.io/os": "linux", "kubernetes.io/arch": needs.architecture}
    if needs.model:
        selector["nvidia.com/gpu.product"] = _product(needs.model)
    claim: Values = {"persistentVolumeClaim": {"claimName": pods.claim}} if pods.claim else {"emptyDir": {}}
    volumes: list[Values] = [
        {"name": "workspace", **claim},
        {"name": "shared-memory", "emptyDir": {"medium": "Memory", "sizeLimit": pods.shared_memory}},
        {"name": "verdict", "emptyDir": {}},
        {"name": "home", "emptyDir": {}},
    ]
    return {
        "restartPolicy": "Never",
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        **({"subdomain": pods.name} if pods.ranks > 1 else {}),
        "nodeSelector": selector,
        "containers": [_container(pods, needs, command, environment)],
        "volumes": volumes,
    }


def _container(pods: Pods, needs: Needs, command: Sequence[str], environment: Mapping[str, str]) -> Values:
    wanted = {"cpu": str(needs.cpus), **({"memory": pods.memory} if pods.memory else {})}
    if needs.gpus:
        wanted[f"nvidia.com/mig-{needs.mig}" if needs.mig else "nvidia.com/gpu"] = str(needs.gpus)
    variables: list[Values] = [{"name": name, "value": value} for name, value in environment.items()]
    if pods.ranks > 1:
        ranks = {
            "WORLD_SIZE": str(pods.ranks),
            "LOCAL_RANK": "0",
            "LOCAL_WORLD_SIZE": "1",
            "MASTER_ADDR": f"{pods.name}-0.{pods.name}",
            "MASTER_PORT": str(_PORT),
        }
        variables.append({"name": "RANK", "valueFrom": {"fieldRef": {"fieldPath": _INDEX}}})
        variables += [{"name": name, "value": value} for name, value in ranks.items()]
    mounts = {"workspace": "/workspace", "shared-memory": "/dev/shm", "verdict": "/run/envbuild", "home": "/tmp/home"}  # noqa: S108
    return {
        "name": _CONTAINER,
        "image": pods.image,
        # Kubernetes replaces $(NAME) in arguments; $$( is how it writes $( itself.
        "args": [word.replace("$(", "$$(") for word in command],
        "workingDir": "/workspace",
        "env": variables,
        "resources": {"requests": wanted, "limits": wanted},
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "capabilities": {"drop": ["ALL"]},
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "volumeMounts": [{"name": name, "mountPath": path} for name, path in mounts.items()],
    }


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
    if not 1 <= pods.ranks <= _MOST_RANKS:
        raise UsageError(f"--ranks: expected a number from 1 to {_MOST_RANKS}, found {pods.ranks}", "one by default")
