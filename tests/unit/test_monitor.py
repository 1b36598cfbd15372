"""The monitor over a store in memory: histories and own figures of all nodes, exactly once; bounds; the page."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from msgspec import structs
from prometheus_client.openmetrics.parser import text_string_to_metric_families

from grass.model.job import Component, Job
from grass.model.lifecycle import JobState, NodeState, TaskState
from grass.model.resources import Resources
from grass.store.history_store import HistoryStore, Sampled
from grass.store.keys import Keys
from grass.store.records import Records
from grass.system.systemd import Notifier
from grass.wire.api_figures import LATENCIES, ApiFigures, Operation
from grass.wire.codec import encode
from grass.wire.job_record import first_record
from grass.wire.node_record import NodeRecord
from grass.wire.own_curves import (
    FULL_CURVES,
    INDEX,
    MOST_CURVES,
    MOST_FIGURES,
    MOST_NOTES,
    MOST_POINTS,
    OWN_INDEX,
    OWN_NOTES,
    SUMMARIES,
    OwnCurve,
    OwnNotes,
    Summary,
    field,
    last_field,
    most_points,
    notes_field,
    unpack,
)
from grass.wire.usage import (
    GpuUsage,
    NodeSample,
    OwnNotFinite,
    OwnParameters,
    OwnPoint,
    RdmaUsage,
    TaskSample,
    UsageSample,
)
from grass.wire.usage_history import FINE, WHOLE_JOB, JobHistory, join
from master.monitor.__main__ import _Ends, _run
from master.monitor.exposition import page
from master.monitor.monitor import Monitor, too_many
from master.monitor.own_curves import OwnCurves
from master.monitor.snapshot import Disk, Snapshot
from master.monitor.waits import Waits
from tests.doubles.memory_backend import MemoryBackend
from tests.support.waiting import wait_until

KEYS = Keys("")
JOB = "train-00000001"


class Timed(MemoryBackend):
    """Entries of streams get ids by a clock, as redis gives them."""

    now = 100_000

    def report(self, node: str, sample: UsageSample) -> None:
        self.now += 2
        self._streams.setdefault(KEYS.node_usage(node), []).append((f"{self.now}000-0", {"body": encode(sample)}))


@pytest.fixture
def backend() -> Timed:
    backend = Timed()
    for name in ("a", "b"):
        record = NodeRecord(name=name, state=NodeState.READY, resources=Resources(cpu=8000, memory=1 << 30, gpu=2000))
        backend.apply([("HSET", KEYS.nodes, name, encode(record))])
    backend.apply([("HSET", KEYS.jobs, JOB, "{}")])
    return backend


def steps(first: float = 0.0) -> Iterator[float]:
    while True:
        yield first
        first += 10.0


def monitor(backend: MemoryBackend) -> Monitor:
    times = steps()
    return Monitor(Records(backend, KEYS), HistoryStore(backend, KEYS), lambda: next(times))


def sample(
    cpu: float, *own: OwnPoint, gpus: tuple[GpuUsage, ...] = (), rdma: tuple[RdmaUsage, ...] = ()
) -> UsageSample:
    node = NodeSample(
        cpu=cpu,
        cores=(cpu,) * 4,
        memory=500,
        memory_total=1000,
        disk_used=1,
        disk_total=2,
        network_sent=0,
        network_received=0,
        gpus=gpus,
        rdma=rdma,
    )
    return UsageSample(0.0, node, (TaskSample(key=f"{JOB}/w.0/1", cpu=cpu / 100, memory=77),), own)


def point(step: float, name: str = "loss", task: str = "w.0") -> OwnPoint:
    return OwnPoint(f"{JOB}/{task}/1", name, step, 1 / (step + 1), 5.0)


def known(backend: MemoryBackend, key: str, name: str, subject: str = "") -> list[float]:
    chunks = HistoryStore(backend, KEYS).curve(key, FINE, 99_990, 100_200, subject)
    return [value for value in join(FINE, chunks, 99_990, 100_200)[1].get(name, []) if value == value]


def test_histories_of_nodes_tasks_and_the_cluster(backend: Timed) -> None:
    backend.report("a", sample(50, gpus=(GpuUsage(id=1, utilisation=80, power=300.0),)))
    backend.report("b", sample(25))
    monitor(backend).turn()
    assert known(backend, KEYS.node_history("a"), "cpu") == [50]
    assert known(backend, KEYS.node_history("a"), "gpu1.power") == [300]
    assert known(backend, KEYS.job_history(JOB), "memory", "w.0") == [77, 77]
    assert known(backend, KEYS.cluster_history, "cpu") == [3]
    assert known(backend, KEYS.cluster_history, "gpu_capacity") == [4]


def test_the_history_of_a_job_is_the_sum_over_its_tasks_on_nodes_that_are_not_silent(backend: Timed) -> None:
    backend.report("a", sample(50))
    backend.report("b", sample(25))
    watching = monitor(backend)
    watching.turn()
    assert known(backend, KEYS.job_history(JOB), "cpu", WHOLE_JOB) == [0.75]
    assert known(backend, KEYS.job_history(JOB), "memory", WHOLE_JOB) == [154]
    backend.now += 60
    backend.report("a", sample(50))
    watching.turn()
    assert known(backend, KEYS.job_history(JOB), "cpu", WHOLE_JOB) == [0.75, 0.5]


def test_the_gpus_that_a_job_uses_are_counted_by_its_share_of_each(backend: Timed) -> None:
    halves = tuple(TaskSample(key=f"{JOB}/w.{at}/1", gpu=80.0, gpus=0.4) for at in (0, 1))
    whole = TaskSample(key=f"{JOB}/w.2/1", gpu=50.0, gpus=2.0)
    backend.report("a", structs.replace(sample(50), tasks=(*halves, whole)))
    monitor(backend).turn()
    assert known(backend, KEYS.job_history(JOB), "gpu", "w.2") == [50]  # percent of the four devices that it has
    assert known(backend, KEYS.job_history(JOB), "gpu", WHOLE_JOB) == [pytest.approx(280, rel=0.01)]


def test_a_killed_monitor_neither_loses_nor_repeats(backend: Timed) -> None:
    first = monitor(backend)
    for step in range(10):
        backend.report("a", sample(10, point(step)))
    first.turn()
    backend.report("a", sample(20, point(10)))
    first._take()  # and is killed before it writes
    backend.report("a", sample(30, point(11)))
    monitor(backend).turn()
    assert known(backend, KEYS.node_history("a"), "cpu") == [10] * 10 + [20, 30]
    text = backend.hgetall(KEYS.job_history(JOB))[field("w.0", "loss")]
    assert list(unpack(text).steps) == list(range(12))


def test_samples_that_are_nonsense_are_left_out(backend: Timed) -> None:
    backend.apply([("XADD", KEYS.node_usage("a"), 0, "body", '{"node": 5}')])
    bad = UsageSample(0.0, sample(1).node, (TaskSample(key="nonsense"),), (OwnPoint("x", "y", 1, 1, 1),))
    backend.report("a", bad)
    backend.report("b", sample(5))
    monitor(backend).turn()
    assert known(backend, KEYS.node_history("b"), "cpu") == [5]
    assert [key for key in backend._hashes if key.startswith("history:job:")] == [KEYS.job_history(JOB)]


def test_a_node_that_chooses_times_in_the_future_makes_no_other_node_stale(backend: Timed) -> None:
    backend.report("a", sample(50))
    entry = ("18446744073709551615-0", {"body": encode(sample(7))})
    backend._streams[KEYS.node_usage("b")] = [entry]
    store = HistoryStore(backend, KEYS, lambda: 100_003.0)
    Monitor(Records(backend, KEYS), store, lambda: 0.0).turn()
    newest = store.newest("b")
    assert newest is not None and newest.at == 100_003.0
    assert known(backend, KEYS.cluster_history, "cpu") == [pytest.approx(2.28, rel=0.01)]  # of both


def test_a_node_whose_figures_cannot_be_processed_costs_no_other_node_its_history(backend: Timed) -> None:
    backend.apply([("HSET", KEYS.node_history("a"), "2/damaged", "x")])
    first = monitor(backend)
    for _ in range(2):
        backend.report("a", sample(50))
        backend.report("b", sample(25))
        first.turn()
    assert known(backend, KEYS.node_history("b"), "cpu") == [25, 25]


def test_the_monitor_goes_on_after_a_turn_that_failed(backend: Timed, caplog: pytest.LogCaptureFixture) -> None:
    backend.apply([("HSET", KEYS.cluster_history, "2/damaged", "x")])
    backend.report("a", sample(50))
    api, stop = Records(backend, KEYS), threading.Event()
    made = monitor(backend)
    turns = [made.turn, _Ends(api, Waits(), lambda ended: None).turn]
    running = threading.Thread(target=_run, args=(turns, made.forget, Notifier(), stop))
    running.start()
    try:
        wait_until(lambda: "a turn of the monitor failed" in caplog.text)
        backend.apply([("HDEL", KEYS.cluster_history, "2/damaged")])
        wait_until(lambda: known(backend, KEYS.cluster_history, "cpu") == [2])
    finally:
        stop.set()
        running.join()


def test_own_curves_are_bounded() -> None:
    curves = OwnCurves(lambda key, fields: {})
    curves.add(("k", "w.0", "loss", step, 0.5, 1.0) for step in range(100_000))
    ops = {str(op[2]): str(op[3]) for op in curves.operations()}
    loss = unpack(ops[field("w.0", "loss")])
    assert MOST_POINTS / 2 <= len(loss.steps) <= MOST_POINTS and loss.seen == 100_000
    assert loss.steps[1] - loss.steps[0] == loss.every and loss.steps[0] == 0
    assert len(OwnCurve().pack()) < 30


def test_the_curves_of_many_tasks_share_the_points_and_all_tasks_keep_last_least_and_greatest() -> None:
    kept: dict[str, str] = {}
    curves = OwnCurves(lambda key, fields: {name: kept[name] for name in fields if name in kept})
    for tasks in (60, 5_000):  # two figures each: once all curves fit, then not
        for step in range(400):
            curves.add(
                ("k", f"w.{task}", name, step, step - 5.0, 1.0) for task in range(60) for name in ("loss", "acc")
            )
        curves.add(("k", f"w.{task}", name, 9, 7.0, 1.0) for task in range(tasks) for name in ("loss", "acc"))
        kept |= {str(op[2]): str(op[3]) for op in curves.operations()}
        curves.clear()  # another monitor goes on
        index = OWN_INDEX.decode(kept[INDEX])
        drawn = [unpack(kept[field(*each)]) for each in index.curves]
        assert index.figures == 2 * tasks and len(drawn) == min(2 * tasks, MOST_CURVES)
        assert all(len(each.steps) <= most_points(len(drawn)) for each in drawn)
        assert sum(len(each.steps) for each in drawn) <= FULL_CURVES * MOST_POINTS
        assert index.dropped == max(0, 2 * tasks - MOST_CURVES)
        assert SUMMARIES.decode(kept[last_field("w.0")])["loss"] == Summary(7.0, -5.0, 394.0, 9)
        assert SUMMARIES.decode(kept[last_field(f"w.{tasks - 1}")])["acc"].last == 7.0
    assert len(unpack(kept[field("w.0", "loss")]).steps) > 8


def test_a_job_with_too_many_figures_says_how_much_is_missing() -> None:
    curves = OwnCurves(lambda key, fields: {})
    curves.add(("k", f"w.{task}", "loss", 1.0, 0.5, 1.0) for task in range(MOST_FIGURES + 7))
    index = OWN_INDEX.decode(next(str(op[3]) for op in curves.operations() if op[2] == INDEX))
    assert index.figures == MOST_FIGURES and index.dropped == MOST_FIGURES + 7 - MOST_CURVES
    assert index.unkept == 7  # the others have their last, least and greatest value


def test_parameters_and_values_that_are_not_finite_are_kept_with_the_job(backend: Timed) -> None:
    watching = monitor(backend)
    own = f"{JOB}/w.0/1"
    for values, count in (({"lr": "0.1", "net": "a"}, 2), ({"lr": "0.2"}, 3)):
        said = (OwnParameters(own, values, 4), OwnParameters("nonsense", values))
        lost = (OwnNotFinite(own, "loss", 1.0, count), OwnNotFinite("nonsense", "loss", 1.0, 1))
        backend.report("a", structs.replace(sample(1), parameters=said, not_finite=lost))
        watching.turn()
        watching = monitor(backend)  # another monitor goes on
    kept = backend.hgetall(KEYS.job_history(JOB))
    assert OWN_NOTES.decode(kept[notes_field("w.0")]) == OwnNotes({"lr": "0.2", "net": "a"}, {"loss": 5})
    index = OWN_INDEX.decode(kept[INDEX])
    assert (index.notes, index.left_out, index.not_finite, index.curves) == (3, 8, 5, [])


def test_the_parameters_of_a_job_are_bounded_and_it_says_how_many_are_missing() -> None:
    curves = OwnCurves(lambda key, fields: {})
    for task in range(MOST_NOTES // 50 + 1):
        curves.set_parameters("k", f"w.{task}", {f"p{at}": "x" for at in range(50)}, 0)
    curves.count_not_finite("k", "w.0", "loss", 7)
    curves.set_parameters("k", "w.0", {"p0": "new"}, 0)
    ops = {str(op[2]): str(op[3]) for op in curves.operations()}
    index = OWN_INDEX.decode(ops[INDEX])
    assert (index.notes, index.left_out) == (MOST_NOTES, 57)
    assert OWN_NOTES.decode(ops[notes_field("w.0")]).parameters["p0"] == "new"


def test_only_so_much_is_kept_of_ended_jobs() -> None:
    kept = {f"j{age}": JobHistory(-age, 10) for age in range(10)}
    assert too_many(kept, set(kept)) == []
    assert too_many(kept, set(kept) - {"j0"}) == ["j0"]
    assert too_many(kept, set(kept), most=8) == ["j8", "j9"]
    assert too_many(kept, set(kept), chunks=35) == ["j3", "j4", "j5", "j6", "j7", "j8", "j9"]


def test_the_history_of_a_deleted_job_is_removed(backend: Timed) -> None:
    watching = monitor(backend)
    backend.report("a", sample(10))
    watching.turn()
    assert backend.hgetall(KEYS.job_history(JOB)) and JOB in backend.hgetall(KEYS.history_jobs)
    backend.apply([("HDEL", KEYS.jobs, JOB)])
    watching._prune()
    assert not backend.hgetall(KEYS.job_history(JOB)) and JOB not in backend.hgetall(KEYS.history_jobs)


def snapshot() -> Snapshot:
    waits = Waits()
    record = first_record(Job("j", {"w": Component("w", ("true",))}, ("w",)), job_id="j-1", user="ann", now=10.0)
    waits.add(record)
    ended = sample(
        50, gpus=(GpuUsage(id=0, power=300.0), GpuUsage(id=1, error="lost")), rdma=(RdmaUsage("mlx5_0/1", 5, 6),)
    )
    return Snapshot(
        cluster="c",
        jobs={JobState.RUNNING: 3},
        tasks={TaskState.RUNNING: 7},
        queued={'a"\\n\n<b>': 4},
        longest_wait={"ann": 60.0},
        waits=waits,
        nodes=(NodeRecord(name="a", state=NodeState.READY, resources=Resources(cpu=8000)),),
        samples={"a": Sampled(1.0, ended)},
        running=tuple(("a", task) for task in ended.tasks),
        lag=0.25,
        redis={"used_memory": 5.0},
        disks={"home": Disk(1, 2)},
        collector=True,
        monitor=1.5,
        api=ApiFigures({"jobs.list": Operation([1] * (len(LATENCIES) + 1), 9.0, 2)}, 3),
    )


def test_the_page_is_accepted_by_the_parser_of_prometheus() -> None:
    families = {family.name: family for family in text_string_to_metric_families(page(snapshot()).decode())}
    figures = {
        (each.name, *dict(sorted(each.labels.items())).values()): each.value
        for family in families.values()
        for each in family.samples
    }
    assert figures["grass_jobs", "RUNNING"] == 3 and figures["grass_tasks", "RUNNING"] == 7
    assert figures["grass_queue_length", 'a"\\n\n<b>'] == 4
    assert figures["grass_gpu_power", "0", "a"] == 300 and figures["grass_gpu_lost", "1", "a"] == 1
    assert figures["grass_node_rdma_sent", "a", "mlx5_0/1"] == 5
    assert figures["grass_node_rdma_received", "a", "mlx5_0/1"] == 6
    assert figures["grass_task_memory", JOB, "a", "w.0"] == 77
    assert figures["grass_api_request_seconds_bucket", "+Inf", "jobs.list"] == len(LATENCIES) + 1
    assert figures["grass_api_errors_total", "jobs.list"] == 2 and figures["grass_collector_up",] == 1
    assert figures["grass_master_agent_lag_seconds",] == 0.25
    assert families["grass_job_start_seconds"].type == "histogram"


DEPLOY = Path(__file__).parents[2] / "deploy"


def test_the_dashboard_shows_only_figures_that_exist() -> None:
    board = json.loads((DEPLOY / "grafana" / "grass.json").read_text())
    families = {family.name for family in text_string_to_metric_families(page(snapshot()).decode())}
    families |= {f"grass_node_{name}" for name in ("network_sent", "network_received")}
    families |= {f"grass_gpu_{name}" for name in ("nvlink_sent",)} | {"grass_redis_aof_current_size"}
    shown = [target["expr"] for panel in board["panels"] for target in panel.get("targets", ())]
    used = {name for text in shown for name in re.findall(r"grass_\w+", text)}
    assert len(shown) > 20 and {re.sub("_(bucket|total)$", "", name) for name in used - families} <= families
    places = [tuple(panel["gridPos"].values()) for panel in board["panels"]]
    assert len(set(places)) == len(places) and all(x + width <= 24 for _, width, x, _ in places)


def test_the_scrape_configuration_is_that_of_the_guide() -> None:
    jobs = yaml.safe_load((DEPLOY / "prometheus" / "prometheus.yml").read_text())["scrape_configs"]
    assert [(job["job_name"], job.get("scheme", "http")) for job in jobs] == [
        ("grass", "http"),
        ("grass-tls", "https"),
        ("grass-token", "https"),
    ]
    assert all(job["metrics_path"] == "/metrics" for job in jobs)
    assert all(job["static_configs"][0]["labels"].keys() == {"cluster"} for job in jobs)
