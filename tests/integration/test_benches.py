"""Every bench runs and prints its figures. How large these are says nothing here: each measures for a second."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterable
from pathlib import Path

import pytest
from _pytest.mark import ParameterSet

from tests.support import browser
from tests.support.bench_run import figures, printed, programs
from tests.support.engine import require_engine
from tests.support.frameworks import torch_folder
from tests.support.kubernetes import require_kubernetes
from tests.support.local_cluster import LocalCluster
from tests.support.needs import require, require_root
from tests.support.network import deaf_library

README = Path(__file__).parents[1] / "bench" / "README.md"
pytestmark = pytest.mark.timeout(180)

ONE_ROUND = ["--rounds", "1"]
SHORT = {
    "autoscale": (
        [*ONE_ROUND, "--machines", "8", "--jobs", "40", "--loads", "0.8"],
        {"rules, load 0.8: use": "%", "rules, load 0.8: urgent p95": "s"},
    ),
    "array_throughput": ([*ONE_ROUND, "--tasks", "20"], {"Grass": "/s", "HyperQueue 0.27": "/s"}),
    "create": (ONE_ROUND, {"Grass": "s", "HyperQueue 0.27": "s"}),
    "data_push": ([*ONE_ROUND, "--files", "100", "--mebibytes", "1"], {"Grass": "MiB/s", "rsync": "MiB/s"}),
    "dlrover_polls": ([*ONE_ROUND, "--agents", "5", "--seconds", "0.5"], {"master": "%", "answers": "/s"}),
    "end_latency": (["--rounds", "2"], {"Grass": "ms", "HyperQueue 0.27": "ms"}),
    "fleet": (
        [*ONE_ROUND, "--nodes", "5", "--tasks", "50", "--idle", "0.2"],
        {"5 nodes, nothing changes": "%", "5 nodes, tasks": "/s", "5 nodes, silence is noticed": "s"},
    ),
    "flood": (
        ["--seconds", "1", "--connections", "2"],
        {"job start, alone": "ms", "job start, flooded": "ms", "submissions of the other": "/min"},
    ),
    "job_list": (ONE_ROUND, {"grass job list": "ms", "python -c pass": "ms"}),
    "executor": (
        [*ONE_ROUND, "--calls", "50", "--peers"],
        {"grass.Executor.map": "/s", "ProcessPoolExecutor.map": "/s"},
    ),
    "grass_run": (ONE_ROUND, {"grass run -- true": "ms", "python -c pass": "ms"}),
    "logs": ([*ONE_ROUND, "--megabytes", "1"], {"grass job logs": "MB/s", "cat of the collector's file": "MB/s"}),
    "memory": ([*ONE_ROUND, "--tasks", "20"], {"node: agent + api": "MiB", "master: agent + api": "MiB"}),
    "node_checks": (["--most", "3"], {"Grass: innocent": "%", "DLRover: innocent": "%"}),
    "planner": (
        [*ONE_ROUND, "--nodes", "10", "20", "--tasks", "200", "--waiting", "400"],
        {"40 kinds of task, 20 nodes": "/s", "400 wait, no limits": "ms", "memory per task, view and plan": "B"},
    ),
    "queued_jobs": (
        [*ONE_ROUND, "--jobs", "50"],
        {"grass status": "s", "grass job list": "s", "ready after a restart": "s", "master-api-server": "MiB"},
    ),
    "scale": (
        [*ONE_ROUND, "--members", "5", "--idle", "1"],
        {"first instruction": "ms", "all members know": "ms", "scale-in": "ms", "5 members know": "ms"},
    ),
    "start_latency": (
        ["--rounds", "2", "--ladder"],
        {"Grass": "ms", "HyperQueue 0.27": "ms", "rested → API: opened": "ms", "row → shepherd: intent written": "ms"},
    ),
    "usage": (
        [*ONE_ROUND, "--nodes", "2", "--tasks", "1", "--seconds", "0", "--local-tasks", "3"],
        {"monitor": "%", "histories of a month": "MiB", "a node's samples": "%"},
    ),
}
"""Bench → how to make it short, and some of the figures that it prints, with their units."""

SHARING = ("array_throughput", "end_latency", "executor", "grass_run", "job_list", "logs", "memory", "scale")
"""Benches that need no cluster of their own: how long the one that they take has run changes their figures."""

OTHERS = {
    "container_start",
    "dashboard",
    "isolated_job",
    "isolated_start",
    "node_add",
    "node_idle",
    "pods",
    "pods_fleet",
    "results",
    "scale_torch",
    "soak",
    "soak_days",
    "trace",
}
"""Below; those that need hosts, in ``tests/e2e``."""


def check(bench: str, arguments: list[str], expected: dict[str, str], **environment: str) -> None:
    units = {figure["name"]: figure["unit"] for figure in figures(bench, *arguments, **environment)}
    assert expected.items() <= units.items()


EVERY_RUN = ("array_throughput", "autoscale", "job_list", "node_checks", "planner")
"""Benches that take a second or two. The others start clusters and peers; tests of every run look at what they measure,
and at each program of this folder (``tests/unit/test_habits.py``)."""


def by_day_or_night(names: Iterable[str]) -> list[ParameterSet]:
    return [pytest.param(each, marks=[] if each in EVERY_RUN else [pytest.mark.nightly]) for each in sorted(names)]


@pytest.mark.parametrize("bench", by_day_or_night(SHORT.keys() - set(SHARING)))
def test_a_bench_prints_its_figures(bench: str) -> None:
    check(bench, *SHORT[bench])


@pytest.mark.parametrize("bench", by_day_or_night(SHARING))
def test_a_bench_on_a_cluster_that_is_up_prints_its_figures(bench: str, cluster: LocalCluster) -> None:
    check(bench, *SHORT[bench], GRASS_BENCH_HOME=str(cluster.home))
    assert set(cluster.states().values()) == {"RUNNING"}


@pytest.mark.nightly
@pytest.mark.timeout(600)
def test_the_bench_of_torch_prints_its_figures_and_those_of_c10d() -> None:
    torch_folder()
    units = {figure["name"]: figure["unit"] for figure in figures("scale_torch", *ONE_ROUND, seconds=500)}
    assert {
        f"{change}, {who}" for change in ("two to three", "three to two") for who in ("Grass", "c10d")
    } <= units.keys()


@pytest.mark.nightly
def test_the_bench_of_the_executor_prints_the_figures_of_its_peers() -> None:
    short = [*ONE_ROUND, "--calls", "50", "--hyperqueue-calls", "4"]
    check("executor", short, {"grass.Executor.map": "/s", "Dask 2026.8.0": "/s", "HyperQueue 0.27.0": "/s"})


@pytest.mark.nightly  # test_docker_runtime.py starts containers in every run
def test_a_bench_with_containers_prints_its_figures() -> None:
    require_engine()
    check("container_start", ONE_ROUND, {"grass": "ms", "SDK": "ms"})
    idle = {
        f"{what}, {of}": unit for what, unit in (("CPU", "%"), ("PSS", "MiB")) for of in ("processes", "and containers")
    }
    check("node_idle", [*ONE_ROUND, "--seconds", "0.3"], idle)


@pytest.mark.nightly
def test_a_bench_with_pods_prints_its_figures() -> None:
    require_kubernetes()
    short = [*ONE_ROUND, "--created", "4", "--pods", "20", "--seconds", "0.3"]
    check("pods", short, {"pods created, Grass": "/s", "end known, Grass": "ms", "idle agent, PSS": "MiB"})


def test_the_bench_of_isolated_starts_prints_its_figures() -> None:
    require_root()
    require(shutil.which("bwrap") is not None, "bubblewrap")
    kinds = [f"{who}, {job} job" for who in ("isolated", "plain") for job in ("same", "new")]
    check("isolated_start", ["--rounds", "2"], dict.fromkeys(kinds, "ms"))


@pytest.mark.nightly  # test_dashboard.py opens its pages in every run
def test_a_bench_with_a_browser_prints_its_figures(cluster: LocalCluster, tmp_path: Path) -> None:
    require(browser.program() is not None, f"chromium: Debian's {browser.PACKAGE}")
    found = {"first useful paint": "ms", "frame, 5,000 tasks": "ms", "master, 10 page(s)": "%"}
    more = {"GRASS_BENCH_HOME": str(cluster.home), "LD_PRELOAD": str(deaf_library(tmp_path))}
    check("dashboard", [*ONE_ROUND, "--seconds", "0.5"], found, **more)
    found = {"grass job results": "s", "first rows of the page": "ms", "frame of the table": "ms", "monitor": "%"}
    check("results", ONE_ROUND, found, **more)


def test_the_replayed_trace_tells_what_each_scheduler_made_of_it() -> None:
    said = printed("trace", "--nodes", "5", "--jobs", "60", "--seeds", "1", "--load", "0.9")
    assert re.findall(r"^  (first come|EASY|Grass) +used \d+\.\d .*Jain \d\.\d+", said, re.MULTILINE) == [
        "first come",
        "EASY",
        "Grass",
    ]


@pytest.mark.nightly
def test_the_soaks_print_the_slope_of_each_figure_with_its_error() -> None:
    said = printed("soak", "--tasks", "1200", "--block", "10", "--kept", "20", "--nodes", "10")
    said += printed("soak_days", "--days", "6", "--nodes", "4", "--jobs", "12", "--kept", "20")
    found = re.findall(r"^  (\S[\w -]*?)  +[\d.e+]+ \S* +[+-][\d.e+-]+ ± \S+ ", said, re.MULTILINE)
    assert {"master-agent", "redis", "log files", "process", "timers"} <= {*found}, said


def test_no_bench_is_left_out() -> None:
    assert programs() == SHORT.keys() | OTHERS
    assert [name for name in programs() if f"{name}.py" not in README.read_text()] == []
