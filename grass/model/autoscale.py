"""Whether Grass itself changes the size of a component: ``autoscale`` of a job file. Pure.

Used by ``job``, ``grass.manifest.autoscale``, ``grass.manifest.native_writer`` and ``master.autoscale``.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class AutoscalePolicy(str, Enum):
    """When the size changes."""

    OPPORTUNISTIC = "opportunistic"  # grows while machines are idle, gives them back to jobs of higher priority


LEAST_COOLDOWN = 1.0
LONGEST_COOLDOWN = 7 * 86_400.0


@dataclass(frozen=True, slots=True)
class Autoscale:
    """How a component grows.

    ``cooldown``: seconds without a change of the size before it grows; machines must be idle for half of them, but not
    for more than 5 minutes. ``gain``: the least part of a linear gain that a growth must bring; otherwise it is undone.
    """

    policy: AutoscalePolicy = AutoscalePolicy.OPPORTUNISTIC
    cooldown: float = 600.0
    gain: float = 0.5
