"""What tasks in a namespace of Kubernetes cannot have. Pure; the only list of it.

The planner places such tasks on other nodes, the API warns where there are none, and the agent of a namespace starts
none. Used by ``master.agent.component_run``, ``master.api``, ``master.planning.node_table`` and ``node.agent.starts``.
"""

from __future__ import annotations

from typing import NamedTuple

from grass.model.framework import FrameworkName
from grass.model.job import PLAIN_CONTAINER, Component
from grass.model.resources import DEVICE

NEEDS_IMAGE = "needs an image there"
"""Why a component without an image does not go to a node that runs no processes and has no default image."""


class Refusal(NamedTuple):
    """What of a component pods cannot have. ``key``: of the component in the job file."""

    key: str
    why: str


def refusals(component: Component) -> tuple[Refusal, ...]:
    """Return what of a component pods cannot have. A missing image is another matter: a namespace may have one."""
    found: list[Refusal] = []
    if component.cwd is not None and not component.cwd.startswith("/"):
        found.append(Refusal("cwd", "a relative `cwd` is in the share, which pods do not have"))
    if component.container is not PLAIN_CONTAINER:
        found += _of_container(component)
    if component.resources.gpu % DEVICE:
        found.append(Refusal("resources.gpu", "pods have whole GPUs only"))
    framework = component.framework
    if framework is not None and framework.name is not FrameworkName.NONE:
        found.append(Refusal("framework", f"pods do not find each other yet (framework {framework.name.value})"))
    if component.elastic:
        key = "min" if component.min is not None else "max"
        found.append(Refusal(key, "pods do not see how an elastic component changes"))
    return tuple(found)


def refused(component: Component) -> str:
    """Return why a component cannot run in a namespace, in words; empty: it can."""
    return ", and ".join(each.why for each in refusals(component))


def _of_container(component: Component) -> list[Refusal]:
    container = component.container
    wanted = (
        (container.user is not None, "user", "the settings of a namespace say which user pods have"),
        (bool(container.ulimits), "ulimits", "pods have the limits of their machine"),
        (bool(container.mounts), "mounts", "pods mount no folders of machines or of the share"),
        (container.data is not None, "data", "pods have no share"),
    )
    return [Refusal(f"container.{key}", f"{why} (`container.{key}`)") for has, key, why in wanted if has]
