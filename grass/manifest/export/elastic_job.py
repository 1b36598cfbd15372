"""Writes a job of ``framework: dlrover`` as DLRover's ElasticJob: of all-reduce, or of parameter servers.

What the file cannot say is found by reading it again. Used by ``formats``.
"""

from __future__ import annotations

import re
from dataclasses import replace

from grass.errors import InputError
from grass.manifest.document import Document
from grass.manifest.export import pods
from grass.manifest.export.kubernetes import document
from grass.manifest.export.losses import Exported
from grass.manifest.foreign import elastic_job, parameter_servers
from grass.model.framework import DLROVER_KINDS, FrameworkName
from grass.model.job import Component, Job, RestartOn

_RUN = re.compile(rf"\b{elastic_job.NAME}(?=\s|$)(?!.*\s--nnodes\b)", re.DOTALL)


def write(job: Job) -> Exported:
    """Return an ElasticJob. Raises InputError for a job whose components are not those of DLRover."""
    for name, part in job.components.items():
        if name not in DLROVER_KINDS or part.framework is None or part.framework.name is not FrameworkName.DLROVER:
            known = ", ".join(DLROVER_KINDS)
            raise InputError(f"job {job.name}: component {name} is none of {known} with `framework: dlrover`")
    servers = "ps" in job.components
    if not servers and list(job.components) != [elastic_job.COMPONENT]:
        raise InputError(f"job {job.name}: an ElasticJob without a ps has the component {elastic_job.COMPONENT} only")
    sized = {name: part if servers else _sized(part) for name, part in job.components.items()}
    roles = {name: _role(part) for name, part in sized.items()}
    strategy = "ParameterServerStrategy" if servers else "AllreduceStrategy"
    return document(
        replace(job, components=sized), elastic_job.DIALECT, {"distributionStrategy": strategy, "replicaSpecs": roles}
    )


def _role(part: Component) -> Document:
    found = pods.replica(replace(part, command=parameter_servers.plain(part.command)), own=())
    if part.restart.policy is not RestartOn.NEVER and part.restart.limit is not None:
        found["restartCount"] = part.restart.limit
    return found


def _sized(part: Component) -> Component:
    """Return the component with its bounds in the command, where DLRover has them."""
    least, most = part.min or part.replicas, part.max or part.replicas
    option = f"{elastic_job.NAME} --nnodes={least if least == most else f'{least}:{most}'}"
    if isinstance(part.command, str):
        return replace(part, command=_RUN.sub(option, part.command, count=1))
    if part.command[:1] != (elastic_job.NAME,):
        return replace(part, command=tuple(_RUN.sub(option, word, count=1) for word in part.command))
    given = any(word.startswith("--nnodes") for word in part.command)
    return part if given else replace(part, command=(*option.split(), *part.command[1:]))
