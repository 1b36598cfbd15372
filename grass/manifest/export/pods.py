"""Writes components as the replica specifications of TrainingJob and MarsJob. The reverse of ``foreign.replica``.

Used by ``kubernetes``; its parts also by ``pod_spec`` and ``pod_variables``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any

from grass.manifest.document import Document
from grass.manifest.foreign.training_job import DEEPSPEED_HOSTS, FILES, IDLE
from grass.model.exhaustive import assert_never
from grass.model.framework import FrameworkName
from grass.model.job import DEFAULT_GRACE, Component, Restart, RestartOn
from grass.model.resources import Resources

_PATHS = {variable: path for path, variable in reversed(list(FILES.items()))}
_EXPANDED = re.compile(r"\$(?=[$(])")
"""A dollar sign that Kubernetes would not leave alone: it expands ``$(NAME)``, and takes ``$$`` for ``$``."""


def replica(part: Component, *, own: tuple[str, ...] = IDLE, bounds: bool = False) -> Document:
    """Return a specification. ``own``: the command that the reader chose by itself, which is left out."""
    found: Document = {"replicas": part.replicas}
    if bounds:
        found |= given(minReplicas=part.min, maxReplicas=part.max)
    found["restartPolicy"] = _policy(part.restart)
    found["template"] = {"spec": _pod(part, own)}
    return found


def given(**values: Any) -> Document:
    return {name: value for name, value in values.items() if value not in (None, [], {}, "")}


def _policy(restart: Restart) -> str:
    match restart.policy:
        case RestartOn.NEVER:
            return "Never"
        case RestartOn.ALWAYS:
            return "Always"
        case RestartOn.ON_FAILURE:
            return "ExitCode" if restart.codes else "OnFailure"
        case _:
            assert_never(restart.policy)


def _pod(part: Component, own: tuple[str, ...]) -> Document:
    mounts, volumes = _volumes(part)
    container = {"name": "main", **given(image=part.image, workingDir=part.cwd)}
    words = ["/bin/sh", "-c", part.command] if isinstance(part.command, str) else list(part.command)
    if part.command != own:
        key = "args" if part.container.entrypoint is None and part.image else "command"
        container[key] = [*map(escaped, [*(part.container.entrypoint or ()), *_with_paths(part, words)])]
    container |= given(
        env=[{"name": name, "value": escaped(value)} for name, value in part.env.items()],
        resources=given(limits=limits(part.resources)),
        volumeMounts=mounts,
        securityContext=_user(part.container.user),
    )
    found: Document = {"containers": [container]}
    found |= given(
        volumes=volumes,
        nodeSelector={label: options[0] for label, options in part.where.items()},
        activeDeadlineSeconds=None if part.timeout is None else max(1, round(part.timeout)),
    )
    if part.grace != DEFAULT_GRACE:
        found["terminationGracePeriodSeconds"] = round(part.grace)
    return found


def _with_paths(part: Component, words: Sequence[str]) -> Iterator[str]:
    """Put the paths of et-operator back in place of the variables of Grass."""
    deepspeed = part.framework is not None and part.framework.name is FrameworkName.DEEPSPEED
    paths = {**_PATHS, **({FILES[DEEPSPEED_HOSTS]: DEEPSPEED_HOSTS} if deepspeed else {})}
    for word in words:
        found = word
        for variable, path in paths.items():
            found = found.replace(f"${{{variable}}}", path).replace(f"${variable}", path)
        yield found


def escaped(text: str) -> str:
    """Return what Kubernetes expands to ``text``."""
    return _EXPANDED.sub("$$", text)


def limits(amounts: Resources) -> Document:
    cpu = None if not amounts.cpu else f"{amounts.cpu}m" if amounts.cpu % 1000 else str(amounts.cpu // 1000)
    named = {
        "cpu": cpu,
        "memory": str(amounts.memory) if amounts.memory else None,
        "nvidia.com/gpu": str(-(-amounts.gpu // 1000)) if amounts.gpu else None,
        "ephemeral-storage": str(amounts.disk) if amounts.disk else None,
    }
    return given(**named)


def _volumes(part: Component) -> tuple[list[Document], list[Document]]:
    mounts, volumes = [], []
    for at, mount in enumerate(part.container.mounts):
        volumes.append({"name": f"mount-{at}", "hostPath": {"path": mount.source}})
        read_only = {"readOnly": True} if mount.read_only else {}
        mounts.append({"name": f"mount-{at}", "mountPath": mount.target, **read_only})
    if part.container.shm is not None:
        volumes.append({"name": "shm", "emptyDir": {"medium": "Memory", "sizeLimit": str(part.container.shm)}})
        mounts.append({"name": "shm", "mountPath": "/dev/shm"})
    return mounts, volumes


def _user(user: str | None) -> Document:
    name, _, group = (user or "").partition(":")
    if not name.isdecimal():
        return {}
    return {"runAsUser": int(name), **({"runAsGroup": int(group)} if group.isdecimal() else {})}
