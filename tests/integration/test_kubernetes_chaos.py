"""Attempts in pods of a real Kubernetes, while the network, the API server and the agent fail, as a seed says."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.api_gateway import Fault
from tests.support.examples import chosen
from tests.support.pod_chaos import STOPPED, Chaos, written
from tests.support.pod_run import PodRun, pod_run

SHORT, LONG = (1, 2), range(3, 3 + chosen(20))


@pytest.fixture(scope="module")
def run() -> Iterator[PodRun]:
    with pod_run() as made:
        yield made


@pytest.mark.nightly
@pytest.mark.parametrize("seed", [*SHORT, *LONG])
def test_each_attempt_ends_once_as_it_ended_and_its_log_is_whole(run: PodRun, seed: int) -> None:
    chaos = Chaos(run, seed)
    chaos.play()
    assert len(set(chaos.published)) == len(chaos.published), "an end was told twice"
    assert {key: chaos.ends[key] for key in chaos.codes} == {
        key: {(code, None, None)} for key, code in chaos.codes.items()
    }
    for key in chaos.codes:
        assert sorted(run.stdout(key).splitlines()) == written(key), key
    for key in chaos.stops:
        assert {(code, reason) for code, _, reason in chaos.ends[key]} <= {(None, STOPPED), (None, None)}, key
        lines = [each for each in run.stdout(key).splitlines() if not each.startswith("[grass] ")]  # what is missing
        assert len(set(lines)) == len(lines) and set(lines) <= set(written(key)), key
    run.gateway.faults = []
    chaos.forget()


@pytest.mark.nightly
def test_a_line_is_there_soon_after_the_task_wrote_it_also_if_it_writes_no_more(run: PodRun) -> None:
    chaos = Chaos(run, 0)
    chaos.codes, chaos.stops = {}, {"chaos-0/slow.0/1"}
    chaos.until(lambda: chaos.begun)
    chaos.until(lambda: sorted(run.stdout("chaos-0/slow.0/1").splitlines()) == written("chaos-0/slow.0/1"), 20)
    chaos.stop()
    chaos.until(lambda: chaos.ends)
    chaos.forget()


@pytest.mark.nightly
def test_an_attempt_that_is_stopped_while_nobody_knows_whether_its_pod_exists_leaves_none(run: PodRun) -> None:
    chaos = Chaos(run, 100)
    key = "chaos-100/slow.0/1"
    chaos.codes, chaos.stops = {}, {key}
    watches, looks = (
        Fault(lambda asked, part=part: asked.method == "GET" and part in asked.path, 1000, 500)
        for part in ("watch=true", "/pods/g-")
    )
    run.gateway.faults = [Fault(lambda asked: asked.method == "POST", carried_out=True), watches, looks]
    chaos.until(lambda: any("/pods/g-" in asked.path and "chaos-100" in asked.path for asked in run.gateway.asked))
    chaos.stop()
    run.gateway.faults = []
    chaos.until(lambda: key in chaos.ends)
    assert run.gone(key)
    chaos.forget()


@pytest.mark.nightly
def test_a_task_is_not_given_up_for_the_time_that_it_waited_to_be_created(run: PodRun) -> None:
    chaos = Chaos(run, 101)
    first, second = "chaos-101/t0.0/1", "chaos-101/t0.1/1"
    chaos.codes, chaos.stops = {first: 0, second: 0}, set()
    chaos.open(width=1)
    chaos.until(lambda: first in chaos.begun)
    chaos.runtime._attempts[second].asked -= 3600
    chaos.until(lambda: second in chaos.ends)
    assert chaos.ends == {first: {(0, None, None)}, second: {(0, None, None)}}
    chaos.forget()
