from __future__ import annotations

import random

from grass.wire.desired import DesiredAttempt, DesiredChange
from grass.wire.launch import LaunchTemplate
from node.agent.reconcile import AHEAD, Actions, Reconciliation, launch_key
from tests.support import templates


def entry(seq: int = 1, grace: float | None = None) -> DesiredAttempt:
    return DesiredAttempt(seq, stop_grace=grace)


def template(width: int | None = None) -> LaunchTemplate:
    return templates.template(job_id="j", name="c", width=width, grace=7.0)


def of_one_job(count: int, width: int | None = None) -> Reconciliation:
    """Listed as empty; tasks ``j/c.0/1``…, whose ``seq`` is their index."""
    state = Reconciliation()
    state.listed([])
    state.apply(
        DesiredChange(launch={"j/c": template(width)}, set={key(index): entry(index) for index in range(count)})
    )
    return state


def key(index: int) -> str:
    return f"j/c.{index}/1"


def test_the_launch_key_is_the_job_and_the_component() -> None:
    assert launch_key("train-1/big-actor.12/3") == "train-1/big-actor"


def test_nothing_is_started_before_it_is_known_what_runs() -> None:
    state = Reconciliation()
    state.reset({key(0): entry()}, {"j/c": template()})
    assert state.next_actions() == Actions()
    state.listed([(key(0), False, False)])
    assert state.next_actions() == Actions()


def test_what_is_desired_is_started_once_in_the_order_of_seq() -> None:
    state = Reconciliation()
    state.listed([])
    state.apply(DesiredChange(launch={"j/c": template(), "j/d": template()}, set={key(0): entry(3), key(1): entry(1)}))
    state.apply(DesiredChange(set={"j/d.0/1": entry(2)}))
    assert state.next_actions().start == [key(1), "j/d.0/1", key(0)]
    state.apply(DesiredChange(set={key(0): entry(3)}))
    assert state.next_actions() == Actions()


def test_an_entry_waits_for_its_template() -> None:
    state = Reconciliation()
    state.listed([])
    state.apply(DesiredChange(set={key(0): entry()}))
    assert state.next_actions() == Actions()
    state.apply(DesiredChange(launch={"j/c": template()}))
    assert state.next_actions().start == [key(0)]


def test_an_array_is_handed_over_a_little_beyond_its_width_and_then_one_by_one() -> None:
    state = of_one_job(200, width=2)
    assert state.next_actions().start == [key(index) for index in range(2 + AHEAD)]
    state.note_end(key(1))
    state.note_end(key(0))
    assert state.next_actions().start == [key(2 + AHEAD), key(3 + AHEAD)]


def test_a_wider_template_lets_more_start() -> None:
    state = of_one_job(200, width=1)
    state.next_actions()
    state.apply(DesiredChange(launch={"j/c": template(width=None)}))
    assert len(state.next_actions().start) == 200 - 1 - AHEAD


def test_stopping_takes_the_grace_of_the_order_and_is_not_repeated() -> None:
    state = of_one_job(1)
    state.next_actions()
    state.apply(DesiredChange(set={key(0): entry(0, grace=3.0)}))
    assert state.next_actions().stop == {key(0): 3.0}
    state.apply(DesiredChange(set={key(0): entry(0, grace=3.0)}))
    assert state.next_actions() == Actions()
    state.apply(DesiredChange(set={key(0): entry(0, grace=0.0)}))
    assert state.next_actions().stop == {key(0): 0.0}


def test_what_is_stopped_before_it_started_never_starts_wherever_it_waits() -> None:
    state = of_one_job(100, width=1)
    state.next_actions()
    state.apply(DesiredChange(set={key(98): entry(98, grace=1.0)}))
    assert state.next_actions().not_started == [key(98)]
    for index in range(98):
        state.note_end(key(index))
    assert key(98) not in state.next_actions().start
    state.apply(DesiredChange(remove=(key(98),)))
    assert state.next_actions().forget == [key(98)]


def test_an_end_is_kept_until_it_is_removed() -> None:
    state = of_one_job(1)
    state.next_actions()
    state.note_end(key(0))
    assert state.next_actions() == Actions()
    state.apply(DesiredChange(remove=(key(0),)))
    assert state.next_actions().forget == [key(0)]


def test_what_a_runtime_lists_twice_is_forgotten_once() -> None:
    state = Reconciliation()
    for _ in range(2):
        state.listed([(key(0), True, False)])
    assert state.next_actions().forget == [key(0)]


def test_what_is_removed_while_it_runs_is_stopped_and_then_forgotten() -> None:
    state = of_one_job(1)
    state.next_actions()
    state.apply(DesiredChange(remove=(key(0),)))
    assert state.next_actions().stop == {key(0): 7.0}
    state.note_end(key(0))
    assert state.next_actions().forget == [key(0)]


def test_what_is_removed_while_it_waits_leaves_no_trace() -> None:
    state = of_one_job(100, width=1)
    state.next_actions()
    state.apply(DesiredChange(remove=(key(99),)))
    for index in range(98):
        state.note_end(key(index))
    actions = state.next_actions()
    assert key(99) not in actions.start
    assert actions.forget == actions.not_started == []


def test_after_a_restart_what_runs_goes_on_what_nobody_wants_is_stopped_and_the_rest_is_started() -> None:
    state = Reconciliation()
    state.reset({key(0): entry(0), key(1): entry(1), key(2): entry(2, grace=4.0)}, {"j/c": template()})
    state.listed([(key(0), False, False), (key(2), False, False), ("x/y.0/1", False, False), ("x/y.1/1", True, False)])
    assert state.next_actions() == Actions(
        start=[key(1)], stop={key(2): 4.0, "x/y.0/1": 10.0}, forget=["x/y.1/1"], not_started=[]
    )


