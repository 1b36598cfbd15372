"""The standby in a settings file, what its key may read on the master, and how clients find the API after a
failover."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from grass.api.keyring import Profile, exchange, load_other, load_profile, note_other_url, save_profile
from grass.cli.cluster_text import show_standby
from grass.config import ClusterConfig
from grass.errors import InputError, ManifestError
from grass.manifest.on_premises import HostSettings, OnPremisesSettings, StandbySettings
from grass.manifest.settings import parse_settings
from grass.provision.standby_command import command_for
from grass.store.redis_server import Replica, Replication
from grass.supervision.standby_watch import Progress, Standing, standing
from grass.wire.standby import StandbyView

CONFIG = ClusterConfig("lab", "grass/on-premises", "/home", "/run", share="/share")


def read(standby: Any) -> StandbySettings | None:
    found = parse_settings(
        {"mode": "grass/on-premises", "name": "lab", "master": {"address": "m"}, "nodes": ["n"], "standby": standby}
    )
    assert isinstance(found, OnPremisesSettings)
    return found.standby


def test_a_standby_is_an_address_or_a_mapping() -> None:
    assert read("ops@s:2222") == read({"address": "s", "ssh": {"user": "ops", "port": 2222}})
    assert read("s") == StandbySettings(HostSettings("s"))
    assert read({"address": "s", "when_away": "refuse"}) == StandbySettings(HostSettings("s"), needed=True)


@pytest.mark.parametrize(
    ("standby", "said"),
    [
        ("m", "standby: is the same machine as master"),
        ("n", r"standby: is the same machine as nodes\[0\]"),
        ({"address": "s", "when_away": "wait"}, "standby.when_away: must be"),
        ({"when_away": "refuse"}, "standby.address: is missing"),
        (["s"], "standby: must be a mapping"),
    ],
)
def test_a_wrong_standby_is_refused_with_its_path(standby: Any, said: str) -> None:
    with pytest.raises(ManifestError, match=said):
        read(standby)


NODES = [{"name": "n1", "address": "n"}, {"name": "n2", "address": "m"}, "other"]


def witnessed(witness: str, **more: Any) -> StandbySettings | None:
    content = {"mode": "grass/on-premises", "name": "lab", "master": {"address": "m", "name": "first"}, "nodes": NODES}
    found = parse_settings({**content, "standby": {"address": "s", "witness": witness}, **more})
    assert isinstance(found, OnPremisesSettings)
    return found.standby


def test_a_witness_is_a_named_node_of_another_machine() -> None:
    found = witnessed("n1", share={"path": "/share"})
    assert found is not None and found.witness == "n1"


@pytest.mark.parametrize(
    ("witness", "said"),
    [
        ("first", "standby.witness: first is the master itself"),
        ("s", "standby.witness: s is the standby itself"),
        ("n2", "standby.witness: n2 is on the master's machine"),
        ("n9", "standby.witness: no node n9 in `nodes`; those with a `name` are: n1, n2"),
        ("other", "standby.witness: no node other in `nodes`"),
        ("a b", "standby.witness: must be"),
    ],
)
def test_a_wrong_witness_is_refused_with_its_path(witness: str, said: str) -> None:
    with pytest.raises(ManifestError, match=said):
        witnessed(witness, share={"path": "/share"})


def test_a_witness_needs_a_share_that_outlives_the_master() -> None:
    with pytest.raises(ManifestError, match=r"standby\.witness: needs a `share`"):
        witnessed("n1")


def test_status_says_whether_a_failover_is_automatic() -> None:
    view = StandbyView("10.0.0.2", "in step", 0.0, witness="n1")
    assert show_standby(view) == "10.0.0.2: in step; takes over by itself (witness n1)"
    away = StandbyView("10.0.0.2", "in step", 0.0, witness="n1", why="node n1: does not answer")
    assert "does not take over by itself now: node n1: does not answer (witness n1)" in show_standby(away)


def test_the_key_of_the_standby_reads_what_makes_a_master() -> None:
    asked = "rsync --server --sender -logDtpRe.iLsfxCIvu . cluster.json master tls/ca.key"
    assert command_for(asked, CONFIG) == ("/home", asked.split())
    logs = "rsync --server --sender -lptr . logs"
    assert command_for(logs, CONFIG) == ("/share", logs.split())


@pytest.mark.parametrize(
    "asked",
    [
        "",
        "sh",
        "rsync --server -lptr . master",
        "rsync --server --sender -lptr . redis",
        "rsync --server --sender -lptr . ../other",
        "rsync --server --sender -lptr . master logs",
        "rsync --server --sender -lptr --log-file=/home/x . master",
        "rsync --server --sender -lptr . master; id",
        "rsync --server --sender -lptr .",
        "rsync --server --sender -slptre.iLsfxCIvu . master",  # takes other paths from standard input
        "rsync --server --sender -lptr -s . master",
        "rsync --server --sender -Lptr . logs",
        "rsync --server --sender -kptr . logs",
        "rsync --server --sender -lptrT . master",
    ],
)
def test_it_reads_and_does_nothing_else(asked: str) -> None:
    with pytest.raises(InputError, match="for the standby"):
        command_for(asked, CONFIG)


def test_a_standby_that_confirms_within_seconds_is_in_step() -> None:
    progress = Progress()
    for second in range(10):
        found = standing(Replication(True, 10 * second, (Replica(10 * second - 10, True),)), progress, float(second))
        assert found == Standing("in step", 0.0)
    found = standing(Replication(True, 100, (Replica(40, True),)), progress, 10.0)
    assert found == Standing("behind", 5.0)
    assert standing(Replication(True, 100), progress, 12.0, last=40) == Standing("away", 7.0)


def test_the_status_says_how_far_it_is() -> None:
    assert show_standby(StandbyView("s", "in step", 0.0)) == "s: in step"
    assert show_standby(StandbyView("s", "behind", 7.2)) == "s: 7 s behind"
    assert show_standby(StandbyView("s", "away", 90.0)) == "s: away; it lacks the writes of the last 1m30s"


def test_a_client_that_found_the_api_at_the_standby_looks_there_first(tmp_path: Path) -> None:
    save_profile(tmp_path, Profile("lab", "http://m:1", "ann", "key"), {})
    assert load_other(tmp_path) is None
    note_other_url(tmp_path, "http://s:1")
    other = load_other(tmp_path)
    assert other == Profile("lab", "http://s:1", "ann", "key")
    exchange(tmp_path, other)
    assert load_profile(tmp_path) == other and load_other(tmp_path) == Profile("lab", "http://m:1", "ann", "key")
    note_other_url(tmp_path, "")
    assert load_other(tmp_path) is None
