"""What the program that measures answers of its node. Used by ``grass.api.check_run`` and ``master.monitor``."""

from __future__ import annotations

from msgspec import structs

from grass.wire.checks import MOST_PROBLEMS, Alone, ProbeAnswer


def added(before: Alone, answer: ProbeAnswer) -> Alone:
    """Return what is known of the node with one more answer of levels 0 and 1."""
    times = answer.times if isinstance(answer.times, dict) else {}
    return structs.replace(
        before,
        model=answer.model or before.model,
        problems=(*before.problems, *answer.problems)[:MOST_PROBLEMS],
        times={**before.times, **times},
        figures={**before.figures, **answer.figures},
        devices=answer.devices or before.devices,
    )
