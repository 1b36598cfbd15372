"""The kinds of custom resources that Grass serves as jobs. Pure.

Apart from ``custom_resources``, because each agent of a namespace imports them for its rights, without the grammar of
jobs. Used by ``crds``, ``rights`` and ``node.operator``.
"""

from __future__ import annotations

from typing import NamedTuple


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
