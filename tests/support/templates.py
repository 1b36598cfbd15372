"""Launch templates for tests, with the fields of the component beside those of the template."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from msgspec import structs

from grass.model.job import Component
from grass.wire.keys import LaunchKey
from grass.wire.launch import LaunchTemplate

_AMOUNTS = ("cpu", "memory")
_PLAIN = LaunchTemplate(job_id="j-1", job="j", component=Component("w", "true"))


def template(**fields: Any) -> LaunchTemplate:
    """Return a template of job ``j-1``, whose component ``w`` runs ``true``."""
    return changed(_PLAIN, **fields)


def document(key: LaunchKey, **fields: Any) -> dict[str, Any]:
    """Return a template as JSON, from the fields of both as JSON. It asks for no resources unless it says so."""
    own = {name: fields.pop(name) for name in LaunchTemplate.__struct_fields__ if name in fields}
    resources = {name: fields.pop(name, 0) for name in _AMOUNTS}
    component = {"name": key.component, "resources": resources, **fields}
    return {"job_id": key.job_id, "job": key.job_id.rpartition("-")[0], "component": component, **own}


def changed(before: LaunchTemplate, **fields: Any) -> LaunchTemplate:
    """Return the template with other fields: its own, and those of its component. ``cpu``, ``memory``: resources."""
    own = {name: fields.pop(name) for name in LaunchTemplate.__struct_fields__ if name in fields}
    amounts = {name: fields.pop(name) for name in _AMOUNTS if name in fields}
    component = replace(before.component, **fields)
    resources = replace(component.resources, **amounts)
    return structs.replace(before, component=replace(component, resources=resources), **own)
