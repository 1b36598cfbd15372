"""The options of each framework in a job file, beside its ``name``: what each may be. Pure.

The renderers in ``grass.frameworks`` give them their meaning. Used by ``elastic`` and ``job_checks``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

from grass.manifest import containers, values
from grass.manifest.document import join
from grass.manifest.fields import Fields, Problems
from grass.manifest.placement import one_word
from grass.manifest.values import Wrong
from grass.model.framework import (
    DLROVER_KINDS,
    DLROVER_MASTER,
    DLROVER_PORT,
    MARS_PORT,
    MARS_ROLES,
    TF_PORT,
    Framework,
    FrameworkName,
    Option,
    dlrover_role,
)
from grass.model.job import Component, Job

Parser = Callable[[Any], Option]
_ROLES = tuple(dict.fromkeys(MARS_ROLES.values()))
MAX_WORDS = 64


def _words(parse: Callable[[Any], str]) -> Parser:
    """Return a parser of one value, or of a list of values."""

    def parsed(value: Any) -> Option:
        if not isinstance(value, (list, tuple)):
            return parse(value)
        if not value or len(value) > MAX_WORDS:
            raise Wrong(f"must have from 1 to {MAX_WORDS} items, got {len(value)}")
        return tuple(parse(item) for item in value)

    return parsed


def _size(value: Any) -> int:
    return values.whole(0, 1 << 60)(value)


_SLOTS: Mapping[str, Parser] = {"slots": values.whole(1, 100_000)}
_HOSTS: Mapping[str, Parser] = {"workers": values.component_name}
_MARS: Mapping[str, Parser] = {
    "role": one_word(_ROLES),
    "version": values.scalar_text,
    "supervisors": _words(values.component_name),
    "spillDirs": _words(containers.inside_path),
    "plasmaStore": containers.inside_path,
    "workerCacheSize": _size,
    "workerCachePercentage": values.whole(0, 100),
    "lockFreeFileIO": values.truth,
    "nodeTimeout": values.whole(1, 86_400),
}
_DLROVER: Mapping[str, Parser] = {
    "role": one_word((*DLROVER_KINDS, DLROVER_MASTER)),
    "restarts": values.whole(0, 1_000_000),
    **dict.fromkeys(DLROVER_KINDS, values.component_name),
}
OPTIONS: Mapping[FrameworkName, Mapping[str, Parser]] = MappingProxyType(
    {
        FrameworkName.NONE: _SLOTS,
        FrameworkName.TORCH: {**_SLOTS, "port": values.whole(1, 65535)},
        FrameworkName.TORCHRUN: {**_SLOTS, "restarts": values.whole(0, 1_000_000)},
        FrameworkName.HOROVOD: {**_SLOTS, **_HOSTS},
        FrameworkName.OPENMPI: {**_SLOTS, **_HOSTS},
        FrameworkName.MPICH: {**_SLOTS, **_HOSTS},
        FrameworkName.DEEPSPEED: {**_SLOTS, **_HOSTS},
        FrameworkName.TF: {**_SLOTS, "port": values.port_name},
        FrameworkName.MARS: {**_SLOTS, **_MARS},
        FrameworkName.DLROVER: {**_SLOTS, **_DLROVER},
    }
)
_COMPONENTS = ("workers", "supervisors", *DLROVER_KINDS)
"""Options that name components of the job."""


def read(section: Fields, name: FrameworkName) -> dict[str, Option]:
    """Read the options of ``name``; the section's other keys are unknown."""
    found: dict[str, Option] = {}
    for key, parse in OPTIONS[name].items():
        option = section.read(key, parse, None)
        if option is not None:
            found[key] = option
    section.done()
    return found


def check(job: Job, component: Component, path: str, problems: Problems, unknown: Callable[[str], str]) -> None:
    """Report options that do not go with the job. ``path``: of the component. ``unknown``: message for a component."""
    if component.framework is None:
        return
    options, where = component.framework.options, join(path, "framework")
    _check_named(job, component.framework, where, problems, unknown)
    if component.framework.name is FrameworkName.TF:
        port = str(options.get("port", TF_PORT))
        if port not in component.ports:
            problems.add(join(path, "ports"), f"framework tf needs a port named `{port}`, which TF_CONFIG names")
    if component.framework.name is FrameworkName.DLROVER:
        _check_dlrover(job, component, path, problems)
    if component.framework.name is not FrameworkName.MARS:
        return
    if str(options.get("role", component.name)).lower() not in MARS_ROLES:
        problems.add(where, f"set `role` to {', '.join(_ROLES)}, or give the component one of these names")
    if MARS_PORT not in component.ports:
        problems.add(join(path, "ports"), f"framework mars needs a port named `{MARS_PORT}`")


def _check_named(job: Job, framework: Framework, where: str, problems: Problems, unknown: Callable[[str], str]) -> None:
    for key in _COMPONENTS:
        named = framework.options.get(key, ())
        for name in named if isinstance(named, tuple) else (named,):
            if name not in job.components:
                problems.add(join(where, key), unknown(str(name)))


def _check_dlrover(job: Job, component: Component, path: str, problems: Problems) -> None:
    assert component.framework is not None
    role, where = dlrover_role(component.framework, component.name), join(path, "framework")
    alike = [
        each.name
        for each in job.components.values()
        if each.framework is not None
        and each.framework.name is FrameworkName.DLROVER
        and dlrover_role(each.framework, each.name) == role
    ]
    if alike[0] != component.name:
        problems.add(
            where, f"its role `{role}` is that of `{alike[0]}`; a job of DLRover has one component of each role"
        )
    if role != DLROVER_MASTER:
        for kind in DLROVER_KINDS:
            if kind in component.framework.options:
                problems.add(join(where, kind), f"is an option of the role {DLROVER_MASTER} only")
    elif component.name != DLROVER_MASTER:
        problems.add(where, f"the role {DLROVER_MASTER} needs a component of this name")
    elif DLROVER_PORT not in component.ports:
        problems.add(join(path, "ports"), f"the role {DLROVER_MASTER} needs a port named `{DLROVER_PORT}`")
