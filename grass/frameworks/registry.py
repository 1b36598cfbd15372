"""The only list of renderers. A new one is a line, a module beside it, and its name in ``grass.model.framework``.

Used by ``node.membership.files`` and ``node.membership.rendering``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

from grass.frameworks import deepspeed, dlrover, horovod, mars, mpich, openmpi, plain, tensorflow, torch, torchrun
from grass.frameworks.seat import Rendered, Seat
from grass.model.framework import FrameworkName

FRAMEWORKS: Mapping[FrameworkName, Callable[[Seat], Rendered]] = MappingProxyType(
    {
        FrameworkName.NONE: plain.render,
        FrameworkName.TORCH: torch.render,
        FrameworkName.TORCHRUN: torchrun.render,
        FrameworkName.HOROVOD: horovod.render,
        FrameworkName.OPENMPI: openmpi.render,
        FrameworkName.MPICH: mpich.render,
        FrameworkName.DEEPSPEED: deepspeed.render,
        FrameworkName.TF: tensorflow.render,
        FrameworkName.MARS: mars.render,
        FrameworkName.DLROVER: dlrover.render,
    }
)


def render(seat: Seat) -> Rendered:
    """Return what the framework of a task expects. Raises InputError: it cannot be rendered now."""
    return FRAMEWORKS[seat.framework.name](seat)
