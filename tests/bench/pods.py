"""What the node that is a namespace of Kubernetes takes, beside bare clients of the same API server, in turns.

Creation: pods that no machine can take, by the runtime and by as many threads that only send the same bodies. End: from
the last instruction of a real pod until a bare watch sees its container ended, and until the runtime tells it, with the
whole log copied. List: the first list of so many pods by the informer, and the same answers read with ``json.loads``.
Idle: the agent of a namespace. Import: of the client alone.

2026-11-27, 2 cores that others used, too (load 2 to 35): import of the client 69 ms of processor time, of which 34 are
the messages that every daemon has (9 rounds). Created 0.88 × bare (0.62 to 1.32, 5 rounds of 200 pods at load 5; 0.77
at load 28). First list of 5,000 pods 1.33 s, 0.77 × a bare client's, beside 1.27 s of ``json.loads`` (Grass's
decoding: 0.04 × that), 2.5 kB a pod (5 rounds). Idle agent 0.1 % of a core and 34 MiB (3 rounds). End known 1.02 × a
bare watch (2 rounds, load 16).
Needs root and a real Kubernetes (tests/support/kubernetes.py).
"""

from __future__ import annotations

import http.client
import json
import os
import resource
import select
import ssl
import subprocess
import sys
import tempfile
import threading
import time
import tracemalloc
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parents[2])]

import figures  # noqa: E402
import local_cluster  # noqa: E402
import psutil  # noqa: E402
from memory import pss  # noqa: E402

from grass.kubernetes.api import ApiServer  # noqa: E402
from grass.kubernetes.credentials import Credential, Credentials, Login  # noqa: E402
from grass.kubernetes.informer import PAGE, Informer  # noqa: E402
from grass.kubernetes.objects import POD_EVENT, PODS, Pod  # noqa: E402
from grass.model.pod_security import Part  # noqa: E402
from grass.node_config import KubernetesConfig  # noqa: E402
from node.runtime.attempts import Folders  # noqa: E402
from node.runtime.kubernetes.place import Place  # noqa: E402
from node.runtime.kubernetes.pods import pod  # noqa: E402
from node.runtime.kubernetes.runtime import PodRuntime  # noqa: E402
from node.runtime.protocol import Launch, Observed, RuntimeEvent, Start, Waiting  # noqa: E402
from node.runtime.reactor import STARTERS  # noqa: E402
from tests.support import kubernetes  # noqa: E402
from tests.support.engine import IMAGE  # noqa: E402
from tests.support.pod_run import SETTINGS  # noqa: E402

TOO_LARGE = 1_000_000
"""Thousandths of a core that no machine has."""
NEVER = Launch(["true"], {}, None, 1.0, runtime="kubernetes", image=IMAGE, cpu=TOO_LARGE, memory=16 << 20)
ENDS = NEVER._replace(argv=["/bin/sh", "-c", "sleep 1; cat /proc/uptime"], cpu=10)


class Bare:
    """One kept-alive connection that only sends and reads."""

    def __init__(self, login: Credentials) -> None:
        address = urlsplit(login.server)
        tls = ssl.create_default_context(cadata=login.ca)
        with tempfile.NamedTemporaryFile("w") as pem:
            pem.write(f"{login.certificate}\n{login.key}\n")
            pem.flush()
            tls.load_cert_chain(pem.name)
        self.http = http.client.HTTPSConnection(address.hostname or "", address.port, context=tls)

    def __call__(self, method: str, path: str, body: str | None = None) -> bytes:
        self.http.request(method, path, body, {"Content-Type": "application/json", "Accept": "application/json"})
        answer = self.http.getresponse()
        content = answer.read()
        if answer.status >= 300:
            raise RuntimeError(content.decode())
        return content


class Bench:
    """A namespace, and a runtime in it. ``login``: an administrator's."""

    def __init__(self, server: ApiServer, namespace: str, folder: str, settings: KubernetesConfig = SETTINGS) -> None:
        self.server = server
        self.login = Login(str(kubernetes.KUBECONFIG)).read()
        self.place = Place("bench", "n", namespace, folder, f"{folder}/jobs")
        self.runtime = PodRuntime(self.api(), self.place, settings, tombstone=0.0)
        self.runtime.define({"b-1/never": NEVER, "b-1/ends": ENDS})
        self.watch(lambda event: not isinstance(event, (Waiting, Observed)))  # its first list

    def api(self) -> ApiServer:
        return ApiServer(Credential(lambda: self.login))

    def watch(self, found: Callable[[RuntimeEvent], bool]) -> None:
        while True:
            select.select([self.runtime], [], [], 0.05)
            if any([found(event) for event in self.runtime.receive()]):
                return

    def bodies(self, first: int, count: int) -> Iterator[tuple[Start, Part]]:
        for number in range(first, first + count):
            start = Start(f"b-1/never.{number}/1", "b-1/never", {})
            yield start, pod("bare", "n", start, NEVER, SETTINGS)


