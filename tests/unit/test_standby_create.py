"""What `grass create` does for a standby: when its master may need it, and which redis it must have."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest

from grass.config import StandbyConfig
from grass.errors import InputError
from grass.manifest.on_premises import OnPremisesSettings
from grass.manifest.settings import parse_settings
from grass.provision.on_premises.create import Known, _before_it_is_needed
from grass.provision.on_premises.design import MasterDesign, design
from grass.provision.on_premises.standby import Standby, check_pair, follow_steps, made_on_standby
from grass.provision.on_premises.steps import Put, Run
from tests.unit.test_restore_on_host import FACTS, KEY, NEW, OLD, THERE

STANDBY = StandbyConfig(NEW, KEY, f"http://{NEW}:51812", needed=True)


def master() -> MasterDesign:
    settings = parse_settings({"mode": "grass/on-premises", "name": "lab", "master": {"address": OLD}})
    assert isinstance(settings, OnPremisesSettings)
    return design(settings, FACTS, OLD, KEY)


def standby(**facts: Any) -> Standby:
    settings = parse_settings({"mode": "grass/on-premises", "name": "lab", "master": {"address": NEW}})
    assert isinstance(settings, OnPremisesSettings)
    there = replace(THERE, **facts)
    bundle = cast("Any", type("Bundled", (), {"digest": "abc", "tar": Path(__file__), "description": lambda _: b""})())
    return Standby(cast("Any", None), cast("Any", None), settings, there, design(settings, there, NEW, KEY), bundle)


def known(was: StandbyConfig | None, now: StandbyConfig) -> Known:
    there = master()
    facts = replace(FACTS, config=replace(there.config, standby=was))
    return Known(facts, replace(there, config=replace(there.config, standby=now)), cast("Any", None))


def test_a_master_needs_its_standby_only_once_that_follows() -> None:
    for was in (None, replace(STANDBY, needed=False), replace(STANDBY, key="another"), replace(STANDBY, address="x")):
        first = _before_it_is_needed(known(was, STANDBY))
        assert first is not None and first.design.config.standby == replace(STANDBY, needed=False)
    assert _before_it_is_needed(known(STANDBY, STANDBY)) is None
    assert _before_it_is_needed(known(None, replace(STANDBY, needed=False))) is None


def test_a_standby_whose_redis_is_older_is_refused() -> None:
    check_pair(master(), FACTS, standby())
    with pytest.raises(InputError, match=r"redis 6\.2\.9 on .* is older than 7\.0\.15"):
        older = standby(tls_servers=(("/usr/bin/redis-server", (6, 2, 9)),))
        check_pair(master(), FACTS, replace(older, host=cast("Any", type("H", (), {"name": "s"})())))


def test_a_standby_runs_redis_and_its_daemon_and_nothing_else_of_a_master() -> None:
    there = standby()
    steps = follow_steps(there, b"{}")
    starts = next(step for step in steps if step.name.startswith("start"))
    words = next(action.argv for action in starts.actions if isinstance(action, Run))
    assert words[-4:-1] == ("grass@lab.target", "grass-redis@lab.service", "grass-standby@lab.service")
    assert words[-1] == "grass-takeover@lab.path", "which waits for a vote"
    stops = next(step for step in steps if step.name.startswith("stop"))
    stopped = next(action.argv for action in stops.actions if isinstance(action, Run))
    assert "grass-master-agent@lab.service" in stopped and "grass-redis@lab.service" not in stopped
    files = {action.target for step in steps for action in step.actions if isinstance(action, Put)}
    made = made_on_standby(there.design, there.facts)
    assert {file for file in files if "/systemd/" in file} <= set(made.files), "what is written is removed by delete"
