"""The only list of renderers. A new one is a line, a module beside it, and its name in ``grass.model.framework``.

Used by ``node.membership.files`` and ``node.membership.rendering``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

from grass.errors import InputError
from grass.frameworks import deepspeed, horovod, mars, mpich, openmpi, plain, tensorflow, torch, torchrun
from grass.frameworks.seat import Rendered, Seat

FRAMEWORKS: Mapping[str, Callable[[Seat], Rendered]] = MappingProxyType(
    {
        "none": plain.render,
        "torch": torch.render,
        "torchrun": torchrun.render,
        "horovod": horovod.render,
        "openmpi": openmpi.render,
        "mpich": mpich.render,
        "deepspeed": deepspeed.render,
        "tf": tensorflow.render,
        "mars": mars.render,
    }
)


def render(seat: Seat) -> Rendered:
    """Return what the framework of a task expects. Raises InputError for an unknown name."""
    name = seat.framework.name
    if name not in FRAMEWORKS:
        raise InputError(f"framework: unknown framework {name!r}; use one of {', '.join(FRAMEWORKS)}")
    return FRAMEWORKS[name](seat)
