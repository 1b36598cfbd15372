"""Writes a job as a Compose file. Used by ``formats``.

A component is a service. Compose does not tell replicas apart, so a component of several tasks becomes one service per
task, with its `GRASS_INDEX`. In a network, they share the component's name as their host name, as replicas do. A large
component stays one service with replicas, which have no index.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from grass.manifest import yaml_text
from grass.manifest.document import Document
from grass.manifest.export.losses import Exported, missing, of_amounts
from grass.model.job import DEFAULT_GRACE, NO_RESTART, Component, Condition, Job, Mount, Restart, RestartOn, StopSignal

_WRITTEN = (
    "replicas",
    "resources",
    "depends_on",
    "env",
    "cwd",
    "restart",
    "grace",
    "stop_signal",
    "image",
    "container",
    "ready",
)
MOST_SERVICES = 64
"""Tasks of a component that become a service each."""
_OTHER = re.compile("[^a-z0-9_-]")
"""What the name of a Compose project cannot have."""
_CONDITIONS = {
    Condition.RUNNING: "service_started",
    Condition.READY: "service_healthy",
    Condition.SUCCEEDED: "service_completed_successfully",
}


def write(job: Job) -> Exported:
    tasks = {name: _names(job, part) for name, part in job.components.items()}
    services = {
        service: _service(job, part, tasks, index)
        for name, part in job.components.items()
        for index, service in enumerate(tasks[name])
    }
    document = {"name": _OTHER.sub("-", job.name.lower()), "services": services}
    needed = tuple(f"components.{name}.image" for name, part in job.components.items() if part.image is None)
    parts = job.components.values()
    lost = [key for part in parts for key in (*of_amounts(part), *_lost(part), *_lost_of_restart(part))]
    lost += [
        f"components.{name}.replicas (tasks get no GRASS_INDEX)"
        for name in job.components
        if _is_whole(job, name, tasks)
    ]
    if job.success != tuple(job.components):
        lost.append("success")
    return Exported(yaml_text.write(document), (*missing(job, (), _WRITTEN), *lost), needed)


def _names(job: Job, part: Component) -> tuple[str, ...]:
    """Return the names of a component's services."""
    each = tuple(f"{part.name}-{index}" for index in range(min(part.replicas, MOST_SERVICES + 1)))
    is_one = part.replicas == 1 or len(each) > MOST_SERVICES or not job.components.keys().isdisjoint(each)
    return (part.name,) if is_one else each


def _is_whole(job: Job, name: str, tasks: Mapping[str, tuple[str, ...]]) -> bool:
    """Return whether the tasks of a component are replicas of one service."""
    return job.components[name].replicas > 1 and len(tasks[name]) == 1


def _service(job: Job, part: Component, tasks: Mapping[str, tuple[str, ...]], index: int) -> Document:
    """``tasks``: component → its services. ``index``: of the service among them."""
    command = ["/bin/sh", "-c", part.command] if isinstance(part.command, str) else list(part.command)
    is_whole, is_split = _is_whole(job, part.name, tasks), len(tasks[part.name]) > 1
    given_index = {} if is_whole else {"GRASS_INDEX": str(index)}
    own, container = part.ready.command if part.ready else None, part.container
    found: Document = {
        "image": part.image,
        "entrypoint": list(container.entrypoint) if container.entrypoint is not None else None,
        "command": [_escaped(word) for word in command],
        "environment": {name: _escaped(value) for name, value in part.env.items()} | given_index,
        "working_dir": part.cwd,
        "user": container.user,
        "shm_size": container.shm,
        "network_mode": "host" if container.network == "host" else None,
        "networks": {"default": {"aliases": [part.name]}} if is_split and container.network != "host" else None,
        "ulimits": dict(container.ulimits),
        "volumes": [_volume(mount) for mount in container.mounts if not mount.shared],
        "depends_on": {
            service: {"condition": _condition(job.components[name], each)}
            for name, each in part.depends_on.items()
            for service in tasks[name]
        },
        "healthcheck": {"test": _test(own)} if own else None,
        "restart": part.restart.policy.value if part.restart.policy is not RestartOn.NEVER else None,
        "stop_grace_period": f"{part.grace:g}s" if part.grace != DEFAULT_GRACE else None,
        "stop_signal": f"SIG{part.stop_signal.value}" if part.stop_signal is not StopSignal.TERM else None,
        "deploy": _deploy(part, is_whole),
    }
    given = {name: value for name, value in found.items() if value not in (None, {}, [])}
    return {**given, "entrypoint": []} if container.entrypoint == () else given


def _volume(mount: Mount) -> str:
    return f"{mount.source}:{mount.target}{':ro' if mount.read_only else ''}"


def _condition(of: Component, condition: Condition) -> str:
    """Without a health check, Compose refuses to wait for a healthy service; here such a task is ready at its start."""
    checked = of.ready is not None and of.ready.command is not None
    return _CONDITIONS[condition if checked or condition is not Condition.READY else Condition.RUNNING]


def _test(command: str | tuple[str, ...]) -> list[str]:
    words = ["CMD-SHELL", command] if isinstance(command, str) else ["CMD", *command]
    return [_escaped(word) for word in words]


def _escaped(text: str) -> str:
    """Compose replaces variables itself, unless the dollar sign is doubled."""
    return text.replace("$", "$$")


def _deploy(part: Component, is_whole: bool) -> Document:
    amounts = part.resources
    limits: Document = {"cpus": f"{amounts.cpu / 1000:g}"} if amounts.cpu else {}
    limits |= {"memory": str(amounts.memory)} if amounts.memory else {}
    found: Document = {"replicas": part.replicas} if is_whole else {}
    resources: Document = {"limits": limits} if limits else {}
    if amounts.gpu:
        device = {"driver": "nvidia", "count": -(-amounts.gpu // 1000), "capabilities": ["gpu"]}
        resources["reservations"] = {"devices": [device]}
    found |= {"resources": resources} if resources else {}
    return found | ({"restart_policy": _limited(part.restart)} if _is_limited(part.restart) else {})


def _is_limited(restart: Restart) -> bool:
    return restart.policy is RestartOn.ON_FAILURE and restart.limit is not None


def _limited(restart: Restart) -> Document:
    """Return what overrides `restart`, which has no limit in older readers: the specification had no `on-failure:3`."""
    return {"condition": restart.policy.value, "max_attempts": restart.limit}


def _lost(part: Component) -> list[str]:
    """Return the keys of a component that a service says only in part."""
    ready, container = part.ready, part.container
    found = {
        "ready": ready is not None and ready.command is None,
        "ready.timeout": ready is not None and ready.command is not None and ready.timeout is not None,
        "container.data": container.data is not None,
        "container.mounts": any(mount.shared for mount in container.mounts),
    }
    return [f"components.{part.name}.{key}" for key, lacks in found.items() if lacks]


def _lost_of_restart(part: Component) -> list[str]:
    restart = part.restart
    if restart.policy is RestartOn.NEVER:
        return []
    found = {
        "limit": restart.limit is not None and not _is_limited(restart),
        "codes": bool(restart.codes),
        "memory": restart.memory is not None,
        "backoff": restart.backoff != NO_RESTART.backoff,
    }
    return [f"components.{part.name}.restart.{key}" for key, lacks in found.items() if lacks]
