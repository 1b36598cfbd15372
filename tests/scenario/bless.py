"""Write the expectations of all scenarios anew: ``python -m tests.scenario.bless``, then read the diff."""

from __future__ import annotations

from tests.scenario.test_scenarios import SCENARIOS, replay

for path in SCENARIOS:
    path.write_text(replay(path.read_text()))
