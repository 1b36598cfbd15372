"""Work queues: what steps do to items, and the desk that carries them out over a store in memory."""

from __future__ import annotations

import json
import random
import threading
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import pytest
from msgspec import Raw

from grass.api.task_token import job_secret, message_code, task_token
from grass.errors import (
    ConflictError,
    InputError,
    NotAllowedError,
    NotFoundError,
    UndecodableError,
    UnreachableError,
)
from grass.model.job import Component, Job
from grass.model.lifecycle import TaskState
from grass.store.api_store import ApiStore
from grass.store.keys import Keys
from grass.store.queue_store import QueueLink
from grass.wire.codec import encode
from grass.wire.job_record import first_record
from grass.wire.keys import AttemptKey
from grass.wire.queue_api import (
    MOST_ITEM,
    MOST_TOGETHER,
    QUEUE_STEP,
    NewItem,
    QueueAnswer,
    QueueCall,
    QueueRecord,
    TallyRecord,
)
from grass.wire.task_record import TaskRecord
from master.api.queue_book import MOST_OF_USER, Asked, Book
from master.api.queue_desk import Desk
from master.api.queue_state import MOST_ITEMS, WorkQueue
from node.membership.queues import Queues
from tests.doubles.memory_backend import MemoryBackend
from tests.support.waiting import wait_until

KEYS = Keys("grass:local:")
RECORD = QueueRecord(user="ann", created=0.0, lease=60.0, tries=2)
JOB = Job("j", {"w": Component("w", ("true",))}, ("w",))
ANNS, BOBS = "a-00000001/w.0/1", "b-00000002/w.0/1"


def work_queue(*values: str) -> WorkQueue:
    queue = WorkQueue(RECORD, {}, TallyRecord())
    queue.put([NewItem(value) for value in values])
    return queue


def names(queue: WorkQueue, lease: str, holder: str, count: int = 1, until: float = 100.0) -> list[str]:
    return [item.name for item in queue.get(count, lease, holder, until)]


def test_items_are_given_out_in_order_each_to_one_holder() -> None:
    queue = work_queue("a", "b", "c")
    assert names(queue, "l1", "x", 2) == ["1", "2"] and names(queue, "l2", "y", 2) == ["3"]
    assert names(queue, "l3", "y") == [] and (queue.ready, queue.leased) == (0, 3)


def test_a_repeated_lease_gets_the_same_items_and_another_holder_does_not() -> None:
    queue = work_queue("a", "b", "c")
    assert names(queue, "l1", "x", 2) == names(queue, "l1", "x", 2) == ["1", "2"]
    assert names(queue, "l1", "y") == ["3"]


def test_only_who_holds_an_item_by_this_lease_ends_it_and_only_once() -> None:
    queue = work_queue("a")
    queue.get(1, "l1", "x", 100.0)
    assert queue.acknowledge("l1", "y", ["1"]) == queue.acknowledge("l2", "x", ["1"]) == []
    assert queue.acknowledge("l1", "x", ["1", "1"]) == ["1"] and queue.acknowledge("l1", "x", ["1"]) == []
    assert (queue.ready, queue.leased, queue.tally.done, queue.bytes) == (0, 0, 1, 0)


def test_an_item_whose_lease_ended_is_given_out_again_before_later_ones_and_its_first_holder_cannot_end_it() -> None:
    queue = work_queue("a", "b")
    queue.get(1, "l1", "x", until=100.0)
    queue.expire(99.0)
    assert queue.leased == 1
    queue.expire(100.0)
    assert names(queue, "l2", "y") == ["1"] and queue.acknowledge("l1", "x", ["1"]) == []


def test_an_extended_lease_ends_later() -> None:
    queue = work_queue("a")
    queue.get(1, "l1", "x", until=100.0)
    assert queue.extend("l1", "x", ["1"], 200.0) == ["1"]
    queue.expire(150.0)
    assert queue.leased == 1
    queue.expire(200.0)
    assert queue.leased == 0


