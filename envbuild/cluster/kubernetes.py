"""A job for Kubernetes as values for YAML: a Job (several ranks: indexed, with a Service), JobSet or TrainJob. Pure.

Sources: https://kubernetes.io/docs/concepts/workloads/controllers/job/ (indexed completion, pod failure policy),
https://jobset.sigs.k8s.io/docs/reference/ (host names of pods, failure policy), https://www.kubeflow.org/docs/components/trainer/
(a TrainJob takes its pods from a TrainingRuntime, whose job and container are called ``node``),
https://github.com/NVIDIA/gpu-feature-discovery (labels of nodes).
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from envbuild.cluster import kubernetes_claims
from envbuild.cluster.kubernetes_claims import Device
from envbuild.errors import UsageError

REFUSED = 78
"""The guard's exit code; another attempt on the same kind of node would end in the same way."""
LOCK_FOLDER = "/etc/envbuild/lock"
"""Where pods see the ConfigMap; the image's own copy, which the guard uses, is elsewhere."""
LARGEST_LOCK = 1_000_000
"""Bytes; Kubernetes takes 1 MiB for all of a ConfigMap."""
_PORT = 29500
_INDEX = "metadata.annotations['batch.kubernetes.io/job-completion-index']"
_NAME = re.compile(r"[a-z0-9](?:[-a-z0-9]{0,50}[a-z0-9])?")
_LONGEST = {"job": 52, "jobset": 44, "trainjob": 44}
"""Letters of a name: those of pods may have 63, and the kinds add ``-NUMBER-abcde`` or ``-train-0-NUMBER-abcde``."""
_QUANTITY = re.compile(r"[1-9][0-9]{0,15}(?:[kMGTP]i?)?")
_LABEL = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._-]{0,61}[A-Za-z0-9])?")
_CONTAINER, _TRAINER_NODE = "train", "node"
_MOST_RANKS = 10_000

Values = dict[str, Any]
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
    if pods.claims and not needs.devices:
        raise UsageError("--dra: the lock asks for no GPU", "leave --dra out")
    template = _job_spec(pods, needs, command, environment)
    objects = {"job": _job, "jobset": _jobset, "trainjob": _trainjob}[pods.kind](pods, template)
    if pods.lock is not None:
        objects = _config_map(pods, pods.lock), *objects
    if not pods.claims:
        return objects
    return kubernetes_claims.claim_template(_metadata(pods, _claims(pods)), needs.devices), *objects


def _metadata(pods: Pods, name: str = "") -> Values:
    return {"name": name or pods.name, **({"namespace": pods.namespace} if pods.namespace else {})}


def _config_map(pods: Pods, lock: LockText) -> Values:
    """Return the lock as an object that nobody can change; another lock has another name."""
    metadata = _metadata(pods, _config_name(pods, lock)) | {"labels": _labels(pods)}
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": metadata,
        "immutable": True,
        "data": {lock.file: lock.text},
    }


def _config_name(pods: Pods, lock: LockText) -> str:
    return f"{pods.name}-lock-{lock.sha256[:12]}"


def _labels(pods: Pods) -> Values:
    return {"app.kubernetes.io/name": pods.name, "app.kubernetes.io/managed-by": "envbuild"}


def _claims(pods: Pods) -> str:
    return f"{pods.name}-{kubernetes_claims.NAME}"


def _job_spec(pods: Pods, needs: Needs, command: Sequence[str], environment: Mapping[str, str]) -> Values:
    several = pods.ranks > 1
    spec: Values = {
        "backoffLimit": 0 if several else 3,
        "podFailurePolicy": {"rules": _rules(several, _container_name(pods))},
        "template": {"metadata": {"labels": _labels(pods)}, "spec": _pod(pods, needs, command, environment)},
    }
    if several:
        spec |= {"completions": pods.ranks, "parallelism": pods.ranks, "completionMode": "Indexed"}
    return spec


