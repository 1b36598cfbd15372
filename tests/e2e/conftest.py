"""Everything in this folder runs on real hosts: the group ``e2e`` (``pytest -m e2e``), which needs root."""

from __future__ import annotations

import fcntl
from collections.abc import Iterator
from pathlib import Path

import pytest

from scripts.labkit.command import LabError
from tests.support.lab import SessionLab, session_lab
from tests.support.needs import missing, require_root
from tests.support.on_premises import install

HERE = Path(__file__).parent
SECONDS = 900  # the first test may have to build the images


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if HERE in item.path.parents:
            item.add_marker(pytest.mark.e2e)
            if item.get_closest_marker("timeout") is None:
                item.add_marker(pytest.mark.timeout(SECONDS))


@pytest.fixture(scope="session")
def site(tmp_path_factory: pytest.TempPathFactory, worker_id: str) -> Path:
    """A wheel of this Grass, built and installed once for all workers."""
    own = tmp_path_factory.getbasetemp()
    folder = (own if worker_id == "master" else own.parent) / "wheel"
    folder.mkdir(exist_ok=True)
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (folder / "complete").exists():
            install(folder)
            (folder / "complete").touch()
    return folder / "site"


@pytest.fixture(scope="session")
def running_lab() -> Iterator[SessionLab]:
    require_root()
    try:
        made = session_lab()
        lab = made.__enter__()
    except LabError as error:
        missing("hosts for end-to-end tests", str(error))
    try:
        yield lab
    finally:
        made.__exit__(None, None, None)


@pytest.fixture
def lab(running_lab: SessionLab) -> Iterator[SessionLab]:
    """A master and three nodes, running and connected; whatever a test cuts, kills or hangs is repaired after it."""
    yield running_lab
    running_lab.make_whole()
