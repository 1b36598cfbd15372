"""Whether NVIDIA's driver runs on a node, from the GPUs that the node sees. Pure. Used by ``nodes``."""

from __future__ import annotations

from grass.manifest.azure import MachineSettings


def driver_problem(name: str, machine: MachineSettings, gpus: int, seen: int) -> str:
    """Return what is wrong and what helps; empty: the node sees all. ``gpus``: those of its size."""
    if seen >= gpus:
        return ""
    return (
        f"node {name}: sees {seen} of its {gpus} GPUs, so tasks do not get them; NVIDIA's driver in {machine.image} "
        f"does not run, and `grass node ssh {name} -- nvidia-smi` shows why. For another image, write it as "
        f"`sizes.{machine.size}.image` in the file, then `grass create FILE` and `grass node remove {name}`"
    )
