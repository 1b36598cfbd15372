"""The command and the environment that a task sees. Pure; called by the loop and for readiness checks.

The names of the variables are a public interface (docs/reference)."""

from __future__ import annotations

import signal
from collections.abc import Mapping
from pathlib import PurePosixPath
from types import MappingProxyType

from grass.model import task_values, task_variables
from grass.model.job import runtime_of
from grass.model.namespace import own_labels
from grass.model.process_settings import with_settings
from grass.model.runtime import RuntimeName
from grass.node_config import NodeConfig, NodeHome
from grass.system.environment import is_shared
from grass.wire.desired import DesiredAttempt
from grass.wire.keys import AttemptKey
from grass.wire.launch import LaunchTemplate
from node.membership import pod_view
from node.membership.rendering import NOTHING, Additions, command, launch_environment
from node.runtime.kubernetes import share
from node.runtime.protocol import Launch, Start

NO_SETTINGS: Mapping[str, int] = MappingProxyType({})
_NOT_INHERITED = ("GRASS_", "SUPERVISOR_", "NOTIFY_SOCKET", "WATCHDOG_")

_OF_ACCOUNT = ("HOME", "USER", "LOGNAME", "SHELL", "MAIL")
"""Variables of the account that the node-agent runs under. The shepherd sets those of an isolated task's account."""
_ALWAYS = ("PATH", *_OF_ACCOUNT)
"""Variables that a task has even if the shell that submits its job has none: a login sets them."""


def inherited(environ: Mapping[str, str]) -> dict[str, str]:
    """Return the node-agent's environment without the variables of Grass and of its supervisors."""
    return {name: value for name, value in environ.items() if not name.startswith(_NOT_INHERITED)}


def argv(command: str | tuple[str, ...]) -> list[str]:
    return ["/bin/sh", "-c", command] if isinstance(command, str) else list(command)


def addresses_path(config: NodeHome, job_id: str) -> str:
    return f"{config.node_dir}/jobs/{job_id}/addresses"


def launch(
    config: NodeHome, template: LaunchTemplate, base: Mapping[str, str], own: Mapping[str, int] = NO_SETTINGS
) -> Launch:
    """Return what all attempts of one component on this node share. ``base``: the result of ``inherited``. ``own``:
    umask and limits of this process, which processes of tasks inherit.

    A container has its image's environment instead, and none of the host's. Pods with a share see of it what isolated
    tasks of a machine see.
    """
    component, job_id = template.component, template.job_id
    runtime = runtime_of(component, config.node.runtimes)
    defaults = task_variables.threads(component)
    env = {
        **({} if runtime.contained else {**defaults, **of_shell(config, template, base)}),
        "PYTHONUNBUFFERED": "1",
        **task_redis(config),
        **component.env,
        "GRASS_CLUSTER": config.name,
        "GRASS_JOB": template.job,
        "GRASS_JOB_ID": job_id,
        "GRASS_COMPONENT": component.name,
        "GRASS_REPLICAS": str(template.size),
        "GRASS_NODE": config.node.name,
        "GRASS_ADDRESSES": addresses_path(config, job_id),
        "GRASS_DATA": str(config.data_dir),
        **output_folders(template, str(config.data_dir)),
        **_figures(config, runtime),
        "CLUSTER_ID": config.name,
        "CLUSTER_NAME": config.name,
        "NODE_ID": config.node.name,
        "NODE_NAME": config.node.name,
        "JOB_ID": job_id,
        "JOB_NAME": template.job,
        "COMPONENT_TYPE": component.name,
        **launch_environment(config, template),
        **(pod_view.variables(component.name) if runtime is RuntimeName.KUBERNETES else {}),
    }
    cwd = _folder(component.cwd, component.base, str(config.data_dir))
    plain = Launch(argv(command(template)), env, cwd, component.grace, template.width, runtime)
    plain = plain._replace(stop_signal=signal.Signals[f"SIG{component.stop_signal.value}"])
    if config.node.isolate is not None or config.node.claim:
        read_only = template.read_only_data or config.node.read_only_data
        awaited = tuple(template.awaited.values())
        plain = plain._replace(user=template.user, awaited=awaited, read_only_data=read_only)
        plain = plain._replace(cpu=component.resources.cpu, memory=component.resources.memory)
    if component.keep is not None:
        plain = plain._replace(keep=component.resources.memory)
    if not runtime.contained:
        return plain._replace(argv=with_settings(plain.argv, dict(component.process), own))
    if config.node.kubernetes is not None:
        plain = plain._replace(where=beyond(component.where, config.node), gpu=component.gpu, gang=template.gang_tasks)
    data = component.container.data or (share.TARGET if config.node.claim else str(config.data_dir))
    return plain._replace(
        env={**env, **output_folders(template, data)},
        cwd=_folder(component.cwd, None, data),
        image=component.image or config.node.default_image,
        cpu=component.resources.cpu,
        memory=component.resources.memory,
        container=component.container,
        defaults=defaults,
        timeout=component.timeout,
    )


