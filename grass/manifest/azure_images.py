"""What a machine of each size starts from on Azure: those with GPUs need an image with NVIDIA's driver. Pure.

Reads ``sizes`` of the settings. Used by ``azure`` and ``grass.azure``.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from grass.manifest import quantities
from grass.manifest.azure_sizes import by_size
from grass.manifest.fields import Fields
from grass.manifest.values import Wrong, show

_GIB = 1 << 30
_IMAGE = re.compile(r"[A-Za-z0-9._-]+(:[A-Za-z0-9._-]+){3}")
_OWN_IMAGE = re.compile(r"[A-Za-z0-9][A-Za-z0-9-]{0,60}-node-[0-9]{1,4}")
"""Images of `grass image-node build`."""
_HPC = "microsoft-dsvm:ubuntu-hpc:"
_LEAST_OF_HPC = 64
"""GiB of that image. About 7 of them are free."""

_GPUS = re.compile(r"standard_n[cdgpv]")
_REFUSED = (
    (re.compile(r"_np\d"), "has FPGAs, and Grass allocates NVIDIA GPUs alone"),
    (re.compile(r"_ng\d|_mi\d+x?_|_v620_|_v710_|_nv\d+as_v4"), "has GPUs of AMD, and Grass allocates those of NVIDIA"),
)
_WITHOUT_IMAGE = (
    (re.compile(r"_nv\d"), "needs NVIDIA's GRID driver"),
    (re.compile(r"_gb\d+_"), "has an Arm processor"),
)


@dataclass(frozen=True)
class Start:
    """What a machine starts from. ``image``: ``PUBLISHER:OFFER:SKU:VERSION``; ``disk``: GiB. Empty: not said."""

    image: str = ""
    disk: int = 0


_PLAIN = Start("Canonical:ubuntu-24_04-lts:server:latest", 32)
_WITH_DRIVER = Start(f"{_HPC}2404:latest", 128)


def has_gpus(size: str) -> bool:
    """Return whether machines of this size have GPUs, or what Azure sells beside them. Their names begin with N."""
    return _GPUS.match(size.lower()) is not None


def start_of(size: str, said: Start = Start(), master: tuple[str, Start] | None = None) -> Start:
    """Return image and disk. ``said``: in the file, for this size. ``master``: its size and what it starts from, which
    is also for nodes if both have GPUs, or neither has."""
    usual = _WITH_DRIVER if has_gpus(size) else _PLAIN
    if master is not None and has_gpus(master[0]) == has_gpus(size):
        usual = master[1]
    return Start(said.image or usual.image, said.disk or usual.disk)


def obstacles_to(size: str, start: Start) -> Iterator[str]:
    """Yield why machines of this size would be of no use with this image and disk."""
    hpc = start.image.startswith(_HPC)
    name = size.lower()
    if refused := next((why for pattern, why in _REFUSED if pattern.search(name)), None):
        yield f"{size} {refused}"
        return
    for pattern, why in _WITHOUT_IMAGE:
        if hpc and pattern.search(name):
            yield f"{size} {why}, which {start.image} is not made for; name another `image` for it"
    if hpc and start.disk < _LEAST_OF_HPC:
        yield f"{start.image} needs a disk of at least {_LEAST_OF_HPC}GiB, got {start.disk}GiB"


def read_sizes(fields: Fields) -> dict[str, Start]:
    """Return lower-case size → what the file says of it."""
    return {size.lower(): read_start(part, _image_of_node) for size, part in by_size(fields)}


def read_start(fields: Fields, image: Callable[[Any], str] | None = None) -> Start:
    return Start(fields.read("image", image or _image, ""), fields.read("disk", _disk, 0))


def _image_of_node(value: Any) -> str:
    """Parse an image of the market, or one of `grass image-node build`."""
    if isinstance(value, str) and _OWN_IMAGE.fullmatch(value):
        return value
    try:
        return _image(value)
    except Wrong:
        expected = "PUBLISHER:OFFER:SKU:VERSION, or an image of `grass image-node list`"
        raise Wrong(f"must be {expected}, got {show(value)}") from None


def _image(value: Any) -> str:
    if not isinstance(value, str) or not _IMAGE.fullmatch(value):
        raise Wrong(f"must be PUBLISHER:OFFER:SKU:VERSION, got {show(value)}")
    return value


def _disk(value: Any) -> int:
    size = quantities.memory(value)
    if size % _GIB or not 30 <= size // _GIB <= 4095:
        raise Wrong(f"must be whole GiB from 30GiB to 4095GiB, got {show(value)}")
    return size // _GIB
