"""Reads what a container needs: resources, ports, mounts, and its readiness check. Used by ``pod``."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from grass.manifest import containers, values
from grass.manifest.fields import Fields
from grass.manifest.foreign import quantity
from grass.manifest.foreign.notes import Notes
from grass.manifest.native import UNKNOWN_COMMAND
from grass.model.job import Mount, Ready
from grass.model.resources import Resources

_RESOURCES: dict[str, tuple[str, Callable[[Any], int]]] = {
    "cpu": ("cpu", quantity.cpu),
    "memory": ("memory", quantity.size),
    "nvidia.com/gpu": ("gpu", quantity.devices),
    "ephemeral-storage": ("disk", quantity.size),
}
_SHARED_MEMORY = "/dev/shm"
_NOT_A_LETTER = re.compile(r"[^A-Za-z0-9-]+")
_NO_EMPTY_FOLDER = "ignored; the path lies in the container's own file system, which is empty at each start"


def read_resources(fields: Fields, notes: Notes) -> Resources:
    """Return what a task reserves: its limits, or without limits its requests. A missing resource reserves nothing."""
    with fields.within("resources") as section:
        limits, requests = _amounts(section, "limits"), _amounts(section, "requests")
        if section.has("claims"):
            section.refuse("claims", "is not supported; ask for nvidia.com/gpu")
    for name in limits.keys() & requests.keys():
        if limits[name] != requests[name]:
            notes.add(f"{section.path}.requests", "differs from limits; a task reserves its limits")
    amounts = {**requests, **limits}
    return Resources(amounts.get("cpu", 0), amounts.get("memory", 0), amounts.get("gpu", 0), amounts.get("disk", 0))


def _amounts(fields: Fields, kind: str) -> dict[str, int]:
    with fields.within(kind) as section:
        found = {name: section.read(key, parse, 0) for key, (name, parse) in _RESOURCES.items() if section.has(key)}
        for key, _ in section.others():
            section.refuse(key, f"is not supported; a task may ask for {', '.join(_RESOURCES)}")
    return found


def read_ports(fields: Fields, notes: Notes) -> dict[str, str]:
    """Return name or number in the file → name of the port."""
    ports: dict[str, str] = {}
    for path, item in fields.items("ports"):
        entry = Fields(item, path, fields.problems, lenient=True)
        number = entry.require("containerPort", values.whole(1, 65535), 0)
        called = entry.read("name", values.text, f"port-{number}")
        protocol = entry.read("protocol", values.text, "TCP")
        if protocol != "TCP":
            entry.problems.add(entry.at("protocol"), f"must be TCP, got {values.show(protocol)}")
        notes.ignore(entry, {"hostPort": _CHOSEN, "hostIP": "ignored; a task listens on the address of its node"})
        entry.done()
        if called in OPENED:
            notes.add(entry.at("containerPort"), _OPENED)
            continue
        name = _NOT_A_LETTER.sub("-", called).strip("-")
        if entry.parsed(entry.at("name"), values.port_name, name, ""):
            ports[called] = ports[str(number)] = name
            notes.add(entry.at("containerPort"), _CHOSEN)
    return ports


OPENED = ("mpijob-port", "pytorchjob-port", "tfjob-port")
"""Ports that the operators open for a framework. The framework gets a port of its own here."""
_OPENED = "ignored; Grass chooses a free port, which the variables of the framework name (MASTER_PORT, TF_CONFIG)"
_CHOSEN = "ignored; Grass chooses a free port for each attempt; the program must listen on GRASS_PORT_<NAME>"


def read_mounts(fields: Fields, spec: Fields, notes: Notes) -> tuple[tuple[Mount, ...], int | None]:
    """Return the folders of the node that are mounted, and the size of /dev/shm if a volume is mounted there."""
    volumes = _read_volumes(spec)
    mounts: list[Mount] = []
    shm: int | None = None
    for path, item in fields.items("volumeMounts"):
        entry = Fields(item, path, fields.problems, lenient=True)
        name = entry.require("name", values.text, "")
        target = entry.require("mountPath", containers.inside_path, "")
        read_only = entry.read("readOnly", values.truth, False)
        below = entry.read("subPath", values.text, "")
        notes.ignore(entry, {"mountPropagation": "ignored; mounts of the node appear in containers of the node"})
        entry.done()
        volume = volumes.get(name)
        if name and volume is None:
            entry.problems.add(entry.at("name"), f"unknown volume; the pod has {', '.join(volumes) or 'none'}")
        elif volume is not None and volume.has("hostPath"):
            mounts += _host_mount(volume, target, below, read_only)
        elif volume is not None and volume.has("emptyDir"):
            shm = _empty_folder(volume, target, notes, shm)
    return tuple(mounts), shm


def _read_volumes(spec: Fields) -> dict[str, Fields]:
    volumes: dict[str, Fields] = {}
    for path, item in spec.items("volumes"):
        volume = Fields(item, path, spec.problems, lenient=True)
        name = volume.require("name", values.text, "")
        kinds = [kind for kind, _ in volume.others()]
        if volume.intact and name:
            volumes[name] = volume
        for kind in kinds:
            if kind not in ("hostPath", "emptyDir"):
                volume.refuse(kind, "is not supported; use hostPath with a folder that the settings of the nodes allow")
        if volume.intact and not kinds:
            volume.has("emptyDir")
    return volumes


def _host_mount(volume: Fields, target: str, below: str, read_only: bool) -> list[Mount]:
    section = volume.section("hostPath")
    if section is None:
        return []
    source = section.require("path", containers.inside_path, "")
    kind = section.read("type", values.text, "")
    if kind not in ("", "Directory", "DirectoryOrCreate"):
        section.problems.add(section.at("type"), f"must be Directory or DirectoryOrCreate, got {values.show(kind)}")
    section.done()
    if below:
        source = section.parsed(section.path, containers.inside_path, f"{source}/{below}", "")
    return [Mount(source, target, read_only)] if source and target else []


def _empty_folder(volume: Fields, target: str, notes: Notes, shm: int | None) -> int | None:
    section = volume.section("emptyDir")
    if section is None:
        return shm
    section.read("medium", values.text, "")
    limit = section.read("sizeLimit", quantity.size, None)
    section.done()
    if target == _SHARED_MEMORY:
        return limit or shm
    notes.add(volume.at("emptyDir"), _NO_EMPTY_FOLDER)
    return shm


def read_readiness(fields: Fields, ports: dict[str, str], notes: Notes) -> Ready | None:
    """Read ``readinessProbe``: a command, or a port of the container."""
    section = fields.section("readinessProbe")
    if section is None:
        return None
    timing = "ignored; a readiness check is made again and again until it passes once"
    keys = ("initialDelaySeconds", "periodSeconds", "timeoutSeconds", "successThreshold", "failureThreshold")
    notes.ignore(section, dict.fromkeys((*keys, "terminationGracePeriodSeconds"), timing))
    ready: Ready | None = None
    for kind in ("exec", "tcpSocket", "httpGet", "grpc"):
        check = section.section(kind)
        if check is None:
            continue
        if kind == "exec":
            ready = Ready(command=check.require("command", values.command, UNKNOWN_COMMAND))
        elif kind == "grpc":
            section.refuse(kind, "is not supported; use exec or tcpSocket")
            continue
        else:
            ready = _port_check(check, ports, notes, kind)
        check.done()
    section.done()
    return ready


def _port_check(check: Fields, ports: dict[str, str], notes: Notes, kind: str) -> Ready | None:
    name = str(check.require("port", values.scalar_text, ""))
    if kind == "httpGet":
        what = "ignored; the task is ready once something listens on the port"
        notes.ignore(check, dict.fromkeys(("path", "scheme", "httpHeaders"), what))
    notes.ignore(check, {"host": "ignored; the port of the task itself is checked"})
    if name and name not in ports:
        check.problems.add(check.at("port"), "must be one of the ports of the container")
        return None
    return Ready(port=ports[name]) if name else None
