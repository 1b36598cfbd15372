"""Reads one replica specification (``launcher``, ``worker``, ``Scheduler``, …) and makes a component of it.

Used by the readers of jobs: ``elastic_job``, ``mars_job``, ``mpi_job``, ``pytorch_job``, ``tf_job``,
``training_job``, and by ``run_policy``.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum

from grass.manifest import values
from grass.manifest.fields import Fields
from grass.manifest.foreign.notes import Notes
from grass.manifest.foreign.pod import Pod, read_template
from grass.manifest.native import MAX_REPLICAS
from grass.model.exhaustive import assert_never
from grass.model.job import NO_RESTART, Component, Restart, RestartOn

RETRYABLE = (130, 137, 138, 143)
"""Exit codes after which KubeDL starts a pod of policy ExitCode again: INT, KILL, USR1, TERM."""
ET_RETRYABLE = tuple(range(129, 255))
"""The same of et-operator."""


class RestartPolicy(str, Enum):
    ALWAYS = "Always"
    ON_FAILURE = "OnFailure"
    NEVER = "Never"
    EXIT_CODE = "ExitCode"


@dataclass(frozen=True)
class Replica:
    """One replica specification.

    ``path``: of the specification in the file. ``least``, ``most``: bounds of its size, if the file has them.
    """

    path: str
    count: int
    pod: Pod
    policy: RestartPolicy | None
    least: int | None = None
    most: int | None = None


def read_replica(fields: Fields, notes: Notes, *, bounds: bool = False) -> Replica:
    """Read a specification. ``bounds``: it may have minReplicas and maxReplicas."""
    count = fields.read("replicas", values.whole(1, MAX_REPLICAS), 1)
    least = most = None
    if bounds:
        least = fields.read("minReplicas", values.whole(1, MAX_REPLICAS), None)
        most = fields.read("maxReplicas", values.whole(1, MAX_REPLICAS), None)
        _check_bounds(fields, count, least, most)
    policy = fields.read("restartPolicy", values.one_of(RestartPolicy), None)
    if policy is None:
        policy = _policy_of_pod(fields)
    pod = read_template(fields, notes)
    fields.done()
    return Replica(fields.path, count, pod, policy, least, most)


def _check_bounds(fields: Fields, count: int, least: int | None, most: int | None) -> None:
    if least is not None and most is not None and least > most:
        fields.problems.add(fields.at("minReplicas"), f"must be at most maxReplicas, which is {most}; got {least}")
    elif least is not None and count < least:
        fields.problems.add(fields.at("replicas"), f"must be at least minReplicas, which is {least}; got {count}")
    elif most is not None and count > most:
        fields.problems.add(fields.at("replicas"), f"must be at most maxReplicas, which is {most}; got {count}")


def _policy_of_pod(fields: Fields) -> RestartPolicy | None:
    """Return the policy of the pod itself, which holds if the specification has none."""
    content = fields.raw("template")
    spec = content.get("spec") if isinstance(content, dict) else None
    if not isinstance(spec, dict) or spec.get("restartPolicy") is None:
        return None
    pod = Fields(spec, f"{fields.at('template')}.spec", fields.problems, lenient=True)
    return pod.read("restartPolicy", values.one_of(RestartPolicy), None)


def restart_of(policy: RestartPolicy, limit: int | None, codes: tuple[int, ...] = RETRYABLE) -> Restart:
    """Return the restart policy of tasks. ``limit``: restarts per task (None: no limit). ``codes``: of ExitCode."""
    match policy:
        case RestartPolicy.NEVER:
            return NO_RESTART
        case RestartPolicy.ALWAYS:
            return Restart(RestartOn.ALWAYS, limit)
        case RestartPolicy.ON_FAILURE:
            return Restart(RestartOn.ON_FAILURE, limit)
        case RestartPolicy.EXIT_CODE:
            return Restart(RestartOn.ON_FAILURE, limit, codes=codes)
        case _:
            assert_never(policy)


def component_of(name: str, replica: Replica, command: tuple[str, ...] | str, restart: Restart) -> Component:
    """Return the component that the specification describes. ``command``: runs as it is if the file has no command."""
    pod = replica.pod
    own = pod.container if pod.command is not None or pod.image is None else replace(pod.container, entrypoint=())
    return Component(
        name=name,
        command=command,
        replicas=replica.count,
        min=replica.least,
        max=replica.most,
        resources=pod.resources,
        ports=pod.ports,
        env=pod.env,
        cwd=pod.cwd,
        restart=restart,
        ready=pod.ready,
        grace=pod.grace,
        timeout=pod.timeout,
        image=pod.image,
        where=pod.where,
        container=own,
    )
