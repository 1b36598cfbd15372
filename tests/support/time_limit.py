"""The limit of a test's time. A plugin of pytest, loaded by ``tests/conftest.py``.

pytest-timeout raises an exception wherever the process is when the time is over. In a test or a fixture, this fails the
test. While pytest writes the report of a failure, it would end the whole run, and hide why the test failed. So the time
runs only in setup, test and teardown. It begins anew when it is over: cleaning up may wait for what never answers, too.
"""

from __future__ import annotations

import signal
from collections.abc import Generator, Iterator
from contextlib import contextmanager

import pytest
from pytest_timeout import Settings

_LEFT = pytest.StashKey[float]()
_SETTINGS = pytest.StashKey[Settings]()


@pytest.hookimpl(tryfirst=True)
def pytest_timeout_set_timer(item: pytest.Item, settings: Settings) -> None:
    """Remember the limit of a test. pytest-timeout sets it before the setup."""
    if settings.method == "signal" and _SETTINGS not in item.stash:
        item.stash[_SETTINGS], item.stash[_LEFT] = settings, settings.timeout


@contextmanager
def _limited(item: pytest.Item) -> Iterator[None]:
    settings = item.stash.get(_SETTINGS, None)
    if settings is None:
        yield
        return
    item.ihook.pytest_timeout_set_timer(item=item, settings=settings)
    signal.setitimer(signal.ITIMER_REAL, item.stash[_LEFT], settings.timeout)
    try:
        yield
    finally:
        item.stash[_LEFT], _ = signal.getitimer(signal.ITIMER_REAL)
        item.ihook.pytest_timeout_cancel_timer(item=item)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> Generator[None, object, object]:
    with _limited(item):
        return (yield)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, object, object]:
    with _limited(item):
        return (yield)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_teardown(item: pytest.Item) -> Generator[None, object, object]:
    with _limited(item):
        return (yield)
