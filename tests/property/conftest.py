"""Tests that compute for as long as they run: beside other workers they take several times as long as alone."""

from __future__ import annotations

from pathlib import Path

import pytest

HERE = Path(__file__).parent
SECONDS = 240


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if HERE in item.path.parents and item.get_closest_marker("timeout") is None:
            item.add_marker(pytest.mark.timeout(SECONDS))
