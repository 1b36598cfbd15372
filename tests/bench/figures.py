"""Samples to figures, and figures to the screen. The benches say what was measured; they judge nothing."""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
from dataclasses import dataclass
from typing import Any

os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
"""Where it is set, each process that a bench starts would compile Grass anew, as no user's does."""


def quantile(samples: list[float], share: float) -> float:
    """By linear interpolation between the two nearest samples."""
    ordered = sorted(samples)
    place = share * (len(ordered) - 1)
    below = int(place)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (ordered[above] - ordered[below]) * (place - below)


@dataclass(frozen=True)
class Figure:
    """One thing that was measured repeatedly, in ``unit``."""

    name: str
    samples: list[float]
    unit: str

    @property
    def median(self) -> float:
        return quantile(self.samples, 0.5)

    def __str__(self) -> str:
        low, high, late = min(self.samples), max(self.samples), quantile(self.samples, 0.95)
        spread = f"p95 {late:.4g}, {low:.4g} to {high:.4g}, n={len(self.samples)}"
        return f"  {self.name:<28} {self.median:>9.4g} {self.unit:<4} ({spread})"

    def plain(self) -> dict[str, Any]:
        return {"name": self.name, "unit": self.unit, "median": self.median, "samples": self.samples}


def ratio(ours: Figure, theirs: Figure) -> Figure:
    """Ours over theirs, round by round, so that a slow moment of the machine is in both; needs equal rounds."""
    pairs = zip(ours.samples, theirs.samples, strict=True)
    return Figure(f"{ours.name} / {theirs.name}", [mine / other for mine, other in pairs], "×")


def arguments(description: str | None, rounds: int) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--rounds", type=int, default=rounds, help="how often to repeat (default: %(default)s)")
    parser.add_argument("--json", action="store_true", help="print the samples as JSON")
    return parser


def report(options: argparse.Namespace, title: str, figures: list[Figure], bar: str) -> None:
    """``bar``: what the design asks for, printed beside the figures for the reader to compare."""
    if options.json:
        plain = [figure.plain() for figure in figures]
        print(json.dumps({"title": title, "bar": bar, "machine": machine(), "figures": plain}))
        return
    print(f"{title}\n  [{machine()}]")
    for figure in figures:
        print(figure)
    print(f"  wanted: {bar}")


def machine() -> str:
    version = ".".join(map(str, sys.version_info[:3]))
    return f"{os.cpu_count()} cores, Linux {platform.release()}, Python {version}, load {os.getloadavg()[0]:.1f}"


def progress(text: str) -> None:
    print(text, file=sys.stderr, flush=True)
