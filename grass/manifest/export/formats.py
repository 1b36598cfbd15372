"""The formats that a job can be written in."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from types import MappingProxyType

from grass.manifest import yaml_text
from grass.manifest.dlrover import is_master, without_master
from grass.manifest.document import join
from grass.manifest.export import compose, elastic_job, kubernetes, manifests, slurm
from grass.manifest.export.losses import Exported
from grass.manifest.native_writer import job_document
from grass.model.job import Job


def _native(job: Job) -> Exported:
    return Exported(yaml_text.write(job_document(job)), ())


def _without_master(write: Callable[[Job], Exported]) -> Callable[[Job], Exported]:
    """Leave out the master of DLRover's clients, which is of no use elsewhere. One of the user's own is named."""

    def writing(job: Job) -> Exported:
        parts = {name: part for name, part in job.components.items() if not is_master(part)}
        exported = write(replace(job, components=parts))
        own = [join("components", name) for name in without_master(job) if name not in parts]
        return replace(exported, missing=(*exported.missing, *own))

    return writing


_FOREIGN: Mapping[str, Callable[[Job], Exported]] = MappingProxyType(
    {
        "TrainingJob": kubernetes.training,
        "MarsJob": kubernetes.mars,
        "ElasticJob": elastic_job.write,
        "kubernetes": manifests.jobs,
        "kubernetes-pods": manifests.pods,
        "compose": compose.write,
        "slurm": slurm.write,
    }
)
FORMATS: Mapping[str, Callable[[Job], Exported]] = MappingProxyType(
    {"native": _native, **{name: _without_master(write) for name, write in _FOREIGN.items()}}
)
"""Name → writer. A writer raises InputError for a job that the format cannot describe at all."""
