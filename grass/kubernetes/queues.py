"""Queues of Kubernetes through which pods go: Kueue's and Volcano's. Pure.

Kueue keeps back pods with its label by a scheduling gate, until their queue has room
(https://kueue.sigs.k8s.io/docs/tasks/run/plain_pods/). Volcano is another scheduler; pods of a gang name a PodGroup,
and for all others it makes one itself (https://volcano.sh/en/docs/podgroup/). Used by this package,
``grass.cli.node_add`` and ``node.runtime.kubernetes``.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from grass.errors import InputError
from grass.kubernetes.names import MANAGED
from grass.model.namespace import QueueKind
from grass.node_config import KubernetesConfig

GROUPS = {QueueKind.KUEUE: "kueue.x-k8s.io", QueueKind.VOLCANO: "scheduling.volcano.sh"}
"""The API groups of their resources."""
POD_GROUPS = "podgroups"
_POD_GROUP_API = f"{GROUPS[QueueKind.VOLCANO]}/v1beta1"
VOLCANO_SCHEDULER = "volcano"
KUEUE_QUEUE = "kueue.x-k8s.io/queue-name"
_KUEUE_GROUP = "kueue.x-k8s.io/pod-group-name"
_KUEUE_COUNT = "kueue.x-k8s.io/pod-group-total-count"
_KUEUE_RETRIABLE = "kueue.x-k8s.io/retriable-in-group"
"""By default Kueue waits for a replacement of each failed pod. If Grass starts a gang no more, Kueue would keep its
pods and its part of the queue for ever. With ``false``, a group ends when none of its pods is active."""
VOLCANO_QUEUE = "scheduling.volcano.sh/queue-name"
_VOLCANO_GROUP = "scheduling.k8s.io/group-name"


def queue_of(text: str) -> tuple[str, str]:
    """Return the kind, if one is named, and the name of a queue: ``team`` or ``kueue/team``. Raises InputError."""
    kind, _, name = text.rpartition("/")
    if kind not in ("", *QueueKind):
        raise InputError(f"--queue {text}: unknown kind {kind!r}; use kueue/NAME, volcano/NAME or NAME")
    return kind, name


def kind_of(settings: KubernetesConfig, groups: Collection[str]) -> QueueKind | None:
    """Return whose the queue of the settings is. None: they name none. ``groups``: the API groups of the server.

    Raises InputError: the server does not have it, or it has both, and the settings do not say which one.
    """
    if settings.queue is None:
        return None
    there = [kind for kind, group in GROUPS.items() if group in groups]
    if settings.queue_kind:
        kind = QueueKind(settings.queue_kind)
        if kind not in there:
            raise InputError(
                f"queue {settings.queue}: the cluster does not have {kind.value} (API group {GROUPS[kind]})"
            )
        return kind
    if not there:
        raise InputError(
            f"queue {settings.queue}: the cluster has neither Kueue nor Volcano; leave --queue out, or ask an "
            "administrator of Kubernetes"
        )
    if len(there) > 1:
        raise InputError(
            f"queue {settings.queue}: the cluster has Kueue and Volcano; say kueue/{settings.queue} or "
            f"volcano/{settings.queue}"
        )
    return there[0]


def pod_labels(settings: KubernetesConfig, group: str) -> dict[str, str]:
    """Return what a pod's labels get. ``group``: name of the gang's group; empty: the task is of none."""
    if settings.queue is None or settings.queue_kind != QueueKind.KUEUE:
        return {}
    return {KUEUE_QUEUE: settings.queue, **({_KUEUE_GROUP: group} if group else {})}


def pod_annotations(settings: KubernetesConfig, group: str, size: int) -> dict[str, str]:
    """Return what a pod's annotations get. ``size``: of the gang."""
    if settings.queue is None:
        return {}
    if settings.queue_kind == QueueKind.KUEUE:
        return {_KUEUE_COUNT: str(size), _KUEUE_RETRIABLE: "false"} if group else {}
    return {VOLCANO_QUEUE: settings.queue, **({_VOLCANO_GROUP: group} if group else {})}


def pod_scheduler(settings: KubernetesConfig) -> dict[str, str]:
    """Return what a pod's specification gets."""
    volcano = settings.queue is not None and settings.queue_kind == QueueKind.VOLCANO
    return {"schedulerName": VOLCANO_SCHEDULER} if volcano else {}


def has_groups(settings: KubernetesConfig) -> bool:
    """Return whether gangs have an object of their own, which Grass makes and removes."""
    return bool(pod_scheduler(settings))


def takes_replacements(settings: KubernetesConfig) -> bool:
    """Return whether a pod may join a group later, in place of one that has ended."""
    return not has_groups(settings)


def groups_path(namespace: str) -> str:
    return f"/apis/{_POD_GROUP_API}/namespaces/{namespace}/{POD_GROUPS}"


def pod_group(settings: KubernetesConfig, name: str, size: int, own: Mapping[str, str]) -> dict[str, object]:
    """Return the PodGroup of a gang. ``own``: labels of all objects of the node."""
    return {
        "apiVersion": _POD_GROUP_API,
        "kind": "PodGroup",
        "metadata": {"name": name, "labels": {**MANAGED, **own}},
        "spec": {"minMember": size, "queue": settings.queue},
    }
