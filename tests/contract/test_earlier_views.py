"""A client reads the nodes, tasks and operations of a cluster of protocol 1: fields that came later have a default."""

from __future__ import annotations

import msgspec
import pytest

from grass.wire.job_views import OperationView, TaskView
from grass.wire.node_views import NodeView

FIRST: dict[type[msgspec.Struct], str] = {
    NodeView: "name state reason address resources free tasks usage version seen gpus labels path runtimes cordoned "
    "quarantine",
    TaskView: "task component index state attempt node exit_code signal reason started ended ports restarts pid sizes "
    "ready gpus usage",
    OperationView: "id job_id kind component state outcome from_size to_size author reason filed ended message "
    "generation added removed",
}
"""View → the fields that it had in protocol 1."""


@pytest.mark.parametrize("view", FIRST)
def test_a_field_that_came_later_has_a_default(view: type[msgspec.Struct]) -> None:
    needed = {field.name for field in msgspec.structs.fields(view) if field.required}
    assert needed <= set(FIRST[view].split())
