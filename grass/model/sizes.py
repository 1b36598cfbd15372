"""Which sizes a component may have while its job runs. Pure.

The API checks a request with it, for a clear answer at once; the master-agent checks again when the operation begins.
Used by ``master.agent.scaling`` and ``master.api.operations``.
"""

from __future__ import annotations

from collections.abc import Sequence

from grass.model.ending import Enough
from grass.model.job import Component, Job

MOST_TASKS = 100_000


class SizeError(ValueError):
    """The text says why the component cannot have that size."""


def target_size(
    component: Component, current: int, size: int | None, delta: int | None, remove: Sequence[str] = ()
) -> int:
    """Return the size that a scaling asks for. Raise SizeError if the component cannot have it.

    ``size`` or ``delta``, or neither: then ``remove`` alone says how many tasks leave.
    """
    name = component.name
    if component.fixed_by:
        raise SizeError(f"{name}: its tasks come from `{component.fixed_by}`, so it cannot be scaled")
    if size is not None and delta is not None:
        raise SizeError(f"{name}: give either a size or a difference")
    if size is None and delta is None and not remove:
        raise SizeError(f"{name}: give a size, such as 3, +1 or -1, or tasks to remove")
    target = size if size is not None else current + (delta if delta is not None else -len(remove))
    check_size(component, target)
    if remove and len(remove) > current - target:
        raise SizeError(f"{name}: tasks to remove: {len(remove)}, but the size goes from {current} to {target}")
    return target


def check_scaling(job: Job, component: str, remove: Sequence[str]) -> None:
    """Raise SizeError if the job cannot be scaled, or could not succeed any more without a task to remove."""
    if job.follows_tasks:
        raise SizeError(f"{component}: its tasks wait for tasks of another job (`after`), so it cannot be scaled")
    first = f"{component}.0"
    if first in remove and job.ending.enough.get(component) is Enough.INDEX0:
        hint = f"`grass job replace {job.name} {first}` moves it to another node"
        raise SizeError(f"{first}: the job succeeds with this task (`index0`), so it cannot be removed; {hint}")


def check_size(component: Component, size: int) -> None:
    """Raise SizeError if the component may not have that size."""
    name = component.name
    if size < 1:
        hint = "`grass job suspend` releases the resources of a job, `grass job stop` ends it"
        raise SizeError(f"{name}: the size must be at least 1, got {size}; {hint}")
    if component.min is not None and size < component.min:
        raise SizeError(f"{name}: the size must be at least `min`, which is {component.min}; got {size}")
    if component.max is not None and size > component.max:
        raise SizeError(f"{name}: the size must be at most `max`, which is {component.max}; got {size}")
    if size > MOST_TASKS:
        raise SizeError(f"{name}: the size must be at most {MOST_TASKS:,}, got {size}")
    if size % component.unit:
        raise SizeError(f"{name}: the size must be a multiple of `unit`, which is {component.unit}; got {size}")


def scaling_warning(component: Component) -> str:
    """Return warnings for a user who scales a component without bounds, or with a framework that cannot follow."""
    framework = component.framework
    if framework is None:
        unbounded = "has neither `min` nor `max` nor a framework; new tasks wait for resources like all others"
        return "" if component.elastic else unbounded
    found = [] if component.elastic else ["has neither `min` nor `max`, so every size is accepted"]
    if framework.kind.size_at_start:
        hint = "`grass job restart` gives all tasks the new one"
        found.append(f"framework {framework.name.value} gives a task the size only when it starts; {hint}")
    return "; ".join(found)
