"""The reasons of tasks and jobs that failed: how they ended, why, and what those have in common that failed alike."""

from __future__ import annotations

from dataclasses import replace

import pytest
from msgspec import structs

from grass.model.failure_text import by_code, by_signal, without_causes
from grass.model.job import Component, Job
from grass.model.lifecycle import TaskState
from grass.model.reasons import Reason, ReasonCode
from grass.model.resources import Resources
from grass.model.task_values import in_common
from grass.wire.usage import TaskTotals
from master.agent.component_run import ComponentRun
from master.agent.failures import why_component_failed
from node.runtime.out_of_memory import out_of_memory
from tests.support.world import World

SWEEP = Component(
    "main",
    "x",
    replicas=6,
    resources=Resources(),
    matrix={"lr": ("0.1", "0.2", "0.3"), "net": ("mlp",), "seed": ("1", "2")},
)


def swept() -> World:
    world = World()
    world.add_node("n1", cpu=8)
    world.submit(Job("j", {"main": SWEEP}, ("main",), fail_fast=False))
    return world


def said(world: World, task: str = "main.0") -> str:
    return str(world.tasks("j-1")[task]["reason"]["message"])


def test_the_reason_of_a_job_says_how_many_tasks_failed_why_and_which_values_only_they_have() -> None:
    world = swept()
    for index in (5, 4):
        cause = f"ValueError: loss is {index}.5e10 (train.py:41)"
        world.end(f"j-1/main.{index}/1", code=1, cause=cause, at=world.wall + 5 - index)
    for index in range(4):
        world.end(f"j-1/main.{index}/1")
    reason = world.job("j")["reason"]
    assert reason["message"] == (
        "2 of 6 tasks failed, first main.5: ended with exit code 1: ValueError: loss is 5.5e10 (train.py:41); "
        "lr=0.3 in all 2"
    )
    error = "ValueError: loss is 5.5e10 (train.py:41)"
    assert reason["details"] == {"task": "main.5", "error": error, "failure": "user-error"}


def test_a_job_whose_failed_task_has_no_reason_says_that_it_is_unknown() -> None:
    component = ComponentRun(Component("main", "x"), 1)
    task = component.tasks[component.take_next()]
    for state in (TaskState.ASSIGNED, TaskState.FAILED):
        component.move(task, state)
    assert why_component_failed(component).message == "main.0 failed: unknown"


def test_tasks_that_failed_otherwise_are_told_apart() -> None:
    world = swept()
    world.end("j-1/main.2/1", code=1, cause="ValueError: bad", at=world.wall)
    world.end("j-1/main.3/1", code=137, cause="", at=world.wall + 1)
    for index in (0, 1, 4, 5):
        world.end(f"j-1/main.{index}/1")
    assert world.job("j")["reason"]["message"] == (
        "2 of 6 tasks failed, first main.2: ended with exit code 1: ValueError: bad; 1 failed like this; lr=0.2, seed=1"
    )
    assert said(world, "main.3") == "ended with exit code 137 (SIGKILL: killed)"


def test_a_killed_task_says_how_much_memory_it_used() -> None:
    world = swept()
    used = TaskTotals(memory=3 << 30)
    world.end("j-1/main.0/1", code=None, signal=9, usage=used)
    assert said(world) == "ended by signal SIGKILL (killed; not by Grass; it used 3GiB of memory at most)"
    killed = out_of_memory(1 << 30).to_wire()
    world.end("j-1/main.1/1", code=None, signal=9, reason=killed, usage=structs.replace(used, memory=1 << 30))
    assert said(world, "main.1") == (
        "killed by the kernel: it used more memory than its limit of 1GiB; 1GiB were measured at most"
    )
    reason = Reason(ReasonCode.TIMEOUT, "ran longer than its limit of 1 s").to_wire()
    world.end("j-1/main.2/1", code=None, signal=15, reason=reason, cause="oops")
    assert said(world, "main.2") == "ran longer than its limit of 1 s"


def test_values_in_common_are_those_that_not_all_tasks_have() -> None:
    assert in_common(SWEEP, [4, 5]) == "lr=0.3" and in_common(SWEEP, [3]) == "lr=0.2, seed=2"
    assert in_common(SWEEP, [0, 2, 4]) == "seed=1" and in_common(SWEEP, [0, 3]) == "" == in_common(SWEEP, [])
    listed = replace(SWEEP, matrix={}, entries=tuple("abcdef"))
    assert in_common(listed, [1]) == "entry=b" and in_common(listed, [1, 2]) == ""


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        (f"job j: main.0 failed: {by_code(1)}: KeyError: 'x'; lr=0.3", "job j: main.0 failed: ended with exit code 1"),
        (f"{by_code(139)}: Fatal Python error", "ended with exit code 139 (SIGSEGV: segmentation fault)"),
        (f"{by_signal(9, 'not by Grass')}: x; restarts in 1 s", "ended by signal SIGKILL (killed; not by Grass)"),
        (f"{by_signal(40)}: x\ny", "ended by signal 40"),
        ("waits for free resources: local: 1 cpu short", "waits for free resources: local: 1 cpu short"),
    ],
)  # fmt: skip
def test_readers_who_may_not_see_output_see_how_tasks_ended_but_not_why(text: str, shown: str) -> None:
    view = {"reason": {"message": text, "details": {"code": 1, "error": "KeyError"}}, "groups": [{"common": "lr=0.3"}]}
    assert without_causes(view) == {"reason": {"message": shown, "details": {"code": 1}}, "groups": [{}]}
