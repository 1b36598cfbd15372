"""Idle shut-down: ``python -m grass.provision.shutdown CLUSTER_JSON`` ends the cluster, unless it has work.

Requested by the master-agent, which ends with the cluster (``grass.supervision.apart``). The state stays:
`grass create` starts the cluster again with it.
"""

from __future__ import annotations

import sys
from pathlib import Path

from grass.config import ClusterConfig
from grass.errors import UnreachableError
from grass.node_config import load_master
from grass.provision import stopping
from grass.provision.filelock import cluster_lock
from grass.store.records import open_records
from grass.wire.schedule_record import ScheduleState


def main(path: str) -> None:
    config = load_master(path)
    with cluster_lock(Path(config.home).parents[1], config.name):
        if not config.path.exists():
            return  # deleted meanwhile
        if has_work(config):
            sys.stdout.write(f"cluster {config.name} got work while it waited to be shut down: it stays\n")
        else:
            stopping.stop(config)


def has_work(config: ClusterConfig) -> bool:
    """Return whether a job is active, or a schedule may start one, or the store cannot be reached now."""
    store = open_records(config)
    try:
        scheduled = any(schedule.state is ScheduleState.ACTIVE for schedule in store.schedules())
        return scheduled or any(not state.ended for state in store.job_index.counts())
    except UnreachableError:
        return True


if __name__ == "__main__":
    main(sys.argv[1])
