"""Judges a pod: whether its task waits, runs or has ended, and why. Pure; used by ``runtime``.

Kubernetes says the same thing in several places, and not all of them agree. What counts, in this order:

1. The first terminal state of the task's container: a phase may change again later, and a kubelet may start the
   container once more after a reboot, despite ``restartPolicy: Never``.
2. Why the pod was ended: its conditions, then ``status.reason``. What was Kubernetes' doing is not the task's.
3. The phase, for pods whose container never began.

A phase of Failed alone is no end: with ``DeadlineExceeded`` it is set while the container still runs. A kubelet that
deletes a pod may not say how its container ended (``ContainerStatusUnknown``, with a made-up code of 137).
"""

from __future__ import annotations

import re
import signal
from collections.abc import Iterator
from datetime import datetime
from typing import NamedTuple

from grass.kubernetes.objects import Condition, ContainerStatus, Pod, TerminatedState, WaitingState
from grass.kubernetes.queues import KUEUE_QUEUE, VOLCANO_QUEUE, VOLCANO_SCHEDULER
from grass.model.reasons import Reason, ReasonCode
from node.runtime.out_of_memory import out_of_memory

TASK = "task"
"""Name of the container that runs the task. Others, such as those of a service mesh, do not count."""
WAITER = "addresses"
"""Name of the container that waits, before that one, for what its pod must be told (``job_files``)."""
_KILLED = 128 + signal.SIGKILL.value
_SIGNALS = range(129, 160)
"""Exit codes of a container that a signal ended. Codes from 160 on are more likely a program's own."""
_UNKNOWN_END = "ContainerStatusUnknown"
_OOM = "OOMKilled"
_CANNOT_RUN = frozenset({"ContainerCannotRun", "StartError", "RunContainerError"})
_REFUSED_BY_KUBELET = re.compile(
    r"^(Out[Oo]f\w+|NodeAffinity|NodeSelectorMismatching|UnexpectedAdmissionError|Preempting"
    r"|InsufficientResourceError|Topology\w+|AppArmor|SysctlForbidden|PodOSNotSupported)$"
)
_DISRUPTIONS = {
    "PreemptionByScheduler": "kube-scheduler preempted it for a pod of higher priority",
    "PreemptionByKubeScheduler": "kube-scheduler preempted it for a pod of higher priority",
    "DeletionByTaintManager": "its Kubernetes node was tainted, as one is that does not answer",
    "EvictionByEvictionAPI": "it was evicted, as by a drain of its Kubernetes node",
    "DeletionByPodGC": "its Kubernetes node is gone",
    "TerminationByKubelet": "its Kubernetes node evicted it for lack of resources, or shuts down",
}
_ENDED_BY_KUEUE = "TerminationTarget"
"""The condition with which Kueue says why it deletes a pod."""
_BAD_IMAGE_NAMES = frozenset({"InvalidImageName", "ErrImageNeverPull"})
_IMAGE_TROUBLE = frozenset({"ErrImagePull", "ImagePullBackOff", "ImageInspectError", "RegistryUnavailable"})
_CONFIGURATION = frozenset(
    {"CreateContainerConfigError", "CreateContainerError", "PreCreateHookError", "PostStartHookError"}
)


DELETED = "its pod was deleted by somebody else"
_MOST_SAID = 240
"""Characters of a sentence of Kubernetes that are shown."""
_HELPS = (
    (re.compile(r"Insufficient (cpu|memory|ephemeral-storage)\b"), "ask for less {}"),
    (re.compile(r"Insufficient ([-\w.]+/[-\w.]+)"), "ask for fewer {}"),
    (re.compile(r"Too many pods"), "wait until other pods end"),
    (re.compile(r"had (?:untolerated )?taint"), "let its pods tolerate that taint"),
    (re.compile(r"didn't match (?:Pod's )?node (?:selector|affinity)"), "ask for labels that a machine has"),
    (re.compile(r"PersistentVolumeClaim|persistentvolumeclaim|volume node affinity"), "look at its volume claims"),
)


