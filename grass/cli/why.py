"""Render the answer to `grass job why` as paragraphs. Pure.

*Why view*: ``{"name", "id", "state", "reason", "groups": [{"component", "state", "count", "reason", "next", …}],
"findings"}``. A finding is a component that stands still, with the cause, or a task that is slow or on a node at fault.
A group is the tasks of one component that wait or ended for the same reason; ``next`` says what would start them. Used
by ``job``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from grass.cli.amounts import show_failure, show_reason
from grass.cli.table import paragraph
from grass.model.feasibility import NodeGroup, starts_about, starts_within
from grass.wire.finding import Cause

if TYPE_CHECKING:
    from grass.model.reasons import Reason
    from grass.wire.job_views import WhyGroup, WhyView


def page(answer: WhyView, width: int | None) -> list[str]:
    lines = paragraph(_head(answer), width)
    for finding in answer.findings:
        lines += ["", *paragraph(finding.text, width)]
        for line in finding.evidence:
            lines += paragraph(line, width, indent=4)
        if finding.cause not in (Cause.SLOW_MEMBER, Cause.NODE_CHECK):
            lines += paragraph(f"`grass job stacks {answer.name}` shows where its processes are now", width, indent=2)
    for component, placed in answer.placed.items():
        lines += ["", *paragraph(f"{component}: {placed}", width)]
    for group in answer.groups:
        lines += ["", *paragraph(f"{group.component}: {_tasks(group)}", width)]
        lines += paragraph(show_reason(group.reason), width, indent=2)
        for line in _details(group.reason):
            lines += paragraph(line, width, indent=4)
        if group.common:
            lines += paragraph(f"{group.common} in {'all of them' if group.count > 1 else 'it'}", width, indent=2)
        if group.first:
            log = f"grass job logs {answer.name} {group.first}"
            lines += paragraph(
                f"its output: `{log}`" if group.count == 1 else f"the first is {group.first}: `{log}`", width, indent=2
            )
        if group.next:
            lines += paragraph(group.next, width, indent=2)
    return lines


def _head(answer: WhyView) -> str:
    head = f"{answer.name} is {answer.state}"
    reason = show_reason(answer.reason)
    if reason and reason not in [show_reason(group.reason) for group in answer.groups]:
        return f"{head}: {reason}"
    return head if answer.groups or answer.findings or answer.state.ended else f"{head}; no part of it waits"


def _details(reason: Reason | None) -> list[str]:
    """Return what the planner found besides the message: the nodes, the amounts that would start now, and the time.

    The planner documents ``nodes``, ``starts_with``, ``starts_in`` and ``starts_about`` (``Plan`` in
    ``master/planning/model.py``).
    """
    if reason is None:
        return []
    details, message = reason.details or {}, reason.message
    lines = [str(NodeGroup.from_wire(group)) for group in details.get("nodes", ())]
    if "starts_with" in details:
        lines.append(details["starts_with"])
    if "starts_in" in details and "starts within" not in message:
        lines.append(starts_within(details["starts_in"]))
    if "starts_about" in details and "would start in" not in message:
        lines.append(starts_about(details["starts_about"]))
    return [line for line in lines if line not in message]


def _tasks(group: WhyGroup) -> str:
    noun = "task" if max(group.count, group.of) == 1 else "tasks"
    of = f" of {group.of}" if group.of > group.count else ""
    failure = show_failure(group.reason)
    return f"{group.count}{of} {noun} {group.state}" + (f" ({failure})" if failure else "")
