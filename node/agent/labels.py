"""Labels that a node finds by itself: ``arch``, ``os``, ``share`` if one is mounted, ``gpu_model`` if it has GPUs.

Pure; called for the hello. Used by ``this_machine``.
"""

from __future__ import annotations

from collections.abc import Sequence

from grass.model.machine_labels import ARCH, GPU_MODEL, OS, short_model
from grass.wire.gpu import GpuDevice


def found(machine: str, system: str, gpus: Sequence[GpuDevice], share: str = "") -> dict[str, str]:
    """Return the labels. ``machine``, ``system``: as ``platform`` names them. ``gpus``: as NVML lists them; the first
    counts. ``share``: the kernel's name of its file system; ``fuse.rclone`` becomes ``fuse``."""
    labels = {ARCH: machine, OS: system.lower()}
    if share:
        labels["share"] = share.split(".")[0]
    if gpus and gpus[0].name:
        labels[GPU_MODEL] = short_model(gpus[0].name)
    return labels
