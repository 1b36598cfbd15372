"""A program of a job of parameter servers, with DLRover's own client: servers say where they are, workers take shards.

It knows nothing of Grass. Run by ``tests.integration.test_dlrover`` with the Python of DLRover.
"""

from __future__ import annotations

import json
import os
import time
from typing import Any

from dlrover.python.common import env_utils  # type: ignore[import-not-found]
from dlrover.python.elastic_agent.master_client import MasterClient  # type: ignore[import-not-found]


def main() -> None:
    client: Any = MasterClient.singleton_instance()
    config = json.loads(os.environ["TF_CONFIG"])
    task = config["task"]
    if task["type"] == "ps":
        address = config["cluster"]["ps"][task["index"]]
        client.update_node_addr("ps", env_utils.get_node_id(), address)
        time.sleep(600)
    while True:
        servers, failed = client.query_ps_nodes()
        if not failed and sorted(each.addr for each in servers) == sorted(config["cluster"]["ps"]):
            break
        time.sleep(0.2)
    client.report_dataset_shard_params(1, 1, 6, False, 1, "d", "training", "table")
    done = []
    while (shard := client.get_task("d")[1]).type not in (0, ""):
        if shard.type == "WAIT":
            time.sleep(0.2)
            continue
        done.append(shard.shard.start)
        client.report_task_result("d", shard.task_id, "")
    print(f"{task['type']} {task['index']} of {sorted(config['cluster'])} did {done}", flush=True)


if __name__ == "__main__":
    main()
