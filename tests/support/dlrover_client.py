"""Calls every method of DLRover's own client that asks or tells its master. It knows nothing of Grass.

Run by ``tests.integration.test_dlrover`` with the Python of DLRover.
"""

from __future__ import annotations

from typing import Any

from dlrover.python.common import comm  # type: ignore[import-not-found]
from dlrover.python.diagnosis.common.diagnosis_data import WorkerTrainingMetric  # type: ignore[import-not-found]
from dlrover.python.elastic_agent.master_client import MasterClient  # type: ignore[import-not-found]

RENDEZVOUS = ("network-check", "elastic-training")


def main() -> None:
    client: Any = MasterClient.singleton_instance()
    assert client.get_elastic_run_config() == {}
    client.report_pre_check_status("WAIT_PRE_CHECK", {"min_nodes": 1, "rdzv_configs": "{}"})
    assert client.get_pre_check_result() == "PASS"
    for name in RENDEZVOUS:
        assert client.report_rdzv_params(1, 1, 60, 1, 600)
        client.join_rendezvous(0, 8, name)
        number, group, world = client.get_comm_world(name, 0)
        assert (number, group, world) == (1, 0, {0: 8})
        assert client.num_nodes_waiting(name) == 0
    client.report_network_check_status(0, "NODE_CHECK_SUCCEEDED", 1.25)
    assert client.check_fault_node() == ([], "") and client.check_straggler() == ([], "")
    [node] = client.get_running_nodes()
    assert (node.type, node.rank) == ("worker", 0)
    store(client)
    shards(client)
    others(client)
    print("all answered", flush=True)


def store(client: Any) -> None:
    assert client.kv_store_set("a", b"1") and client.kv_store_get("a") == b"1"
    assert [client.kv_store_add("n", 1), client.kv_store_add("n", 2)] == [1, 3]
    assert client.kv_store_multi_set(["b", "c"], [b"2", b"3"])
    assert client.kv_store_multi_get(["b", "c"]) == {"b": b"2", "c": b"3"}
    assert client.kv_store_multi_get(["b", "x"]) == {}


def shards(client: Any) -> None:
    client.report_dataset_shard_params(10, 1, 35, True, 1, "d", "training", "text")
    taken, task = client.get_task("d")
    assert taken and len(task.shard.indices) == 10 and task.type == "training"
    assert client.report_task_result("d", task.task_id, "").success
    content = client.get_shard_checkpoint("d")
    assert client.report_shard_checkpoint(content).success
    assert client.query_training_status() == 1


def others(client: Any) -> None:
    client.update_cluster_version("LOCAL", 3, "worker", 0)
    assert client.get_cluster_version("LOCAL", "worker", 0) == 3
    client.update_node_addr("worker", 0, "127.0.0.1:1")
    assert client.query_ps_nodes() == ([], False)
    assert client.join_sync("s") and client.sync_finished("s")
    assert not client.barrier("b") and client.barrier("b", True) and client.barrier("b")
    client.report_paral_config(comm.ParallelConfig(comm.DataLoaderConfig(1, "l", 8, 16, 2, 0), comm.OptimizerConfig()))
    assert client.get_paral_config().dataloader.batch_size == 16
    assert not client.need_to_restart_training()
    assert client.sync_checkpoint(5)
    assert client.sync_training_ports(60_000).port == 60_000
    assert type(client.report_heart_beat(1)).__name__ == "NoAction"
    client.report_used_resource(1024, 0.5, [comm.GPUStats(0, 80_000, 1000, 0.5)])
    client.report_model_info(comm.ModelInfo(comm.TensorStats(1, 2, 3, [4]), comm.OpStats(), 5, 6))
    client.report_global_step(7, 1, 0.5)
    client.report_atorch_event(1, "t", "n", "BEGIN", 3)
    client.report_event("info", "job", "a", "m", {"device": -1})
    client.report_failures("broken", 1, "process_error")
    client.report_diagnosis_agent_metrics(WorkerTrainingMetric())
    client.ready_for_ps_relaunch()
    client.report_failed_exited()
    client.report_succeeded_exited()
    assert client.num_nodes_waiting("network-check") == -1


if __name__ == "__main__":
    main()
