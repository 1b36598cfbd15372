"""What the first tab of a job shows beside its tasks: commands, last figures and log lines. Used by ``questions``.

All of it is bounded, whatever the job is.
"""

from __future__ import annotations

import shlex
from typing import Any

from msgspec import UNSET

from grass.api.client import Client
from grass.dashboard.logs import shown
from grass.errors import NotFoundError
from grass.model.job import Component

LONGEST_COMMAND = 4000
"""Characters."""
LINES, SEARCHED = 12, 200
"""Lines that are shown, and those among which they are: lines with figures are left out."""
MANY = 50
"""Tasks of a job whose figures have a table of their own, and whose log is that of one task."""
FIGURES, ROWS = 8, 8
"""Figures and tasks that are shown."""
_MARK = "GRASS_METRIC "


def glance(client: Client, name: str) -> Any:
    """Return ``commands``, ``figures`` (None: none, or too many tasks) and ``lines``. Raises NotFoundError."""
    job = client.job(name)
    if job.specification is UNSET:
        raise NotFoundError(f"job {job.name}: not found; it is being deleted")
    many = sum(part.replicas for part in job.components.values()) > MANY
    return {
        "commands": [_command(name, part) for name, part in job.specification.components.items()],
        "figures": None if many else _figures(client, job.id),
        **_lines(client, job.id, many),
    }


def _command(name: str, part: Component) -> dict[str, str | None]:
    text = part.command if isinstance(part.command, str) else shlex.join(part.command)
    cut = f"{text[:LONGEST_COMMAND]} …" if len(text) > LONGEST_COMMAND else text
    return {"component": name, "text": cut, "image": part.image}


def _figures(client: Client, job: str) -> dict[str, object] | None:
    found = client.results(job)
    names, columns = found.figures[:FIGURES], found.columns()
    if not names:
        return None
    at, task = [columns.index(name) for name in names], columns.index("task")
    rows = [[*row.values()] for row in found]
    said = [row for row in rows if any(row[index] is not None for index in at)]
    kept = [[row[task], *(row[index] for index in at)] for row in said[:ROWS]]
    more = {"tasks": len(said) - len(kept), "figures": len(found.figures) + found.further - len(names)}
    return {"names": [name.removesuffix(":last") for name in names], "rows": kept, "more": more}


def _lines(client: Client, job: str, many: bool) -> dict[str, object]:
    """Return the last lines; of a job with many tasks, those of one task, a failed one if there is any."""
    task = next((each.task for each in client.tasks(job, first=1)), None) if many else None
    lines = [line for batch in client.log_batches(job, task, tail=SEARCHED) for line in batch]
    kept = [line for line in lines if line.text and not line.text.startswith(_MARK)][-LINES:]
    return {"lines": [shown(line) for line in kept], "of": task}
