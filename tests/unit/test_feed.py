"""The threads that wake the API's waiting requests."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from grass.model.event_kind import EventKind
from grass.model.job import Component, Job
from grass.store.api_store import ApiStore
from grass.store.backend import Entry
from grass.store.keys import Keys
from grass.wire.codec import encode
from grass.wire.job_record import first_record
from master.api.feed import Feed
from tests.doubles.memory_backend import MemoryBackend
from tests.support.waiting import wait_until

KEYS = Keys("grass:test:")
RECORD = first_record(Job("j", {"t": Component("t", "true")}, ("t",)), job_id="j-1", user="ann", now=1.0)


class Backend(MemoryBackend):
    """Knows which streams were waited for."""

    def __init__(self) -> None:
        super().__init__()
        self.followed: list[str] = []

    def wait(self, after: dict[str, str], seconds: float, limit: int) -> dict[str, list[Entry]]:
        self.followed += after
        return super().wait(after, seconds, limit)

    def end(self, name: str) -> None:
        record = RECORD if name == RECORD.name else first_record(Job(name, {}, ()), job_id=name, user="ann", now=1.0)
        self.apply([("XADD", KEYS.ends, 10, "id", record.id, "record", encode(record))])


@pytest.fixture
def backend() -> Backend:
    return Backend()


@pytest.fixture
def feed(backend: Backend) -> Iterator[Feed]:
    feed = Feed(ApiStore(backend, KEYS), 0.05)
    yield feed
    feed.close()


def happen(backend: Backend, job: str) -> None:
    ApiStore(backend, KEYS).log_event(EventKind.JOB_RUNNING, "ann", f"job {job}: running", job=job)


def test_news_that_cannot_be_read_wake_everybody_and_later_news_are_heard(
    backend: Backend, feed: Feed, caplog: pytest.LogCaptureFixture
) -> None:
    with feed.listen("j", until_end=True) as woken:
        backend.apply([("XADD", KEYS.ends, 10, "nonsense", "x")])
        assert woken.wait(20)
        woken.clear()
        wait_until(lambda: "news of the store cannot be read" in caplog.text)
        backend.end("j")
        assert woken.wait(20)
    assert caplog.text.count("cannot be read") == 1


def test_who_waits_for_an_end_is_woken_by_that_alone_and_nobody_reads_the_events(backend: Backend, feed: Feed) -> None:
    with feed.listen("j", until_end=True) as woken, feed.listen("other", until_end=True) as other:
        happen(backend, "j")
        backend.end("other")
        assert other.wait(20) and not woken.is_set()
        backend.end("j")
        assert woken.wait(20)
        assert feed.ended_job("j-1") == RECORD
    assert set(backend.followed) == {KEYS.ends}


def test_events_are_followed_as_long_as_somebody_listens_and_from_then_on(backend: Backend, feed: Feed) -> None:
    for number in range(3):
        happen(backend, "j")  # nobody listens
        with feed.listen("j") as woken, feed.listen() as everything:
            assert not woken.wait(0.06), number  # that was before
            happen(backend, "j")
            assert woken.wait(20) and everything.wait(20)
        wait_until(lambda: not feed.reads_events)


def test_a_feed_that_closes_wakes_all_and_ends_its_threads_whether_they_rest_or_not(feed: Feed) -> None:
    with feed.listen("j") as woken, feed.listen("j", until_end=True) as ended:
        feed.stop()
        assert woken.is_set() and ended.is_set()
    feed.close()
