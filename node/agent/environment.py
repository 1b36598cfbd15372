"""The command and the environment that a task sees. Pure; called by the loop and for readiness checks.

The names of the variables are a public interface (docs/reference)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import PurePosixPath

from grass.config import ClusterConfig
from grass.model.matrix import environment as matrix_environment
from grass.wire.desired import DesiredAttempt
from grass.wire.keys import AttemptKey
from grass.wire.launch import LaunchTemplate
from node.runtime.protocol import Launch, Start
from node.runtime.registry import chosen, kind

_NOT_INHERITED = ("GRASS_", "SUPERVISOR_", "NOTIFY_SOCKET", "WATCHDOG_")


def inherited(environ: Mapping[str, str]) -> dict[str, str]:
    """Return the node-agent's environment without the variables of Grass and of its supervisors."""
    return {name: value for name, value in environ.items() if not name.startswith(_NOT_INHERITED)}


def argv(command: str | tuple[str, ...]) -> list[str]:
    return ["/bin/sh", "-c", command] if isinstance(command, str) else list(command)


def addresses_path(config: ClusterConfig, job_id: str) -> str:
    return str(config.node_dir / "jobs" / job_id / "addresses")


def launch(config: ClusterConfig, template: LaunchTemplate, base: Mapping[str, str]) -> Launch:
    """Return what all attempts of one component on this node share. ``base``: the result of ``inherited``.

    A container has its image's environment instead, and none of the host's.
    """
    runtime = chosen(template.runtime, template.image, config.node.runtimes)
    host_view = kind(runtime).host_view
    job_id = template.job_id
    env = {
        **(base if host_view else {}),
        "PYTHONUNBUFFERED": "1",
        **template.env,
        "GRASS_CLUSTER": config.name,
        "GRASS_JOB": template.job,
        "GRASS_JOB_ID": job_id,
        "GRASS_COMPONENT": template.component,
        "GRASS_REPLICAS": str(template.replicas),
        "GRASS_NODE": config.node.name,
        "GRASS_ADDRESSES": addresses_path(config, job_id),
        "GRASS_DATA": str(config.data_dir),
        "GRASS_OUTPUT": str(config.data_dir / "jobs" / job_id),
        "CLUSTER_ID": config.name,
        "CLUSTER_NAME": config.name,
        "NODE_ID": config.node.name,
        "NODE_NAME": config.node.name,
        "JOB_ID": job_id,
        "JOB_NAME": template.job,
        "COMPONENT_TYPE": template.component,
    }
    cwd = _folder(template.cwd, template.base, str(config.data_dir))
    plain = Launch(argv(template.command), env, cwd, template.grace, template.width, runtime)
    if host_view:
        return plain
    return plain._replace(
        cwd=_folder(template.cwd, None, template.container.data or str(config.data_dir)),
        image=template.image or "",
        cpu=template.cpu,
        memory=template.memory,
        container=template.container,
    )


def _folder(cwd: str | None, base: str | None, data: str) -> str | None:
    """Return the working folder: ``cwd``, relative to ``base`` or otherwise to the share. None: the runtime chooses."""
    return base if cwd is None else str(PurePosixPath(base or data) / cwd)


def start(key: str, launch: str, template: LaunchTemplate, entry: DesiredAttempt, node_gpus: int) -> Start:
    gpus = tuple(device for device, _ in entry.gpus)
    return Start(key, launch, attempt_env(key, template, entry, node_gpus), entry.ports, gpus)


def attempt_env(key: str, template: LaunchTemplate, entry: DesiredAttempt, node_gpus: int) -> dict[str, str]:
    """Return the variables of one attempt, which override those of its launch. The runtime adds GRASS_SCRATCH."""
    parsed = AttemptKey.parse(key)
    index, task = str(parsed.index), str(parsed.task)
    env = {
        **(matrix_environment(template.matrix, parsed.index) if template.matrix else {}),
        "GRASS_INDEX": index,
        "GRASS_TASK": f"{template.job}.{task}",
        "GRASS_ATTEMPT": str(parsed.attempt),
        "COMPONENT_INDEX": index,
        "COMPONENT_ID": f"{parsed.job_id}.{task}",
        "CONTAINER_NAME": f"{parsed.job_id}.{task}.{parsed.attempt}",
    }
    for name, port in entry.ports.items():
        env["GRASS_PORT_" + re.sub(r"[^A-Z0-9]", "_", name.upper())] = str(port)
    if node_gpus:  # a task that asked for none must not use the devices of others
        env["CUDA_VISIBLE_DEVICES"] = ",".join(str(device) for device, _ in entry.gpus)
    return env
