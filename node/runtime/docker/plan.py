"""Builds the engine's requests for containers. It looks at the folders to mount, so it may wait for the share.

The log driver is ``local``: docker's ``json-file`` replaces bytes that are not UTF-8, and cuts code points in lines
over 16 KiB. The log is never rotated; the container is removed after the master has noted its end. Used by this
package.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator, Sequence
from pathlib import Path

from grass.errors import InputError
from grass.model.isolation import ContainerUser, account_name
from grass.model.job import Mount
from grass.model.key_text import job_of
from grass.node_config import NodeHome
from grass.system import clock
from grass.wire.keys import AttemptKey
from node.mounts import mount_of
from node.runtime.docker import share
from node.runtime.docker.engine_json import Answer, Request
from node.runtime.docker.kept_memory import folder_of
from node.runtime.protocol import Launch, Start
from node.runtime.segment_files import FOLDER

LABEL = "grass."
CLUSTER, NODE, ATTEMPT, LAUNCH, BOOT = (LABEL + name for name in ("cluster", "node", "attempt", "launch", "boot"))
STOP_SIGNAL = LABEL + "stop-signal"
"""Only if it is not TERM. An image may name a signal, too, which Grass does not use."""
LEAST_MEMORY = 6 << 20
"""Bytes. The engine refuses a smaller limit."""
CAPABILITIES = ("CHOWN", "DAC_OVERRIDE", "FOWNER", "FSETID", "KILL", "SETGID", "SETUID")
"""What root in a container needs to own files and to become another user there. It has no NET_RAW (which reads what
others on the host's network send) and makes no devices. Where users are isolated, the settings name those of root."""
MOST_PROCESSES = 16_384
"""Processes and threads of one container: a fork bomb must leave some to the host."""
_LOGS = {"Type": "local", "Config": {"max-size": "1p", "max-file": "1", "compress": "false"}}
_MICRO = 1_000_000


def container_name(cluster: str, key: str) -> str:
    """Return a name that is unique even if several clusters share an engine."""
    return f"{cluster}.{key.replace('/', '.')}"


def mine(config: NodeHome) -> list[str]:
    """Return the labels of all containers that this node-agent may touch."""
    return [f"{CLUSTER}={config.name}", f"{NODE}={config.node.name}"]


def request(config: NodeHome, start: Start, launch: Launch, scratch: str, cores: int) -> Request:
    """Return the body of ``POST /containers/create``. ``cores``: the number of this machine's cores.

    Raises InputError for what the node does not allow; OSError: the share does not answer.
    """
    plan = launch.container
    body: Request = {
        "Image": launch.image,
        "Cmd": launch.argv,
        "Env": [f"{name}={value}" for name, value in _environment(config, start, launch, scratch).items()],
        "Labels": _labels(config, start),
        "HostConfig": {
            "Init": True,
            "RestartPolicy": {"Name": "no"},
            "LogConfig": _LOGS,
            "NetworkMode": plan.network,
            "Mounts": [*share.mounts(config, launch, job_of(start.key)), *_mounts(config, start, launch, scratch)],
            "CapDrop": ["ALL"],
            "CapAdd": list(CAPABILITIES if config.node.isolate is None else config.node.containers.capabilities),
            "SecurityOpt": ["no-new-privileges"],
            "PidsLimit": MOST_PROCESSES,
            "Ulimits": [{"Name": name, "Soft": most, "Hard": most} for name, most in sorted(plan.ulimits.items())],
            **_limits(launch, cores),
            **_devices(start),
        },
    }
    if plan.entrypoint is not None:
        body["Entrypoint"] = list(plan.entrypoint) or [""]  # the engine's notation for none, whatever the image has
    if plan.user is not None:
        _check_user(config, plan.user)
        body["User"] = plan.user
    if launch.stop_signal != signal.SIGTERM:  # the engine would use it if it stopped; the label is for this node-agent
        body["StopSignal"] = signal.Signals(launch.stop_signal).name
        body["Labels"][STOP_SIGNAL] = body["StopSignal"]
    if launch.cwd is not None:
        body["WorkingDir"] = launch.cwd
    if plan.network != "host" and start.ports:
        body["ExposedPorts"] = {f"{port}/{kind}": {} for port in start.ports.values() for kind in ("tcp", "udp")}
        body["HostConfig"]["PortBindings"] = {port: [{"HostPort": port.split("/")[0]}] for port in body["ExposedPorts"]}
    return body


def over_image(body: Request, launch: Launch, image: Answer) -> Request:
    """Return the request with the variables that depend on the image. ``image``: its configuration, as the engine says.

    A shell would set PWD, and the engine does not.
    """
    there = {entry.partition("=")[0] for entry in (*(image.get("Env") or ()), *body["Env"])}
    added = {name: value for name, value in launch.defaults.items() if name not in there}
    added["PWD"] = launch.cwd or image.get("WorkingDir") or "/"
    kept = [entry for entry in body["Env"] if not entry.startswith("PWD=")]
    return {**body, "Env": [*kept, *(f"{name}={value}" for name, value in added.items())]}


def with_rights(body: Request, uid: int | None, group: int) -> Request:
    """Return the request for an isolated container. ``uid``: of the account of its Grass user; None: it has the user
    of its image. ``group``: of all accounts, which may write to the share."""
    if uid is None:
        return {**body, "HostConfig": {**body["HostConfig"], "GroupAdd": [str(group)]}}
    given = dict(entry.split("=", 1) for entry in body["Env"])
    name = account_name(uid)
    env = {"HOME": given["GRASS_SCRATCH"], "USER": name, "LOGNAME": name, **given}
    return {**body, "User": f"{uid}:{group}", "Env": [f"{key}={value}" for key, value in env.items()]}


def _check_user(config: NodeHome, user: str) -> None:
    if config.node.isolate is not None and config.node.containers.user is ContainerUser.ACCOUNT:
        message = (
            f"containers of this cluster run under the account of their user, not as {user}; leave out "
            "`container.user`, or ask an administrator for `containers: {user: image}` in the settings"
        )
        raise InputError(message)


def takeover(config: NodeHome, image: str, folder: str, user: int, group: int) -> Request:
    """Return the request for a container that changes the owner of all files in ``folder`` to this user.

    Without it, a node-agent that is not root could not remove files of other users. ``image``: a local one with
    ``chown``.
    """
    return {
        "Image": image,
        "Entrypoint": ["chown"],
        "Cmd": ["-R", f"{user}:{group}", folder],
        "User": "0",
        "Labels": {CLUSTER: config.name},
        "HostConfig": {
            "NetworkMode": "none",
            "Mounts": [share.bind(folder, folder, False)],
            "LogConfig": {"Type": "none"},
        },
    }


def _labels(config: NodeHome, start: Start) -> dict[str, str]:
    key = AttemptKey.parse(start.key)
    return {
        CLUSTER: config.name,
        NODE: config.node.name,
        LABEL + "job": key.job_id,
        LABEL + "component": key.component,
        LABEL + "task": str(key.task),
        ATTEMPT: start.key,
        LAUNCH: start.launch,
        BOOT: clock.boot_id(),
    }


def _environment(config: NodeHome, start: Start, launch: Launch, scratch: str) -> dict[str, str]:
    """Return the container's environment. Its devices are numbered from 0. Without GPUs, ``void`` hides them even if
    the image asks for all."""
    env = {**launch.env, **start.env, "GRASS_SCRATCH": scratch, "TINI_KILL_PROCESS_GROUP": "1"}
    if launch.container.data is not None:
        env["GRASS_DATA"] = launch.container.data
    env["CUDA_VISIBLE_DEVICES"] = ",".join(str(number) for number in range(len(start.gpus)))
    if not start.gpus:
        env["NVIDIA_VISIBLE_DEVICES"] = "void"
    return env


def _limits(launch: Launch, cores: int) -> Request:
    limits: Request = {}
    if 0 < launch.cpu < 1000 * cores:  # the engine refuses more than there are, which is no limit anyway
        limits["NanoCpus"] = max(10, launch.cpu) * _MICRO
    if launch.memory:
        limits["Memory"] = limits["MemorySwap"] = max(LEAST_MEMORY, launch.memory)
    if launch.container.shm is not None:
        limits["ShmSize"] = launch.container.shm
    return limits


def _devices(start: Start) -> Request:
    if not start.gpus:
        return {}
    wanted = {"DeviceIDs": [str(number) for number in start.gpus], "Capabilities": [["gpu"]]}
    return {"DeviceRequests": [wanted]}


def _mounts(config: NodeHome, start: Start, launch: Launch, scratch: str) -> Iterator[Request]:
    """Yield the mounts besides that of the share."""
    addresses = addresses_folder(config, start.key)
    yield share.bind(scratch, scratch, False)
    yield share.bind(addresses, addresses, True)
    for file, target in start.programs:
        yield share.bind(file, target, True)
    if "GRASS_API" in launch.env:  # the folder: the socket in it is new after each restart of the node-agent
        api = os.path.dirname(launch.env["GRASS_API"])  # noqa: PTH120
        yield share.bind(api, api, True)
    if launch.keep:
        yield share.bind(str(folder_of(config, start.key)), FOLDER, False)
    mounts = launch.container.mounts
    kind = mount_of(config.data_dir).kind if any(each.shared for each in mounts) else ""
    for each in mounts:
        if each.shared:
            yield from share.shared(config, launch, job_of(start.key), each, kind)
        else:
            yield share.bind(allowed(each, config.node.mounts), each.target, each.read_only)


def addresses_folder(config: NodeHome, key: str) -> str:
    """Return the folder to mount. The file in it is replaced by rename, so mounting the file would show old content."""
    return str(config.node_dir / "jobs" / AttemptKey.parse(key).job_id)


def allowed(mount: Mount, folders: Sequence[str]) -> str:
    """Return the resolved source of a mount if it is inside one of ``folders``. Raises InputError otherwise."""
    real = Path(os.path.realpath(mount.source))
    if any(real.is_relative_to(os.path.realpath(folder)) for folder in folders):
        return str(real)
    where = f"only {', '.join(folders)}" if folders else "no paths of the host"
    raise InputError(f"this node allows containers to mount {where}, not {mount.source}")
