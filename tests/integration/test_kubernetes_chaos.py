"""Attempts in pods of a real Kubernetes, while the network, the API server and the agent fail, as a seed says."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.examples import chosen
from tests.support.pod_chaos import STOPPED, Chaos, written
from tests.support.pod_run import PodRun, pod_run

SHORT, LONG = (1, 2), range(3, 3 + chosen(20))


@pytest.fixture(scope="module")
def run() -> Iterator[PodRun]:
    with pod_run() as made:
        yield made


@pytest.mark.parametrize("seed", [*SHORT, *(pytest.param(each, marks=pytest.mark.nightly) for each in LONG)])
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
        lines = run.stdout(key).splitlines()
        assert len(set(lines)) == len(lines) and set(lines) <= set(written(key)), key
    run.gateway.faults = []
    chaos.forget()


def test_a_line_is_there_soon_after_the_task_wrote_it_also_if_it_writes_no_more(run: PodRun) -> None:
    chaos = Chaos(run, 0)
    chaos.codes, chaos.stops = {}, {"chaos-0/slow.0/1"}
    chaos.until(lambda: sorted(run.stdout("chaos-0/slow.0/1").splitlines()) == written("chaos-0/slow.0/1"), 15)
    chaos.stop()
    chaos.until(lambda: chaos.ends)
    chaos.forget()
