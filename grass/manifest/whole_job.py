"""What must hold between the parts of a job: names that exist, no cycles, a bound on tasks."""

from __future__ import annotations

from grass.manifest import whole_placement
from grass.manifest.document import join
from grass.manifest.fields import Problems
from grass.model.job import Component, Condition, Job

MAX_TASKS = 100_000
MAX_COMPONENTS = 1000


def check(job: Job, path: str, problems: Problems) -> None:
    """Adds what is wrong with ``job`` as a whole; ``path`` is where it stands in the file.

    Without a single component, which is a mistake that was told, nothing can be said of names and cycles.
    """
    if not job.components:
        return
    if len(job.components) > MAX_COMPONENTS:
        problems.add(join(path, "components"), f"must be at most {MAX_COMPONENTS}, got {len(job.components)}")
        return
    if job.task_count > MAX_TASKS:
        problems.add(join(path, "components"), f"must have at most {MAX_TASKS} tasks in all, got {job.task_count}")
    for place, name in enumerate(job.success):
        if name not in job.components:
            problems.add(f"{join(path, 'success')}[{place}]", _no_such_component(name, job))
    for component in job.components.values():
        _check_dependencies(component, job, path, problems)
    cycle = _find_cycle({name: list(component.depends_on) for name, component in job.components.items()})
    if cycle:
        where = join(join(join(path, "components"), cycle[0]), "depends_on")
        problems.add(where, f"goes in a circle, so none could ever start: {_show_cycle(cycle)}")
        return
    whole_placement.check(job, path, problems)


def _check_dependencies(component: Component, job: Job, path: str, problems: Problems) -> None:
    where = join(join(join(path, "components"), component.name), "depends_on")
    for other, condition in component.depends_on.items():
        if other not in job.components:
            problems.add(join(where, other), _no_such_component(other, job))
        elif condition is Condition.READY and job.components[other].ready is None:
            problems.add(
                join(where, other), f"`{other}` has no readiness check: give it `ready:`, or wait for `running`"
            )


def _show_cycle(cycle: list[str]) -> str:
    return " → ".join(cycle if len(cycle) <= 20 else [*cycle[:18], "…", cycle[-1]])


def _no_such_component(name: str, job: Job) -> str:
    import difflib

    close = difflib.get_close_matches(name[:64], list(job.components), 1, 0.6)
    hint = f"did you mean `{close[0]}`?" if close else f"the job has {', '.join(list(job.components)[:10])}"
    return f"there is no such component; {hint}"


def _find_cycle(edges: dict[str, list[str]]) -> list[str]:
    """The first cycle, its first name repeated at the end; empty when there is none."""
    finished: set[str] = set()
    for start in edges:
        trail: list[str] = []
        pending = [(start, iter(edges[start]))] if start not in finished else []
        trail = [start] if pending else []
        while pending:
            name, others = pending[-1]
            other = next((other for other in others if other in edges and other not in finished), None)
            if other is None:
                finished.add(name)
                pending.pop()
                trail.pop()
            elif other in trail:
                return [*trail[trail.index(other) :], other]
            else:
                trail.append(other)
                pending.append((other, iter(edges[other])))
    return []
