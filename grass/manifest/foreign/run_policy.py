"""Reads what the jobs of Kubeflow and of KubeDL have in common: how they end, and whether the file suspends them.

Kubeflow has these keys under ``runPolicy``, KubeDL in ``spec`` itself. Used by ``mpi_job``, ``pytorch_job`` and
``tf_job``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from grass.manifest import values
from grass.manifest.fields import Fields
from grass.manifest.foreign import quantity
from grass.manifest.foreign.notes import Notes, refuse
from grass.manifest.foreign.pod_clean import CleanPods
from grass.manifest.foreign.replica import Replica, RestartPolicy, read_replica, restart_of
from grass.model.ending import Clean, Ending
from grass.model.job import Restart

KUBEDL = "training.kubedl.io/v1alpha1"
KUBEFLOW = "kubeflow.org/v1"
ANNOTATIONS: Mapping[str, str] = MappingProxyType(
    {"kubedl.io/git-sync-config": "is not supported; clone in the command, or push the files with `grass data push`"}
)
IGNORED: Mapping[str, str] = MappingProxyType(
    {
        "schedulingPolicy": "ignored; tasks that need each other start together; set `priority` in a Grass job file",
        "enableGangScheduling": "ignored; tasks that need each other start together anyway",
        "managedBy": "ignored; Grass manages the job",
    }
)
REFUSED: Mapping[str, str] = MappingProxyType(
    {
        "cronPolicy": "is not supported; start the job by a schedule (`grass schedule start`)",
        "modelVersion": "is not supported; Grass builds no images of models; they stay where the program writes them",
        "cacheBackend": "is not supported; push the data with `grass data push`, or mount a folder of the nodes",
    }
)
_CLEAN = {CleanPods.ALL: Clean.ALL, CleanPods.RUNNING: Clean.RUNNING, CleanPods.NONE: Clean.NONE}


@dataclass(frozen=True)
class RunPolicy:
    """How a job ends. ``limit``: restarts of each task; None: the file does not say."""

    ending: Ending
    limit: int | None = None

    def restart(self, replica: Replica, otherwise: RestartPolicy) -> Restart:
        """Return the restart policy of a role. ``otherwise``: of one that names none."""
        policy = RestartPolicy.NEVER if self.limit == 0 else replica.policy or otherwise
        return restart_of(policy, self.limit)


def read_run_policy(spec: Fields, notes: Notes) -> RunPolicy:
    section = spec.section("runPolicy")
    found = spec if section is None else section
    ending = Ending(
        clean=_CLEAN[found.read("cleanPodPolicy", values.one_of(CleanPods), CleanPods.RUNNING)],
        ttl=found.read("ttlSecondsAfterFinished", lambda value: float(quantity.seconds_or_zero(value)), None),
        deadline=found.read("activeDeadlineSeconds", lambda value: float(quantity.seconds(value)), None),
    )
    limit = found.read("backoffLimit", values.whole(0, 1_000_000), None)
    if found.read("suspend", values.truth, False):
        found.refuse("suspend", "is not supported; start the job later, or hold it with `grass job hold`")
    notes.ignore(found, IGNORED)
    refuse(spec, REFUSED)
    if section is not None:
        section.done()
    return RunPolicy(ending, limit)


def read_roles(spec: Fields, key: str, known: tuple[str, ...], notes: Notes) -> dict[str, Replica]:
    """Return role, in lower case → its specification. ``known``: the roles, as the file writes them."""
    section = spec.section(key)
    if section is None:
        spec.problems.add(spec.at(key), f"is missing; it has the roles {', '.join(known)}")
        return {}
    roles: dict[str, Replica] = {}
    for name, content in section.entries():
        role = name.lower()
        if role not in (each.lower() for each in known):
            section.problems.add(section.at(name), f"unknown role; use one of {', '.join(known)}")
        elif role in roles:
            section.problems.add(section.at(name), "the role appears twice")
        else:
            fields = Fields(content, section.at(name), section.problems, lenient=True)
            fields.refuse("spotReplicaSpec", "is not supported; a task has the priority of its job")
            roles[role] = read_replica(fields, notes)
    if section.intact and not list(section.entries()):
        spec.problems.add(section.path, f"must not be empty; it has the roles {', '.join(known)}")
    return roles


def only_one(roles: Mapping[str, Replica], role: str, spec: Fields) -> None:
    """Report a role that has more than one task."""
    if role in roles and roles[role].count != 1:
        spec.problems.add(f"{roles[role].path}.replicas", f"must be 1, got {roles[role].count}")
