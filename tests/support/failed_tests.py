"""What failed in a run of pytest, in a file that ``tests/support/run_again.py`` reads. A plugin of pytest, loaded by
``tests/conftest.py``; it does nothing without ``--failed-tests``."""

from __future__ import annotations

import json
from pathlib import Path

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--failed-tests", type=Path, help="append each failure to this file, as a line of JSON")


def pytest_configure(config: pytest.Config) -> None:
    path = config.getoption("--failed-tests")
    if path is not None and not hasattr(config, "workerinput"):  # a worker of pytest-xdist reports to the main process
        config.pluginmanager.register(FailedTests(path))


class FailedTests:
    """Appends failures to a file. A test whose setup, call and teardown fail has three lines."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            self._append(report.nodeid, "\n".join([report.longreprtext, *(text for _, text in report.sections)]))

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if report.failed:
            self._append(report.nodeid, report.longreprtext)

    def _append(self, nodeid: str, output: str) -> None:
        with self._path.open("a") as file:
            file.write(json.dumps({"test": nodeid, "output": output}) + "\n")
