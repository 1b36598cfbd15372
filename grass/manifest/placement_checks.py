"""Checks between a job's placement constraints. Refuses constraints that no cluster can satisfy, with their path.

Used by ``job_checks``.
"""

from __future__ import annotations

from collections import defaultdict

from grass.manifest.document import join
from grass.manifest.fields import Problems
from grass.model.feasibility import some
from grass.model.job import NODE_LEVEL, Component, Job


def check(job: Job, path: str, problems: Problems) -> None:
    """Report contradictions in ``job``, which has no cycle. ``path``: its path in the file."""
    for component in job.components.values():
        where = join(join(path, "components"), component.name)
        _check_topology(component, job, where, problems)
        if component.min is not None and component.parallelism is not None and component.parallelism < component.min:
            message = f"must be at least `min`, whose {component.min} tasks start together"
            problems.add(join(where, "parallelism"), f"{message}; got {component.parallelism}")
    _check_gang(job, path, problems)


def _check_topology(component: Component, job: Job, path: str, problems: Problems) -> None:
    """Compare pack and spread. Tasks on one node share a rack, so a pack rules out a spread at that level or wider."""
    spread = component.spread
    if spread is None:
        return
    where = join(path, "spread")
    if component.pack is not None and spread <= component.pack:
        problems.add(where, f"contradicts `pack: {_show(component.pack)}`, which keeps tasks {_within(spread)}")
    if job.together is not None and spread <= job.together:
        level = _show(job.together)
        problems.add(where, f"contradicts the job's `together: {level}`, which keeps tasks {_within(spread)}")


def _show(level: int) -> str:
    return "node" if level == NODE_LEVEL else str(level)


def _within(level: int) -> str:
    return "on one node" if level == NODE_LEVEL else f"in one domain of level {level}"


def _check_gang(job: Job, path: str, problems: Problems) -> None:
    for number, name in enumerate(job.gang):
        if name not in job.components:
            known = some(tuple(job.components))
            problems.add(f"{join(path, 'gang')}[{number}]", f"unknown component; the job has {known}")
    reached = _reached_members(job) if job.gang else {}
    for name in job.gang:
        if name in job.components:
            _check_member(job.components[name], reached, path, problems)


def _check_member(component: Component, reached: dict[str, str], path: str, problems: Problems) -> None:
    where = join(join(path, "components"), component.name)
    if component.parallelism is not None and component.parallelism < component.replicas:
        problems.add(
            join(where, "parallelism"),
            f"must be left out: the gang starts all {component.replicas} tasks together; got {component.parallelism}",
        )
    for other in component.depends_on:
        if other != component.name and (member := reached.get(other)):
            through = "" if member == other else f" (through `{member}`)"
            problems.add(
                join(join(where, "depends_on"), other),
                f"can never be met: `{component.name}` waits for `{other}`{through}, but the gang starts together; "
                "name under `gang` only components that do not wait for each other",
            )


def _reached_members(job: Job) -> dict[str, str]:
    """Return component → gang member, for each component from which ``depends_on`` leads to a member.

    A member maps to itself. The search starts at the members, goes backwards and visits each component once.
    """
    dependents: defaultdict[str, list[str]] = defaultdict(list)
    for component in job.components.values():
        for other in component.depends_on:
            dependents[other].append(component.name)
    reached = {name: name for name in job.gang if name in job.components}
    pending = list(reached)
    while pending:
        name = pending.pop()
        for dependent in dependents[name]:
            if dependent not in reached:
                reached[dependent] = reached[name]
                pending.append(dependent)
    return reached
