"""Reads ``runtime``, ``image`` and ``container`` in a native job file, and ``runtimes`` of nodes.

Used by this package and ``grass.manifest.foreign``.
"""

from __future__ import annotations

from typing import Any

from grass.manifest import quantities, values
from grass.manifest.fields import Fields
from grass.manifest.placement import one_word
from grass.manifest.values import Wrong, show
from grass.model.job import Container, Mount
from grass.model.runtime import OF_MACHINES, RuntimeName

NETWORKS = ("host", "bridge")
UNLIMITED = -1
_ULIMITS = (
    *("core", "cpu", "data", "fsize", "locks", "memlock", "msgqueue", "nice", "nofile", "nproc", "rss", "rtprio"),
    *("rttime", "sigpending", "stack"),
)
_MAX_PATH = 4095
_NEEDED_FOLDERS = frozenset(
    {"/", "/bin", "/dev", "/etc", "/lib", "/lib32", "/lib64", "/libx32", "/proc", "/sbin", "/sys", "/usr", "/var"}
    | {"/usr/bin", "/usr/lib", "/usr/lib32", "/usr/lib64", "/usr/libexec", "/usr/sbin", "/usr/local", "/usr/local/bin"}
    | {"/etc/hostname", "/etc/hosts", "/etc/passwd", "/etc/group", "/etc/resolv.conf", "/run", "/var/run"}
)
_KERNEL_FOLDERS = ("/dev/", "/proc/", "/sys/")


def read_runtimes(fields: Fields) -> tuple[RuntimeName, ...]:
    """Return the runtimes that a node offers, in the order of the file; empty if it says nothing."""
    found = [fields.parsed(path, _of_machine, item, RuntimeName.PROCESS) for path, item in fields.items("runtimes")]
    return tuple(dict.fromkeys(found))


def _of_machine(value: Any) -> RuntimeName:
    if value not in OF_MACHINES:
        words = ", ".join(OF_MACHINES)
        hint = "; `grass node add --kubernetes` adds a namespace" if value == RuntimeName.KUBERNETES.value else ""
        raise Wrong(f"must be one of {words}; got {show(value)}{hint}")
    return RuntimeName(value)


def read(fields: Fields, warnings: list[str]) -> tuple[RuntimeName | None, str | None, Container]:
    """Return runtime, image and container. Runtime None: the node chooses."""
    runtime = fields.read("runtime", values.one_of(RuntimeName), None)
    image = fields.read("image", image_name, None)
    container = _read_container(fields)
    if runtime is not None and runtime.contained and not fields.has("image"):
        fields.problems.add(fields.at("image"), f"is missing; `runtime: {runtime.value}` needs it")
    elif fields.has("container") and not fields.has("image"):
        fields.problems.add(fields.at("container"), "requires `image`; without an image there is no container")
    if runtime is not None and not runtime.contained and image is not None:
        warnings.append(f"{fields.at('image')}: ignored; with `runtime: {runtime.value}`, tasks run as processes")
    return runtime, image, container


def image_name(value: Any) -> str:
    """Parse an image reference such as ``registry:5000/team/app:1.2``; docker checks the rest."""
    text = values.text(value)
    if any(mark.isspace() or not mark.isprintable() for mark in text) or text.startswith("-") or len(text) > 512:
        raise Wrong(f"must be the name of a container image such as python:3.12, got {show(value)}")
    return text


def _read_container(fields: Fields) -> Container:
    with fields.within("container") as section:
        container = Container(
            entrypoint=section.read("entrypoint", _entrypoint, None),
            user=section.read("user", _user, None),
            shm=section.read("shm", _some_memory, None),
            network=section.read("network", one_word(NETWORKS), "host"),
            ulimits=_read_ulimits(section),
            mounts=_read_mounts(section),
            data=section.read("data", data_folder, None),
        )
        _check_targets(section, container)
    return container


def inside_path(value: Any) -> str:
    """Parse an absolute path into its plain form, so that the path can be compared with the allowed folders."""
    text = values.text(value)
    parts = text.split("/")
    if not text.startswith("/") or ".." in parts or "." in parts or len(text) > _MAX_PATH:
        raise Wrong(f"must be an absolute path without `.` or `..`, got {show(value)}")
    return "/" + "/".join(part for part in parts if part)


def data_folder(value: Any) -> str:
    """Parse the mount point of the share. Refuse folders that every program in the container needs."""
    path = inside_path(value)
    if path in _NEEDED_FOLDERS or path.startswith(_KERNEL_FOLDERS):
        raise Wrong(f"must not be {path}, which the container itself needs; use a folder such as /data")
    return path


def _entrypoint(value: Any) -> tuple[str, ...]:
    if isinstance(value, str) and value.split() != [value]:
        raise Wrong(f"must be a list of arguments or one program, got {show(value)}")
    if value == []:
        return ()  # an empty list: no entrypoint, even if the image has one
    parsed = values.command([value] if isinstance(value, str) else value)
    assert isinstance(parsed, tuple)
    return parsed


def _user(value: Any) -> str:
    text = values.scalar_text(value)
    if not text or len(text) > 255 or any(mark.isspace() for mark in text) or text.startswith("-"):
        raise Wrong(f"must be a user such as 1000, 1000:1000 or daemon, got {show(value)}")
    return text


def _some_memory(value: Any) -> int:
    if (size := quantities.memory(value)) == 0:
        raise Wrong("must be at least 1MiB, got 0; leave it out for the engine's default")
    return size


def _read_ulimits(fields: Fields) -> dict[str, int]:
    with fields.within("ulimits") as section:
        return {name: section.read(name, _ulimit, 0) for name in _ULIMITS if section.has(name)}


def _ulimit(value: Any) -> int:
    return UNLIMITED if value in ("unlimited", UNLIMITED) else values.whole(0, 1 << 62)(value)


def _read_mounts(fields: Fields) -> tuple[Mount, ...]:
    return tuple(mount for path, item in fields.items("mounts") if (mount := _read_mount(fields, path, item)))


def _read_mount(fields: Fields, path: str, item: Any) -> Mount | None:
    if isinstance(item, str):
        return fields.parsed(path, _short_mount, item, None)
    section = Fields(item, path, fields.problems)
    source = section.require("source", inside_path, "")
    target = section.require("target", inside_path, "")
    read_only, shared = section.read("read_only", values.truth, False), section.read("shared", values.truth, False)
    mount = Mount(source, target, read_only, shared)
    section.done()
    return mount if section.intact and source and target else None


def _short_mount(value: str) -> Mount:
    source, colon, rest = value.partition(":")
    target, _, option = rest.partition(":")
    if not colon or option not in ("", "ro", "rw") or value.endswith(":"):
        raise Wrong(f"must be SOURCE:TARGET or SOURCE:TARGET:ro, got {show(value)}")
    return Mount(inside_path(source), inside_path(target), option == "ro")


def _check_targets(fields: Fields, container: Container) -> None:
    taken = {container.data: fields.at("data")} if container.data else {}
    for index, mount in enumerate(container.mounts):
        path = f"{fields.at('mounts')}[{index}]"
        if mount.target in taken:
            fields.problems.add(path, f"target {mount.target} is already used by {taken[mount.target]}")
        taken.setdefault(mount.target, path)
