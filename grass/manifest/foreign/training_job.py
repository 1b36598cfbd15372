"""Reads et-operator's TrainingJob: a launcher and elastic workers.

The launcher starts when all workers run, and the job succeeds with it. Workers may fail and come back. Paths of files
that et-operator writes into the launcher are replaced by those that Grass writes. Used by ``dialects``, ``mpi_job``,
``grass.manifest.export.kubernetes`` and ``grass.manifest.export.pods``.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping
from dataclasses import replace
from enum import Enum
from types import MappingProxyType

from grass.manifest import values
from grass.manifest.fields import Fields
from grass.manifest.foreign.metadata import Metadata
from grass.manifest.foreign.notes import Notes
from grass.manifest.foreign.pod_clean import CleanPods
from grass.manifest.foreign.replica import ET_RETRYABLE, Replica, RestartPolicy, component_of, read_replica, restart_of
from grass.model.ending import NO_JOB_RESTART, Clean, Ending, JobRestart
from grass.model.framework import Framework, FrameworkName, Option
from grass.model.job import NO_RESTART, Component, Condition, Job
from grass.model.program import is_shell

DIALECT = "TrainingJob"
VERSIONS = ("kai.alibabacloud.com/v1alpha1",)
LAUNCHER, WORKER = "launcher", "worker"
DEFAULT_BACKOFF_LIMIT = 6
"""Restarts of the whole job with ``restartPolicy: OnFailure``."""
ANNOTATIONS: Mapping[str, str] = MappingProxyType(
    {
        "job-supervisor.kube-ai.io/job-suspended": "is not supported; start the job later, or use `grass job suspend`",
    }
)
FILES: Mapping[str, str] = MappingProxyType(
    {
        "/etc/edl/discover_hosts.sh": "GRASS_DISCOVER_HOSTS",
        "/usr/local/bin/discover_hosts.sh": "GRASS_DISCOVER_HOSTS",
        "/etc/edl/hostfile": "GRASS_HOSTS",
        "/job/hostfile": "GRASS_HOSTS",
        "/etc/mpi/hostfile": "GRASS_HOSTS",
        "/etc/mpi/discover_hosts.sh": "GRASS_DISCOVER_HOSTS",
    }
)
"""File of et-operator or of an MPI operator → variable with the path of the file that Grass writes instead."""
DEEPSPEED_HOSTS = "/job/hostfile"
"""The file that ``deepspeed`` reads if its command names none. Without it, it would train in the launcher alone."""
IDLE = ("sh", "-c", "exec sleep 365d")
"""Command of a worker without one: the launcher executes the training in it. et-operator starts an sshd instead."""

_FRAMEWORKS = (
    (re.compile(r"\bhorovodrun\b"), FrameworkName.HOROVOD),
    (re.compile(r"\bdeepspeed\b"), FrameworkName.DEEPSPEED),
    (re.compile(r"\bmpirun\b|\bmpiexec\b"), FrameworkName.OPENMPI),
)
_PATHS = re.compile("(" + "|".join(map(re.escape, FILES)) + ")")
_DEEPSPEED = re.compile(r"(?m)((?:^|[;&|(]|\bexec\s)\s*(?:[\w./-]*/)?deepspeed)(?=\s)")
_HOST_FILE = re.compile(r"(?:^|\s)(?:-H|--hostfile)\b")


class _Policy(str, Enum):
    NEVER = "Never"
    ON_FAILURE = "OnFailure"


class _Attach(str, Enum):
    SSH = "ssh"
    KUBEXEC = "kubexec"


def read_job(spec: Fields, notes: Notes, about: Metadata) -> Job | None:
    launcher, worker = _read_replicas(spec, notes)
    slots = spec.read("slotsPerWorker", values.whole(1, 1024), None)
    if spec.read("launcherAttachMode", values.one_of(_Attach), None) is not None:
        notes.add(spec.at("launcherAttachMode"), "ignored; the launcher always reaches workers through their nodes")
    ending = _read_ending(spec)
    spec.done()
    if launcher is None or worker is None:
        return None
    if launcher.policy not in (None, RestartPolicy.NEVER):
        notes.add(f"{launcher.path}.restartPolicy", "ignored, as et-operator does; see restartPolicy of the job")
    components = launched(launcher, worker, slots, notes)
    again = restart_of(worker.policy or RestartPolicy.NEVER, None, ET_RETRYABLE)
    components[WORKER] = replace(components[WORKER], restart=again)
    return Job(
        name=about.name,
        components=components,
        success=(LAUNCHER,),
        fail_fast=False,
        tags=about.labels,
        dialect=DIALECT,
        ending=ending,
    )


def _read_replicas(spec: Fields, notes: Notes) -> tuple[Replica | None, Replica | None]:
    section = spec.section("etReplicaSpecs")
    if section is None:
        spec.problems.add(spec.at("etReplicaSpecs"), "is missing; it needs a launcher and a worker")
        return None, None
    found: dict[str, Replica] = {}
    for role in (LAUNCHER, WORKER):
        key = role if section.has(role) else role.capitalize()
        fields = section.section(key)
        if fields is None:
            section.problems.add(section.at(role), "is missing; a TrainingJob has a launcher and a worker")
            continue
        found[role] = read_replica(fields, notes, bounds=role == WORKER)
        if role == LAUNCHER and found[role].count != 1:
            section.problems.add(f"{section.at(key)}.replicas", f"must be 1, got {found[role].count}")
    section.done()
    return found.get(LAUNCHER), found.get(WORKER)


def _read_ending(spec: Fields) -> Ending:
    """Read what happens at the end. et-operator's All and Running are the same: the launcher's pod is never deleted."""
    clean = spec.read("cleanPodPolicy", values.one_of(CleanPods), CleanPods.RUNNING)
    policy = spec.read("restartPolicy", values.one_of(_Policy), _Policy.NEVER)
    limit = spec.read("backoffLimit", values.whole(0, 1_000_000), DEFAULT_BACKOFF_LIMIT)
    restart = JobRestart(limit) if policy is _Policy.ON_FAILURE and limit else NO_JOB_RESTART
    return Ending(clean=Clean.NONE if clean is CleanPods.NONE else Clean.RUNNING, restart=restart)


def launched(
    launcher: Replica,
    worker: Replica,
    slots: int | None,
    notes: Notes,
    *,
    mpi: FrameworkName = FrameworkName.OPENMPI,
    otherwise: FrameworkName = FrameworkName.HOROVOD,
) -> dict[str, Component]:
    """Return a launcher that starts when all workers run, and the workers. Nothing of them is restarted.

    ``mpi``: what `mpirun` is. ``otherwise``: the framework of a launcher whose command names none.
    """
    command = launcher.pod.command
    if command is None:
        path = f"{launcher.path}.template.spec.containers[0].command"
        notes.add(path, "is missing; the launcher sleeps, as a worker without a command does")
    words = " ".join(command or ())
    kind = next((kind for pattern, kind in _FRAMEWORKS if pattern.search(words)), otherwise)
    kind = mpi if kind is FrameworkName.OPENMPI else kind
    if command is not None and kind is FrameworkName.DEEPSPEED and not _HOST_FILE.search(words):
        command = _with_host_file(command)
    options: dict[str, Option] = {} if slots is None else {"slots": slots}
    framework = Framework(kind, options)
    runs = component_of(LAUNCHER, launcher, _with_own_files(command or IDLE, launcher, notes), NO_RESTART)
    works = component_of(WORKER, worker, worker.pod.command or IDLE, NO_RESTART)
    return {
        LAUNCHER: replace(runs, framework=framework, depends_on={WORKER: Condition.RUNNING}),
        WORKER: replace(works, framework=framework),
    }


def _with_host_file(command: tuple[str, ...]) -> tuple[str, ...]:
    """Name the file that ``deepspeed`` reads by default, so that it is replaced like one that the command names."""
    option = ("--hostfile", DEEPSPEED_HOSTS)
    if command[0].rpartition("/")[2] == "deepspeed":
        return (command[0], *option, *command[1:])
    if not _is_script(command):
        return command
    script = _DEEPSPEED.sub(lambda match: " ".join((match[1], *option)), command[2], count=1)
    return (*command[:2], script, *command[3:])


def _is_script(command: tuple[str, ...]) -> bool:
    return len(command) >= 3 and is_shell(command[0]) and command[1] in ("-c", "-lc", "-ec")


def _with_own_files(command: tuple[str, ...], launcher: Replica, notes: Notes) -> tuple[str, ...]:
    """Replace the files of et-operator in a command. A command without a shell gets one, to expand the variable."""
    found = sorted({match[0] for word in command for match in _PATHS.finditer(word)})
    if not found:
        return command
    for path in found:
        where = f"{launcher.path}.template.spec.containers[0].command"
        notes.add(where, f"{path} is replaced by ${FILES[path]}, the file that Grass writes")
    if _is_script(command):
        script = _PATHS.sub(lambda match: f"${{{FILES[match[0]]}}}", command[2])
        return (*command[:2], script, *command[3:])
    return ("/bin/sh", "-c", "exec " + " ".join(map(_quoted, command)))


def _quoted(word: str) -> str:
    """Quote a word for the shell, with the files of et-operator as variables."""
    parts = [part for part in _PATHS.split(word) if part] or [""]
    return "".join(f'"${{{FILES[part]}}}"' if part in FILES else shlex.quote(part) for part in parts)
