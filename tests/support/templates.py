"""Launch templates for tests, with the fields of the component beside those of the template."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from msgspec import structs

from grass.model.job import Component
from grass.wire.launch import LaunchTemplate

_PLAIN = LaunchTemplate(job_id="j-1", job="j", component=Component("w", "true"))


def template(**fields: Any) -> LaunchTemplate:
    """Return a template of job ``j-1``, whose component ``w`` runs ``true``."""
    return changed(_PLAIN, **fields)


def changed(before: LaunchTemplate, **fields: Any) -> LaunchTemplate:
    """Return the template with other fields: its own, and those of its component. ``cpu``, ``memory``: resources."""
    own = {name: value for name, value in fields.items() if name in before.__struct_fields__}
    amounts = {name: value for name, value in fields.items() if name in ("cpu", "memory")}
    part = {name: value for name, value in fields.items() if name not in {**own, **amounts}}
    component = replace(before.component, **part)
    return structs.replace(
        before, component=replace(component, resources=replace(component.resources, **amounts)), **own
    )
