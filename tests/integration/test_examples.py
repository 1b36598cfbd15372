"""The examples as programs, without a cluster: the environment of a task is emulated.

That their job files run on a cluster is tested with the cluster."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from grass.document_file import load_document
from grass.manifest import parse_job
from grass.manifest.schedule import parse_schedule
from tests.support.example_run import EXAMPLES, ExampleRun

WORKERS = 4


@pytest.fixture
def digits(tmp_path: Path) -> Iterator[ExampleRun]:
    pytest.importorskip("sklearn", reason="the digits example needs scikit-learn: pip install -e .[examples]")
    with ExampleRun("digits", tmp_path) as run:
        yield run


@pytest.fixture
def cartpole(tmp_path: Path) -> Iterator[ExampleRun]:
    pytest.importorskip("gymnasium", reason="the actor_learner example needs gymnasium: pip install -e .[examples]")
    with ExampleRun("cartpole", tmp_path) as run:
        yield run


def start_server(run: ExampleRun, workers: int) -> None:
    port = run.publish("server.0", "params")
    run.start("digits", "server.py", "server", WORKERS=str(workers), GRASS_PORT_PARAMS=str(port))


@pytest.mark.nightly  # scripts/demo runs the job to this accuracy in every run (test_readme_commands.py)
def test_four_workers_train_the_digits_to_the_promised_accuracy(digits: ExampleRun) -> None:
    start_server(digits, WORKERS)
    workers = [digits.start("digits", "worker.py", "worker", index, WORKERS) for index in range(WORKERS)]
    assert [worker.wait(timeout=60) for worker in workers] == [0] * WORKERS
    found = re.search(r"test accuracy ([\d.]+)", digits.output("server"))
    assert found and float(found[1]) >= 0.93
    assert sum("wanted: at least 0.93" in digits.output("worker", index) for index in range(WORKERS)) == 1
    assert all("loss" in digits.output("worker", index) for index in range(WORKERS))


def test_a_worker_that_was_killed_joins_again_where_it_was(digits: ExampleRun) -> None:
    start_server(digits, 2)
    first = digits.start("digits", "worker.py", "worker", 0, 2, EPOCHS="400")
    digits.wait_for_output("worker", 0, "epoch 2/400", first)
    first.kill()
    first.wait()
    workers = [digits.start("digits", "worker.py", "worker", index, 2) for index in range(2)]
    assert [worker.wait(timeout=60) for worker in workers] == [0, 0]
    joins = re.findall(r"from epoch (\d+)", digits.output("worker", 0))
    assert joins[0] == "1"
    assert int(joins[1]) >= 3


@pytest.mark.nightly  # the restart after exit code 64 is in tests/scenario/exit_codes.txt
def test_training_that_misses_the_target_fails_and_asks_for_no_restart(digits: ExampleRun) -> None:
    start_server(digits, 2)
    workers = [digits.start("digits", "worker.py", "worker", index, 2, EPOCHS="0") for index in range(2)]
    assert sorted(worker.wait(timeout=60) for worker in workers) == [0, 64]


def test_actors_and_learner_solve_cartpole(cartpole: ExampleRun) -> None:
    port = cartpole.publish("learner.0", "rollouts")
    learner = cartpole.start("actor_learner", "learner.py", "learner", GRASS_PORT_ROLLOUTS=str(port))
    cartpole.wait_for_output("learner", 0, "learning with seed", learner)
    actors = [cartpole.start("actor_learner", "actor.py", "actor", index, 3) for index in range(3)]
    assert learner.wait(timeout=60) == 0
    assert [actor.wait(timeout=10) for actor in actors] == [0, 0, 0]
    found = re.search(r"mean return ([\d.]+) over the last 50 episodes \(wanted", cartpole.output("learner"))
    assert found and float(found[1]) >= 195


def test_learning_gives_the_same_numbers_whoever_plays_and_survives_an_actor_that_dies(cartpole: ExampleRun) -> None:
    runs = []
    for name, actors, victim in (("one", 1, False), ("many", 3, True)):
        cartpole.name = name
        port = cartpole.publish("learner.0", "rollouts")
        env = {"MOST_EPISODES": "160", "GRASS_PORT_ROLLOUTS": str(port)}
        learner = cartpole.start("actor_learner", "learner.py", f"learner-{name}", **env)
        cartpole.wait_for_output(f"learner-{name}", 0, "learning with seed", learner)
        first, *_ = [cartpole.start("actor_learner", "actor.py", f"actor-{name}", index, 3) for index in range(actors)]
        if victim:
            cartpole.wait_for_output(f"learner-{name}", 0, "16 episodes", learner)
            first.kill()
        assert learner.wait(timeout=60) == 64  # so few episodes cannot reach the target
        runs.append(cartpole.output(f"learner-{name}"))
    assert runs[0] == runs[1]


def test_the_parts_of_the_array_cover_every_number_once(tmp_path: Path) -> None:
    with ExampleRun("array", tmp_path) as run:
        parts = [run.start("array", "part.py", "part", index, 3) for index in range(3)]
        assert [part.wait(timeout=10) for part in parts] == [0, 0, 0]
        assert sum(int(run.output("part", index).split()[-1]) for index in range(3)) == 1_000_000 * 1_000_001 // 2


OWN_DIALECTS = [path for path in sorted(EXAMPLES.glob("*/*.yml")) if path.parent.name != "foreign"]
"""The files of other systems are applied by ``test_apply.py``."""


@pytest.mark.parametrize("path", OWN_DIALECTS, ids=lambda path: f"{path.parent.name}/{path.name}")
def test_the_file_is_accepted(path: Path) -> None:
    document = load_document(path)
    parsed = parse_schedule(document) if path.name == "schedule.yml" else parse_job(document)
    assert parsed.warnings == ()
