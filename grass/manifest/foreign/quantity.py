"""Parses amounts as Kubernetes writes them: ``500m`` cores, ``2Gi``, ``1e3``. Returns the units of ``Resources``.

Used by ``mars_job``, ``mars_memory``, ``pod``, ``pod_needs`` and ``scaling``.
"""

from __future__ import annotations

import re
from fractions import Fraction
from typing import Any

from grass.manifest import quantities
from grass.manifest.values import Wrong, show
from grass.model.resources import DEVICE

_NUMBER = re.compile(r"([+-]?[0-9]{1,20}(?:\.[0-9]{0,20})?)(?:[eE]([+-]?[0-9]{1,2})|([numkMGTPE]|[KMGTPE]i)?)")
_UNITS = {
    **{"": Fraction(1), "n": Fraction(1, 10**9), "u": Fraction(1, 10**6), "m": Fraction(1, 1000)},
    **{unit: Fraction(1000**power) for power, unit in enumerate("kMGTPE", 1)},
    **{f"{unit}i": Fraction(1024**power) for power, unit in enumerate("KMGTPE", 1)},
}
_EXAMPLE = "a Kubernetes quantity such as 500m, 2 or 4Gi"


def quantity(value: Any) -> Fraction:
    """Parse a quantity of anything."""
    text = str(value) if isinstance(value, (int, float)) and not isinstance(value, bool) else value
    match = _NUMBER.fullmatch(text) if isinstance(text, str) else None
    if match is None:
        raise Wrong(f"must be {_EXAMPLE}, got {show(value)}")
    amount = Fraction(match[1].rstrip(".")) * (Fraction(10) ** int(match[2]) if match[2] else _UNITS[match[3] or ""])
    if amount < 0:
        raise Wrong(f"must not be negative, got {show(value)}")
    return amount


def cpu(value: Any) -> int:
    """Parse cores to thousandths of a core."""
    return quantities.cpu(float(quantity(value)))


def size(value: Any) -> int:
    """Parse a size to bytes."""
    amount = quantity(value)
    if amount > quantities.MAX_MEMORY:
        raise Wrong(f"must be at most 1024Ti, got {show(value)}")
    return quantities.memory(int(amount))


def devices(value: Any) -> int:
    """Parse whole GPUs to thousandths of a device."""
    amount = quantity(value)
    if amount.denominator != 1:
        raise Wrong(f"must be a whole number of devices, got {show(value)}")
    return quantities.devices(int(amount)) // DEVICE * DEVICE


def seconds(value: Any) -> int:
    """Parse whole seconds, from 1 to a year."""
    if isinstance(value, bool) or not isinstance(value, int):
        raise Wrong(f"must be a whole number of seconds, got {show(value)}")
    if not 1 <= value <= 365 * 86_400:
        raise Wrong(f"must be from 1 to 31536000 seconds, got {show(value)}")
    return value


def seconds_or_zero(value: Any) -> int:
    return 0 if value == 0 and not isinstance(value, bool) else seconds(value)
