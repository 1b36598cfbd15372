"""The files of a job that a pod sees, and the variables that are known only once its tasks have addresses. Pure.

Nothing leads from a pod to the agent, so both are annotations of the pod. Files are read through a downwardAPI volume,
and follow a change within a second. Variables are read by the kubelet when it makes the task's container. So a first
container of the pod, with the same image, waits for an annotation that says that they are there.

Used by ``pods``, ``runtime`` and ``node.membership``.
"""

from __future__ import annotations

from collections.abc import Mapping

from grass.kubernetes import names
from grass.kubernetes.objects import Pod
from grass.model.pod_security import Part
from grass.node_config import KubernetesConfig
from node.runtime.kubernetes.helper_container import helper_container
from node.runtime.kubernetes.judge import WAITER
from node.runtime.kubernetes.keeper import AMOUNTS
from node.runtime.protocol import Launch, Start

FOLDER = "/grass/job"
RELAY = "library/python/grass_relay.py"
"""The file that a pod has if its task may use the membership API."""
API_FOLDER = "/grass/api"
API = f"{API_FOLDER}/api.sock"
"""Where a task finds the API."""
NO_TOKEN = "of-the-pod"  # noqa: S105 - it stands for none
"""What a task in a pod has in the place of its token: whoever may read the namespace sees it."""
VOLUME = "job"
_BEGIN = "begin"
_BEGINS = f"{names.DOMAIN}/begin"
_FILE, _VARIABLE = (f"{kind}.{names.DOMAIN}/" for kind in ("file", "env"))
_OURS = (_BEGINS, _FILE, _VARIABLE)
_BETWEEN = "variables"
_WAIT = f"until [ -s {FOLDER}/{_BEGIN} ]; do sleep 0.2 2>/dev/null || sleep 1; done"


def news(launch: Launch, start: Start) -> dict[str, str]:
    """Return what the pod of an attempt is told now: nothing while it waits, then all at once."""
    if start.awaits:
        return {_BEGINS: ""}
    return {
        _BEGINS: "now",
        **{_of_file(path): text for path, text in launch.files.items()},
        **{_VARIABLE + name: text for name, text in start.late.items()},
    }


def told(pod: Pod) -> dict[str, str] | None:
    """Return what a pod was told. None: it was made without files."""
    found = {name: text for name, text in pod.metadata.annotations.items() if name.startswith(_OURS)}
    return found if _BEGINS in found else None


def _volume(launch: Launch) -> Part:
    files = {_BEGIN: _BEGINS, **{path: _of_file(path) for path in launch.files}}
    programs = {path for path, text in launch.files.items() if text.startswith("#!")}
    items = [
        {"path": path, "fieldRef": _field(name), "mode": 0o555 if path in programs else 0o444}
        for path, name in files.items()
    ]
    return {"name": VOLUME, "downwardAPI": {"items": items}}


def volumes(launch: Launch) -> list[Part]:
    """Return the volumes of the pod."""
    return [_volume(launch), *([{"name": "api", "emptyDir": {}}] if RELAY in launch.files else [])]


def mounts(launch: Launch, start: Start) -> list[Part]:
    """Return the mounts of the task's container."""
    found: list[Part] = [{"name": VOLUME, "mountPath": FOLDER, "readOnly": True}]
    if RELAY in launch.files:
        found.append({"name": "api", "mountPath": API_FOLDER})
    for file, at in start.programs:
        found.append({"name": VOLUME, "mountPath": at, "subPath": file, "readOnly": True})
    return found


def environment(launch: Launch) -> dict[str, str]:
    """Return the variables by which a task finds the membership API."""
    return {"GRASS_API": API, "GRASS_TOKEN": NO_TOKEN} if RELAY in launch.files else {}


def variables(start: Start) -> list[Part]:
    return [{"name": name, "valueFrom": {"fieldRef": _field(_VARIABLE + name)}} for name in start.late]


def waiters(image: str, settings: KubernetesConfig) -> list[Part]:
    """Return the containers that come before the task's. They cost nothing: that one is not there yet.

    The first one waits. When it ends, the kubelet may make one more container from an older pod than its volume shows,
    without the variables. So the next container does nothing.
    """
    made = helper_container(WAITER, image, _WAIT, AMOUNTS, settings)
    wait = {**made, "volumeMounts": [{"name": VOLUME, "mountPath": FOLDER, "readOnly": True}]}
    return [wait, helper_container(_BETWEEN, image, ":", AMOUNTS, settings)]


def size(files: Mapping[str, str]) -> int:
    """Return how many bytes of annotations the files are."""
    return sum(len(_of_file(path)) + len(text.encode()) for path, text in files.items())


def _of_file(path: str) -> str:
    return _FILE + names.short(path)


def _field(annotation: str) -> Part:
    return {"fieldPath": f"metadata.annotations['{annotation}']"}
