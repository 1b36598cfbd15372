"""Equal stacks are one group, and the odd one is seen at once."""

from __future__ import annotations

from grass.cli.job_stacks import page
from grass.wire.stacks import JobStacks, ProcessStack, TaskStacks, ThreadStack, grouped

WAITS = ("all_reduce (/opt/lib/torch/distributed/distributed_c10d.py:2810)", "main (/home/ann/train.py:40)")
SPINS = ("augment (/home/ann/data.py:12)", "main (/home/ann/train.py:31)")


def task(index: int, frames: tuple[str, ...], state: str = "S", more: tuple[ProcessStack, ...] = ()) -> TaskStacks:
    threads = (ThreadStack(frames, "MainThread", True), ThreadStack((f"watch (/lib/w.py:{index % 3})",), "watch"))
    return TaskStacks(
        f"w.{index}", 1, f"n{index % 4}", (ProcessStack(100 + index, "python3", state, "", (), threads), *more)
    )


def forty() -> tuple[TaskStacks, ...]:
    return tuple(task(index, SPINS if index == 17 else WAITS, "R" if index == 17 else "S") for index in range(40))


def test_of_forty_members_the_one_that_is_elsewhere_is_at_the_top() -> None:
    assert page(JobStacks("train", forty()), False, None) == [
        "train: 40 processes of 40 tasks, 39 alike, 1 otherwise",
        "",
        "1 process running: w.17 on n1",
        "  augment (ann/data.py:12)",
        "  main (ann/train.py:31)",
        "",
        "39 processes waiting: w.0, w.1, w.2, w.3, w.4, w.5 and 33 more on 4 nodes",
        "  all_reduce (distributed/distributed_c10d.py:2810)",
        "  main (ann/train.py:40)",
    ]


def test_all_threads_are_compared_if_that_is_asked_for() -> None:
    assert [len(group.members) for group in grouped(forty(), all_threads=True)] == [1, 12, 13, 14]


def test_shells_that_wait_for_a_program_are_left_out_beside_it() -> None:
    shell = ProcessStack(7, "sh", "S", "do_wait")
    [group] = grouped([task(0, WAITS, more=(shell,)), task(1, WAITS)])
    assert [member.name for member in group.members] == ["w.0 (pid 100)", "w.1"]
    [alone] = grouped([TaskStacks("w.0", 1, "n1", (shell,))])
    assert (alone.stacks, alone.where) == ((), "S sh do_wait")


def test_a_stopped_process_is_not_alike_with_one_that_waits_at_the_same_line() -> None:
    assert [len(group.members) for group in grouped([task(0, WAITS, "T"), task(1, WAITS), task(2, WAITS)])] == [1, 2]


def test_tasks_of_which_nothing_is_known_say_why_once() -> None:
    tasks = (task(0, WAITS), *(TaskStacks(f"w.{index}", 1, "n9", problem="node n9: away") for index in (1, 2)))
    assert page(JobStacks("train", tasks), False, None)[-1] == "2 tasks: node n9: away"
