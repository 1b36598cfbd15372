"""What tasks in a namespace of Kubernetes cannot have, and what their pods cost. Pure; the only list of it.

A namespace may have a claim (PersistentVolumeClaim) that is the share of its pods; its node has a label ``share`` then.

The planner places such tasks on other nodes, the API warns where there are none, and the agent of a namespace starts
none. Used by ``master.agent``, ``master.api``, ``master.planning``, ``node.agent``, ``node.runtime.kubernetes.keeper``
and ``grass.cli.pull``.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from enum import Enum
from typing import NamedTuple

from grass.model.framework import FrameworkName
from grass.model.job import PLAIN_CONTAINER, Component, Container, StopSignal
from grass.model.resources import DEVICE, Resources
from grass.model.runtime import RuntimeName


class Serve(str, Enum):
    """Where the tasks of resources of a namespace run that are served as jobs."""

    PODS = "pods"
    ANYWHERE = "anywhere"
    """Also on machines of the cluster, with the rights of the user to whom the cluster belongs."""


class QueueKind(str, Enum):
    """Whose a queue of Kubernetes is through which pods go."""

    KUEUE = "kueue"
    VOLCANO = "volcano"


NEEDS_IMAGE = "needs an image there"
"""Why a component without an image does not go to a node that runs no processes and has no default image."""


_NO_SHARE = "which pods there do not have"
NAME_LABEL = "kubernetes"
"""Label of a node that is a namespace: the name of the namespace."""
SHARE_LABEL = "share"
"""Label of a node whose tasks see a share that has a mount of its own; of a namespace: the name of its claim."""

POD_COST = Resources(cpu=100, memory=32 << 20)
"""What a pod takes beside its task: a container of Grass, which stops the task and keeps its files."""


MOST_MEMBERS = 256
"""Each pod of a component whose tasks work together has a list of all of them in its annotations, which Kubernetes
bounds to 256 KiB."""


class Refusal(NamedTuple):
    """What of a component pods cannot have. ``key``: of the component in the job file."""

    key: str
    why: str


def is_namespace(runtimes: Collection[str]) -> bool:
    return RuntimeName.KUBERNETES.value in runtimes


def taken(resources: Resources, runtimes: Collection[str]) -> Resources:
    """Return what a task takes of a node that asks for ``resources``. ``runtimes``: of the node."""
    return resources + POD_COST if is_namespace(runtimes) else resources


def own_labels(namespace: str, claim: str | None) -> dict[str, str]:
    """Return the labels that the node of a namespace has by itself. ``claim``: that is its share."""
    return {NAME_LABEL: namespace} if claim is None else {NAME_LABEL: namespace, SHARE_LABEL: claim}


def has_share(labels: Mapping[str, str]) -> bool:
    """Return whether pods of a namespace have a share. ``labels``: of its node."""
    return SHARE_LABEL in labels


def refusals(component: Component, *, share: bool) -> tuple[Refusal, ...]:
    """Return what of a component pods cannot have. A missing image is another matter: a namespace may have one.

    ``share``: whether the namespace has one.
    """
    found: list[Refusal] = []
    if component.cwd is not None and not component.cwd.startswith("/") and not share:
        found.append(Refusal("cwd", f"a relative `cwd` is in the share, {_NO_SHARE}"))
    if component.container is not PLAIN_CONTAINER:
        found += _of_container(component.container, share)
    if component.resources.gpu % DEVICE:
        found.append(Refusal("resources.gpu", "pods have whole GPUs only"))
    if component.check is not None:
        found.append(Refusal("check", "Kubernetes chooses the machine of a pod, so none is checked before (`check`)"))
    if component.stop_signal is not StopSignal.TERM:
        found.append(Refusal("stop_signal", "Kubernetes itself stops pods, and with TERM (`stop_signal`)"))
    if component.keep is not None:
        found.append(Refusal("keep", "the memory of a pod ends with it, and each attempt is a pod of its own (`keep`)"))
    found += [*_of_members(component), *_of_notice(component)]
    return tuple(found)


def _of_notice(component: Component) -> Iterator[Refusal]:
    if component.notice is not None and component.notice.command is None:
        yield Refusal("notice", "a pod is told by a command only (`notice.command`)")
    elif component.notice is not None and component.notice.signal is not None:
        yield Refusal("notice.signal", "a pod gets no signal before it is stopped; name a `notice.command` alone")


def _of_members(component: Component) -> Iterator[Refusal]:
    """Yield what stands against tasks that work together. All must be pods: a machine does not reach them."""
    framework = component.framework
    has_framework = framework is not None and framework.name is not FrameworkName.NONE
    if not has_framework and not component.elastic:
        return
    key = "framework" if has_framework else "min" if component.min is not None else "max"
    if component.runtime is not RuntimeName.KUBERNETES:
        yield Refusal(
            key, "its tasks work together, and machines do not reach pods; `runtime: kubernetes` says that all are pods"
        )
    most = component.max if component.max is not None else component.replicas
    if most > MOST_MEMBERS:
        largest = "max" if component.max is not None else "replicas"
        yield Refusal(largest, f"at most {MOST_MEMBERS} pods can know each other, and it may have {most}")


def refused(component: Component, *, share: bool) -> str:
    """Return why a component cannot run in a namespace, in words; empty: it can."""
    return ", and ".join(each.why for each in refusals(component, share=share))


def _of_container(container: Container, share: bool) -> list[Refusal]:
    of_machines = any(not mount.shared for mount in container.mounts)
    wanted = (
        (container.user is not None, "user", "the settings of a namespace say which user pods have"),
        (bool(container.ulimits), "ulimits", "pods have the limits of their machine"),
        (of_machines, "mounts", "pods mount no folders of machines"),
        (
            bool(container.mounts) and not of_machines and not share,
            "mounts",
            f"its mounts are of the share, {_NO_SHARE}",
        ),
        (container.data is not None and not share, "data", f"it names the share, {_NO_SHARE}"),
    )
    return [Refusal(f"container.{key}", f"{why} (`container.{key}`)") for has, key, why in wanted if has]
