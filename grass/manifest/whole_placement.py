"""What must hold between a job's constraints: what can never come true is refused here, with the path."""

from __future__ import annotations

from grass.manifest.document import join
from grass.manifest.fields import Problems
from grass.model.job import NODE_LEVEL, Component, Job


def check(job: Job, path: str, problems: Problems) -> None:
    """Adds what contradicts itself in ``job``; ``path`` is where it stands in the file."""
    for component in job.components.values():
        _check_topology(component, job, join(join(path, "components"), component.name), problems)
    _check_gang(job, path, problems)


def _check_topology(component: Component, job: Job, path: str, problems: Problems) -> None:
    """Tasks within one node are within one rack, so a pack rules out a spread over its level and every wider one."""
    spread = component.spread
    if spread is None:
        return
    if component.pack is not None and spread <= component.pack:
        problems.add(
            join(path, "spread"),
            f"contradicts `pack: {_show(component.pack)}`, which keeps tasks within one {_noun(spread)}",
        )
    if job.together is not None and spread <= job.together:
        problems.add(
            join(path, "spread"),
            f"contradicts the job's `together: {_show(job.together)}`, which keeps tasks within one {_noun(spread)}",
        )


def _show(level: int) -> str:
    return "node" if level == NODE_LEVEL else str(level)


def _noun(level: int) -> str:
    return "node" if level == NODE_LEVEL else f"value of level {level}"


def _check_gang(job: Job, path: str, problems: Problems) -> None:
    members = set(job.gang)
    for place, name in enumerate(job.gang):
        if name not in job.components:
            known = ", ".join(list(job.components)[:10])
            problems.add(f"{join(path, 'gang')}[{place}]", f"there is no such component; the job has {known}")
    for name in job.gang:
        if name in job.components:
            _check_member(job.components[name], job, members, path, problems)


def _check_member(component: Component, job: Job, members: set[str], path: str, problems: Problems) -> None:
    where = join(join(path, "components"), component.name)
    if component.parallelism is not None and component.parallelism < component.replicas:
        problems.add(
            join(where, "parallelism"),
            f"must be left out: the gang starts all {component.replicas} tasks together, got {component.parallelism}",
        )
    for other in component.depends_on:
        if other != component.name and (met := _reaches(other, job, members)):
            through = "" if met == other else f" (through `{met}`)"
            problems.add(
                join(join(where, "depends_on"), other),
                f"can never be met: `{component.name}` waits for `{other}`{through}, but the gang starts all its tasks "
                "together; name under `gang` only components that do not wait for each other",
            )


def _reaches(start: str, job: Job, members: set[str]) -> str:
    """The first member of the gang on the way along ``depends_on`` from ``start``, itself included; empty: none."""
    seen: set[str] = set()
    pending = [start]
    while pending:
        name = pending.pop()
        if name in seen or name not in job.components:
            continue
        if name in members:
            return name
        seen.add(name)
        pending.extend(job.components[name].depends_on)
    return ""
