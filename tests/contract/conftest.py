"""Fixtures of the contract tests of the API."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.api_world import ApiWorld, api_world


@pytest.fixture
def world(tmp_path: Path) -> Iterator[ApiWorld]:
    """A server of the API without jobs, over a store in memory."""
    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    with api_world(tmp_path) as world:
        yield world
