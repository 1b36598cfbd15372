"""A command beside a task that ends at that moment."""

from __future__ import annotations

import subprocess
from functools import partial

import pytest

from grass.errors import ConflictError
from node.runtime.process.beside import Child
from node.runtime.process.execution import ProcessExecution


def test_a_command_in_a_task_that_has_just_ended_is_refused() -> None:
    with subprocess.Popen(["true"]) as task:
        pass
    with pytest.raises(ConflictError, match="cannot start ls: the task has just ended"):
        ProcessExecution(task.pid, ["ls"], None, partial(Child, task.pid))
