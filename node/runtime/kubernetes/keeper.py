"""The container that keeps the output of a task until Grass has fetched it. Pure; used by ``pods`` and ``outputs``.

A pod sees no share. Its ``GRASS_OUTPUT`` is a volume that Kubernetes removes with the pod, and no command can run in a
container that has ended. So each pod has a second container, of the same image, that waits: when the task has ended,
Grass runs ``tar`` in it, stores the files in the cluster's share, and lets it go. It also lets Grass end the task
without deleting the pod, which would end both containers at once.

It costs ``AMOUNTS`` of the namespace for each pod, and needs ``/bin/sh``, ``sleep`` and ``tar`` (or
``busybox``) in the image. Where they are missing, the task runs all the same, and one line of its log says that its
files were not kept. So it is when somebody else than Grass ends the pod (an eviction, ``kubectl delete``). With
``output: false`` in the settings of the node there is no such container, and nothing is kept. Where a claim is the
share of the namespace, files are kept there, and the container only lets Grass end the task.
"""

from __future__ import annotations

from grass.kubernetes.objects import Pod
from grass.model.namespace import POD_COST
from grass.model.pod_security import Part
from grass.node_config import KubernetesConfig
from node.runtime.kubernetes.helper_container import helper_container
from node.runtime.kubernetes.judge import TASK, container_of
from node.runtime.kubernetes.processes import signal_first, signal_own_first

KEEPER = "output"
"""Name of the container."""
OUTPUT = "/grass/output"
AMOUNTS = {"cpu": f"{POD_COST.cpu}m", "memory": str(POD_COST.memory)}
"""Requests, and limits: with other limits, a pod is not of the class Guaranteed. With less, each command in it takes
seconds: an engine that starts one is counted here. The master counts them, too."""
_WAIT = "trap 'kill $!; exit 0' USR1; trap 'kill $!; exit 1' TERM; while :; do sleep 86400 & wait $! || exit 1; done"
_TAR = """
if command -v tar >/dev/null; then exec tar -cf - -C "$0" .; fi
if command -v busybox >/dev/null; then exec busybox tar -cf - -C "$0" .; fi
echo 'its image has no tar' >&2; exit 127
"""


def container(image: str, settings: KubernetesConfig) -> Part:
    made = helper_container(KEEPER, image, _WAIT, AMOUNTS, settings)
    if settings.claim is None:
        made["volumeMounts"] = [{"name": "output", "mountPath": OUTPUT, "readOnly": True}]
    return made


def tar() -> list[str]:
    """Return the command that writes all files as a tar."""
    return ["/bin/sh", "-c", _TAR, OUTPUT]


def let_go() -> list[str]:
    """Return the command that ends the keeper."""
    return signal_own_first("USR1")


def signals(pod: Pod, name: str) -> list[str] | None:
    """Return the command that sends the signal ``name`` to the task. None: the keeper cannot do that."""
    task = container_of(pod, TASK)
    container_id = task.container_id.rpartition("/")[2] if task is not None else ""
    if not container_id or not is_there(pod):
        return None
    return signal_first(container_id, name)


def has_keeper(pod: Pod) -> bool:
    return container_of(pod, KEEPER) is not None


def is_there(pod: Pod) -> bool:
    """Return whether it runs, so that there is a shell in the image."""
    status = container_of(pod, KEEPER)
    return status is not None and status.state.running is not None


def was_let_go(pod: Pod) -> bool:
    """Return whether an agent was done with the files."""
    status = container_of(pod, KEEPER)
    return status is not None and status.state.terminated is not None and status.state.terminated.exit_code == 0


def trouble(pod: Pod) -> str:
    """Return why nothing can be fetched from a pod whose task has ended; empty if it can."""
    status = container_of(pod, KEEPER)
    if pod.metadata.deletion_timestamp is not None:
        return "its pod was deleted"
    if status is None or status.state.running is not None:
        return ""
    ended = status.state.terminated
    if ended is not None and ended.started_at is not None and not ended.started_at.startswith(("0001", "1970")):
        return f"the container that keeps them ended first (exit code {ended.exit_code})"
    return "its image has no /bin/sh"