def test_an_item_that_failed_as_often_as_it_may_is_a_dead_letter_and_can_be_revived() -> None:
    queue = work_queue("a", "b")
    queue.get(1, "l1", "x", 100.0)
    queue.reclaim("x")
    queue.get(1, "l2", "y", 100.0)
    queue.give_back("l2", "y", ["1"], "its holder gave it up")
    assert (queue.ready, queue.dead) == (1, 1)
    dead = queue.views(10)[0]
    assert (dead.name, dead.state, dead.dead) == ("1", "dead", "its holder gave it up, at try 2 of 2")
    assert queue.revive(["2"]) == [] and queue.revive([]) == ["1"]
    assert queue.get(1, "l3", "x", 100.0)[0].tries == 1


def test_an_item_can_be_buried_at_its_first_try() -> None:
    queue = work_queue("a")
    queue.get(1, "l1", "x", 100.0)
    assert queue.give_back("l1", "x", ["1"], "no", bury=True) == ["1"] and queue.dead == 1


def test_a_name_that_is_in_the_queue_is_not_put_again() -> None:
    queue = work_queue()
    assert queue.put([NewItem("a", "one"), NewItem("b", "one"), NewItem("c")]) == ["one", "3"]
    assert [queue.items[name].value for name in queue.items] == ["a", "c"]


def test_an_item_without_a_name_is_put_though_another_one_has_its_number_for_a_name() -> None:
    queue = work_queue()
    assert queue.put([NewItem("a", "2"), NewItem("b"), NewItem("c", "2")]) == ["2", "3"]
    assert [item.value for item in queue.items.values()] == ["a", "b"]


def test_leases_that_are_over_take_no_memory_until_their_time_comes() -> None:
    queue = work_queue("a")
    for number in range(5_000):
        queue.extend("l", "x", ["1"], 1e6) if number else queue.get(1, "l", "x", 1e6)
    assert len(queue._ends) < 1_100


@pytest.mark.parametrize("seed", range(5))
def test_whatever_happens_each_item_is_done_once_or_still_there(seed: int) -> None:
    chance, now = random.Random(seed), 0.0
    queue, held, done = work_queue(*map(str, range(30))), [], []
    for number in range(400):
        now += chance.random() * 20
        holder = f"h{chance.randrange(4)}"
        match chance.randrange(6):
            case 0 | 1:
                lease = f"l{number}"
                held += [(lease, holder, name) for name in names(queue, lease, holder, 3, now + 30)]
            case 2 | 3 if held:
                lease, holder, name = chance.choice(held)
                done += queue.acknowledge(lease, holder, [name])
            case 4:
                queue.reclaim(holder)
            case _:
                queue.expire(now)
        assert queue.ready + queue.leased + queue.dead + len(done) == 30
        # what a restart reads is the same queue
        again = WorkQueue(RECORD, dict(queue.items), queue.tally)
        assert (again.ready, again.leased, again.dead, again.bytes) == (
            queue.ready,
            queue.leased,
            queue.dead,
            queue.bytes,
        )
    assert len(done) == len(set(done)) > 0


class World:
    """Two users with a job each, and the desk of an API server."""

    def __init__(self) -> None:
        self.backend = MemoryBackend()
        self.store = ApiStore(self.backend, KEYS)
        self.now = 1000.0
        for key, user in ((ANNS, "ann"), (BOBS, "bob")):
            self.task(key)
            record = first_record(JOB, job_id=AttemptKey.parse(key).job_id, user=user, now=1.0)
            self.backend.apply([("HSET", KEYS.jobs, record.id, encode(record))])
        self.desk = self.open()
        self.node = Queues(QueueLink(self.backend, KEYS, "n1"), "n1", margin=5.0)

    def open(self) -> Desk:
        desk = Desk(self.store, lambda: "master", lambda: self.now, 0.02)
        desk.start()
        return desk

    def restart(self) -> None:
        self.desk.close()
        self.desk = self.open()

    def task(self, key: str, state: TaskState = TaskState.RUNNING) -> None:
        parsed = AttemptKey.parse(key)
        record = TaskRecord(state=state, attempt=parsed.attempt)
        self.backend.apply([("HSET", KEYS.tasks(parsed.job_id), str(parsed.task), encode(record))])

    def user(self, queue: str, user: str = "ann", wait: float = 0.0, **step: Any) -> QueueAnswer:
        decoded = QUEUE_STEP.decode(json.dumps(step))
        return self.desk.ask(queue, decoded, user=user, everything=user == "root", wait=wait)

    def of_task(self, queue: str, key: str = ANNS, **step: Any) -> QueueAnswer:
        token = task_token(job_secret("master", AttemptKey.parse(key).job_id), key)
        return self.node.step(AttemptKey.parse(key), token, queue, json.dumps(step).encode())


