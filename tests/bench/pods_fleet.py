"""Many pods of one namespace on many machines whose kubelets are fake (``fake_kubelets``), on a real Kubernetes.

From the start of all tasks until the runtime has told all ends, with their logs, and all pods are gone: pods a second,
the part of kube-scheduler (it binds at most 50 a second as it is set by default), and what the runtime takes meanwhile.
Each attempt must have run once, in one pod: the kubelets write down what they run.

2026-11-27, 2 cores, load 24, 1,500 pods on 500 machines: 15.7 tasks a second from start to end, 13 ms of processor time
and 26 kB of memory a pod with its log, all logs whole, none twice.
Needs root and a real Kubernetes (tests/support/kubernetes.py).
"""

from __future__ import annotations

import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parents[2])]

import figures  # noqa: E402
import psutil  # noqa: E402
from fake_kubelets import LABEL, TAINT  # noqa: E402
from pods import NEVER, Bench  # noqa: E402

from node.runtime.attempts import Folders  # noqa: E402
from node.runtime.protocol import Observed, RuntimeEvent, Start  # noqa: E402
from tests.support import kubernetes  # noqa: E402
from tests.support.pod_run import SETTINGS  # noqa: E402
from tests.support.waiting import wait_until  # noqa: E402

TASK = NEVER._replace(cpu=1000, where={LABEL: ("yes",)})
TOLERANT = replace(SETTINGS, tolerations=({key: TAINT[key] for key in ("key", "effect")} | {"operator": "Exists"},))


@contextmanager
def kubelets(machines: int, seconds: float, ran: Path) -> Iterator[None]:
    program = [sys.executable, str(Path(__file__).with_name("fake_kubelets.py")), str(machines), str(seconds), str(ran)]
    with subprocess.Popen(program, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        if process.stdout.readline() != "ready\n":
            sys.exit("the kubelets did not start")
        try:
            yield
        finally:
            process.stdin.close()


def main() -> None:
    parser = figures.arguments(__doc__, rounds=1)
    parser.add_argument("--machines", type=int, default=500, help="(default: %(default)s)")
    parser.add_argument("--pods", type=int, default=1500, help="of one round (default: %(default)s)")
    parser.add_argument("--seconds", type=float, default=5.0, help="for which a task runs (default: %(default)s)")
    options = parser.parse_args()
    kubernetes.start()
    with tempfile.TemporaryDirectory() as folder, kubelets(options.machines, options.seconds, Path(folder) / "ran"):
        found = [figure for number in range(options.rounds) for figure in _round(options.pods, number, Path(folder))]
        wrong = _wrong(Path(folder) / "ran", options.pods * options.rounds)
    merged = [
        figures.Figure(name, [sample for each in found if each.name == name for sample in each.samples], unit)
        for name, unit in dict.fromkeys((each.name, each.unit) for each in found)
    ]
    title = f"{options.pods} pods on {options.machines} fake machines; {wrong}"
    figures.report(options, title, merged, "each attempt runs once; 3 kB of memory a pod, without its log")


def _round(count: int, number: int, folder: Path) -> list[figures.Figure]:
    with kubernetes.namespace() as (server, name):
        one = Bench(server, name, str(folder / str(number)), TOLERANT)
        try:
            one.runtime.define({"b-1/fleet": TASK})
            starts = [
                Start(f"b-1/fleet.{each}/1", "b-1/fleet", {}) for each in range(number * count, (number + 1) * count)
            ]
            return _measured(one, starts)
        finally:
            one.runtime.close()


def _measured(one: Bench, starts: list[Start]) -> list[figures.Figure]:
    left, codes = {start.key for start in starts}, dict[str, int | None]()
    process, before = psutil.Process(), resource.getrusage(resource.RUSAGE_SELF)
    memory, began = process.memory_info().rss, time.perf_counter()
    one.runtime.start(starts)

    def over(event: RuntimeEvent) -> bool:
        if isinstance(event, Observed) and event.ended is not None:
            codes[event.key] = event.code
            left.discard(event.key)
            one.runtime.forget([event.key])
        return not left

    one.watch(over)
    took = time.perf_counter() - began
    grown = max(0, process.memory_info().rss - memory)
    wait_until(lambda: one.runtime.receive() is not None and not _pods(one), 300, "the last pod is gone")
    after = resource.getrusage(resource.RUSAGE_SELF)
    used = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    lines = sum(Path(Folders(one.place.folder).path(key, "stdout")).read_text() == "one line\n" for key in codes)
    return [
        figures.Figure("tasks from start to end", [len(starts) / took], "/s"),
        figures.Figure("CPU of the runtime", [1000 * used / len(starts)], "ms/pod"),
        figures.Figure("memory, with all pods known", [grown / 1000 / len(starts)], "kB/pod"),
        figures.Figure("tasks that ended with 0", [float(list(codes.values()).count(0))], ""),
        figures.Figure("whole logs", [float(lines)], ""),
    ]


def _pods(one: Bench) -> list[object]:
    items: list[object] = one.server.get(one.place.path, kubernetes.ANY, {"limit": 1})["items"]
    return items


def _wrong(ran: Path, wanted: int) -> str:
    """Return what the kubelets saw: how many attempts, and how many of them twice."""
    pairs = {tuple(line.split()) for line in ran.read_text().split("\n") if line}
    keys = [key for _, key in pairs]
    return f"{len(set(keys))} of {wanted} attempts ran, {len(keys) - len(set(keys))} twice"


if __name__ == "__main__":
    main()
