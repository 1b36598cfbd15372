"""Jobs that stand still are found within two windows, with the cause; what works, or only pauses, is not accused."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

import pytest

from grass.wire.finding import Cause, Finding, FindingState
from grass.wire.stacks import ProcessStack, TaskStacks, ThreadStack
from grass.wire.usage import OwnPoint, TaskSample
from master.detection.cause import judge
from master.detection.progress import Limits
from master.detection.standstills import Attempt, Evidence, Group, Standstills

TORCH = "/opt/lib/python3.11/site-packages/torch"
REDUCES = (f"all_reduce ({TORCH}/distributed/distributed_c10d.py:2810)", "step (/home/ann/train.py:40)")
GATHERS = (f"all_gather ({TORCH}/distributed/distributed_c10d.py:3100)", "sync (/home/ann/train.py:55)")
SPINS = ("augment (/home/ann/data.py:12)", "main (/home/ann/train.py:31)")
LOADS = (
    "wait (/usr/lib/python3.11/threading.py:327)",
    "get (/usr/lib/python3.11/queue.py:180)",
    f"_get_data ({TORCH}/utils/data/dataloader.py:1284)",
    "main (/home/ann/train.py:29)",
)
LOCKED = ("acquire (/home/ann/pool.py:8)", "main (/home/ann/train.py:33)")
AGENT = (f"_invoke_run ({TORCH}/distributed/elastic/agent/server/api.py:897)", "main (/bin/torchrun:8)")


def process(frames: tuple[str, ...], state: str = "S", pid: int = 10, waits_in: str = "") -> ProcessStack:
    return ProcessStack(pid, "python3", state, waits_in, (), (ThreadStack(frames, "MainThread", True),))


def task(index: int, *processes: ProcessStack) -> TaskStacks:
    return TaskStacks(f"w.{index}", 1, f"n{index}", processes)


def members(count: int, frames: tuple[str, ...] = REDUCES) -> list[TaskStacks]:
    return [task(index, process(frames)) for index in range(count)]


def with_odd(*odd: ProcessStack, count: int = 8) -> list[TaskStacks]:
    return [*members(count - 1), task(count - 1, *odd)]


@pytest.mark.parametrize(
    ("stacks", "cause", "accused", "said"),
    [
        (with_odd(process(SPINS, "R")), Cause.STRAGGLER_CODE, ("w.7",), "w.7 (n7) runs in augment (ann/data.py:12), "),
        (with_odd(process(LOADS)), Cause.DATA_LOADER, ("w.7",), "w.7 (n7) waits for its data in _get_data"),
        (members(4, LOADS), Cause.DATA_LOADER, ("w.0", "w.1", "w.2", "w.3"), "and 3 more waits for its data"),
        (with_odd(process(REDUCES, "T")), Cause.STRAGGLER_CODE, ("w.7",), "w.7 (n7) is stopped (SIGSTOP"),
        (with_odd(process(LOADS, "D", 77, "nfs_wait")), Cause.STORAGE, ("w.7",), "process 77 of w.7 (n7) waits in the"),
        (with_odd(process((), "Z")), Cause.DEAD_PEER, ("w.7",), "the program of w.7 (n7) has ended, and 7 others wait"),
        (with_odd(process(GATHERS)), Cause.DEADLOCK, ("w.7",), "different collective operations: w.7 (n7) in all_gat"),
        (with_odd(process(LOCKED)), Cause.STRAGGLER_CODE, ("w.7",), "w.7 (n7) waits in acquire (ann/pool.py:8), while"),
        (members(3, LOCKED), Cause.DEADLOCK, (), "all 3 members wait for locks"),
        (members(8), Cause.NETWORK, (), "what one sends does not arrive at another"),
    ],
)
def test_the_cause_is_read_from_states_and_stacks(
    stacks: list[TaskStacks], cause: Cause, accused: tuple[str, ...], said: str
) -> None:
    verdict = judge(stacks, {})
    assert (verdict.cause, verdict.tasks) == (cause, accused)
    assert said in verdict.why


def test_launchers_and_workers_of_loaders_are_not_taken_for_what_trains() -> None:
    worker = process((f"_worker_loop ({TORCH}/utils/data/_utils/worker.py:275)",), pid=30)
    stacks = [task(index, process(AGENT), process(REDUCES, pid=20), worker) for index in range(3)]
    stacks.append(task(3, process(AGENT), process(SPINS, "R", 20), worker))
    assert judge(stacks, {}).tasks == ("w.3",)


def test_a_device_that_fails_is_the_cause_whatever_the_stacks_say() -> None:
    verdict = judge(with_odd(process(SPINS, "R")), {"n2": "gpu 0 fails: GPU is lost"})
    assert (verdict.cause, verdict.tasks) == (Cause.GPU, ("w.2",))
    assert verdict.why == "w.2 runs on n2, where gpu 0 fails: GPU is lost"


GROUP = Group("train-00000001", "w")
SAMPLE = 60.0
QUICK = Limits(gone=200.0)


@dataclass
class World:
    """A component of some members, each of which uses ``cpu`` cores and reports while ``steps`` is set."""

    size: int = 4
    every: float = 60.0
    limits: Limits = QUICK
    now: float = 0.0
    step: int = 0
    stacks: Sequence[TaskStacks] = ()
    printed: float | None = None
    group: Group = GROUP
    attempt: int = 1
    found: list[Finding] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.rules = Standstills(self.limits)
        self.stacks = members(self.size)

    def run(self, seconds: float, steps: bool, cpu: Callable[[int], float] = lambda _: 0.0, moved: int = 0) -> None:
        until = self.now + seconds
        keys = [Attempt(self.group.job_id, "w", f"w.{index}", self.attempt) for index in range(self.size)]
        tasks = [(key, TaskSample(key="", cpu=cpu(index), written=moved)) for index, key in enumerate(keys)]
        while self.now < until:
            self.now += self.every
            self.step += steps
            points = [(keys[0], OwnPoint("", "loss", self.step, 0.5, self.now))] if steps else []
            self.rules.feed(self.now, tasks, points, lambda _: self.group)
            for group in self.rules.due(self.now):
                finding = self.rules.judged(group, Evidence(self.stacks, {}, self.printed), self.now)
                self.found += [finding] if finding else []
            self.found += self.rules.take_ended()

    @property
    def states(self) -> list[FindingState]:
        return [finding.state for finding in self.found]


def test_a_hang_is_suspected_after_one_window_and_confirmed_after_two() -> None:
    world = World(stacks=())
    world.run(1200, steps=True)
    world.stacks = with_odd(process(SPINS, "R"), count=4)
    world.run(540, steps=False)
    assert not world.found
    world.run(60, steps=False)
    assert world.states == [FindingState.SUSPECTED]
    world.run(600, steps=False, cpu=lambda index: index == 3)
    assert world.states == [FindingState.SUSPECTED, FindingState.CONFIRMED]
    found = world.found[-1]
    assert (found.cause, found.tasks, found.sure) == (Cause.STRAGGLER_CODE, ("w.3",), 0.8)
    assert found.text == (
        "w has made no progress since step 20 for 20m. Cause: straggler-code: w.3 (n3) runs in augment "
        "(ann/data.py:12), while 3 others wait in all_reduce (distributed/distributed_c10d.py:2810)."
    )
    world.run(7200, steps=False)
    assert len(world.found) == 2, "it is said once"
    world.run(60, steps=True)
    assert world.states[2:] == [FindingState.RESOLVED]


def test_new_members_are_judged_anew() -> None:
    world = World()
    world.run(1200, steps=True)
    world.run(1200, steps=False)
    assert world.states == [FindingState.SUSPECTED, FindingState.CONFIRMED]
    world.attempt = 2
    world.run(3000, steps=False)
    assert world.states[2:] == [FindingState.RESOLVED]


def test_a_member_that_leads_may_evaluate_for_an_hour_and_a_checkpoint_may_take_as_long() -> None:
    for cpu, moved, printed in ((1.0, 0, None), (0.0, 200 << 20, None), (0.0, 0, 5.0)):
        world = World(printed=printed)
        world.run(1200, steps=True)
        if cpu:
            world.stacks = [task(0, process(SPINS, "R")), *members(4)[1:]]
        world.run(3540, steps=False, cpu=lambda _, cpu=cpu: cpu, moved=moved)  # type: ignore[misc]
        assert not world.found
        world.run(3000, steps=False, cpu=lambda _, cpu=cpu: cpu, moved=moved)  # type: ignore[misc]
        assert world.states == [FindingState.SUSPECTED, FindingState.CONFIRMED]


def test_the_first_step_may_take_an_hour_and_pauses_that_ended_well_are_known() -> None:
    world = World()
    world.run(3000, steps=False)
    world.run(600, steps=True)
    for _ in range(3):
        world.run(540, steps=False)
        world.run(300, steps=True)
    world.run(1500, steps=False)
    assert not world.found, "three times the longest pause"
    world.run(300, steps=False)
    assert world.states == [FindingState.SUSPECTED]


def test_a_job_that_reports_nothing_is_not_judged_unless_its_members_wait_for_one_another() -> None:
    for trains, states in ((False, []), (True, [FindingState.SUSPECTED, FindingState.CONFIRMED])):
        world = World(group=Group(GROUP.job_id, "w", trains))
        world.run(7200, steps=False)
        assert world.states == states
    world = World(group=Group(GROUP.job_id, "w", True))
    world.run(14400, steps=False, cpu=lambda index: 0.5)
    assert not world.found, "it works"


def test_a_program_that_waits_for_users_is_not_accused() -> None:
    world = World(size=1, stacks=[task(0, process(("accept (/srv/app.py:3)",)))])
    world.stacks = [task(0, process(("accept (/srv/app.py:3)",)))]
    world.run(1200, steps=True)
    world.run(50_000, steps=False)
    assert not world.found


DAY = 86_400.0


def life(kind: int, chance: random.Random) -> Iterator[tuple[float, bool, float, int, str]]:
    """What a job of this kind does for ever: seconds, whether it reports in that time, cores of its first member and of
    the others by turns, bytes per second, and where its first member is meanwhile."""
    yield chance.uniform(0, 3500), False, 1.0, 0, "S"  # compiles, loads data
    while True:
        yield chance.uniform(600, 7200), True, 1.0, 0, "S"
        match kind:
            case 0:  # evaluates on the first member; the others wait
                yield chance.uniform(60, 3400), False, 1.0, 0, "R"
            case 1:  # writes a checkpoint to a share
                yield chance.uniform(60, 3400), False, 0.0, 300 << 20, "D"
            case 2:  # all evaluate
                yield chance.uniform(60, 3400), False, 1.0, 0, "all"
            case _:  # an interactive session: works when its user does
                yield chance.uniform(60, 30_000), False, 0.0, 0, "idle"


def doing(where: str, size: int) -> list[TaskStacks]:
    match where:
        case "R":
            return [task(0, process(SPINS, "R")), *members(size)[1:]]
        case "D":
            return [task(0, process(("save (/home/ann/train.py:90)",), "D")), *members(size)[1:]]
        case "all":
            return [task(index, process(SPINS, "R")) for index in range(size)]
        case "idle":
            return [task(index, process(("select (/usr/lib/python3.11/selectors.py:468)",))) for index in range(size)]
    return members(size)


def test_a_day_of_two_hundred_nodes_with_evaluations_checkpoints_and_long_first_steps_has_no_false_alarm() -> None:
    chance = random.Random(28)
    for job in range(50):  # of four nodes each
        kind, size = job % 4, 1 if job % 4 == 3 else 4
        world = World(size=size, every=240.0, limits=Limits(gone=1000.0))
        for seconds, reports, cpu, moved, where in life(kind, chance):
            world.stacks = doing(where, size)
            world.run(seconds, reports, lambda _, cpu=cpu: cpu, moved)  # type: ignore[misc]
            if world.now >= DAY:
                break
        assert not world.found, (job, world.found[0].text)