def test_a_command_that_was_lost_with_the_runtime_is_repeated() -> None:
    state = of_one_job(3)
    assert state.next_actions().start == [key(0), key(1), key(2)]
    state.note_end(key(2))
    state.apply(DesiredChange(set={key(1): entry(1, grace=1.0)}))
    assert state.next_actions().stop == {key(1): 1.0}
    state.listed([(key(1), False, False), (key(2), True, False)])
    assert state.next_actions() == Actions(start=[key(0)], stop={key(1): 1.0})


def test_an_end_that_was_reported_without_the_runtime_is_not_undone_by_its_list() -> None:
    state = of_one_job(1)
    state.next_actions()
    state.note_end(key(0))  # could not be started: its port is taken
    state.listed([])
    assert state.next_actions() == Actions()


def test_reading_everything_again_changes_only_what_differs() -> None:
    state = of_one_job(3)
    state.next_actions()
    state.reset({key(0): entry(0), key(1): entry(1), key(3): entry(3)}, {"j/c": template()})
    assert state.next_actions() == Actions(start=[key(3)], stop={key(2): 7.0})


class History:
    """A random one, against a runtime that sometimes loses the newest commands."""

    def __init__(self, seed: int) -> None:
        self.luck = random.Random(seed)
        self.width = self.luck.choice([None, 1, 3])
        self.state = Reconciliation()
        self.state.apply(DesiredChange(launch={"j/c": template(self.width)}))
        self.state.listed([])
        self.runtime: dict[str, bool] = {}
        """What it knows: whether it has ended."""
        self.ran: list[str] = []
        self.desired: set[str] = set()
        self.count = 0

    def desire(self) -> None:
        self.state.apply(DesiredChange(set={key(self.count): entry(self.count)}))
        self.desired.add(key(self.count))
        self.count += 1

    def running(self) -> list[str]:
        return [each for each, ended in self.runtime.items() if not ended]

    def end_one(self) -> None:
        for each in self.running()[:1]:
            self.runtime[each] = True
            self.state.note_end(each)

    def remove_one(self) -> None:
        for each in [each for each, ended in self.runtime.items() if ended and each in self.desired][:1]:
            self.desired.discard(each)
            self.state.apply(DesiredChange(remove=(each,)))

    def lose(self) -> None:
        self.state.next_actions()
        self.state.listed([(each, ended, False) for each, ended in self.runtime.items()])

    def act(self) -> None:
        actions = self.state.next_actions()
        self.ran += actions.start
        self.runtime.update(dict.fromkeys(actions.start, False))
        for each in actions.forget:
            self.runtime.pop(each, None)
        assert self.width is None or len(self.running()) <= self.width + AHEAD

    def step(self) -> None:
        self.luck.choice([self.desire, self.desire, self.end_one, self.remove_one, self.lose, self.act])()

    def finish(self) -> None:
        while self.desired - set(self.ran):
            before = len(self.ran)
            self.act()
            assert self.running() or len(self.ran) > before
            while self.running():
                self.end_one()


def test_whatever_happens_no_attempt_is_started_twice_and_all_that_is_desired_ends() -> None:
    for seed in range(200):
        history = History(seed)
        for _ in range(150):
            history.step()
        history.finish()
        assert len(history.ran) == len(set(history.ran)), seed


def restored(*running: str, ended: tuple[str, ...] = (), complete: bool = True) -> Reconciliation:
    """The state of a node after a restore: the backup desires attempts of the tasks 0 and 1."""
    state = Reconciliation()
    state.remember(ended, complete=complete)
    state.reset({key(index): entry(index) for index in range(2)}, {"j/c": template()})
    state.listed([(each, False, False) for each in running])
    return state


def test_after_a_restore_what_ended_is_told_and_not_started_again() -> None:
    state = restored(ended=(key(0), key(2)))
    assert state.next_actions() == Actions(start=[key(1)], ended_before=[key(0)])
    state.apply(DesiredChange(set={key(2): entry(), key(0): entry()}))  # the master gets to the attempt again
    assert state.next_actions() == Actions(ended_before=[key(2)])
    state.apply(DesiredChange(remove=(key(0),)))
    assert state.next_actions().forget == [key(0)]


def test_after_a_restore_a_node_with_gaps_in_its_records_starts_nothing_that_may_have_run() -> None:
    state = restored(key(1), complete=False)
    assert state.next_actions() == Actions(unrecorded=[key(0)])
    state.apply(DesiredChange(set={"j/c.0/2": entry()}))
    assert state.next_actions().start == ["j/c.0/2"]


def test_after_a_restore_attempts_that_nobody_desires_run_on_until_they_are_desired_again() -> None:
    state = restored(key(0), key(1), key(7), key(8))
    assert state.next_actions() == Actions()
    state.apply(DesiredChange(set={key(7): entry()}))
    assert state.next_actions() == Actions()
    assert state.release() == ([key(8)], set())
    assert state.next_actions() == Actions(stop={key(8): 7.0})
    state.listed([(each, False, False) for each in (key(0), key(1), key(7), key(8), key(9))])
    assert state.next_actions().stop == {key(8): 7.0, key(9): 7.0}


def test_a_stop_without_the_notice_comes_at_once_also_to_one_that_was_told_and_so_does_its_removal() -> None:
    for then in (DesiredChange(set={key(0): entry(grace=5.0)}), DesiredChange(remove=(key(0),))):
        state = of_one_job(1)
        state.next_actions()
        state.apply(DesiredChange(set={key(0): DesiredAttempt(1, stop_grace=5.0, notice="the node is drained")}))
        assert state.next_actions().stop == {key(0): 5.0}
        state.apply(then)
        assert list(state.next_actions().stop) == [key(0)]