@pytest.fixture
def world() -> Iterator[World]:
    made = World()
    made.user("q", step="create", lease=60, tries=2)
    yield made
    made.desk.close()


def test_a_task_puts_gets_and_finishes_items_of_its_user(world: World) -> None:
    assert world.of_task("q", step="put", items=[{"value": "a"}, {"value": "b", "name": "n"}]).names == ("1", "n")
    got = world.of_task("q", step="get", count=5)
    assert [(item.name, item.value, item.tries) for item in got.items] == [("1", "a", 1), ("n", "b", 1)]
    assert world.of_task("q", step="finish", lease=got.lease, names=["1"]).names == ("1",)
    assert world.of_task("q", step="finish", lease=got.lease, names=["n"], how="retry").ready == 1
    view = world.desk.views(lambda _: True, "q")[0]
    assert (view.ready, view.leased, view.done, view.items[0].holder) == (1, 0, 1, ANNS)


def test_no_user_and_no_task_touches_a_queue_of_another_user(world: World) -> None:
    with pytest.raises(NotAllowedError, match="another user"):
        world.user("q", "bob", step="get")
    with pytest.raises(NotAllowedError, match="another user"):
        world.of_task("q", BOBS, step="get")
    with pytest.raises(NotAllowedError, match="another user"):
        world.user("q", "bob", step="create", lease=60, tries=2)
    assert world.desk.views(lambda user: user == "bob") == []
    assert world.user("q", "root", step="look").ready == 0


def test_a_step_with_a_wrong_code_is_dropped(world: World) -> None:
    call = QueueCall(id="1", node="n1", attempt=ANNS, queue="q", wait=0.0, step=Raw(b'{"step":"delete"}'))
    forged = task_token(job_secret("master", AttemptKey.parse(BOBS).job_id), BOBS)
    QueueLink(world.backend, KEYS, "n1").ask(message_code(forged, encode(call)), encode(call))
    wait_until(lambda: not world.store.queues.calls("0-0", 0), 5)
    assert world.user("q", step="look").ready == 0


def test_an_item_that_comes_back_goes_to_who_waits(world: World) -> None:
    world.user("q", step="put", items=[{"value": "a"}])
    first = world.of_task("q", step="get")
    assert world.user("q", step="finish", lease=first.lease, names=["1"]).names == ()  # it is the task's
    world.now += 61
    assert world.of_task("q", step="get", wait=5).items[0].tries == 2
    assert world.of_task("q", step="finish", lease=first.lease, names=["1"]).names == ()


def test_items_of_an_attempt_that_has_ended_are_given_out_again(world: World) -> None:
    world.user("q", step="put", items=[{"value": "a"}])
    world.of_task("q", step="get")
    assert world.user("q", step="get").items == ()
    world.task(ANNS, TaskState.FAILED)
    assert [item.tries for item in world.user("q", wait=5, step="get").items] == [2]


def test_attempts_that_ended_while_they_waited_do_not_use_up_the_tries_of_an_item(world: World) -> None:
    keys = [f"a-00000001/w.{index}/1" for index in range(3)]

    def get(key: str) -> None:
        with suppress(UnreachableError):  # nobody answers it
            world.of_task("q", key, step="get", wait=25)

    for key in keys:
        world.task(key)
        threading.Thread(target=get, args=[key], daemon=True).start()
    wait_until(lambda: len(world.store.queues.calls("0-0", 0)) == 3, 5)
    for key in keys:
        world.task(key, TaskState.FAILED)
    world.user("q", step="put", items=[{"value": "a"}])
    wait_until(lambda: not world.store.queues.calls("0-0", 0), 10)
    [item] = world.user("q", step="get", wait=5).items
    assert item.tries <= 2  # at most one of them got it, before the desk looked who has ended


