"""The fields that Grass reads of custom resources of other systems, which it serves as jobs. Pure.

Used by ``node.operator``.
"""

from __future__ import annotations

import msgspec

from grass.kubernetes.objects import Fields, ListOf, Metadata, WatchEvent
from grass.manifest.document import Document
from grass.wire.codec import Form


class Manager(Fields, frozen=True, rename="camel"):
    """Who wrote which fields, as the server keeps it."""

    manager: str = ""
    fields_v1: Document = msgspec.field(default={}, name="fieldsV1")
    """A tree of names of fields."""


class ResourceMetadata(Metadata, frozen=True, rename="camel"):
    generation: int = 0
    """It grows when the specification changes."""
    managed_fields: list[Manager] = msgspec.field(default_factory=list)


class Resource(Fields, frozen=True, rename="camel"):
    """One resource. Users and other systems decide the shape of ``spec`` and ``status``."""

    metadata: ResourceMetadata
    spec: Document | None = None
    status: Document | None = None


_OWN = ("f:phase", "f:conditions")
"""What Grass writes into each status. A writer loses a field when another one changes it."""


def other_writer(resource: Resource, own: str) -> str | None:
    """Return who else than ``own`` wrote the present status; None: nobody.

    A status that a user sent with the resource does not count: the server has dropped it.
    """
    if not resource.status:
        return None
    for each in resource.metadata.managed_fields:
        written = each.fields_v1.get("f:status")
        if each.manager != own and isinstance(written, dict) and any(field in written for field in _OWN):
            return each.manager
    return None


RESOURCE: Form[Resource] = Form(Resource)
RESOURCES: Form[ListOf[Resource]] = Form(ListOf[Resource])
RESOURCE_EVENT: Form[WatchEvent[Resource]] = Form(WatchEvent[Resource])
