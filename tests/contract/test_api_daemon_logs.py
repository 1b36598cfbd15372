"""`GET /v1/daemon-logs`: who may read the logs of daemons, and how a reader follows them."""

from __future__ import annotations

import pytest

from grass.errors import NotAllowedError, NotFoundError
from grass.wire.daemon_line import DaemonLine
from master.collector.journal import Journal, Source, folder_of
from tests.support.api_world import ApiWorld


def journal_with(world: ApiWorld, *texts: str) -> Journal:
    journal = Journal(folder_of(world.config))
    journal.append(Source("n1", "node-agent"), [{"time": 1.0, "level": "INFO", "text": text} for text in texts])
    return journal


@pytest.mark.parametrize("user", ["ann", "eve"])
def test_only_administrators_read_them(world: ApiWorld, user: str) -> None:
    journal_with(world, "an address of somebody's file")
    with pytest.raises(NotAllowedError, match="needs role admin"):
        list(world.client(user).daemon_logs())


def test_an_administrator_gets_the_newest_and_follows(world: ApiWorld) -> None:
    journal = journal_with(world, "one", "two", "three")
    client = world.client("root")
    assert [line.text for line in client.daemon_logs(tail=2)] == ["two", "three"]
    assert list(client.daemon_logs("monitor")) == list(client.daemon_logs(node="n2")) == []
    following = client.daemon_logs(follow=True, tail=1)
    assert next(following).text == "three"
    journal.append(Source(None, "monitor"), [{"time": 2.0, "level": "ERROR", "text": "four"}])
    four = next(following)
    assert four == DaemonLine(time=2.0, node=None, daemon="monitor", level="ERROR", text="four")
    world.stop()
    world.serve()
    journal.append(Source(None, "monitor"), [{"time": 3.0, "level": "INFO", "text": "after a restart of the API"}])
    assert next(following).text == "after a restart of the API"


def test_a_cluster_whose_collector_keeps_none_says_where_they_are(world: ApiWorld) -> None:
    with pytest.raises(NotFoundError, match=r"journalctl -u 'grass-\*@local\.service'"):
        list(world.client("root").daemon_logs())