def test_an_item_that_lost_a_try_is_not_given_to_an_attempt_that_ended_before_its_call_was_read(world: World) -> None:
    book = Book(world.store, lambda: world.now)

    def get(index: int) -> list[int]:
        key = f"a-00000001/w.{index}/1"
        asked = Asked("q", QUEUE_STEP.decode('{"step":"get"}'), "ann", key, 0.0, str(index))
        return [item.tries for item in book.step(asked).items]

    for index in range(4):
        world.task(f"a-00000001/w.{index}/1", TaskState.RUNNING if index == 3 else TaskState.FAILED)
    world.user("q", step="put", items=[{"value": "a"}])
    assert (get(0), get(1), get(2), get(3)) == ([1], [], [], [2])


def test_an_empty_snapshot_that_is_not_written_yet_can_be_restored(world: World) -> None:
    book = Book(world.store, lambda: world.now)

    def step(text: str) -> QueueAnswer:
        return book.step(Asked("q", QUEUE_STEP.decode(text), "ann", "user:ann", 0.0, "1"))

    step('{"step":"snapshot","name":"s"}')
    step('{"step":"put","items":[{"value":"a"}]}')
    assert step('{"step":"restore","name":"s"}').ready == 0


def test_a_repeated_step_gets_the_first_answer_also_from_the_next_api_server(world: World) -> None:
    put = {"step": "put", "items": [{"value": "a"}, {"value": "b"}], "id": "0" * 16}
    get = {"step": "get", "id": "1" * 16}
    done = {"step": "finish", "lease": "1" * 16, "names": ["1"], "id": "2" * 16}
    first = [world.of_task("q", **step) for step in (put, get, done)]
    world.restart()
    assert world.of_task("q", **put).names == first[0].names == ("1", "2")
    assert world.of_task("q", **done).names == first[2].names == ("1",)
    look = world.user("q", step="look")
    assert (look.ready, look.leased, look.done) == (1, 0, 1)


def test_a_repeated_restore_ends_no_lease_and_a_repeated_deletion_is_no_error(world: World) -> None:
    world.user("q", step="put", items=[{"value": "a"}])
    world.user("q", step="snapshot", name="s")
    restore, delete = {"step": "restore", "name": "s", "id": "3" * 16}, {"step": "delete", "id": "4" * 16}
    world.of_task("q", **restore)
    got = world.of_task("q", step="get")
    assert world.of_task("q", step="finish", lease=got.lease, names=["1"]).names == ("1",)
    world.restart()
    world.of_task("q", **restore)
    assert world.user("q", step="look").ready == 0
    assert world.of_task("q", **delete) == world.of_task("q", **delete)


def test_a_repetition_that_is_read_together_with_the_first_try_gets_its_answer(world: World) -> None:
    world.user("q", step="put", items=[{"value": "a"}])
    got = world.of_task("q", step="get")
    world.desk.close()
    step = encode({"step": "finish", "lease": got.lease, "names": ["1"], "id": "2" * 16})
    link, token = QueueLink(world.backend, KEYS, "n2"), task_token(job_secret("master", "a-00000001"), ANNS)
    for number in "12":
        call = QueueCall(id=number, node="n2", attempt=ANNS, queue="q", wait=0.0, step=Raw(step.encode()))
        link.ask(message_code(token, encode(call)), encode(call))
    world.desk = world.open()
    wait_until(lambda: len(link.answers("0-0", 0)[1]) == 2, 5)
    assert [each.answer and each.answer.names for each in link.answers("0-0", 0)[1]] == [("1",), ("1",)]


def test_a_lease_outlives_the_api_server_and_a_step_that_waits_is_answered_by_the_next_one(world: World) -> None:
    world.user("q", step="put", items=[{"value": "a"}])
    got = world.of_task("q", step="get", id="1" * 16)
    waiting: list[QueueAnswer] = []
    world.user("of-bob", "bob", step="create")
    thread = threading.Thread(target=lambda: waiting.append(world.of_task("of-bob", BOBS, step="get", wait=20)))
    thread.start()
    wait_until(lambda: len(world.store.queues.calls("0-0", 0)) == 1, 5)
    world.restart()
    assert world.of_task("q", step="get", id="1" * 16).items == got.items
    world.user("of-bob", "bob", step="put", items=[{"value": "b"}])
    thread.join(20)
    assert [item.value for item in waiting[0].items] == ["b"]
    assert world.store.queues.calls("0-0", 0) == []


