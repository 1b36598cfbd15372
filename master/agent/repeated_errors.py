"""The same error of a program on two nodes within a minute: a further start would only repeat it. Pure.

A new master-agent has forgotten earlier errors, and learns them again. Used by ``failures`` and ``tasks``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from grass.model.reasons import Details, FailureClass, Reason
from grass.model.task_values import alike
from master.agent.component_run import ComponentRun
from master.agent.state import JobRun
from master.agent.step import Step

WITHIN = 60.0
"""Seconds."""
_KINDS = 100
"""Different errors of a component that are remembered."""
_OWN = (FailureClass.USER_ERROR, FailureClass.OUT_OF_MEMORY)
"""What a program does on each node alike. Others may go away by themselves."""


def note(step: Step, component: ComponentRun, node: str, reason: Reason) -> list[str]:
    """Note how a task failed. Return the nodes that gave the same error within a minute, if they are several."""
    details = reason.details
    if reason.failure not in _OWN or details.get("limit", 1) == 0:  # 0: others used the machine's memory
        return []
    if not details.keys() & {"error", "signal", "limit"}:  # an exit code alone may have two causes
        return []
    kind = details.get("code"), details.get("signal"), alike(replace(reason, message=details.get("error", "")))
    errors = component.errors = component.errors or {}
    seen = {name: at for name, at in errors.pop(kind, {}).items() if at >= step.now - WITHIN}
    seen[node] = step.now
    errors[kind] = seen
    if len(errors) > _KINDS:
        del errors[next(iter(errors))]
    return sorted(seen) if len(seen) > 1 else []


def ends_job(run: JobRun, component: ComponentRun) -> bool:
    """Return whether the other tasks cannot go on without the one that failed: they are a gang, or have a framework."""
    return component.spec.name in run.job.gang or component.spec.framework is not None


def told(reason: Reason, nodes: Sequence[str]) -> Reason:
    """Return the reason of a task that is not started again, because these nodes gave the same error."""
    message = f"{reason.message}; {same(nodes)}, so it is not started again"
    return replace(reason, message=message, details=Details(**reason.details, repeated_on=[*nodes]))


def same(nodes: Sequence[str]) -> str:
    return f"the same error on {', '.join(nodes[:-1])} and {nodes[-1]} within a minute"


def found(component: ComponentRun) -> list[str]:
    """Return the nodes that a failed task of the component names in its reason."""
    reasons = (task.reason for task in component.tasks.values() if task.reason is not None)
    return next((each.details["repeated_on"] for each in reasons if "repeated_on" in each.details), [])
