"""The page ``/metrics`` in OpenMetrics text, from a snapshot. Only this module imports ``prometheus_client``.

Used by ``__main__``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.openmetrics.exposition import generate_latest

from grass.model.figures import GPU, OF_NODE, OF_TASK, PORT, Figure
from grass.model.key_text import attempt_parts
from grass.model.lifecycle import JobState, NodeState, TaskState
from grass.wire.api_figures import LATENCIES
from grass.wire.usage import TaskSample
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
    samples = [([node], each.sample.node) for node, each in now.samples.items()]
    yield from _measured("node", ["node"], OF_NODE, samples)
    ports = [([node, port.port], port) for [node], sample in samples for port in sample.rdma]
    yield from _measured("node_rdma", ["node", "port"], OF_NODE, ports, PORT)


def _measured(
    what: str, labels: Sequence[str], figures: Iterable[Figure], rows: Sequence[tuple[list[str], object]], of: str = ""
) -> Iterator[Metric]:
    """Yield a gauge for each figure of one kind of device. ``rows``: values of the labels, and what was measured."""
    for figure in figures:
        if figure.devices == of:
            values = ((names, getattr(measured, figure.name)) for names, measured in rows)
            known = ((names, float(value)) for names, value in values if value is not None)
            yield _gauge(f"{what}_{figure.name}", figure.about, labels, known)


def _gpus(now: Snapshot) -> Iterator[Metric]:
    devices = [([node, str(gpu.id)], gpu) for node, each in now.samples.items() for gpu in each.sample.node.gpus]
    yield from _measured("gpu", ["node", "gpu"], OF_NODE, devices, GPU)
    faults = ((labels, float(gpu.error is not None)) for labels, gpu in devices)
    yield _gauge("gpu_lost", "1 if the device does not answer", ["node", "gpu"], faults)


def _tasks(now: Snapshot) -> Iterator[Metric]:
    tasks = [(_labels(node, task), task) for node, task in now.running]
    yield from _measured("task", ["job", "task", "node"], OF_TASK, tasks)


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