class Waits(NamedTuple):
    """The task has not begun. ``patience``: seconds after which it is given up; None: it waits on. ``quiet``: the pod's
    status does not say why; its events may."""

    reason: Reason
    patience: float | None
    quiet: bool = False


class Runs(NamedTuple):
    """The task runs. ``started``: wall seconds, by the clock of its machine."""

    started: float | None


class Ended(NamedTuple):
    """``code`` and ``signal`` are both None if the end is unknown. ``begun``: whether the container ever ran."""

    code: int | None
    signal: int | None
    reason: Reason | None
    started: float | None
    ended: float | None
    begun: bool = True


Judgement = Waits | Runs | Ended

IMAGE_PATIENCE = 15 * 60.0
START_PATIENCE = 5 * 60.0
"""Seconds for an image to be pulled, and for all else that a pod may wait for on its machine."""


def judge(pod: Pod, memory: int = 0) -> Judgement:
    """``memory``: the limit of the task, in bytes; 0: none."""
    container = container_of(pod, TASK)
    final = _final(container)
    if container is not None and final is not None:
        return _ended(pod, container, final, memory)
    if container is not None and container.state.running is not None:
        return Runs(wall(container.state.running.started_at))
    if (shell := _no_shell(pod)) is not None:
        return Ended(None, None, shell, None, None, begun=False)
    if pod.status.phase in ("Failed", "Succeeded"):
        return Ended(None, None, _why_never(pod), None, None, begun=False)
    return _waits(pod, container)


def leaves(pod: Pod) -> Reason | None:
    """Return why a pod whose task runs is being ended, if it is: the reason counts if that was not Grass."""
    if pod.metadata.deletion_timestamp is None:  # a condition alone may be taken back
        return None
    reason = _disruption(pod) or Reason(ReasonCode.EVICTED, DELETED)
    return Reason(reason.code, reason.message, {"machine": pod.spec.node_name})


def lost(pod: Pod) -> Ended:
    """Return the end of a pod that is gone without a final state."""
    container = container_of(pod, TASK)
    running = container.state.running if container is not None else None
    disruption = _disruption(pod)
    if running is None and _final(container) is None:
        reason = disruption or Reason(ReasonCode.EVICTED, "its pod was deleted by somebody else before it began")
        return Ended(None, None, reason, None, None, begun=False)
    reason = disruption or Reason(
        ReasonCode.EXIT_UNKNOWN, "its pod was deleted by somebody else; how it ended is unknown"
    )
    return Ended(None, None, reason, wall(running.started_at) if running else None, None)


def container_of(pod: Pod, name: str) -> ContainerStatus | None:
    """Return what is known of a container of the pod. None: nothing yet."""
    return next((each for each in pod.status.container_statuses or () if each.name == name), None)


def waiter_of(pod: Pod) -> ContainerStatus | None:
    """Return what is known of the container that waits. None: nothing yet, or the pod has none."""
    return next((each for each in pod.status.init_container_statuses or () if each.name == WAITER), None)


def waits_for_others(pod: Pod) -> bool:
    """Return whether the task only waits to be told what it needs."""
    waiter = waiter_of(pod)
    return waiter is not None and waiter.state.running is not None


def _final(container: ContainerStatus | None) -> TerminatedState | None:
    """Return the first terminal state, also of a container that was started again."""
    if container is None:
        return None
    return container.last_state.terminated or container.state.terminated


