"""The formats that a job can be written in."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

from grass.manifest import yaml_text
from grass.manifest.export import compose, kubernetes, manifests, slurm
from grass.manifest.export.losses import Exported
from grass.manifest.native_writer import job_document
from grass.model.job import Job


def _native(job: Job) -> Exported:
    return Exported(yaml_text.write(job_document(job)), ())


FORMATS: Mapping[str, Callable[[Job], Exported]] = MappingProxyType(
    {
        "native": _native,
        "TrainingJob": kubernetes.training,
        "MarsJob": kubernetes.mars,
        "kubernetes": manifests.jobs,
        "kubernetes-pods": manifests.pods,
        "compose": compose.write,
        "slurm": slurm.write,
    }
)
"""Name → writer. A writer raises InputError for a job that the format cannot describe at all."""
