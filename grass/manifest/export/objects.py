"""The names of the objects that a job becomes in a namespace, and by which its tasks find each other. Pure.

Each pod has a host name of its own below the job's Service, so all addresses are known before anything runs.
Used by ``manifests``, ``pod_spec``, ``pod_variables`` and ``stock_frameworks``.
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from functools import cached_property

from grass.model.job import Component, Job

FIRST_PORT = 20_000
"""Number of a component's first port. Each pod has an address of its own, so all tasks have the same numbers."""
MOST_FILES = 900_000
"""Bytes of the files of a job. A ConfigMap may have 1 MiB."""
_LONGEST = 50
"""Characters of a name: a pod's host name adds an index, and may have 63."""
_OTHER = re.compile("[^a-z0-9]+")
_HASH = 6


@dataclass(frozen=True)
class Objects:
    """The objects of one job."""

    job: Job

    @cached_property
    def name(self) -> str:
        """Return the name of the Service and of the ConfigMap."""
        return _name(self.job.name)

    @cached_property
    def parts(self) -> dict[str, str]:
        """Return, by component, the name of its Job and its Secret, with which the names of its pods begin."""
        return {name: _name(f"{self.job.name}-{name}") for name in self.job.components}

    def pod(self, part: Component, index: int) -> str:
        """Return the host name of a task's pod: the Job controller gives the same one to pods of an Indexed Job."""
        return f"{self.parts[part.name]}-{index}"

    def address(self, part: Component, index: int) -> str:
        """Return the name by which tasks in the namespace reach a task."""
        return f"{self.pod(part, index)}.{self.name}"

    @cached_property
    def addresses(self) -> str:
        """Return the content of the file that ``GRASS_ADDRESSES`` names. Empty: there are no ports, or too many."""
        text = "".join(
            f"{self.job.name}.{part.name}.{index} {self.address(part, index)} {port} {name}\n"
            for part in self.job.components.values()
            for index in range(part.replicas)
            for name, port in ports(part).items()
        )
        return text if len(text) <= MOST_FILES else ""

    @cached_property
    def tasks_meet(self) -> bool:
        """Return whether a task may look for another one."""
        return any(part.ports or part.framework is not None for part in self.job.components.values())


def ports(part: Component) -> dict[str, int]:
    return {name: FIRST_PORT + at for at, name in enumerate(part.ports)}


def labels(job: Job, part: Component | None = None) -> dict[str, str]:
    """Return the labels of objects of a job, or of a component. Not ``managed-by``, by which Grass finds its own."""
    found = {"app.kubernetes.io/instance": job.name}
    return found if part is None else {**found, "app.kubernetes.io/component": part.name}


def _name(text: str) -> str:
    """Return a name that a Service, a Job and a host may have. A changed one ends with a hash, so that no two meet."""
    name = _OTHER.sub("-", text.lower()).strip("-")
    name = name if name[:1].isalpha() else f"g-{name}"
    if name == text and len(name) <= _LONGEST:
        return name
    digest = hashlib.sha256(text.encode()).hexdigest()[:_HASH]
    return f"{name[: _LONGEST - _HASH - 1].rstrip('-')}-{digest}"