def test_a_server_that_was_replaced_writes_nothing_more(world: World) -> None:
    world.user("q", step="put", items=[{"value": "a"}])
    late, world.desk = world.desk, world.open()
    world.user("q", step="put", items=[{"value": "b"}])
    with pytest.raises(UnreachableError, match="taken over"):
        late.ask("q", QUEUE_STEP.decode('{"step":"get"}'), user="ann", everything=False, wait=0)
    late.close()
    assert world.user("q", step="look").ready == 2


def test_a_snapshot_has_what_was_not_done_and_ends_leases_when_it_is_restored(world: World) -> None:
    world.user("q", step="put", items=[{"value": value} for value in "abc"])
    got = world.of_task("q", step="get", count=2)
    world.of_task("q", step="finish", lease=got.lease, names=["1"])
    world.user("q", step="snapshot", name="epoch-1")
    world.of_task("q", step="finish", lease=got.lease, names=["2"])
    world.restart()
    restored = world.user("q", step="restore", name="epoch-1")
    assert (restored.ready, restored.leased, restored.done) == (2, 0, 0)
    world.restart()
    assert [item.value for item in world.user("q", step="get", count=9).items] == ["b", "c"]
    with pytest.raises(NotFoundError, match="it has epoch-1"):
        world.user("q", step="restore", name="other")


def test_a_queue_keeps_its_newest_snapshots(world: World) -> None:
    for number in range(10):
        world.user("q", step="snapshot", name=f"s{number}")
    assert world.desk.views(lambda _: True, "q")[0].snapshots == tuple(f"s{number}" for number in range(2, 10))


def test_a_deleted_queue_leaves_nothing_behind(world: World) -> None:
    world.user("q", step="put", items=[{"value": "a"}])
    world.user("q", step="snapshot", name="s")
    world.user("q", step="delete")
    assert world.backend.hgetall(KEYS.queue("q")) == world.backend.hgetall(KEYS.queue_snapshots("q")) == {}
    with pytest.raises(NotFoundError, match="grass queue create"):
        world.user("q", step="look")


def test_a_queue_of_a_job_goes_with_the_job(world: World) -> None:
    name = f"{AttemptKey.parse(ANNS).job_id}:q"
    world.of_task(name, step="create")
    with pytest.raises(NotAllowedError, match="is of another user"):
        world.of_task(f"{AttemptKey.parse(BOBS).job_id}:q", step="create")
    book = Book(world.store, lambda: world.now)
    book.remove_with_jobs()
    assert book.writes() == []
    world.backend.apply([("HDEL", KEYS.jobs, AttemptKey.parse(ANNS).job_id)])
    book.remove_with_jobs()
    assert ("HDEL", KEYS.queues, name) in book.writes()


def test_limits_of_items_queues_and_bytes_are_refused_with_what_to_do(world: World) -> None:
    with pytest.raises(ConflictError, match=r"exists with lease 60 s and 2 tries"):
        world.user("q", step="create")
    with pytest.raises(InputError, match="this is no name"):
        world.user("../q", step="create")
    big = [NewItem(str(number)) for number in range(MOST_ITEMS + 1)]
    with pytest.raises(ConflictError, match="more than 100,000 items"):
        work_queue().put(big)
    for number in range(MOST_OF_USER - 1):
        world.user(f"q{number}", step="create")
    with pytest.raises(ConflictError, match="may have 100"):
        world.user("one-more", step="create")


@pytest.mark.parametrize(
    "step",
    [
        {"step": "put", "items": [{"value": "x" * (MOST_ITEM + 1)}]},
        {"step": "put", "items": [{"value": "a", "name": "a b"}]},
        {"step": "put", "items": [{}] * (MOST_TOGETHER + 1)},
        {"step": "get", "count": 0},
        {"step": "get", "seconds": -1},
        {"step": "finish", "lease": "l", "names": [], "how": "maybe"},
        {"step": "create", "tries": 0},
        {"step": "jump"},
        {},
    ],
)
def test_a_step_that_is_not_allowed_is_refused_before_it_is_sent(world: World, step: dict[str, Any]) -> None:
    with pytest.raises(UndecodableError):
        world.of_task("q", **step)
