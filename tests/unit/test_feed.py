"""The thread that wakes the API's waiting requests, while its store does not do what it should."""

from __future__ import annotations

import pytest

from grass.model.event_kind import EventKind
from grass.store.api_store import ApiStore
from grass.store.keys import Keys
from grass.store.memory import MemoryBackend
from master.api.feed import Feed
from tests.support.waiting import wait_until

KEYS = Keys("grass:test:")


def test_news_that_cannot_be_read_wake_everybody_and_later_news_are_heard(caplog: pytest.LogCaptureFixture) -> None:
    backend = MemoryBackend()
    store = ApiStore(backend, KEYS)
    feed = Feed(store, 0.05)
    try:
        with feed.listen("j") as woken:
            backend.apply([("XADD", KEYS.ends, 10, "nonsense", "x")])
            assert woken.wait(20)
            woken.clear()
            wait_until(lambda: "news of the store cannot be read" in caplog.text)
            store.log_event(EventKind.JOB_STOPPED, "ann", "job j: stopped", job="j")
            assert woken.wait(20)
    finally:
        feed.close()
    assert caplog.text.count("cannot be read") == 1
