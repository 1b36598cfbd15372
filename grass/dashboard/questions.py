"""What the page can ask the cluster, besides the feed and logs: one function per question. Called by ``app``."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from grass.api.client import Client
from grass.dashboard.curves import capacity, last, node_charts, own_charts, task_charts
from grass.errors import InputError

Words = Mapping[str, str]
"""Query parameters."""

_STEPS = ((900, 2), (86_400, 60), (2_678_400, 900))
"""(longest range, step): seconds. The cluster keeps so much of each resolution."""
_FEW = 3
_TASKS = 20
"""Tasks in the table of a job's usage: those with most CPU time."""


@dataclass(frozen=True)
class Question:
    """``shared``: also answered for a shared page, whose readers may be anybody."""

    ask: Callable[[Client, Words], Any]
    shared: bool = False


def _range(words: Words) -> tuple[int, int]:
    """Return the range and the step that covers it."""
    text = words.get("range", "900")
    seconds = int(text) if text.isascii() and text.isdecimal() and len(text) < 9 else 0
    for longest, step in _STEPS:
        if 0 < seconds <= longest:
            return seconds, step
    raise InputError(f"query parameter range: must be seconds up to {_STEPS[-1][0]}, got {text!r}")


def _capacity(client: Client, words: Words) -> Any:
    """Return the last hour; of a cluster that is younger than some minutes, what there is in full detail."""
    hour = capacity(last(client.usage(step=60)["history"], 3600))
    known = max((sum(value is not None for value in each["values"]) for each in hour["series"]), default=0)
    return hour if known >= _FEW else capacity(last(client.usage(step=2)["history"], 900))


def _node_usage(client: Client, words: Words) -> Any:
    seconds, step = _range(words)
    answer = client.node_usage(words["node"], step=step)
    return {"charts": node_charts(last(answer["history"], seconds)), "tasks": answer["tasks"], "now": answer["now"]}


def _task_usage(client: Client, words: Words) -> Any:
    seconds, step = _range(words)
    answer = client.task_usage(words["job"], words["task"], step=step)
    return {"charts": task_charts(last(answer["history"], seconds))}


def _job_usage(client: Client, words: Words) -> Any:
    answer = client.job_usage(words["job"], first=_TASKS)
    return {**answer, "charts": own_charts(client.job_metrics(words["job"]))}


QUESTIONS: dict[str, Question] = {
    "status": Question(lambda client, _: client.status(), shared=True),
    "why": Question(lambda client, words: client.why(words["job"]), shared=True),
    "job": Question(lambda client, words: client.job(words["job"], specification=False), shared=True),
    "attempts": Question(lambda client, words: client.attempts(words["job"], words.get("task")), shared=True),
    "specification": Question(lambda client, words: client.job(words["job"])["specification"]),
    "events": Question(lambda client, words: list(client.events(job=words.get("job"), limit=500)), shared=True),
    "operations": Question(lambda client, words: client.operations(words["job"]), shared=True),
    "shares": Question(lambda client, _: client.shares(), shared=True),
    "capacity": Question(_capacity, shared=True),
    "node-usage": Question(_node_usage, shared=True),
    "job-usage": Question(_job_usage, shared=True),
    "task-usage": Question(_task_usage, shared=True),
}
