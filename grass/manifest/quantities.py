"""Parses amounts as people write them: ``0.5`` cores, ``512MiB``, ``1h30m``. Bounds catch slips.

The one parser of amounts, for files and for command line options. ``grass.model.amounts`` formats amounts. Used by this
package, ``grass``, ``grass.cli`` and ``master.api``.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from typing import Any

from grass.manifest import values
from grass.manifest.values import Wrong, show
from grass.model.resources import DEVICE

MAX_DURATION = 365 * 86400.0
MAX_CPU = 65_536
MAX_GPU = 10_000
MAX_MEMORY = 1 << 50
MIN_MEMORY = 1 << 20
MAX_CUSTOM = 1_000_000_000

_NUMBER = r"[0-9]{1,20}(?:\.[0-9]{1,20})?"
_PLAIN = re.compile(rf"-?{_NUMBER}")
_PARTS = re.compile(rf"({_NUMBER})(ms|s|m|h|d)")
_SECONDS = {"d": 86400.0, "h": 3600.0, "m": 60.0, "s": 1.0, "ms": 0.001}
_SIZE = re.compile(rf"({_NUMBER}) ?([A-Za-z]*)")
_BYTES = {
    "B": 1,
    "KiB": 1 << 10,
    "MiB": 1 << 20,
    "GiB": 1 << 30,
    "TiB": 1 << 40,
    "kB": 10**3,
    "KB": 10**3,
    "MB": 10**6,
    "GB": 10**9,
    "TB": 10**12,
}
_MARO_BYTES = {"b": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40}


def number(value: Any, expected: str = "a number") -> float:
    """Parse a finite number, possibly in quotes."""
    if isinstance(value, str) and _PLAIN.fullmatch(value):
        value = float(value)
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise Wrong(f"must be {expected}, got {show(value)}")
    if isinstance(value, int) and abs(value) > 1 << 60:
        raise Wrong(f"must be {expected}, got {show(value)}")
    if not math.isfinite(value):
        raise Wrong(f"must be {expected}, got {show(value)}")
    return float(value)


def duration(value: Any) -> float:
    """Parse a duration to seconds, more than 0: ``10m``, ``1h30m``, ``500ms``, or a number of seconds."""
    seconds = duration_or_zero(value)
    if seconds <= 0:
        raise Wrong(f"must be more than 0, got {show(value)}")
    return seconds


def duration_or_zero(value: Any) -> float:
    expected = "a duration such as 90s, 10m, 1h30m or 500ms"
    parts = _PARTS.findall(value) if isinstance(value, str) and len(value) <= 64 else []
    if parts and "".join(amount + unit for amount, unit in parts) == value:
        units = [_SECONDS[unit] for _, unit in parts]
        if units != sorted(set(units), reverse=True):
            raise Wrong(f"must be {expected}, with each unit once and larger units first; got {show(value)}")
        seconds = sum(float(amount) * _SECONDS[unit] for amount, unit in parts)
    else:
        seconds = number(value, expected)
    if seconds < 0:
        raise Wrong(f"must not be negative, got {show(value)}")
    if seconds > MAX_DURATION:
        raise Wrong(f"must be at most 365d, got {show(value)}")
    return seconds


def cpu(value: Any) -> int:
    """Parse cores to thousandths of a core: ``1``, ``0.5``, ``0``."""
    cores = number(value, "a number of cores such as 1 or 0.5")
    if cores < 0:
        raise Wrong(f"must not be negative, got {show(value)}")
    if cores > MAX_CPU:
        raise Wrong(f"must be at most {MAX_CPU} cores, got {show(value)}")
    milli = round(cores * 1000)
    if milli == 0 < cores:
        raise Wrong(f"must be 0 or at least 0.001 cores, got {show(value)}")
    return milli


def memory(value: Any) -> int:
    """Parse ``512MiB``, ``1.5GiB``, ``2GB``, or a number of bytes, to bytes."""
    expected = "a size such as 512MiB or 1.5GiB"
    match = _SIZE.fullmatch(value) if isinstance(value, str) else None
    if match is None:
        return _checked_memory(number(value, expected), value)
    amount, unit = match.groups()
    if unit.upper() in {"K", "M", "G", "T"}:
        letter = unit.upper()
        raise Wrong(f"must have a full unit: {amount}{letter}iB (binary) or {amount}{letter}B; got {show(value)}")
    if unit and unit not in _BYTES:
        raise Wrong(f"must be {expected}, got {show(value)}")
    return _checked_memory(float(amount) * _BYTES[unit or "B"], value)


def maro_memory(value: Any) -> int:
    """Parse MARO's and docker's ``2048m`` (binary units), or a number of MiB, to bytes."""
    match = _SIZE.fullmatch(value) if isinstance(value, str) else None
    if match is None or not match[2]:
        return _checked_memory(number(value, "a size such as 2048m") * (1 << 20), value)
    amount, unit = match.groups()
    factor = _MARO_BYTES.get(unit.lower()) or _BYTES.get(unit)
    if factor is None:
        raise Wrong(f"must be a size such as 2048m, got {show(value)}")
    return _checked_memory(float(amount) * factor, value)


def _checked_memory(size: float, value: Any) -> int:
    if size < 0:
        raise Wrong(f"must not be negative, got {show(value)}")
    if size > MAX_MEMORY:
        raise Wrong(f"must be at most 1024TiB, got {show(value)}")
    if 0 < size < MIN_MEMORY:
        raise Wrong(f"must be 0 or at least 1MiB, got {show(value)} (a plain number is bytes)")
    return int(size)


def devices(value: Any) -> int:
    """Parse a number of whole devices to thousandths of a device."""
    count = number(value, "a whole number of devices")
    if count < 0:
        raise Wrong(f"must not be negative, got {show(value)}")
    if count > MAX_GPU or not count.is_integer():
        raise Wrong(f"must be a whole number of devices, at most {MAX_GPU}; got {show(value)}")
    return int(count) * DEVICE


def gpu(value: Any) -> int:
    """Parse whole devices, or a share of one device, to thousandths of a device: ``2``, ``0.25``."""
    count = number(value, "a number of devices such as 2, or a share of one such as 0.25")
    if count > 1 and not count.is_integer():
        raise Wrong(f"must be a whole number of devices, or a share of one below 1 such as 0.25; got {show(value)}")
    if not 0 < count < 1:
        return devices(value)
    share = round(count * DEVICE)
    if share == 0:
        raise Wrong(f"must be 0 or at least 0.001 of a device, got {show(value)}")
    return share


def gpu_total(value: Any) -> int:
    """Parse a sum over many tasks to thousandths of a device, so ``1.5`` is valid."""
    count = number(value, "a number of devices such as 2 or 0.5")
    if not 0 <= count <= MAX_GPU:
        raise Wrong(f"must be between 0 and {MAX_GPU} devices, got {show(value)}")
    return round(count * DEVICE)


def at_least(value: Any) -> int:
    """Parse a minimum to bytes: ``">=40GiB"``, or just ``40GiB``."""
    if isinstance(value, str) and value.startswith(">="):
        return memory(value[2:].strip())
    if isinstance(value, str) and value[:1] in ("<", ">", "=", "!"):
        raise Wrong(f"must be a minimum such as >=40GiB, got {show(value)}")
    return memory(value)


def amount(value: Any) -> int:
    """Parse the amount of a custom resource."""
    return values.whole(0, MAX_CUSTOM)(value)


def all_or(parse: Callable[[Any], int]) -> Callable[[Any], int | None]:
    """Extend ``parse`` to accept the word ``all`` and return None for it."""

    def parse_offer(value: Any) -> int | None:
        return None if value == "all" else parse(value)

    return parse_offer
