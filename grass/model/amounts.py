"""Formats amounts for people: ``512MiB``, ``1h30m``, ``2 gpu``. ``grass.manifest.quantities`` parses amounts.

Used by all packages.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from grass.model.policy import SPACE
from grass.model.resources import DEVICE

SPANS = (("d", 86400), ("h", 3600), ("m", 60), ("s", 1))
"""Units of durations, the largest first."""
SIZES = (("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10))
"""Units of bytes, the largest first."""


def show_cpu(milli: int) -> str:
    """Format thousandths of a core as cores."""
    return f"{milli / 1000:g}"


def show_gpu(milli: int) -> str:
    """Format thousandths of a device as devices."""
    return f"{milli / DEVICE:g}"


def show_memory(size: int) -> str:
    """Format bytes with a unit: ``512MiB``, ``1.5GiB``."""
    for unit, factor in SIZES:
        if size >= factor:
            return f"{size / factor:.4g}{unit}"
    return f"{size}B"


def show_span(seconds: float) -> str:
    """Format a duration in at most two units: ``7s``, ``1m30s``, ``2d4h``. A negative duration becomes ``0s``."""
    rest = max(0, int(seconds))
    for number, (unit, size) in enumerate(SPANS[:-1]):
        if rest >= size:
            smaller, smaller_size = SPANS[number + 1]
            part = rest % size // smaller_size
            return f"{rest // size}{unit}" + (f"{part}{smaller}" if part else "")
    return f"{rest}s"


def show_whole(amount: float, units: Sequence[tuple[str, int]]) -> str | None:
    """Format an amount as a whole number of the largest possible unit; None: zero, or no unit divides it."""
    for unit, factor in units:
        if amount and amount % factor == 0:
            return f"{int(amount // factor)}{unit}"
    return None


BUILT_IN: Mapping[str, Callable[[int], str]] = {
    "cpu": show_cpu,
    "memory": show_memory,
    "gpu": show_gpu,
    "disk": show_memory,
}
"""The resources that every node has, each with the formatter of its amounts."""


def show_quantity(resource: str, amount: int) -> str:
    """Format an amount of a resource without its name: ``1.5GiB``, ``2``."""
    return show_memory(amount) if resource == SPACE else BUILT_IN.get(resource, str)(amount)


def show_amount(resource: str, amount: int) -> str:
    """Format an amount with the resource's name: ``1.5GiB memory``, ``2 gpu``, ``3 licences``; of space: ``2GiB``."""
    return show_quantity(resource, amount) if resource == SPACE else f"{show_quantity(resource, amount)} {resource}"