@contextmanager
def bench() -> Iterator[Bench]:
    with kubernetes.namespace() as (server, name), tempfile.TemporaryDirectory() as folder:
        made = Bench(server, name, folder)
        try:
            yield made
        finally:
            made.runtime.close()


def creation(rounds: int, count: int) -> list[figures.Figure]:
    ours, theirs = figures.Figure("pods created, Grass", [], "/s"), figures.Figure("pods created, bare", [], "/s")
    for _ in range(rounds):
        with bench() as one:
            starts = [start for start, _ in one.bodies(0, count)]
            left = {start.key for start in starts}
            began = time.perf_counter()
            one.runtime.start(starts)

            def made(event: RuntimeEvent, left: set[str] = left) -> bool:
                if isinstance(event, Waiting):
                    left.discard(event.key)
                return not left

            one.watch(made)
            ours.samples.append(count / (time.perf_counter() - began))
        with bench() as one:
            theirs.samples.append(count / create(one, count))
    return [ours, theirs, figures.ratio(ours, theirs)]


def create(one: Bench, count: int) -> float:
    """Create pods with a bare client. Return the seconds that it took."""
    bodies = iter([json.dumps(body) for _, body in one.bodies(0, count)])
    lock = threading.Lock()

    def send() -> None:
        bare = Bare(one.login)
        while True:
            with lock:
                body = next(bodies, None)
            if body is None:
                return
            bare("POST", one.place.path, body)

    began = time.perf_counter()
    with ThreadPoolExecutor(STARTERS) as threads:
        for done in [threads.submit(send) for _ in range(STARTERS)]:
            done.result()
    return time.perf_counter() - began


def end(rounds: int) -> list[figures.Figure]:
    ours, theirs = figures.Figure("end known, Grass", [], "ms"), figures.Figure("end known, bare watch", [], "ms")
    with bench() as one:
        for number in range(rounds):
            key, seen = f"b-1/ends.{number}/1", threading.Event()
            version = json.loads(Bare(one.login)("GET", one.place.path))["metadata"]["resourceVersion"]
            when: list[float] = []
            path = f"{one.place.path}?watch=true&resourceVersion={version}"
            thread = threading.Thread(target=_watch_end, args=(one.login, path, key, when, seen), daemon=True)
            thread.start()
            one.runtime.start([Start(key, "b-1/ends", {})])
            one.watch(lambda event, key=key: isinstance(event, Observed) and event.key == key and bool(event.ended))
            told = _boot_seconds()
            seen.wait(10)
            last = float(Path(Folders(one.place.folder).path(key, "stdout")).read_text().split()[0])
            ours.samples.append((told - last) * 1000)
            theirs.samples.append((when[0] - last) * 1000)
            one.runtime.forget([key])
    return [ours, theirs, figures.ratio(ours, theirs)]


def _watch_end(login: Credentials, path: str, key: str, when: list[float], seen: threading.Event) -> None:
    bare = Bare(login).http
    bare.request("GET", path)
    for line in bare.getresponse():
        found = json.loads(line)["object"]
        states = [each["state"] for each in found["status"].get("containerStatuses", ())]
        if key in found["metadata"]["annotations"].values() and any("terminated" in each for each in states):
            when.append(_boot_seconds())
            seen.set()
            return


def _boot_seconds() -> float:
    return time.clock_gettime(time.CLOCK_BOOTTIME)


