"""Whose fault an end is, and what follows: a row of the table in docs/guide/failures.md for each."""

from __future__ import annotations

from typing import Any

import pytest

from grass.model.ending import Ending, JobRestart
from grass.model.failure_class import failure_class
from grass.model.job import Component, Job, Restart, RestartOn
from grass.model.reasons import FailureClass, Reason, ReasonCode
from grass.model.resources import Resources
from master.agent.task_restart import Blamed, End, Next, what_follows
from node.runtime.out_of_memory import out_of_memory
from tests.support.world import World

AGAIN = Restart(RestartOn.ON_FAILURE)
ECC = "RuntimeError: CUDA error: uncorrectable ECC error encountered"
VALUE = "ValueError: bad shape (train.py:4)"


def by_code(code: int, error: str = "") -> Reason:
    return Reason(ReasonCode.EXIT_CODE, "", {"code": code, "error": error} if error else {"code": code})


def by_signal(signal: int, error: str = "") -> Reason:
    return Reason(ReasonCode.SIGNAL, "", {"signal": signal, "error": error} if error else {"signal": signal})


@pytest.mark.parametrize(
    ("reason", "expected"),
    [
        *((by_code(code), "user-error") for code in (1, 2, 3, 126, 127, 134, 139)),
        *((by_signal(signal), "user-error") for signal in (6, 8, 11)),
        (by_code(1, VALUE), "user-error"),
        (Reason(ReasonCode.CANNOT_START, ""), "user-error"),
        *((by_code(code), "killed") for code in (130, 137, 138, 143, 247)),
        *((by_signal(signal), "killed") for signal in (2, 9, 15)),
        (out_of_memory(1 << 30), "out-of-memory"),
        (out_of_memory(0), "out-of-memory"),
        (out_of_memory(1 << 30, 1), "out-of-memory"),
        (by_code(1, "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2 GiB"), "out-of-memory"),
        (by_code(1, "MemoryError (load.py:7)"), "out-of-memory"),
        (by_signal(6, "terminate called after throwing an instance of 'std::bad_alloc'"), "out-of-memory"),
        (by_code(1, ECC), "hardware"),
        (by_code(1, "Unable to determine the device handle for GPU0: GPU is lost"), "hardware"),
        (by_signal(6, "NVRM: Xid (PCI:0000:07:00): 79, GPU has fallen off the bus"), "hardware"),
        (by_code(1, "DistBackendError: NCCL error: remote process exited or there was a network error"),
         "network"),
        (by_code(1, "ConnectionResetError: [Errno 104] Connection reset by peer"), "network"),
        (by_code(1, "BrokenPipeError: [Errno 32] Broken pipe"), "network"),
        (by_signal(6, "[E] Watchdog caught collective operation timeout: WorkNCCL ran for 600000 ms"), "network"),
        (by_code(255, "ssh: connect to host n2 port 22: No route to host"), "network"),
        (Reason(ReasonCode.PREEMPTED, ""), "preempted"),
        (Reason(ReasonCode.DRAINED, ""), "preempted"),
        (Reason(ReasonCode.EVICTED, ""), "preempted"),
        (Reason(ReasonCode.NODE_LOST, ""), "node"),
        (Reason(ReasonCode.NODE_REBOOTED, ""), "node"),
        (Reason(ReasonCode.NODE_STOPPED, ""), "node"),
        (Reason(ReasonCode.TIMEOUT, ""), "timeout"),
        (Reason(ReasonCode.EXIT_UNKNOWN, ""), "unknown"),
        (Reason(ReasonCode.RELEASED, ""), None),
        (Reason(ReasonCode.USER_STOPPED, ""), None),
        (Reason(ReasonCode.SUSPENDED, ""), None),
    ],
)  # fmt: skip
def test_each_end_has_its_class(reason: Reason, expected: str | None) -> None:
    assert failure_class(reason) == (None if expected is None else FailureClass(expected))


