"""Fixtures that several groups of tests share: a real redis, a real local cluster."""

from __future__ import annotations

import gc
from collections.abc import Generator, Iterator

import pytest
from hypothesis import settings
from xdist.remote import Producer

from grass.manifest.local_settings import LocalSettings, OfferedResources
from grass.store.embedded import NoRedisError, find_server
from tests.support.examples import NEW, SAME
from tests.support.local_cluster import LocalCluster
from tests.support.needs import missing, require_root
from tests.support.redis_server import RedisServer
from tests.support.workers import ByGroup, in_turn

pytest_plugins = ["tests.support.failed_tests", "tests.support.time_limit"]

# How long an example takes says nothing on a machine that others use. The same examples in every run: what is looked
# for with new ones (`--long`) is not found in somebody else's change.
settings.register_profile(SAME, deadline=None, derandomize=True)
settings.register_profile(NEW, deadline=None)
settings.load_profile(SAME)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--long",
        action="store_true",
        help="what is for the night, too: second systems and labs, 100,000 random clusters, each step of a create",
    )


def pytest_configure(config: pytest.Config) -> None:
    if config.getoption("--long"):
        settings.load_profile(NEW)


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Collect without searches for garbage, and leave what was collected out of later ones: it stays until the end."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()
        gc.freeze()


@pytest.hookimpl(trylast=True)  # after pytest-randomly
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    later = [] if config.getoption("--long") else [item for item in items if item.get_closest_marker("nightly")]
    if later:
        config.hook.pytest_deselected(items=later)
    items[:] = in_turn(item for item in items if item not in later)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> ByGroup:
    config.option.loadscopereorder = False  # else modules with many tests go first, however short these are
    return ByGroup(config, log)


@pytest.fixture(scope="session")
def redis_server() -> Iterator[RedisServer]:
    """One server for the whole run, on a unix socket, with Grass's users (``backend("agent")``…).

    As ``admin`` a test uses a prefix of its own; the other users are limited to ``RedisServer.prefix``.
    """
    try:
        found = find_server()
    except NoRedisError as error:
        missing("redis", str(error))
    server = RedisServer(found)
    try:
        server.start()
        yield server
    finally:
        server.remove()


@pytest.fixture(scope="session")
def cluster() -> Iterator[LocalCluster]:
    """One local cluster for the whole run. Tests leave it running, and use job names of their own. Its node has three
    ``seats``, for tests that need a full node."""
    with LocalCluster(LocalSettings(resources=OfferedResources(custom={"seats": 3}))).running() as made:
        yield made


@pytest.fixture(autouse=True)
def _skip_what_needs_root(request: pytest.FixtureRequest) -> None:
    if request.node.get_closest_marker("needs_root"):
        require_root()
