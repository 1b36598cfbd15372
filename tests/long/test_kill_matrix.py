"""The kill matrix: three rounds in every run, 70 with ``--long``, with another seed each time."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from tests.long import kill_matrix

SHORT, LONG = 3, 70


@pytest.mark.timeout(3600)
def test_random_kills_lose_no_attempt_run_none_twice_and_keep_every_line(
    tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    long = request.config.getoption("--long")
    seed = random.SystemRandom().randrange(1 << 32)
    print(f"seed {seed}")
    killed = kill_matrix.run(LONG if long else SHORT, seed, 40_000 if long else 20_000, tmp_path)
    print(dict(killed))
    assert killed


def test_a_round_leaves_somebody_who_revives_supervisord_and_keeps_exit_codes() -> None:
    for seed in range(500):
        victims = {kill.victim for kill in kill_matrix.plan(random.Random(seed))}
        assert victims and not victims >= kill_matrix.WATCHERS
        assert len(victims & kill_matrix.KEEPERS) <= 1
