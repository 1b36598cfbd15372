"""The short-lived pod through which files reach the claim that is the share of a namespace. Pure; used by ``transfer``.

It runs the image of the node's settings, not one of a user, and lives for one transfer. When files are sent, it sees
only the folder of the claim whose tasks may write there: a link that one of them made cannot lead the files into a
folder of another user. When files are fetched, it sees all of the claim, and changes nothing.
"""

from __future__ import annotations

from typing import NamedTuple

from grass.errors import InputError
from grass.files.paths import JOBS
from grass.files.rights import DATA, OF_ALL, SHARED
from grass.kubernetes import names
from grass.kubernetes.pod_rights import spec_rights
from grass.model.pod_security import Part
from grass.node_config import KubernetesConfig
from node.runtime.kubernetes import share
from node.runtime.kubernetes.helper_container import helper_container
from node.runtime.kubernetes.judge import TASK

LIVES = 6 * 3600
"""Seconds after which it ends by itself, if nobody ends it."""
_WAIT = f"trap 'kill $!; exit 0' TERM; sleep {LIVES} & wait $!"
_AMOUNTS = {"cpu": "100m", "memory": "64Mi"}
_LINK, _MISSING = 65, 66
_LOOK = f"""
path="$0"
for part in "$@"; do path="$path/$part"; if [ -L "$path" ]; then exit {_LINK}; fi; done
if [ -d "$path" ]; then echo folder; elif [ -e "$path" ]; then echo file; else exit {_MISSING}; fi
"""
_TAR = """
if command -v tar >/dev/null; then tar=tar
elif command -v busybox >/dev/null; then tar='busybox tar'
else echo 'its image has no tar' >&2; exit 127; fi
"""
_SEND = """{ [ -d "$0" ] || mkdir -p "$0"; } && head -c "$1" | $tar -xf - -C "$0"\n"""
_FETCH = """exec $tar -cf - -C "$0" "$1"\n"""


class Mounted(NamedTuple):
    """A folder of the claim that the pod sees as ``share.TARGET``, and the path of a file or folder below it."""

    folder: str
    below: str

    @property
    def path(self) -> str:
        return f"{share.TARGET}/{self.below}" if self.below else share.TARGET


def to_send(folder: str) -> Mounted:
    """Return what to mount to write into a folder of the claim. ``folder``: without slashes at its ends.

    Raises InputError: it has folders of several users.
    """
    if folder in (DATA, OF_ALL):
        raise InputError(f"{folder}/ has folders of users only; name one, such as {folder}/ann")
    parts = folder.split("/") if folder else []
    depth = {DATA: 3 if parts[1:2] == [SHARED] else 2, JOBS: 2}.get(parts[0], 1) if parts else 0
    return Mounted("/".join(parts[:depth]), "/".join(parts[depth:]))


def pod(cluster: str, node: str, name: str, settings: KubernetesConfig, mounted: Mounted | None) -> Part:
    """Return the body of the POST. ``mounted`` None: it reads all of the claim."""
    mount: Part = {"name": share.VOLUME, "mountPath": share.TARGET}
    if mounted is None:
        mount["readOnly"] = True
    elif mounted.folder:
        mount["subPath"] = mounted.folder
    container = {
        **helper_container(TASK, settings.image, _WAIT, _AMOUNTS, settings),
        "volumeMounts": [mount],
    }
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name,
            "labels": {
                **settings.labels,
                **names.MANAGED,
                **names.node_labels(cluster, node),
                names.CARRIER: "true",
            },
            "annotations": dict(settings.annotations),
        },
        "spec": {
            "restartPolicy": "Never",
            **spec_rights(settings),
            "activeDeadlineSeconds": LIVES,
            "terminationGracePeriodSeconds": 1,
            "tolerations": [dict(each) for each in settings.tolerations],
            "containers": [container],
            "volumes": [share.volume(settings.claim or "")],
        },
    }


def look(path: str) -> list[str]:
    """Return the command that says whether a path of the claim is a folder or a file."""
    return ["/bin/sh", "-c", _LOOK, share.TARGET, *(part for part in path.split("/") if part)]


def trouble(code: int | None) -> str:
    """Return what the exit code of ``look`` means; empty: there is such a path."""
    said = {0: "", _LINK: "a part of this path is a link, which is not followed", _MISSING: "not found"}
    return said.get(code, f"cannot be looked at (exit code {code})") if code is not None else "the connection was lost"


def receive(folder: str, size: int) -> list[str]:
    """Return the command that unpacks a tar of ``size`` bytes from its input. Before version 5 of the protocol, nothing
    can say that the input has ended."""
    return ["/bin/sh", "-c", _TAR + _SEND, folder, str(size)]


def send(folder: str, name: str) -> list[str]:
    """Return the command that writes a file or folder as a tar. ``name``: in ``folder``; ``.``: its content."""
    return ["/bin/sh", "-c", _TAR + _FETCH, folder, name]