@pytest.mark.parametrize(
    ("reason", "expected"),
    [
        (by_code(1), "hardware"),
        (by_signal(11), "hardware"),
        (out_of_memory(1 << 30), "out-of-memory"),
        (by_code(1, "ConnectionResetError"), "network"),
        (Reason(ReasonCode.TIMEOUT, ""), "timeout"),
    ],
)
def test_what_a_broken_node_may_have_caused_is_hardware(reason: Reason, expected: str) -> None:
    assert failure_class(reason, at_fault=True) is FailureClass(expected)


def failed(kind: FailureClass, code: ReasonCode = ReasonCode.EXIT_CODE) -> Reason:
    return Reason(code, "", {"failure": kind})


PRINTED, MEASURED = Blamed("n1"), Blamed("n1", measured=True)
USER, HARDWARE, NETWORK = (
    failed(each) for each in (FailureClass.USER_ERROR, FailureClass.HARDWARE, FailureClass.NETWORK)
)


@pytest.mark.parametrize(
    ("policy", "end", "expected"),
    [
        (Restart(), End(0, None, None), Next.END),
        (Restart(RestartOn.ALWAYS), End(0, None, None), Next.RESTART),
        (Restart(), End(1, None, USER), Next.END),
        (AGAIN, End(1, None, USER), Next.RESTART),
        (AGAIN, End(1, None, USER, restarts=3), Next.END),
        (AGAIN, End(64, None, USER, final=True), Next.END),
        (AGAIN, End(127, None, failed(FailureClass.USER_ERROR, ReasonCode.CANNOT_START)), Next.END),
        (AGAIN, End(1, None, USER, repeated=True), Next.REPEATED),
        (Restart(RestartOn.ALWAYS), End(1, None, USER, repeated=True), Next.RESTART),
        (Restart(RestartOn.ON_FAILURE, None), End(1, None, USER, repeated=True), Next.RESTART),
        (Restart(RestartOn.ON_FAILURE, codes=(1,)), End(1, None, USER, repeated=True), Next.RESTART),
        (Restart(RestartOn.ON_FAILURE, codes=(137,)), End(None, 9, failed(FailureClass.KILLED)), Next.RESTART),
        (Restart(), End(143, None, failed(FailureClass.NODE, ReasonCode.NODE_STOPPED)), Next.EXCUSED),
        (Restart(), End(None, None, failed(FailureClass.PREEMPTED, ReasonCode.EVICTED)), Next.EXCUSED),
        (Restart(), End(1, None, HARDWARE, node=PRINTED), Next.BLAMED),
        (Restart(), End(64, None, HARDWARE, node=PRINTED, final=True), Next.END),
        (Restart(), End(1, None, HARDWARE, node=Blamed("n1", ("n1",))), Next.END),
        (AGAIN, End(1, None, HARDWARE, node=Blamed("n1", ("n1",))), Next.RESTART),
        (Restart(), End(1, None, HARDWARE, node=Blamed("n1", ("n2", "n3", "n4"))), Next.END),
        (Restart(), End(1, None, HARDWARE, node=Blamed("n1", ("n1", "n1"), measured=True)), Next.BLAMED),
        (Restart(), End(1, None, HARDWARE, node=Blamed("n1", ("n1", "n1", "n1"), measured=True)), Next.END),
        (Restart(), End(1, None, NETWORK, node=PRINTED), Next.END),
        (AGAIN, End(1, None, NETWORK, node=PRINTED), Next.RESTART),
        (Restart(), End(1, None, NETWORK, node=MEASURED), Next.BLAMED),
    ],
)
def test_what_follows_an_end(policy: Restart, end: End, expected: Next) -> None:
    assert what_follows(policy, end) is expected


def cluster(*nodes: str, cpu: int = 1, gpu: int = 0) -> World:
    world = World()
    for name in nodes:
        world.add_node(name, cpu=cpu, gpu=gpu)
    return world


def start(world: World, restart: Restart = AGAIN, *, together: bool = False, **values: Any) -> None:
    part = Component("w", "x", replicas=2, restart=restart, resources=Resources(cpu=1000))
    world.submit(Job("j", {"w": part}, ("w",), fail_fast=False, gang=("w",) if together else (), **values))


