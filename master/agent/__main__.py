"""``python -m master.agent CLUSTER_JSON``: the scheduling daemon. One leads at a time, by a lease in the store."""

from __future__ import annotations

import logging
import os
import signal
import sys
from pathlib import Path

from grass.api.check_session import probe_text
from grass.api.daemon_log import start_master_log
from grass.config import ClusterConfig, Secrets
from grass.errors import NewerVersionError, StaleLeaseError
from grass.store.accounts import Accounts, MemoryAccounts, RedisAccounts
from grass.store.agent_store import AgentStore
from grass.store.connect import open_backend
from grass.store.keys import Keys
from grass.supervision.apart import request_shutdown
from grass.supervision.certificate_renewal import start_renewal
from grass.supervision.folder_watch import end_if_removed, watch_folder
from grass.supervision.new_address import start_telling
from grass.supervision.predecessor import start_fencing
from grass.supervision.redis_reserve import keep_reserve
from grass.supervision.redis_watch import watch_redis
from grass.supervision.standby_watch import watch_standby
from grass.supervision.supervisor_watch import watch_supervisor
from grass.supervision.task_redis_watch import watch_task_redis
from grass.system import process_memory
from grass.system.systemd import Notifier
from master.agent.courier import Courier
from master.agent.loop import MasterAgent


def main() -> int:
    try:
        config = ClusterConfig.load(sys.argv[1])
    except FileNotFoundError:
        end_if_removed(Path(sys.argv[1]))
        raise
    start_master_log(config, "master-agent")
    secrets = Secrets.load(config.home)
    backend = open_backend(config, secrets, "agent")
    store = AgentStore(backend, Keys(config.key_prefix))
    notifier = Notifier()
    courier = _courier(config, secrets)
    agent = MasterAgent(
        config,
        store,
        _accounts(config, secrets),
        lambda: request_shutdown(config),
        notifier.beat,
        courier.accept,
        secret=secrets.node_token,
        probe=probe_text(),
    )
    signal.signal(signal.SIGTERM, _stop)
    process_memory.keep_imported()
    watch_supervisor(config, first=True)
    watch_redis(config)
    keep_reserve(config, secrets)
    watch_task_redis(config, secrets)
    watch_standby(config, secrets)
    watch_folder(config)
    start_renewal(config)
    start_fencing(config)
    start_telling(config)
    try:
        agent.start(owner=f"{config.master.own_node or config.name}:{os.getpid()}")
        notifier.ready()
        courier.start()
        agent.run(stopped=lambda: False)
    except (KeyboardInterrupt, _Stop):
        return 0
    except (StaleLeaseError, NewerVersionError) as error:
        logging.getLogger("grass.master-agent").error("%s", error)
        return 1
    finally:
        courier.close()
        backend.close()
    return 0


def _courier(config: ClusterConfig, secrets: Secrets) -> Courier:
    own = open_backend(config, secrets, "agent")  # a slow read of the courier must not delay a commit
    return Courier(own, Keys(config.key_prefix), config.name, config.master.notify, config.master.nodes_on_client)


def _accounts(config: ClusterConfig, secrets: Secrets) -> Accounts:
    """Return who manages redis users. In a redis of the user's own all processes share one password."""
    if config.redis.embedded:
        return RedisAccounts(open_backend(config, secrets, "admin"), config.key_prefix)
    return MemoryAccounts()


class _Stop(BaseException):
    """Raised by SIGTERM to end the loop wherever it waits. Commits are atomic, so there is nothing to finish."""


def _stop(signum: int, frame: object) -> None:
    raise _Stop


if __name__ == "__main__":
    sys.exit(main())
