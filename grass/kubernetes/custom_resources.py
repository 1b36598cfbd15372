"""The custom resources of other systems that Grass serves as jobs: their kinds, and the fields that Grass reads. Pure.

Used by ``crds``, ``rights`` and ``node.operator``.
"""

from __future__ import annotations

from typing import NamedTuple

import msgspec

from grass.kubernetes.objects import Fields, ListOf, Metadata, WatchEvent
from grass.manifest.document import Document
from grass.wire.codec import Form


class Kind(NamedTuple):
    """A kind of resource. ``phase``: whether its status has the field ``phase`` beside its conditions."""

    name: str
    group: str
    plural: str
    phase: bool = True
    version: str = "v1alpha1"

    @property
    def api_version(self) -> str:
        return f"{self.group}/{self.version}"

    @property
    def crd(self) -> str:
        """The name of its CustomResourceDefinition."""
        return f"{self.plural}.{self.group}"

    def path(self, namespace: str) -> str:
        """Return the path of its list in the API."""
        return f"/apis/{self.api_version}/namespaces/{namespace}/{self.plural}"


_ET, _KUBEDL, _DLROVER = "kai.alibabacloud.com", "training.kubedl.io", "elastic.iml.github.io"
TRAINING_JOB = Kind("TrainingJob", _ET, "trainingjobs")
MARS_JOB = Kind("MarsJob", _KUBEDL, "marsjobs", phase=False)
ELASTIC_JOB = Kind("ElasticJob", _DLROVER, "elasticjobs")
SCALE_IN = Kind("ScaleIn", _ET, "scaleins")
SCALE_OUT = Kind("ScaleOut", _ET, "scaleouts")
JOBS = (TRAINING_JOB, MARS_JOB, ELASTIC_JOB)
SCALES = (SCALE_IN, SCALE_OUT)
"""What changes the size of a TrainingJob."""
KINDS = (*JOBS, *SCALES)


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
