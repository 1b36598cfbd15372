"""Reads a pod template: its one container becomes the command, image, environment and needs of a component.

docs/reference/foreign-files.md lists the keys. A test compares that page with the tables here. Used by
``replica``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType

from grass.manifest import containers, values
from grass.manifest.fields import Fields
from grass.manifest.foreign import pod_env, pod_needs, quantity
from grass.manifest.foreign.notes import Notes, refuse
from grass.manifest.placement import read_labels
from grass.model.job import DEFAULT_GRACE, PLAIN_CONTAINER, Container, Ready
from grass.model.resources import Resources

IGNORED_IN_METADATA: Mapping[str, str] = MappingProxyType(
    {
        "labels": "ignored; labels of pods have no counterpart (labels of the job become tags)",
        "annotations": "ignored; annotations of pods have no counterpart",
        "name": "ignored; Grass names the tasks",
        "namespace": "ignored; Grass has no namespaces",
        "creationTimestamp": "ignored; written by Kubernetes",
    }
)
IGNORED_IN_POD: Mapping[str, str] = MappingProxyType(
    {
        "serviceAccountName": "ignored; tasks have no Kubernetes service account",
        "serviceAccount": "ignored; tasks have no Kubernetes service account",
        "automountServiceAccountToken": "ignored; tasks have no Kubernetes service account",
        "imagePullSecrets": "ignored; images come from the cluster (`grass image push`) or from what the node can pull",
        "schedulerName": "ignored; Grass places the tasks",
        "priorityClassName": "ignored; priority classes belong to Kubernetes; set `priority` in a Grass job file",
        "priority": "ignored; the scale of priorities differs; set `priority` in a Grass job file",
        "preemptionPolicy": "ignored; set `preemptible` in a Grass job file",
        "tolerations": "ignored; nodes have no taints; an administrator cordons a node",
        "topologySpreadConstraints": "ignored; set `spread` in a Grass job file",
        "dnsPolicy": "ignored; tasks use the name service of their node",
        "enableServiceLinks": "ignored; Grass has no services; see GRASS_ADDRESSES",
        "hostname": "ignored; tasks are named COMPONENT.INDEX",
        "subdomain": "ignored; tasks are named COMPONENT.INDEX",
        "setHostnameAsFQDN": "ignored; tasks are named COMPONENT.INDEX",
        "hostNetwork": "ignored; containers use the network of their node anyway",
        "readinessGates": "ignored; Grass knows only the readiness check of the task",
        "overhead": "ignored; Grass adds no overhead to a task",
        "os": "ignored; all nodes run Linux",
        "shareProcessNamespace": "ignored; a task is one container",
    }
)
REFUSED_IN_POD: Mapping[str, str] = MappingProxyType(
    {
        "initContainers": "is not supported; run these steps in the command of the task, or in a job that comes before",
        "ephemeralContainers": "is not supported; `grass job exec` runs a command beside a task",
        "affinity": "is not supported; use nodeSelector here, or where, spread and pack in a Grass job file",
        "nodeName": "is not supported; use nodeSelector with a label that only this node has",
        "runtimeClassName": "is not supported; the cluster chooses how tasks are isolated",
        "hostPID": "is not supported; a task must not see other processes of its node",
        "hostIPC": "is not supported; a task must not see the shared memory of its node",
        "hostAliases": "is not supported; GRASS_ADDRESSES has the addresses of the tasks",
        "dnsConfig": "is not supported; tasks use the name service of their node",
    }
)
IGNORED_IN_CONTAINER: Mapping[str, str] = MappingProxyType(
    {
        "imagePullPolicy": "ignored; a node takes the image from the cluster's store, or pulls it if it has none",
        "livenessProbe": "ignored; Grass restarts only tasks that end; `ready` and time limits watch the others",
        "startupProbe": "ignored; the readiness check waits for as long as the task runs",
        "terminationMessagePath": "ignored; see the output of the task",
        "terminationMessagePolicy": "ignored; see the output of the task",
        "stdin": "ignored; the standard input of a task is empty; `grass job exec -i` opens another",
        "stdinOnce": "ignored; the standard input of a task is empty; `grass job exec -i` opens another",
        "tty": "ignored; a task has no terminal; `grass job exec -t` opens one",
        "resizePolicy": "ignored; the resources of a task do not change while it runs",
    }
)
REFUSED_IN_CONTAINER: Mapping[str, str] = MappingProxyType(
    {
        "envFrom": "is not supported; the cluster has no config maps and secrets; list the variables under env",
        "lifecycle": "is not supported; put the steps into the command of the task",
        "volumeDevices": "is not supported; Grass mounts folders only",
        "restartPolicy": "is not supported in a container; set it beside replicas",
    }
)
_SECURITY = "ignored; the cluster decides what tasks may do on its nodes"


_NOTHING = Resources()


@dataclass(frozen=True)
class Pod:
    """What a component takes from a pod template. ``command``: None: the file has neither command nor args."""

    command: tuple[str, ...] | None = None
    image: str | None = None
    env: dict[str, str] = field(default_factory=dict)
    cwd: str | None = None
    resources: Resources = _NOTHING
    ports: tuple[str, ...] = ()
    ready: Ready | None = None
    container: Container = field(default_factory=Container)
    where: dict[str, tuple[str, ...]] = field(default_factory=dict)
    grace: float = DEFAULT_GRACE
    timeout: float | None = None


def read_template(fields: Fields, notes: Notes) -> Pod:
    """Read ``template`` of a replica specification."""
    template = fields.section("template")
    if template is None:
        fields.problems.add(fields.at("template"), "is missing; its container is what the tasks run")
        return Pod()
    with template.within("metadata") as metadata:
        notes.ignore(metadata, IGNORED_IN_METADATA)
    spec = template.section("spec")
    template.done()
    if spec is None:
        fields.problems.add(template.at("spec"), "is missing; it needs a container")
        return Pod()
    return _read_spec(spec, notes)


def _read_spec(spec: Fields, notes: Notes) -> Pod:
    notes.ignore(spec, IGNORED_IN_POD)
    refuse(spec, REFUSED_IN_POD)
    spec.read("restartPolicy", values.text, "")  # `replica` reads it
    containers_found = list(spec.items("containers"))
    if not containers_found:
        spec.problems.add(spec.at("containers"), "must have one container; it is what the tasks run")
        return Pod()
    for path, _ in containers_found[1:]:
        spec.problems.add(path, "is not supported; a task is one container; make it a component of its own")
    path, content = containers_found[0]
    container = Fields(content, path, spec.problems, lenient=True)
    pod = _read_container(container, spec, notes)
    _read_security(spec, notes)
    spec.done()
    return pod


def _read_container(fields: Fields, spec: Fields, notes: Notes) -> Pod:
    notes.ignore(fields, IGNORED_IN_CONTAINER)
    refuse(fields, REFUSED_IN_CONTAINER)
    fields.read("name", values.text, "")
    env = pod_env.read_env(fields)
    given, arguments = _words(fields, "command", env), _words(fields, "args", env)
    command = (*(given or ()), *(arguments or ())) or None
    ports = pod_needs.read_ports(fields, notes)
    user = _read_security(fields, notes)
    mounts, shm = pod_needs.read_mounts(fields, spec, notes)
    image = fields.read("image", containers.image_name, None)
    container = Container(entrypoint=() if given else None, user=user, mounts=mounts, shm=shm)
    if image is None:
        if replace(container, entrypoint=None) != PLAIN_CONTAINER:
            fields.problems.add(fields.at("image"), "is missing; users and volumes need a container")
        container = PLAIN_CONTAINER
    pod = Pod(
        command=command,
        image=image,
        env=env,
        cwd=fields.read("workingDir", values.text, None),
        resources=pod_needs.read_resources(fields, notes),
        ports=tuple(dict.fromkeys(ports.values())),
        ready=pod_needs.read_readiness(fields, ports, notes),
        container=container,
        where=_read_selector(spec),
        grace=float(spec.read("terminationGracePeriodSeconds", quantity.seconds_or_zero, int(DEFAULT_GRACE))),
        timeout=spec.read("activeDeadlineSeconds", lambda value: float(quantity.seconds(value)), None),
    )
    fields.done()
    return pod


def _words(fields: Fields, key: str, env: Mapping[str, str]) -> tuple[str, ...] | None:
    """Read a list of words. As in Kubernetes, ``$(NAME)`` is replaced if the container has such a variable."""
    if not fields.has(key):
        return None
    words = [fields.parsed(path, values.scalar_text, item, "") for path, item in fields.items(key)]
    return tuple(pod_env.expand(word, env) for word in words)


def _read_selector(spec: Fields) -> dict[str, tuple[str, ...]]:
    return {name: (value,) for name, value in read_labels(spec, "nodeSelector").items()}


def _read_security(fields: Fields, notes: Notes) -> str | None:
    """Return the user that a security context names. What would give a task more rights is refused."""
    section = fields.section("securityContext")
    if section is None:
        return None
    user = section.read("runAsUser", values.whole(0, 2**31 - 1), None)
    group = section.read("runAsGroup", values.whole(0, 2**31 - 1), None)
    if section.raw("privileged") is True:
        section.refuse("privileged", "is not supported; tasks never get the rights of their node")
    for key in dict(section.others()):
        section.has(key)
        notes.add(section.at(key), _SECURITY)
    if user is None:
        return None
    return str(user) if group is None else f"{user}:{group}"
