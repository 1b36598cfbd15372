"""The program of a master's pod. Run by the StatefulSet of ``inside_objects``; ``inside`` asks it.

``python3 -m grass.provision.inside_master run GIVEN`` makes or starts the cluster in the pod's volume, with the
namespace as its first node, and stays as the first process of the container. ``show CLUSTER`` prints what the command
line on the user's machine wants to know, as JSON.

When the pod ends, the daemons do, and pods of tasks go on. Two pods of one volume never run daemons at once: a lock in
the volume is held as long as this process lives.
"""

from __future__ import annotations

import fcntl
import json
import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from types import FrameType

import msgspec

from grass.api import keyring, user_files
from grass.api.keyring import Jwk
from grass.config import ClusterConfig
from grass.errors import GrassError, InputError, UnreachableError
from grass.manifest.inside import InsideSettings, values_of
from grass.manifest.local_settings import KubernetesSettings, PortSettings
from grass.manifest.settings import parse_settings
from grass.model.daemons import DaemonState
from grass.network_address import network_address
from grass.provision import layout, stopping
from grass.provision.inside_objects import API_PORT, CORE, GIVEN, Given, path_of, pod_name
from grass.provision.local import LocalProvisioner
from grass.provision.provisioner import Session
from grass.provision.readiness import NotReadyError
from grass.supervision import processes
from grass.system import clock
from grass.system.atomic_file import replace_file
from grass.system.environment import cluster_home, grass_home, variables
from grass.wire.codec import Form, encode

_GIVEN: Form[Given] = Form(Given)
_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
_REGISTERED = "registered"
"""File in the cluster's folder: the key of the administrator who was registered."""
_AFTER = 2.0
"""Seconds after another pod has let the volume go. The kernel ends its other processes in a moment."""
_TRIES, _PAUSE = 10, 2.0
"""How often the start is waited for, half a minute each time, and seconds between."""
_LOOK = 10.0
"""Seconds between looks whether anything of the cluster is left."""


class Shown(msgspec.Struct, frozen=True):
    """What ``show`` prints. ``ready``: whether the administrator whom the pod was given is registered. ``key``: the
    master's public one."""

    ready: bool
    daemons: tuple[DaemonState, ...]
    problems: tuple[str, ...]
    key: Jwk


SHOWN: Form[Shown] = Form(Shown)


def run(path: str) -> int:
    given, home = _GIVEN.decode(Path(path).read_bytes()), grass_home()
    signal.signal(signal.SIGTERM, _interrupted)  # the first process of a container ends by no signal without a handler
    with _alone(home):
        settings = settings_of(given, str(kubeconfig_in(home)))
        config = None
        try:
            _start(settings, home)
            config = layout.existing(cluster_home(settings.name, home))
            assert config is not None, "the cluster was created"
            _register(config, given)
            return _stay(config)
        finally:
            config = config or layout.existing(cluster_home(settings.name, home))
            if config is not None:
                stopping.stop_processes(config)


def _start(settings: KubernetesSettings, home: Path) -> None:
    """Create or start the cluster. It may take longer than a user would wait; what has begun goes on."""
    for left in reversed(range(_TRIES)):
        try:
            LocalProvisioner(Session(settings.name, home, _say)).create(settings)
            return
        except (NotReadyError, UnreachableError) as error:
            if not left:
                raise
            _say(f"{error}; waiting on")
            clock.sleep(_PAUSE)


def settings_of(given: Given, kubeconfig: str) -> KubernetesSettings:
    """Return the settings of the cluster as it is in the pod, on whose one machine it is."""
    found = parse_settings(given.settings)
    if not isinstance(found, InsideSettings):
        raise InputError("the settings that this pod was given are not for `master: inside`")
    namespaces = tuple(
        replace(each, kubeconfig=kubeconfig, context="pod", cluster_id=given.cluster_id) for each in found.namespaces
    )
    url = found.inside.address
    pod = "" if url else path_of(CORE, "pods", found.namespaces[0].namespace, pod_name(found.name))
    host = "0.0.0.0"  # noqa: S104 (requests are sealed; the pod's network is the cluster's)
    ports = PortSettings(API_PORT, host=host, url=url, pod=pod)
    return KubernetesSettings(**{**values_of(found), "namespaces": namespaces, "ports": ports})


def kubeconfig_in(home: Path) -> Path:
    """Write a kubeconfig that names the pod's account, whose token Kubernetes renews, and return its path."""
    host, port = (variables()[f"KUBERNETES_SERVICE_{name}"] for name in ("HOST", "PORT"))
    server = f"https://{network_address(host, int(port))}"
    content = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "pod",
        "contexts": [{"name": "pod", "context": {"cluster": "pod", "user": "pod"}}],
        "clusters": [{"name": "pod", "cluster": {"server": server, "certificate-authority": str(_ACCOUNT / "ca.crt")}}],
        "users": [{"name": "pod", "user": {"tokenFile": str(_ACCOUNT / "token")}}],
    }
    path = home / "kubeconfig"
    replace_file(path, json.dumps(content))
    return path


@contextmanager
def _alone(home: Path) -> Iterator[None]:
    """Wait until no other pod has the volume."""
    with (home / "pod.lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            _say("waiting for another pod that has this volume still")
            fcntl.flock(lock, fcntl.LOCK_EX)
            clock.sleep(_AFTER)
        yield


def _register(config: ClusterConfig, given: Given) -> None:
    """Register the first administrator, once for each key: it may be changed later by the user."""
    folder = Path(config.home)
    if not _is_registered(folder, given):
        user_files.register_user(config.master_dir, given.user, keyring.Role.ADMIN, given.key)
        replace_file(folder / _REGISTERED, encode(given.key))


def _is_registered(folder: Path, given: Given) -> bool:
    with suppress(FileNotFoundError):
        return (folder / _REGISTERED).read_text() == encode(given.key)
    return False


def _stay(config: ClusterConfig) -> int:
    """Collect ended processes until the pod shall end (0), or nothing of the cluster is left (1)."""
    awaited = {signal.SIGTERM, signal.SIGINT, signal.SIGCHLD}
    signal.pthread_sigmask(signal.SIG_BLOCK, awaited)
    try:
        while True:
            got = signal.sigtimedwait(awaited, _LOOK)
            if got is not None and got.si_signo != signal.SIGCHLD:
                return 0
            with suppress(ChildProcessError):
                while os.waitpid(-1, os.WNOHANG) != (0, 0):
                    pass
            if got is None and not processes.of_cluster(config):
                _say("all daemons have ended")
                return 1
    finally:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, awaited)


def _interrupted(number: int, frame: FrameType | None) -> None:
    raise KeyboardInterrupt


def show(name: str) -> int:
    home, given = grass_home(), _GIVEN.decode(Path(GIVEN).read_bytes())
    status, folder = LocalProvisioner(Session(name, home, _say)).status(), cluster_home(name, home)
    key = keyring.master_key(folder / "master")
    _say(encode(Shown(_is_registered(folder, given), status.daemons, status.problems, key)))
    return 0


def _say(line: str) -> None:
    print(line, flush=True)  # noqa: T201 (the log of the pod, or the answer)


def main(what: str, argument: str) -> int:
    try:
        return run(argument) if what == "run" else show(argument)
    except GrassError as error:
        print(error, file=sys.stderr, flush=True)  # noqa: T201 (Kubernetes shows the end of the log)
        return error.exit_code
    except KeyboardInterrupt:
        return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
