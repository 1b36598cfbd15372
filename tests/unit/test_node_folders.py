"""Files of a job on a node that its tasks look into."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from node.agent.environment import addresses_path
from node.agent.folders import make_addresses, write_addresses
from tests.support.shepherd_run import cluster_config


def test_a_containers_user_can_read_the_addresses_whatever_the_umask_of_the_agent(tmp_path: Path) -> None:
    config = cluster_config(tmp_path)
    umask = os.umask(0o077)
    try:
        write_addresses(config, "told", "SERVER=n1:80\n")
        make_addresses(config, "none")
    finally:
        os.umask(umask)
    for job_id in ("told", "none"):
        path = Path(addresses_path(config, job_id))
        assert (stat.S_IMODE(path.stat().st_mode), stat.S_IMODE(path.parent.stat().st_mode)) == (0o644, 0o755)