def first_list(rounds: int, count: int) -> list[figures.Figure]:
    ours, theirs = figures.Figure("first list, informer", [], "s"), figures.Figure("first list, bare", [], "s")
    loads, decodes = figures.Figure("json.loads of it", [], "s"), figures.Figure("Grass's decoding of it", [], "s")
    kept = figures.Figure("memory of a pod", [], "kB")
    with bench() as one:
        create(one, count)
        for _ in range(rounds):
            began = time.perf_counter()
            pages = []
            bare, more = Bare(one.login), ""
            while True:
                pages.append(bare("GET", f"{one.place.path}?limit={PAGE}{more}"))
                token = json.loads(pages[-1])["metadata"].get("continue")
                if not token:
                    break
                more = f"&continue={token}"
            theirs.samples.append(time.perf_counter() - began)
            listed = threading.Event()
            informer: Informer[Pod] = Informer(
                one.api(), one.place.path, PODS, POD_EVENT, lambda _, it=listed: it.set()
            )
            began = time.perf_counter()
            informer.start()
            listed.wait()
            ours.samples.append(time.perf_counter() - began)
            informer.stop()
            loads.samples.append(_timed(lambda pages=pages: [json.loads(each) for each in pages]))
            decodes.samples.append(_timed(lambda pages=pages: [PODS.decode(each) for each in pages]))
            tracemalloc.start()
            found = [PODS.decode(each) for each in pages]
            kept.samples.append(tracemalloc.get_traced_memory()[0] / 1000 / sum(len(each.items) for each in found))
            tracemalloc.stop()
    ratios = [figures.ratio(ours, theirs), figures.ratio(ours, loads), figures.ratio(decodes, loads)]
    return [ours, theirs, decodes, loads, *ratios, kept]


def _timed(work: Callable[[], object]) -> float:
    began = time.perf_counter()
    kept = work()
    took = time.perf_counter() - began
    del kept
    return took


def idle(rounds: int, seconds: float) -> list[figures.Figure]:
    cpu, memory = figures.Figure("idle agent, CPU", [], "%"), figures.Figure("idle agent, PSS", [], "MiB")
    with kubernetes.namespace() as (_, name), local_cluster.LocalCluster() as cluster:
        size = ["--kubeconfig", str(kubernetes.KUBECONFIG), "--cpu", "1", "--memory", "1GiB"]
        local_cluster.run("node", "add", "--kubernetes", name, "--name", "pods", *size)
        [agent] = [
            each
            for each in psutil.process_iter(["cmdline"])
            if "node.agent" in (each.info["cmdline"] or ())
            and str(cluster.home) in str(each.info["cmdline"])
            and "/nodes/pods/" in str(each.info["cmdline"])
        ]
        for _ in range(rounds):
            before = sum(agent.cpu_times()[:2])
            time.sleep(seconds)
            cpu.samples.append(100 * (sum(agent.cpu_times()[:2]) - before) / seconds)
            memory.samples.append(pss(agent.pid, set()))
    return [cpu, memory]


def imports(rounds: int) -> list[figures.Figure]:
    """Processor time, which other programs do not change. Messages of Grass are what each of its daemons imports."""
    programs = {
        "messages": "import grass.wire.codec",
        "client": "import grass.kubernetes.api, grass.kubernetes.informer",
    }
    messages, client = (figures.Figure(f"import of the {name}", [], "ms") for name in programs)
    for _ in range(rounds):
        python, *taken = (_processor_time(code) for code in ("pass", *programs.values()))
        for figure, one in zip((messages, client), taken, strict=True):
            figure.samples.append(1000 * (one - python))
    pairs = zip(client.samples, messages.samples, strict=True)
    return [messages, client, figures.Figure("client beside messages", [mine - other for mine, other in pairs], "ms")]


def _processor_time(code: str) -> float:
    """Run a program in a Python of its own. Return its seconds of processor time."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([sys.executable, "-c", code], check=True, env={**os.environ, "PYTHONPATH": os.getcwd()})
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def main() -> None:
    parser = figures.arguments(__doc__, rounds=3)
    parser.add_argument("--created", type=int, default=100, help="pods of one round of creation (default: %(default)s)")
    parser.add_argument("--pods", type=int, default=5000, help="pods of the list (default: %(default)s)")
    parser.add_argument("--seconds", type=float, default=20, help="of one round of idling (default: %(default)s)")
    options = parser.parse_args()
    kubernetes.start()
    found = [*imports(options.rounds), *creation(options.rounds, options.created), *end(options.rounds)]
    found += [*first_list(options.rounds, options.pods), *idle(options.rounds, options.seconds)]
    wanted = (
        "creation at least 0.8 × bare, end known at most 1.5 × a bare watch, first list at most 2 × its JSON, "
        "idle at most 1 % of a core and 90 MiB, 3 kB a pod, import of the client at most 80 ms"
    )
    figures.report(options, "a namespace of Kubernetes", found, wanted)


if __name__ == "__main__":
    main()
