"""Labels that a node finds by itself: ``arch``, ``os``, ``share`` if one is mounted, ``gpu_model`` if it has GPUs.

Pure; called for the hello. Used by ``this_machine``.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from grass.wire.gpu import GpuDevice

_BRANDS = re.compile(r"\b(NVIDIA|Tesla|Quadro|GeForce)\s+")
_VARIANT = re.compile(r"([-\s]+(SXM\d*|PCIE?|NVL|\d+GB))+\b.*", re.IGNORECASE)


def found(machine: str, system: str, gpus: Sequence[GpuDevice], share: str = "") -> dict[str, str]:
    """Return the labels. ``machine``, ``system``: as ``platform`` names them. ``gpus``: as NVML lists them; the first
    counts. ``share``: the kernel's name of its file system; ``fuse.rclone`` becomes ``fuse``."""
    labels = {"arch": machine, "os": system.lower()}
    if share:
        labels["share"] = share.split(".")[0]
    if gpus and gpus[0].name:
        labels["gpu_model"] = short_model(gpus[0].name)
    return labels


def short_model(name: str) -> str:
    """Shorten a model's name as users write it: ``NVIDIA A100-SXM4-40GB`` → ``A100``."""
    return _VARIANT.sub("", _BRANDS.sub("", name)).strip() or name
