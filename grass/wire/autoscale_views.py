"""The reply of the API about the sizes that Grass would give to the components of a job by itself, and why.

Sent by the API server.
"""

from __future__ import annotations

import msgspec

from grass.wire.codec import Form
from grass.wire.operation_record import ScaleRule


class ComponentAutoscale(msgspec.Struct, frozen=True, kw_only=True):
    """What would be done with a component now. Nothing is done by asking."""

    component: str
    enabled: bool
    """Whether its file has `autoscale`; otherwise the answer is what its default would do."""
    policy: str
    size: int
    min: int
    max: int
    unit: int
    to_size: int
    """The size that it would get now. The present one: it stays."""
    rule: ScaleRule | None
    """Why it would be changed; null: it stays."""
    why: str
    facts: tuple[str, ...]
    """What was looked at."""


class AutoscaleView(msgspec.Struct, frozen=True):
    """The components of a job that can be scaled by Grass."""

    id: str
    name: str
    components: tuple[ComponentAutoscale, ...]


AUTOSCALE: Form[AutoscaleView] = Form(AutoscaleView)
