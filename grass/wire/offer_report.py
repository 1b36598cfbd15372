"""What a node that is a namespace of Kubernetes offers now. Reported by its node-agent when that has changed; used by
``master.agent``."""

from __future__ import annotations

import msgspec

from grass.model.resources import Resources
from grass.wire.gpu import GpuDevice
from grass.wire.machines import Machines


class OfferReport(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag_field="kind", tag="offer"):
    """Sent when quotas or machines of a namespace have changed, or what runs on its machines."""

    resources: Resources
    """The same as in the hello."""
    gpus: tuple[GpuDevice, ...] = ()
    """The same as in the hello."""
    machines: Machines | None = None
    """None: they may not be seen."""
