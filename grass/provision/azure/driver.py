"""Whether NVIDIA's driver runs on a node, from the GPUs that the node sees. Pure. Used by ``nodes``."""

from __future__ import annotations

from grass.manifest.azure import MachineSettings


def driver_problem(name: str, machine: MachineSettings, gpus: int, seen: int) -> str:
    """Return what is wrong and what helps; empty: the node sees all. ``gpus``: those of its size."""
    if seen >= gpus:
        return ""
    return (
        f"node {name}: sees {seen} of its {gpus} GPUs, so it gets no tasks until its probe finds all of them; NVIDIA's "
        f"driver in {machine.image} does not run, and `grass node ssh {name} -- nvidia-smi` shows why. For another "
        f"image, write it as `sizes.{machine.size}.image` in the file, then `grass create FILE` and "
        f"`grass node remove {name}`"
    )