def beyond(where: Mapping[str, tuple[str, ...]], node: NodeConfig) -> dict[str, tuple[str, ...]]:
    """Return which labels a machine of a namespace must have: those that the node does not have itself."""
    assert node.kubernetes is not None, "the node is a namespace"
    own = own_labels(node.kubernetes.namespace, node.kubernetes.claim) | node.labels
    return {label: values for label, values in where.items() if label not in own}


def of_shell(config: NodeHome, template: LaunchTemplate, base: Mapping[str, str]) -> dict[str, str]:
    """Return what a process inherits: ``base``, with the variables of the submitting shell if the job has them."""
    found = {name: value for name, value in base.items() if not (config.node.isolate and name in _OF_ACCOUNT)}
    if template.component.shell:
        kept = {name: value for name, value in base.items() if name in _ALWAYS or not is_shared(name)}
        found = kept | dict(template.component.shell)
    if config.master.nodes_on_client:
        found["GRASS_HOME"] = str(PurePosixPath(config.home).parent.parent)
    return found


def task_redis(config: NodeHome) -> dict[str, str]:
    """Return the variables by which MARO's programs, and others, find the redis for tasks. Pods do not reach it."""
    port = str(config.task_redis)
    if not config.task_redis or config.node.kubernetes is not None:
        return {}
    return {"GRASS_REDIS_URL": f"redis://localhost:{port}", "REDIS_HOST": "localhost", "REDIS_PORT": port}


def _figures(config: NodeHome, runtime: RuntimeName) -> dict[str, str]:
    """Return where a task sends its figures. Containers and other accounts do not reach it: they print them."""
    reached = not runtime.contained and config.node.isolate is None
    return {"GRASS_FIGURES": str(config.socket("figures"))} if reached else {}


def output_folders(template: LaunchTemplate, data: str) -> dict[str, str]:
    """Return the variables with the output folders of the job and of the runs it waited for. ``data``: the share."""
    folders = {"GRASS_OUTPUT": f"{data}/jobs/{template.job_id}"}
    for job, job_id in template.awaited.items():
        folders[f"GRASS_AFTER_{task_variables.word(job)}_OUTPUT"] = f"{data}/jobs/{job_id}"
    return folders


def _folder(cwd: str | None, base: str | None, data: str) -> str | None:
    """Return the working folder: ``cwd``, relative to ``base`` or otherwise to the share. None: the runtime chooses."""
    return base if cwd is None else str(PurePosixPath(base or data) / cwd)


def start(
    key: str,
    launch: str,
    template: LaunchTemplate,
    entry: DesiredAttempt,
    node_gpus: int,
    added: Additions = NOTHING,
) -> Start:
    """Return the start of an attempt. ``added``: for its membership and its framework."""
    gpus = tuple(device for device, _ in entry.gpus)
    env = {**attempt_env(key, template, entry, node_gpus), **added.env}
    return Start(key, launch, env, entry.ports, gpus, added.programs, added.late, added.awaits)


def attempt_env(key: str, template: LaunchTemplate, entry: DesiredAttempt, node_gpus: int) -> dict[str, str]:
    """Return the variables of one attempt, which override those of its launch. The runtime adds GRASS_SCRATCH."""
    parsed = AttemptKey.parse(key)
    index, task = str(parsed.index), str(parsed.task)
    env = {
        **task_values.environment(template.component, parsed.index),
        "GRASS_INDEX": index,
        "GRASS_TASK": f"{template.job}.{task}",
        "GRASS_ATTEMPT": str(parsed.attempt),
        "COMPONENT_INDEX": index,
        "COMPONENT_ID": f"{parsed.job_id}.{task}",
        "CONTAINER_NAME": f"{parsed.job_id}.{task}.{parsed.attempt}",
    }
    for name, port in entry.ports.items():
        env[task_variables.port(name)] = str(port)
    if node_gpus:  # a task that asked for none must not use the devices of others
        env["CUDA_VISIBLE_DEVICES"] = ",".join(str(device) for device, _ in entry.gpus)
    return env
