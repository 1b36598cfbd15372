"""The page ``/metrics`` in OpenMetrics text, from a snapshot. Only this module imports ``prometheus_client``.

Used by ``__main__``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.openmetrics.exposition import generate_latest

from grass.model.key_text import attempt_parts
from grass.model.lifecycle import JobState, NodeState, TaskState
from grass.wire.api_figures import LATENCIES
from grass.wire.usage import GpuUsage, TaskSample
from master.monitor.snapshot import Snapshot
from master.monitor.waits import BOUNDS

_CORE = 1000
Row = tuple[Sequence[str], float]


class _Page:
    """A registry as ``generate_latest`` expects it."""

    def __init__(self, families: Iterable[Metric]) -> None:
        self._families = families

    def collect(self) -> Iterable[Metric]:
        return self._families


def page(snapshot: Snapshot) -> bytes:
    families = [*_jobs(snapshot), *_nodes(snapshot), *_gpus(snapshot), *_tasks(snapshot), *_master(snapshot)]
    text: bytes = generate_latest(_Page(families))  # type: ignore[no-untyped-call]
    return text


def _gauge(name: str, about: str, labels: Sequence[str], rows: Iterable[Row], unit: str = "") -> GaugeMetricFamily:
    family = GaugeMetricFamily(f"grass_{name}", about, labels=labels, unit=unit)
    for values, figure in rows:
        family.add_metric(values, figure)
    return family


def _counter(name: str, about: str, labels: Sequence[str], rows: Iterable[Row], unit: str = "") -> CounterMetricFamily:
    family = CounterMetricFamily(f"grass_{name}", about, labels=labels, unit=unit)
    for values, figure in rows:
        family.add_metric(values, figure)
    return family


def _classes(bounds: Sequence[float], counts: Sequence[int]) -> list[tuple[str, float]]:
    """Return cumulative classes, as histograms have them."""
    total, found = 0, []
    for bound, count in zip((*(repr(float(each)) for each in bounds), "+Inf"), counts, strict=True):
        total += count
        found.append((bound, float(total)))
    return found


def _jobs(now: Snapshot) -> Iterator[Metric]:
    yield _gauge("jobs", "Jobs by state", ["state"], (([state.value], now.jobs.get(state, 0)) for state in JobState))
    yield _gauge(
        "tasks", "Tasks of active jobs by state", ["state"], (([s.value], now.tasks.get(s, 0)) for s in TaskState)
    )
    yield _gauge("queue_length", "Jobs that wait, by user", ["user"], (([u], n) for u, n in now.queued.items()))
    waits = (([user], seconds) for user, seconds in now.longest_wait.items())
    yield _gauge("queue_longest_wait_seconds", "How long the oldest job of a user waits", ["user"], waits, "seconds")
    start = HistogramMetricFamily(
        "grass_job_start_seconds", "From submission to start of jobs that ended", unit="seconds"
    )
    start.add_metric([], _classes(BOUNDS, now.waits.counts), sum_value=now.waits.seconds)
    yield start


def _nodes(now: Snapshot) -> Iterator[Metric]:
    states = (([node.name, s.value], float(node.state is s)) for node in now.nodes for s in NodeState)
    yield _gauge("node_state", "1 for the state of a node", ["node", "state"], states)
    for kind, unit in (("cpu", _CORE), ("memory", 1), ("gpu", 1000)):
        offered = (([node.name], getattr(node.resources, kind) / unit) for node in now.nodes)
        free = (([node.name], getattr(node.free, kind) / unit) for node in now.nodes)
        yield _gauge(f"node_{kind}_offered", f"{kind} for tasks: cores, bytes or devices", ["node"], offered)
        yield _gauge(f"node_{kind}_free", f"{kind} that is not allocated", ["node"], free)
    for name, about in _OF_NODE.items():
        rows = (([node], getattr(each.sample.node, name)) for node, each in now.samples.items())
        yield _gauge(f"node_{name}", about, ["node"], ((labels, float(f)) for labels, f in rows if f is not None))
    ports = [(node, port) for node, each in now.samples.items() for port in each.sample.node.rdma]
    for name in ("sent", "received"):
        values = (([node, port.port], float(getattr(port, name))) for node, port in ports)
        yield _gauge(f"node_rdma_{name}", "Bytes per second of an RDMA port", ["node", "port"], values)


_OF_NODE = {
    "cpu": "Percent of all cores in use",
    "load": "Load average over one minute",
    "memory": "Bytes of memory in use",
    "memory_total": "Bytes of memory",
    "disk_used": "Bytes in use on the disk of the node's folder",
    "disk_total": "Bytes of this disk",
    "disk_read": "Bytes per second read from disks",
    "disk_written": "Bytes per second written to disks",
    "network_sent": "Bytes per second sent",
    "network_received": "Bytes per second received",
    "power": "Watts of the CPU packages",
}
_OF_GPU = {
    "utilisation": "Percent of the time in which a kernel ran",
    "memory": "Bytes of device memory in use",
    "memory_total": "Bytes of device memory",
    "power": "Watts",
    "temperature": "Degrees Celsius",
    "clock": "MHz of the multiprocessors",
    "ecc": "Uncorrected memory errors since the last reset",
    "nvlink_sent": "Bytes per second over all NVLinks",
    "nvlink_received": "Bytes per second over all NVLinks",
}


def _gpus(now: Snapshot) -> Iterator[Metric]:
    devices: list[tuple[str, GpuUsage]] = [
        (node, gpu) for node, each in now.samples.items() for gpu in each.sample.node.gpus
    ]
    for name, about in _OF_GPU.items():
        rows = (([node, str(gpu.id)], getattr(gpu, name)) for node, gpu in devices)
        values = ((labels, float(figure)) for labels, figure in rows if figure is not None)
        yield _gauge(f"gpu_{name}", about, ["node", "gpu"], values)
    faults = (([node, str(gpu.id)], float(gpu.error is not None)) for node, gpu in devices)
    yield _gauge("gpu_lost", "1 if the device does not answer", ["node", "gpu"], faults)


_OF_TASK = {
    "cpu": "Cores in use",
    "memory": "Bytes of memory in use",
    "gpu": "Percent of its devices",
    "gpu_memory": "Bytes of device memory in use",
    "read": "Bytes per second read from disks",
    "written": "Bytes per second written to disks",
    "power": "Watts of its share of GPUs and CPU packages",
}


def _tasks(now: Snapshot) -> Iterator[Metric]:
    for name, about in _OF_TASK.items():
        rows = ((_labels(node, task), getattr(task, name)) for node, task in now.running)
        values = ((labels, float(figure)) for labels, figure in rows if figure is not None)
        yield _gauge(f"task_{name}", about, ["job", "task", "node"], values)


def _labels(node: str, task: TaskSample) -> list[str]:
    job_id, name, _ = attempt_parts(task.key)
    return [job_id, name, node]


def _master(now: Snapshot) -> Iterator[Metric]:
    yield _gauge(
        "master_agent_lag_seconds", "Age of the oldest message it has not taken", [], [([], now.lag)], "seconds"
    )
    latency = HistogramMetricFamily(
        "grass_api_request_seconds", "Requests to the API", labels=["operation"], unit="seconds"
    )
    for name, operation in now.api.operations.items():
        latency.add_metric([name], _classes(LATENCIES, operation.counts), sum_value=operation.seconds)
    yield latency
    errors = (([name], float(operation.errors)) for name, operation in now.api.operations.items())
    yield _counter("api_errors", "Requests answered with a status of 500 or more", ["operation"], errors)
    yield _gauge("api_waiting", "Requests that wait or follow", [], [([], now.api.waiting)])
    for name, figure in now.redis.items():
        yield _gauge(f"redis_{name}", f"INFO of redis: {name}", [], [([], figure)])
    disks = list(now.disks.items())
    yield _gauge("disk_free_bytes", "Free on the master", ["disk"], (([n], disk.free) for n, disk in disks), "bytes")
    yield _gauge("disk_size_bytes", "Size on the master", ["disk"], (([n], disk.total) for n, disk in disks), "bytes")
    yield _gauge("collector_up", "1 if the log collector takes connections", [], [([], float(now.collector))])
    yield _counter("monitor_cpu_seconds", "CPU time of the monitor", [], [([], now.monitor)], "seconds")
