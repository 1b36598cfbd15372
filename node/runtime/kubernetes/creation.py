"""Decides what the answer to the creation of a pod means. Pure; used by ``starts``.

A pod is created with POST and a name that follows from its attempt, never with an apply: that would create it once
more after somebody deleted it. 409 has three meanings, and 403 several; the message tells some of them apart, because
the API has no other place for it.
"""

from __future__ import annotations

import re
from enum import Enum
from typing import NamedTuple

from grass.errors import GrassError, InputError, NotAllowedError, UnreachableError
from grass.kubernetes import names
from grass.kubernetes.api import BusyError, RefusedError
from grass.kubernetes.objects import Pod
from grass.model.reasons import Reason, ReasonCode
from node.runtime.kubernetes.lease import NotHeldError

_QUOTA = re.compile(r"exceeded quota: ([^,]+), requested: (.*), used: (.*), limited: (.*)$")
_QUOTA_NEEDS = re.compile(r"failed quota: ([^:]+): must specify (.+)$")
_NO_RIGHT = re.compile(r"cannot \w+ resource ")
_BUSY_PAUSE = 1.0
_AWAY_PAUSE = 5.0


class Step(Enum):
    """LOOK: it is not known whether the pod exists; get it. AGAIN: post again later. FAIL: it will never be created.

    AWAY: the agent may not use the namespace now; the node says so, and nothing is judged. GONE: the namespace is gone,
    or being deleted, which cannot be stopped.
    """

    LOOK = "look"
    AGAIN = "again"
    FAIL = "fail"
    AWAY = "away"
    GONE = "gone"


class Decision(NamedTuple):
    """What to do next. ``pause``: seconds before AGAIN. ``quota``: it waits for a quota, in ``quota_queue``."""

    step: Step
    reason: Reason | None = None
    pause: float = 0.0
    quota: bool = False


def after_refusal(error: GrassError, name: str) -> Decision:
    """Decide about a POST of the pod ``name`` that was not answered with 201."""
    match error:
        case BusyError(http=429):
            return Decision(Step.AGAIN, pause=max(error.retry_after, _BUSY_PAUSE))
        case BusyError():
            return Decision(Step.LOOK)
        case RefusedError(http=409):
            return _conflict(error)
        case RefusedError(http=403):
            return _forbidden(error, name)
        case RefusedError(http=404):
            return Decision(Step.GONE, Reason(ReasonCode.RUNTIME, f"its namespace is gone: {error}"))
        case RefusedError():
            return Decision(Step.FAIL, Reason(ReasonCode.CANNOT_START, f"Kubernetes refuses its pod: {_fields(error)}"))
        case NotAllowedError() | InputError():
            return _away(str(error))
        case NotHeldError():
            return Decision(Step.AGAIN, Reason(ReasonCode.RUNTIME, str(error)), _BUSY_PAUSE)
        case UnreachableError():
            return Decision(Step.LOOK)
        case _:
            return Decision(Step.FAIL, Reason(ReasonCode.CANNOT_START, str(error)))


def _conflict(error: RefusedError) -> Decision:
    details = error.status.details
    if error.reason == "AlreadyExists":
        return Decision(Step.LOOK)
    if details is not None and details.kind == "resourcequotas":  # two pods were counted at the same time
        return Decision(Step.AGAIN, pause=_BUSY_PAUSE)
    return Decision(
        Step.AGAIN, Reason(ReasonCode.NOT_STARTED, f"Kubernetes is busy with its pod: {error}"), _BUSY_PAUSE
    )


def _forbidden(error: RefusedError, name: str) -> Decision:
    said = str(error)
    exceeded = _QUOTA.search(said)
    if exceeded:
        quota, requested, used, limited = exceeded.groups()
        message = f"quota {quota} of its namespace is used up: it asks for {requested}; used {used} of {limited}"
        return Decision(Step.AGAIN, Reason(ReasonCode.NAMESPACE_QUOTA, message), quota=True)
    needs = _QUOTA_NEEDS.search(said)
    if needs:
        message = f"quota {needs[1]} of its namespace wants each pod to say its {needs[2]}"
        return Decision(Step.FAIL, Reason(ReasonCode.CANNOT_START, message))
    if "is being terminated" in said:
        return Decision(Step.GONE, Reason(ReasonCode.RUNTIME, f"its namespace is being deleted: {said}"))
    if _NO_RIGHT.search(said):
        return _away(f"Kubernetes refuses the agent: {said}")
    said = said.removeprefix(f'pods "{name}" is forbidden: ')
    return Decision(Step.FAIL, Reason(ReasonCode.CANNOT_START, f"Kubernetes refuses its pod: {said}"))


def _away(message: str) -> Decision:
    return Decision(Step.AWAY, Reason(ReasonCode.RUNTIME, message), _AWAY_PAUSE)


def _fields(error: RefusedError) -> str:
    """Return what is wrong with an object, with the path of each field."""
    causes = error.status.details.causes if error.status.details else []
    return "; ".join(f"{each.field}: {each.message}" for each in causes if each.field) or str(error)


def belongs(pod: Pod, cluster: str, node: str, key: str) -> bool:
    """Return whether a pod that has the name of attempt ``key`` is that attempt's, also while it is being deleted."""
    mine = (names.short(cluster), names.short(node), key)
    labels = pod.metadata.labels
    return mine == (labels.get(names.CLUSTER), labels.get(names.NODE), pod.metadata.annotations.get(names.ATTEMPT))
