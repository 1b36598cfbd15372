"""What plain objects of Kubernetes say only in part, or not of every job. Pure; used by ``manifests``."""

from __future__ import annotations

from collections.abc import Iterator

from grass.manifest.document import join
from grass.manifest.export import pod_spec, pod_variables, stock_frameworks
from grass.manifest.export.losses import of_amounts
from grass.manifest.export.objects import Objects
from grass.model.job import NO_RESTART, NODE_LEVEL, Component, RestartOn
from grass.model.runtime import RuntimeName


def of_both(objects: Objects) -> Iterator[str]:
    """Yield the keys of a job that neither pods nor Jobs have."""
    job = objects.job
    if job.success != tuple(job.components):
        yield "success"
    if job.together not in (None, NODE_LEVEL):
        yield "together"
    yield from (join("tags", key) for key in job.tags if not pod_spec.is_key(key))
    for part in job.components.values():
        yield from (key for key in of_amounts(part) if not key.endswith(".disk"))  # ephemeral storage
        found = {
            "ports (there are too many for GRASS_ADDRESSES)": part.ports and not objects.addresses,
            "cwd": part.cwd is not None and not part.cwd.startswith("/"),
            "ready": part.ready is not None and part.ready.log is not None,
            "ready.timeout": part.ready is not None and part.ready.log is None and part.ready.timeout is not None,
            "where": not pod_spec.is_where(part.where),
            "spread": part.spread not in (None, NODE_LEVEL),
            "pack": part.pack not in (None, NODE_LEVEL),
            "framework": part.framework is not None and not stock_frameworks.is_written(objects, part),
            "runtime": part.runtime not in (None, RuntimeName.KUBERNETES),
            "container.user": pod_spec.user(part) is None,
            "container.ulimits": bool(part.container.ulimits),
            "container.mounts": bool(part.container.mounts),
            "container.data": part.container.data is not None,
            "restart (GRASS_ATTEMPT is always 1)": part.restart.policy is not RestartOn.NEVER,
            "restart.memory": part.restart.memory is not None,
            "restart.backoff": part.restart.policy is not RestartOn.NEVER
            and part.restart.backoff != NO_RESTART.backoff,
        }
        yield from (f"components.{part.name}.{key}" for key, lacks in found.items() if lacks)


def of_jobs(part: Component) -> Iterator[str]:
    if part.restart.policy is RestartOn.ALWAYS:
        yield f"components.{part.name}.restart.policy (a task that has succeeded does not start again)"
    by_image = not isinstance(part.command, str) and part.container.entrypoint is None
    if by_image and pod_variables.differs_by_task(part):
        what = "the entrypoint of the image gets `/bin/sh -c …` as its arguments"
        yield f"components.{part.name}.{part.fixed_by} ({what})"


def of_pods(part: Component) -> Iterator[str]:
    restart = part.restart
    if restart.policy is RestartOn.NEVER:
        return
    found = {
        "restart.limit": restart.limit is not None,
        "restart.codes": bool(restart.codes),
        "timeout (counts from the first start)": part.timeout is not None,
    }
    yield from (f"components.{part.name}.{key}" for key, lacks in found.items() if lacks)
