"""Times that a node tells, by the master's clock: a wrong clock of a node is no reason for wrong durations. Pure."""

from __future__ import annotations

from typing import Any

NEGLIGIBLE = 30.0
"""Seconds. Less is not set right: a report may take a while, and clocks are never quite the same."""


def timely(events: list[dict[str, Any]], ahead: float) -> list[dict[str, Any]]:
    """``events`` with times of the master. ``ahead``: seconds by which the node's clock was, when it told them."""
    if abs(ahead) < NEGLIGIBLE:
        return events
    return [{**event, **_shifted(event, ahead)} for event in events]


def _shifted(event: dict[str, Any], ahead: float) -> dict[str, float]:
    return {key: event[key] - ahead for key in ("at", "started") if isinstance(event.get(key), (int, float))}