def _ended(pod: Pod, container: ContainerStatus, final: TerminatedState, memory: int) -> Ended:
    started, ended = wall(final.started_at), wall(final.finished_at)
    if final.reason == _UNKNOWN_END:
        reason = _disruption(pod) or Reason(ReasonCode.EXIT_UNKNOWN, "its pod was deleted; how it ended is unknown")
        return Ended(None, None, reason, started, ended)
    if container.restart_count or container.last_state.terminated is not None:
        reason = Reason(ReasonCode.NODE_REBOOTED, "its Kubernetes node was restarted, and its container with it")
        return Ended(None, None, reason, started, ended)
    if final.reason in _CANNOT_RUN:
        message = f"cannot start in its image: {one_line(final.message)}"
        return Ended(final.exit_code, None, Reason(ReasonCode.CANNOT_START, message), None, ended, begun=False)
    disruption = _disruption(pod)
    if disruption is not None and final.exit_code != 0:
        return Ended(None, None, disruption, started, ended)
    if final.exit_code == _KILLED and final.reason == _OOM:
        return Ended(None, signal.SIGKILL.value, out_of_memory(memory), started, ended)
    if pod.status.reason == "DeadlineExceeded":
        reason = Reason(ReasonCode.TIMEOUT, "ran longer than its limit; Kubernetes ended it, because Grass was away")
        return Ended(None, None, reason, started, ended)
    number = final.signal or (final.exit_code - 128 if final.exit_code in _SIGNALS else 0)
    if number:
        return Ended(None, number, None, started, ended)
    return Ended(final.exit_code, None, None, started, ended)


def _why_never(pod: Pod) -> Reason:
    """Return why a pod ended whose container never began."""
    status = pod.status
    said = _colon(status.message)
    if _REFUSED_BY_KUBELET.match(status.reason):
        return Reason(ReasonCode.EVICTED, f"its Kubernetes node refused it ({status.reason}){said}")
    if status.reason == "DeadlineExceeded":
        return Reason(ReasonCode.TIMEOUT, "did not begin within its limit; Kubernetes ended it, because Grass was away")
    return _disruption(pod) or Reason(
        ReasonCode.EVICTED, f"Kubernetes ended its pod ({status.reason or 'no reason given'}){said}"
    )


def _disruption(pod: Pod) -> Reason | None:
    """Return why Kubernetes ended the pod, if it was Kubernetes' doing."""
    target = _condition(pod, "DisruptionTarget")
    if target is not None and target.status == "True":
        what = _DISRUPTIONS.get(target.reason, f"Kubernetes ended its pod ({target.reason})")
        return Reason(ReasonCode.EVICTED, what)
    target = _condition(pod, _ENDED_BY_KUEUE)
    if target is not None and target.status == "True" and KUEUE_QUEUE in pod.metadata.labels:
        said = shortened(one_line(target.message)) or target.reason
        return Reason(ReasonCode.EVICTED, f"Kueue ended its pod{_colon(said)}")
    if pod.status.reason in ("Evicted", "Shutdown", "Terminated", "NodeShutdown", "NodeLost", "Preempting"):
        said = _colon(pod.status.message)
        return Reason(ReasonCode.EVICTED, f"Kubernetes ended its pod ({pod.status.reason}){said}")
    return None


def _no_shell(pod: Pod) -> Reason | None:
    """Return why the container that waits for addresses could not run, if it is the image's fault."""
    waiter = waiter_of(pod)
    final = waiter.state.terminated if waiter is not None else None
    if final is None or final.reason not in _CANNOT_RUN:
        return None
    why = "its image has no /bin/sh, which a task needs in a pod that waits for the addresses of others"
    return Reason(ReasonCode.CANNOT_START, f"{why}{_colon(final.message)}")


def _waits(pod: Pod, container: ContainerStatus | None) -> Waits:
    scheduled = _condition(pod, "PodScheduled")
    queued = _queued(pod, scheduled)
    if queued is not None:
        return Waits(queued, None)
    if scheduled is not None and scheduled.status == "False":
        return Waits(Reason(ReasonCode.UNSCHEDULABLE, unschedulable(scheduled.message)), START_PATIENCE)
    waiter = waiter_of(pod)
    if waits_for_others(pod):
        return Waits(Reason(ReasonCode.NOT_STARTED, "its pod waits for addresses of others"), START_PATIENCE)
    first = waiter if waiter is not None and waiter.state.terminated is None else container
    waiting = first.state.waiting if first is not None else None
    if waiting is not None and waiting.reason not in ("", "ContainerCreating", "PodInitializing"):
        return _troubled(waiting)
    if pod.spec.node_name:
        return Waits(
            Reason(ReasonCode.NOT_STARTED, f"its pod is being started on {pod.spec.node_name}"), START_PATIENCE, True
        )
    return Waits(Reason(ReasonCode.NOT_STARTED, "its pod waits for kube-scheduler"), START_PATIENCE, True)


