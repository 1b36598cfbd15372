"""Everything of one node in the hands of an attacker, against real servers; compared with docs/security.md."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest
import redis

from grass.config import ClusterConfig
from grass.store.accounts import RedisAccounts
from grass.store.agent_store import AgentStore
from grass.store.api_store import ApiStore
from grass.store.embedded import find_server
from grass.store.shared_bound import SharedBound
from grass.wire.tickets import JoinNode
from master.agent.loop import MasterAgent
from tests.support.redis_server import RedisServer
from tests.support.stolen_node import KEYS, PAGE, rows, table, with_table

pytestmark = pytest.mark.needs_redis
_NAMED = {
    ("API", "read its own record"),
    ("share", "read files of all users"),
    ("share", "change files of all users"),
}
"""What it can do. docs/security.md says why, and what to do about the share."""
_CUT_OFF = "cut off and QUARANTINED"


def test_a_stolen_node_harms_only_itself_and_the_documentation_says_what_it_achieved(tmp_path: Path) -> None:
    found = rows(tmp_path)
    harmful = [row for row in found if row[2].startswith("done") and row[:2] not in _NAMED]
    assert harmful == []
    assert len([row for row in found if row[2].startswith(_CUT_OFF)]) == 2
    page = PAGE.read_text()
    assert with_table(page, table(found)) == page, "run `python -m tests.support.stolen_node`"


def test_the_master_agent_removes_values_for_tasks_that_belong_to_no_active_job(tmp_path: Path) -> None:
    server = RedisServer(find_server(""))
    server.start()
    backends = [admin, own, api] = [server.backend(user) for user in ("admin", "agent", "api")]
    thief = redis.Redis(unix_socket_path=str(server.socket), username="node-n1", password="n1")
    try:
        accounts = RedisAccounts(admin, server.prefix, SharedBound(admin, server.prefix, growth=1 << 20))
        config = ClusterConfig("test", "local", str(tmp_path), str(tmp_path))
        agent, store = MasterAgent(config, AgentStore(own, KEYS), accounts, lambda: None), ApiStore(api, KEYS)
        store.ticket(JoinNode("n1", hashlib.sha256(b"n1").hexdigest(), "ann"))
        agent.start("test")
        agent.run(lambda: bool(store.nodes()))
        planted: list[str] = []

        def removed() -> bool:
            """Plant one more value, unless the first one is gone: the growth counts from the agent's first look."""
            if planted and thief.get(planted[0]) is None:
                return True
            planted.append(KEYS.shared(f"{len(planted):032x}", "key"))
            thief.set(planted[-1], "x" * (2 << 20))
            thief.xadd(KEYS.reports("n1"), {"kind": "heartbeat", "body": "{}"})  # wakes the agent
            thief.xadd(KEYS.wakeups, {"node": "n1"})
            return False

        agent.run(removed)
    finally:
        for each in (*backends, thief):
            each.close()
        server.remove()
