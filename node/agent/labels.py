"""What a node says of itself without being told: ``arch``, ``os``, ``share`` if one is mounted, ``gpu_model`` if it has
GPUs. Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence

from grass.wire.gpu import GpuDevice

_BRANDS = re.compile(r"\b(NVIDIA|Tesla|Quadro|GeForce)\s+")
_VARIANT = re.compile(r"([-\s]+(SXM\d*|PCIE?|NVL|\d+GB))+\b.*", re.IGNORECASE)


def found(machine: str, system: str, gpus: Sequence[GpuDevice], share: str = "") -> dict[str, str]:
    """``machine``, ``system``: as the platform names them. ``gpus``: as NVML lists them; the first counts. ``share``:
    the kind of its file system, as the kernel names it: ``fuse.rclone`` becomes ``fuse``."""
    labels = {"arch": machine, "os": system.lower()}
    if share:
        labels["share"] = share.split(".")[0]
    if gpus and gpus[0].name:
        labels["gpu_model"] = short_model(gpus[0].name)
    return labels


def short_model(name: str) -> str:
    """``NVIDIA A100-SXM4-40GB`` → ``A100``, ``NVIDIA GeForce RTX 3090`` → ``RTX 3090``: as people ask for it."""
    return _VARIANT.sub("", _BRANDS.sub("", name)).strip() or name