def _queued(pod: Pod, scheduled: Condition | None) -> Reason | None:
    """Return why the pod waits if a queue of Kubernetes keeps it back."""
    labels, annotations = pod.metadata.labels, pod.metadata.annotations
    if scheduled is not None and scheduled.status == "True":
        return None
    if scheduled is not None and scheduled.reason == "SchedulingGated":
        queue = labels.get(KUEUE_QUEUE)
        where = f"queue {queue} of Kueue" if queue else "a scheduling gate of Kubernetes"
        return Reason(ReasonCode.NAMESPACE_QUEUE, f"its pod waits for {where}")
    if pod.spec.scheduler_name == VOLCANO_SCHEDULER and not pod.spec.node_name:
        said = _colon(shortened(one_line(scheduled.message))) if scheduled is not None else ""
        name = annotations.get(VOLCANO_QUEUE, "")
        return Reason(ReasonCode.NAMESPACE_QUEUE, f"its pod waits for queue {name} of Volcano{said}")
    return None


def _troubled(waiting: WaitingState) -> Waits:
    said = _colon(waiting.message)
    if waiting.reason in _BAD_IMAGE_NAMES:
        return Waits(Reason(ReasonCode.IMAGE, f"its image cannot be used ({waiting.reason}){said}"), 0.0)
    if waiting.reason in _IMAGE_TROUBLE:
        return Waits(Reason(ReasonCode.IMAGE, f"its image cannot be pulled ({waiting.reason}){said}"), IMAGE_PATIENCE)
    if waiting.reason in _CONFIGURATION:
        return Waits(
            Reason(ReasonCode.NOT_STARTED, f"its container cannot be made ({waiting.reason}){said}"), START_PATIENCE
        )
    return Waits(Reason(ReasonCode.NOT_STARTED, f"its container waits ({waiting.reason}){said}"), START_PATIENCE)


def unschedulable(message: str) -> str:
    """Return kube-scheduler's sentence, ``0/3 nodes are available: 3 Insufficient cpu.``, as a reason, with what would
    help."""
    said = one_line(message).partition(" preemption: ")[0].rstrip(". ")
    if not said:
        return "kube-scheduler finds no machine"
    helps = dict.fromkeys(found[1].format(*found[0]) for found in _helps(said))
    return f"kube-scheduler finds no machine: {shortened(said)}{'; ' if helps else ''}{', or '.join(helps)}"


def one_line(message: str) -> str:
    return " ".join(message.split())


def shortened(said: str) -> str:
    return said if len(said) <= _MOST_SAID else f"{said[:_MOST_SAID].rsplit(' ', 1)[0]} …"


def _colon(message: str) -> str:
    return f": {one_line(message)}" if message else ""


def _helps(said: str) -> Iterator[tuple[tuple[str, ...], str]]:
    for pattern, text in _HELPS:
        for match in pattern.finditer(said):
            yield match.groups(), text


def of_deletion(end: Ended, message: str) -> Ended:
    """Return the end of a task whose pod somebody else deleted. A task that ended well, or by itself, has done so."""
    if end.code is not None or end.signal not in (None, signal.SIGTERM, signal.SIGKILL):
        return end
    if end.reason is not None and end.reason.code is not ReasonCode.EXIT_UNKNOWN:
        return end
    return end._replace(reason=Reason(ReasonCode.EVICTED, message))


def _condition(pod: Pod, kind: str) -> Condition | None:
    return next((each for each in pod.status.conditions if each.type == kind), None)


def wall(text: str | None) -> float | None:
    """Return Kubernetes' ``2026-11-27T03:30:32Z`` as seconds since the epoch; None for its year 1 (never)."""
    if not text or text.startswith("0001"):
        return None
    return datetime.fromisoformat(text.replace("Z", "+00:00")).timestamp()
