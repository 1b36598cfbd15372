"""The framework of a component: which stock software its tasks run, and the options of its renderer. Pure.

``grass.manifest`` reads it. The node renders a component's membership for it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from types import MappingProxyType

Scalar = str | int | float | bool
Option = Scalar | tuple[Scalar, ...]


class FrameworkName(str, Enum):
    NONE = "none"
    TORCH = "torch"
    TORCHRUN = "torchrun"
    HOROVOD = "horovod"
    OPENMPI = "openmpi"
    MPICH = "mpich"
    DEEPSPEED = "deepspeed"
    TF = "tf"
    MARS = "mars"


MARS_PORT, MARS_WEB = "mars", "web"
"""Names of the ports of Mars: the one of its members, and that of its page."""
MARS_ROLES: Mapping[str, str] = MappingProxyType(
    {
        "webservice": "web",
        "web": "web",
        "scheduler": "scheduler",
        "supervisor": "supervisor",
        "worker": "worker",
    }
)
"""What a component of Mars may be called, or its option ``role``, in lower case → its role."""

_OLD_MARS = re.compile(r"0\.[0-6](\..*)?")


def is_old_mars(version: str) -> bool:
    """Return whether a version of Mars is before 0.7, which has other roles and programs."""
    return _OLD_MARS.fullmatch(version) is not None


@dataclass(frozen=True, slots=True)
class Framework:
    """The framework of a component, with its options.

    ``options``: the keys beside ``name`` in the job file. The renderer of the framework knows their meaning.
    """

    name: FrameworkName
    options: Mapping[str, Option] = field(default_factory=dict)

    @property
    def drains(self) -> bool:
        """Return whether a member that leaves should get time to leave by itself."""
        return self.name is not FrameworkName.NONE
