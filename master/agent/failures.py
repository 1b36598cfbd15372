"""The reasons of tasks and jobs that failed: how a task ended, why by its output, whose fault it is, and which failed
alike. Pure.

Used by ``jobs`` and ``tasks``.
"""

from __future__ import annotations

from dataclasses import replace

from grass.model.amounts import show_memory
from grass.model.failure_class import failure_class
from grass.model.failure_text import by_code, by_signal
from grass.model.job import runtime_of
from grass.model.lifecycle import TaskState
from grass.model.program import first_program, starts_several
from grass.model.reasons import Details, Reason, ReasonCode
from grass.model.runtime import RUNTIMES
from grass.model.task_values import alike, in_common
from grass.wire.task_events import Ended
from grass.wire.task_record import TaskRecord
from master.agent import repeated_errors
from master.agent.component_run import ComponentRun
from master.agent.node_run import NodeRun
from master.agent.step import Step

NOT_FOUND = 127
"""Exit code of a shell that does not find a program."""
_KILL = 9


def classed(reason: Reason, *, at_fault: bool = False) -> Reason:
    """Return the reason of an end with its class. ``at_fault``: see ``node_at_fault``."""
    found = failure_class(reason, at_fault=at_fault)
    return reason if found is None else replace(reason, details=Details(**{**reason.details, "failure": found}))


def node_at_fault(node: NodeRun, task: TaskRecord) -> bool:
    """Return whether the node itself measures a fault of a device that the task has, or a check found one of the node.

    What a task prints is no proof of it."""
    broken = (node.devices.get(number) for number, _ in task.gpus)
    return node.condemned is not None or any(device is not None and device.quarantine for device in broken)


def why_failed(step: Step, component: ComponentRun, task: TaskRecord, event: Ended) -> Reason:
    """Return why a task failed: how it ended, and what its output says of why."""
    reason = task.reason or _how_it_ended(step, component, task, event)
    if reason.code not in (ReasonCode.EXIT_CODE, ReasonCode.SIGNAL):
        return reason
    message, details = reason.message, reason.details.copy()
    if "limit" in details and event.usage is not None and event.usage.memory:
        message += f"; {show_memory(event.usage.memory)} were measured at most"
    if event.cause:
        message, details["error"] = f"{message}: {event.cause}", event.cause
    return replace(reason, message=message, details=details)


def _how_it_ended(step: Step, component: ComponentRun, task: TaskRecord, event: Ended) -> Reason:
    code, signal = task.exit_code, task.signal
    if signal is not None:
        used = event.usage.memory if event.usage is not None else 0
        notes = ["not by Grass", *([f"it used {show_memory(used)} of memory at most"] if used else [])]
        message = by_signal(signal, *(notes if signal == _KILL else ()))
        return Reason(ReasonCode.SIGNAL, message, {"signal": signal})
    if code is None:
        return Reason(ReasonCode.EXIT_UNKNOWN, "its process is gone, and its exit code is unknown")
    hint = "" if event.cause else _hint(step, component, task)
    return Reason(ReasonCode.EXIT_CODE, f"{by_code(code)}{hint}", {"code": code})


def _hint(step: Step, component: ComponentRun, task: TaskRecord) -> str:
    """Say what a shell means with exit code 127, and which program the command starts if it starts only one."""
    spec, node = component.spec, step.cluster.nodes.get(task.node or "")
    program = first_program(spec.command)
    if task.exit_code != NOT_FOUND or not program:
        return ""
    if starts_several(spec.command):
        return ": a program was not found; the task's log names it"
    contained = runtime_of(spec, node.runtimes if node else RUNTIMES).contained
    image = spec.image or (node.default_image if node else "")
    where = f"in image {image}" if contained else f"of node {task.node}"
    return f": a program was not found; its command starts {program}, which must be on the PATH {where}"


def first_failed(component: ComponentRun) -> tuple[int, TaskRecord]:
    failed = [(task.ended or 0.0, index) for index, task in component.tasks.items() if task.state is TaskState.FAILED]
    index = min(failed)[1]
    return index, component.tasks[index]


def why_component_failed(component: ComponentRun) -> Reason:
    """Return the reason of the job: of its first failed task, how many failed, and what those have in common that
    failed like it."""
    index, task = first_failed(component)
    first, why = f"{component.spec.name}.{index}", task.reason.message if task.reason else "unknown"
    failed = {at: alike(each.reason) for at, each in component.tasks.items() if each.state is TaskState.FAILED}
    like = [at for at, kind in failed.items() if kind == failed[index]]
    message = f"{first} failed: {why}"
    if len(failed) > 1:
        message = f"{len(failed)} of {component.size} tasks failed, first {first}: {why}"
    notes = [] if len(like) == len(failed) else [f"{len(like)} failed like this"]
    if shared := in_common(component.spec, like):
        notes.append(shared if len(like) == 1 else f"{shared} in all {len(like)}")
    details = Details(task=first)
    if task.reason is not None and "error" in task.reason.details:
        details["error"] = task.reason.details["error"]
    if repeated := repeated_errors.found(component):
        details["repeated_on"] = repeated
        if task.reason is not None and "repeated_on" not in task.reason.details:
            notes.append(repeated_errors.same(repeated))
    if task.reason is not None and task.reason.failure is not None:
        details["failure"] = task.reason.failure
    return Reason(ReasonCode.COMPONENT_FAILED, "; ".join([message, *notes]), details)