def _job(pods: Pods, spec: Values) -> tuple[Values, ...]:
    """Return a Job; for several ranks with the headless Service that gives each a name."""
    metadata, labels = _metadata(pods), _labels(pods)
    job = {"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata | {"labels": labels}, "spec": spec}
    if pods.ranks == 1:
        return (job,)
    ports = [{"name": "master", "port": _PORT}]
    service = {"clusterIP": "None", "publishNotReadyAddresses": True, "selector": labels, "ports": ports}
    return {"apiVersion": "v1", "kind": "Service", "metadata": metadata, "spec": service}, job


def _jobset(pods: Pods, spec: Values) -> tuple[Values, ...]:
    """Return a JobSet of one Indexed Job; its controller makes the Service."""
    metadata = _metadata(pods) | {"labels": _labels(pods)}
    return (
        {"apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet", "metadata": metadata, "spec": _set(pods, spec)},
    )


def _set(pods: Pods, spec: Values, labels: Values | None = None) -> Values:
    template: Values = {"spec": spec}
    if labels:
        template = {"metadata": {"labels": labels}} | template
    return {
        "network": {"enableDNSHostnames": True, "publishNotReadyAddresses": True},
        "failurePolicy": {"maxRestarts": 0},
        "replicatedJobs": [{"name": _container_name(pods), "replicas": 1, "template": template}],
    }


def _trainjob(pods: Pods, spec: Values) -> tuple[Values, ...]:
    """Return a TrainJob and the TrainingRuntime that its pods come from.

    The runtime is of no framework: Trainer's torch runtime would start the program by torchrun, past the guard.
    """
    metadata = _metadata(pods) | {"labels": _labels(pods)}
    jobs = _set(pods, spec, {"trainer.kubeflow.org/trainjob-ancestor-step": "trainer"})
    runtime = {"mlPolicy": {"numNodes": pods.ranks}, "template": {"spec": jobs}}
    reference = {"apiGroup": "trainer.kubeflow.org", "kind": "TrainingRuntime", "name": pods.name}
    job = {"runtimeRef": reference, "trainer": {"numNodes": pods.ranks}}
    version = "trainer.kubeflow.org/v1alpha1"
    return (
        {"apiVersion": version, "kind": "TrainingRuntime", "metadata": metadata, "spec": runtime},
        {"apiVersion": version, "kind": "TrainJob", "metadata": metadata, "spec": job},
    )


def _container_name(pods: Pods) -> str:
    """Return the name of job and container, which Trainer finds its own by."""
    return _TRAINER_NODE if pods.kind == "trainjob" else _CONTAINER


def _first(pods: Pods) -> str:
    """Return the host name of the first rank."""
    return f"{pods.name}-0" if pods.kind == "job" else f"{pods.name}-{_container_name(pods)}-0-0"


def _rules(several: bool, container: str) -> list[Values]:
    """Return when a failed pod ends the job: the guard's refusal always; a pod that was evicted alone tries again."""
    refused = {"containerName": container, "operator": "In", "values": [REFUSED]}
    rules: list[Values] = [{"action": "FailJob", "onExitCodes": refused}]
    if not several:  # the others of a job could not go on with a new one
        rules.append({"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]})
    return rules


def _pod(pods: Pods, needs: Needs, command: Sequence[str], environment: Mapping[str, str]) -> Values:
    selector = {"kubernetes.io/os": "linux", "kubernetes.io/arch": needs.architecture}
    if needs.model and not pods.claims:
        selector["nvidia.com/gpu.product"] = _product(needs.model)
    claim: Values = {"persistentVolumeClaim": {"claimName": pods.claim}} if pods.claim else {"emptyDir": {}}
    volumes: list[Values] = [
        {"name": "workspace", **claim},
        {"name": "shared-memory", "emptyDir": {"medium": "Memory", "sizeLimit": pods.shared_memory}},
        {"name": "verdict", "emptyDir": {}},
        {"name": "home", "emptyDir": {}},
    ]
    if pods.lock is not None:
        volumes.append({"name": "lock", "configMap": {"name": _config_name(pods, pods.lock)}})
    return {
        "restartPolicy": "Never",
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        **({"subdomain": pods.name} if pods.ranks > 1 and pods.kind == "job" else {}),
        "nodeSelector": selector,
        "containers": [_container(pods, needs, command, environment)],
        "volumes": volumes,
        **({"resourceClaims": [_claim(pods)]} if pods.claims else {}),
    }


def _claim(pods: Pods) -> Values:
    return {"name": kubernetes_claims.NAME, "resourceClaimTemplateName": _claims(pods)}


def _container(pods: Pods, needs: Needs, command: Sequence[str], environment: Mapping[str, str]) -> Values:
    wanted = {"cpu": str(needs.cpus), **({"memory": pods.memory} if pods.memory else {})}
    if needs.gpus and not pods.claims:
        wanted[f"nvidia.com/mig-{needs.mig}" if needs.mig else "nvidia.com/gpu"] = str(needs.gpus)
    variables: list[Values] = [{"name": name, "value": value} for name, value in environment.items()]
    if pods.ranks > 1:
        ranks = {
            "WORLD_SIZE": str(pods.ranks),
            "LOCAL_RANK": "0",
            "LOCAL_WORLD_SIZE": "1",
            "MASTER_ADDR": f"{_first(pods)}.{pods.name}",
            "MASTER_PORT": str(_PORT),
        }
        variables.append({"name": "RANK", "valueFrom": {"fieldRef": {"fieldPath": _INDEX}}})
        variables += [{"name": name, "value": value} for name, value in ranks.items()]
    mounts = {"workspace": "/workspace", "shared-memory": "/dev/shm", "verdict": "/run/envbuild", "home": "/tmp/home"}  # noqa: S108
    mounted: list[Values] = [{"name": name, "mountPath": path} for name, path in mounts.items()]
    if pods.lock is not None:
        mounted.append({"name": "lock", "mountPath": LOCK_FOLDER, "readOnly": True})
    claims = {"claims": [{"name": kubernetes_claims.NAME}]} if pods.claims else {}
    return {
        "name": _container_name(pods),
        "image": pods.image,
        # Kubernetes replaces $(NAME) in arguments; $$( is how it writes $( itself.
        "args": [word.replace("$(", "$$(") for word in command],
        "workingDir": "/workspace",
        "env": variables,
        "resources": {"requests": wanted, "limits": wanted, **claims},
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "capabilities": {"drop": ["ALL"]},
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "volumeMounts": mounted,
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