def reason(world: World, task: str = "w.0") -> dict[str, Any]:
    found: dict[str, Any] = world.tasks("j-1")[task]["reason"]
    return found


def test_the_same_error_on_two_nodes_within_a_minute_ends_the_restarts() -> None:
    world = cluster("a", "b")
    start(world)
    world.end("j-1/w.0/1", code=1, cause=VALUE)
    assert reason(world)["code"] == "backoff" and reason(world)["details"]["failure"] == "user-error"
    world.end("j-1/w.1/1", code=1, cause="ValueError: bad shape (train.py:7)")
    said = reason(world, "w.1")
    assert said["message"].endswith("; the same error on a and b within a minute, so it is not started again")
    assert (said["details"]["repeated_on"], said["details"]["failure"]) == (["a", "b"], "user-error")
    assert world.tasks("j-1")["w.1"]["state"] == "FAILED"
    world.advance(5)
    world.end("j-1/w.0/2", code=1, cause=VALUE)
    assert world.job("j")["state"] == "FAILED" and world.job("j")["reason"]["details"]["failure"] == "user-error"
    assert world.job("j")["restarts"] == 1


@pytest.mark.parametrize("what", ["one node", "another error", "later", "network", "no text"])
def test_otherwise_it_starts_again_as_its_component_says(what: str) -> None:
    world = cluster(*(["a"] if what == "one node" else ["a", "b"]), cpu=2 if what == "one node" else 1)
    start(world)
    error = {"network": "ConnectionResetError: reset", "no text": ""}.get(what, VALUE)
    world.end("j-1/w.0/1", code=1, cause=error)
    if what == "later":
        world.advance(61)
    world.end("j-1/w.1/1", code=1, cause="KeyError: 'x'" if what == "another error" else error)
    assert world.tasks("j-1")["w.1"]["state"] == "PENDING"


def test_a_gang_ends_early_and_its_job_is_not_started_again() -> None:
    world = cluster("a", "b")
    start(world, Restart(), together=True, ending=Ending(restart=JobRestart(limit=3)))
    world.end("j-1/w.0/1", code=1, cause=VALUE)
    world.end("j-1/w.1/1", code=1, cause=VALUE)
    job = world.job("j")
    assert (job["state"], job["tries"]) == ("FAILED", 0)
    assert "the same error on a and b within a minute" in job["reason"]["message"]
    assert job["reason"]["details"]["repeated_on"] == ["a", "b"]


def test_a_task_whose_device_is_lost_starts_again_elsewhere_and_no_restart_is_counted() -> None:
    world = cluster("a", "b", gpu=1)
    part = Component("w", "x", resources=Resources(cpu=1000, gpu=1000))
    world.submit(Job("j", {"w": part}, ("w",)))
    before = world.tasks("j-1")["w.0"]["node"]
    world.nodes[before].lost[0] = "GPU is lost"
    world.advance(3)
    world.end("j-1/w.0/1", code=1, cause="RuntimeError: CUDA error: unspecified launch failure")
    task = world.tasks("j-1")["w.0"]
    assert (task["state"], task["restarts"]) == ("RUNNING", 0) and task["node"] != before


def test_a_task_that_blames_its_device_goes_elsewhere_once_for_each_node() -> None:
    world = cluster("a", "b")
    part = Component("w", "x", resources=Resources(cpu=1000))
    world.submit(Job("j", {"w": part}, ("w",)))
    nodes = []
    for attempt in range(1, 9):
        task = world.tasks("j-1")["w.0"]
        if task["state"] == "FAILED":
            break
        nodes.append(task["node"])
        world.end(f"j-1/w.0/{attempt}", code=1, cause=ECC)
        world.advance(700)
    assert sorted(nodes[:2]) == ["a", "b"] and len(nodes) == 3
    assert reason(world)["details"]["failure"] == "hardware" and world.job("j")["restarts"] == 0
