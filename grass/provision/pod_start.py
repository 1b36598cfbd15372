"""Waits until the one pod of a StatefulSet is ready, in its newest form, and says why it is not. Used by ``inside``."""

from __future__ import annotations

from grass.errors import GrassError, InputError, NotAllowedError, UnreachableError
from grass.kubernetes.api import ApiServer
from grass.kubernetes.objects import EVENTS, POD, STATEFUL_SET, Pod, StatefulSet
from grass.system import clock

_PATIENCE = 300.0
"""Seconds for a machine, a volume and an image."""
_IMAGE_PATIENCE = 60.0
_GLANCE = 0.3
_LOOK = 5.0
"""Seconds between looks at events, which say why there is no pod."""
_NO_IMAGE = ("ErrImagePull", "ImagePullBackOff")
_NEVER = ("InvalidImageName", "ErrImageNeverPull")
_ERRORS = frozenset({InputError.exit_code, NotAllowedError.exit_code})
"""Exit codes of what another start does not mend."""
_STARTS = 3
_REVISION = "controller-revision-hash"


def wait_started(server: ApiServer, namespace: str, name: str) -> None:
    """Raises InputError: its image cannot be had, or its program ends with an error; UnreachableError: it does not
    start."""
    began, why = clock.steady(), ""
    path = f"/api/v1/namespaces/{namespace}/pods/{name}-0"
    while (waited := clock.steady() - began) < _PATIENCE:
        owner = server.get(f"/apis/apps/v1/namespaces/{namespace}/statefulsets/{name}", STATEFUL_SET)
        pod = server.find(path, POD)
        if pod is not None and is_newest(pod, owner):
            if is_ready(pod):
                return
            why = reason_of(pod)
            if fault := fault_of(pod, waited):
                raise InputError(f"pod {name}-0: {fault}")
        elif pod is None and waited > _LOOK:
            why = _said(server, namespace, name) or why
        clock.sleep(_GLANCE)
    raise UnreachableError(
        f"pod {name}-0: is not ready after {_PATIENCE:g} s: {why or 'Kubernetes makes none'}; the same command waits on"
    )


def is_newest(pod: Pod, owner: StatefulSet) -> bool:
    """Return whether the pod is as its StatefulSet says now."""
    seen = owner.status.observed_generation >= owner.metadata.generation
    newest = pod.metadata.labels.get(_REVISION) == owner.status.update_revision
    return seen and newest and pod.metadata.deletion_timestamp is None


def is_ready(pod: Pod) -> bool:
    return any(each.type == "Ready" and each.status == "True" for each in pod.status.conditions)


def reason_of(pod: Pod) -> str:
    """Return why it is not ready, in Kubernetes' words."""
    for each in pod.status.container_statuses or []:
        if each.state.waiting is not None:
            return f"{each.state.waiting.reason}: {each.state.waiting.message}".rstrip(": ")
    unmet = [each.message for each in pod.status.conditions if each.status == "False" and each.message]
    return unmet[0] if unmet else f"its phase is {pod.status.phase or 'unknown'}"


def fault_of(pod: Pod, waited: float) -> str:
    """Return what does not mend itself; empty: nothing is known. ``waited``: seconds so far."""
    for each in pod.status.container_statuses or []:
        waiting = each.state.waiting.reason if each.state.waiting else ""
        if waiting in _NEVER or (waiting in _NO_IMAGE and waited > _IMAGE_PATIENCE):
            return f"its image cannot be had (`inside.image`): {reason_of(pod)}"
        ended = each.state.terminated or each.last_state.terminated
        if ended is not None and (ended.exit_code in _ERRORS or each.restart_count >= _STARTS):
            return f"ended with exit code {ended.exit_code}: {ended.message.strip() or ended.reason}"
    return ""


def _said(server: ApiServer, namespace: str, name: str) -> str:
    """Return the newest event of the StatefulSet: a quota, for example, refuses its pod."""
    query = {"fieldSelector": f"involvedObject.name={name}"}
    try:
        found = server.get(f"/api/v1/namespaces/{namespace}/events", EVENTS, query).items
    except GrassError:
        return ""
    newest = max(found, key=lambda each: each.last_timestamp or each.event_time or "", default=None)
    return newest.message if newest is not None and newest.type == "Warning" else ""
