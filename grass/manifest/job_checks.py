"""Checks between the parts of a job: names that exist, no cycles, bounds on components and tasks. Used by ``job``."""

from __future__ import annotations

from functools import partial

from grass.manifest import framework_options, output_names, placement_checks
from grass.manifest.document import join
from grass.manifest.fields import Problems
from grass.model.feasibility import some
from grass.model.job import Component, Condition, Job

MAX_TASKS = 100_000
MAX_COMPONENTS = 1000


def check(job: Job, path: str, problems: Problems) -> None:
    """Report the problems of ``job`` as a whole; ``path``: its path in the file. Time: linear in the size of the job.

    A job without components already has a problem; nothing else is checked for it.
    """
    if not job.components:
        return
    if len(job.components) > MAX_COMPONENTS:
        problems.add(join(path, "components"), f"must be at most {MAX_COMPONENTS}, got {len(job.components)}")
        return
    if job.task_count > MAX_TASKS:
        problems.add(join(path, "components"), f"must have at most {MAX_TASKS} tasks in all, got {job.task_count}")
    names = tuple(job.components)
    for number, name in enumerate(job.success):
        if name not in job.components:
            problems.add(f"{join(path, 'success')}[{number}]", unknown_component(name, names, problems))
    for component in job.components.values():
        _check_dependencies(component, job, names, path, problems)
        where = join(join(path, "components"), component.name)
        unknown = partial(unknown_component, names=names, problems=problems)
        framework_options.check(job, component, where, problems, unknown)
    output_names.check(job, path, problems)
    cycle = _find_cycle({name: list(component.depends_on) for name, component in job.components.items()})
    if cycle:
        where = join(join(join(path, "components"), cycle[0]), "depends_on")
        problems.add(where, f"is a cycle, so none of these could ever start: {_show_cycle(cycle)}")
        return
    placement_checks.check(job, path, problems)


def _check_dependencies(component: Component, job: Job, names: tuple[str, ...], path: str, problems: Problems) -> None:
    where = join(join(join(path, "components"), component.name), "depends_on")
    for other, condition in component.depends_on.items():
        if other not in job.components:
            problems.add(join(where, other), unknown_component(other, names, problems))
        elif condition is Condition.READY and job.components[other].ready is None:
            problems.add(
                join(where, other), f"`{other}` has no readiness check; give it `ready:`, or wait for `running`"
            )


def unknown_component(name: str, names: tuple[str, ...], problems: Problems) -> str:
    """Return the message for an unknown component. ``names``: the job's components; only the first few are compared."""
    close = problems.closest(name[:64], names[:50])
    return f"unknown component; {f'did you mean `{close}`?' if close else f'the job has {some(names)}'}"


def _show_cycle(cycle: list[str]) -> str:
    return " → ".join(cycle if len(cycle) <= 20 else [*cycle[:18], "…", cycle[-1]])


def _find_cycle(edges: dict[str, list[str]]) -> list[str]:
    """Return the first cycle, with its first name repeated at the end; empty: no cycle. Looks at each edge once."""
    finished: set[str] = set()
    for start in edges:
        if start in finished:
            continue
        trail = {start: None}  # a dict keeps the order and makes look-ups fast
        pending = [(start, iter(edges[start]))]
        while pending:
            name, others = pending[-1]
            other = next((other for other in others if other in edges and other not in finished), None)
            if other is None:
                finished.add(name)
                pending.pop()
                trail.pop(name)
            elif other in trail:
                names = list(trail)
                return [*names[names.index(other) :], other]
            else:
                trail[other] = None
                pending.append((other, iter(edges[other])))
    return []
