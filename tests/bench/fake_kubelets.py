"""Machines of a real Kubernetes without programs: their kubelets are this process. Started by ``pods_fleet``.

They register, renew their leases, let each pod that kube-scheduler gives them begin and end after its time, serve its
log, and remove it when it is deleted. What each pod ran is a line in the file ``ran``: its uid and the key of its
attempt. A taint keeps other pods away. Prints a line once all machines are Ready; ends with its standard input, and
removes its machines then.
"""

from __future__ import annotations

import heapq
import ssl
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from datetime import datetime, timezone
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import count
from pathlib import Path
from typing import Any

sys.path[:0] = [str(Path(__file__).parents[2])]

from grass.errors import GrassError  # noqa: E402
from grass.kubernetes.api import ApiServer, RefusedError  # noqa: E402
from grass.kubernetes.informer import Change, Informer  # noqa: E402
from grass.kubernetes.names import ATTEMPT  # noqa: E402
from grass.kubernetes.objects import POD_EVENT, PODS, Pod  # noqa: E402
from tests.support import kubernetes  # noqa: E402
from tests.support.waiting import wait_until  # noqa: E402

LABEL = "grass-bench/fake"
TAINT = {"key": LABEL, "value": "yes", "effect": "NoSchedule"}
RENEW = 15.0
"""Seconds between two renewals of a lease: kube-controller-manager gives a machine 40."""
WRITERS = 16
LEASES = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases"


def now(form: str = "seconds") -> str:
    return datetime.now(timezone.utc).isoformat(timespec=form).replace("+00:00", "Z")


class Kubelets:
    """``seconds``: for which each task runs."""

    def __init__(self, server: ApiServer, machines: int, seconds: float, ran: Path) -> None:
        self.server, self.seconds = server, seconds
        self.names = [f"fake-{number:04}" for number in range(machines)]
        self.logs = _Logs(self)
        self.ended: dict[str, threading.Event] = {}
        """Pod → whether its task has ended, for its log."""
        self.lines: dict[str, bytes] = {}
        """Pod → its log."""
        self._ran = ran.open("a")
        self._writers = ThreadPoolExecutor(WRITERS)
        self._due: list[tuple[float, int, Callable[[], object]]] = []
        self._numbers = count()
        self._changed = threading.Condition()
        self._over = False
        self._known: dict[str, str] = {}
        """Uid of a pod → what was done last with it."""
        threading.Thread(target=self._run_due, daemon=True).start()
        self._informer: Informer[Pod] = Informer(
            server, "/api/v1/pods", PODS, POD_EVENT, lambda changes: [self._see(each) for each in changes] and None
        )

    def start(self) -> None:
        list(self._writers.map(self._register, self.names))
        self._informer.start()
        self._later(RENEW, self._renew)
        wait_until(lambda: all("taints" not in each or each["taints"] == [TAINT] for each in self._specs()), 60)

    def stop(self) -> None:
        self._over = True
        self._informer.stop()
        for name in self.names:
            for path in (f"/api/v1/nodes/{name}", f"{LEASES}/{name}"):
                self._writers.submit(self._quiet, lambda path=path: self.server.delete(path, kubernetes.ANY))
        self._writers.shutdown()

    def _specs(self) -> list[dict[str, Any]]:
        query = {"labelSelector": f"{LABEL}=yes"}
        return [each["spec"] for each in self.server.get("/api/v1/nodes", kubernetes.ANY, query)["items"]]

    def _register(self, name: str) -> None:
        amounts = {"cpu": "4", "memory": "16Gi", "pods": "110", "ephemeral-storage": "100Gi"}
        status = {
            "capacity": amounts,
            "allocatable": amounts,
            "conditions": [{"type": "Ready", "status": "True", "reason": "KubeletReady", "lastHeartbeatTime": now()}],
            "addresses": [{"type": "InternalIP", "address": "127.0.0.1"}],
            "daemonEndpoints": {"kubeletEndpoint": {"Port": self.logs.port}},
        }
        node = {"metadata": {"name": name, "labels": {LABEL: "yes"}}, "spec": {"taints": [TAINT]}, "status": status}
        spec = {"holderIdentity": name, "leaseDurationSeconds": 40, "renewTime": now("microseconds")}
        self.server.post("/api/v1/nodes", node, kubernetes.ANY)
        self._quiet(lambda: self.server.post(LEASES, {"metadata": {"name": name}, "spec": spec}, kubernetes.ANY))

    def _renew(self) -> None:
        for name in self.names if not self._over else ():
            body = {"spec": {"renewTime": now("microseconds")}}
            self._writers.submit(
                self._quiet, lambda name=name, body=body: self.server.patch(f"{LEASES}/{name}", body, kubernetes.ANY)
            )
        self._later(RENEW, self._renew)

    def _see(self, change: Change[Pod]) -> None:
        pod = change.now
        if pod is None or not pod.spec.node_name.startswith("fake-"):
            return
        uid, before = change.uid, self._known.get(change.uid, "")
        if pod.metadata.deletion_timestamp is not None and before not in ("ended", "removed"):
            self._known[uid] = "ended"
            self._writers.submit(self._quiet, lambda: self._end(pod, 143))
        elif pod.metadata.deletion_timestamp is not None and before == "ended":
            self._known[uid] = "removed"
            options = {"gracePeriodSeconds": 0, "preconditions": {"uid": uid}}
            self._writers.submit(self._quiet, lambda: self.server.delete(_path(pod), kubernetes.ANY, options))
        elif not before:
            self._known[uid] = "begun"
            self.ended[pod.metadata.name] = threading.Event()
            self.lines[pod.metadata.name] = f"{now('microseconds')} one line\n".encode()
            self._writers.submit(self._quiet, lambda: self._begin(pod))

    def _begin(self, pod: Pod) -> None:
        began = now()
        self._ran.write(f"{pod.metadata.uid} {pod.metadata.annotations[ATTEMPT]}\n")
        self._ran.flush()
        status = {"phase": "Running", "podIP": "10.9.0.1", "startTime": began}
        self._say(pod, {**status, "containerStatuses": [_container({"running": {"startedAt": began}})]})
        self._later(self.seconds, lambda: self._writers.submit(self._quiet, lambda: self._finish(pod)))

    def _finish(self, pod: Pod) -> None:
        if self._known.get(pod.metadata.uid) == "begun":
            self._known[pod.metadata.uid] = "ended"
            self._end(pod, 0)

    def _end(self, pod: Pod, code: int) -> None:
        state = {"terminated": {"exitCode": code, "startedAt": now(), "finishedAt": now(), "reason": "Completed"}}
        self.ended.setdefault(pod.metadata.name, threading.Event()).set()
        self._say(pod, {"phase": "Failed" if code else "Succeeded", "containerStatuses": [_container(state)]})

    def _say(self, pod: Pod, status: dict[str, Any]) -> None:
        self.server.patch(f"{_path(pod)}/status", {"status": status}, kubernetes.ANY)

    def _quiet(self, call: Callable[[], object]) -> None:
        """Make a request. What is gone meanwhile is gone."""
        try:
            call()
        except RefusedError as error:
            if error.http not in (404, 409):
                print(error, file=sys.stderr)
        except GrassError as error:
            print(error, file=sys.stderr)

    def _later(self, seconds: float, call: Callable[[], object]) -> None:
        with self._changed:
            heapq.heappush(self._due, (time.monotonic() + seconds, next(self._numbers), call))
            self._changed.notify()

    def _run_due(self) -> None:
        while True:
            with self._changed:
                while not self._due or self._due[0][0] > time.monotonic():
                    self._changed.wait(self._due[0][0] - time.monotonic() if self._due else None)
                _, _, call = heapq.heappop(self._due)
            call()


class _Logs:
    """What the API server asks a kubelet for: the log of a pod, which ends with its task."""

    def __init__(self, kubelets: Kubelets) -> None:
        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                pod = self.path.split("/")[3]
                self.send_response(200)
                self.end_headers()
                with suppress(OSError):
                    self.wfile.write(kubelets.lines.get(pod, b""))
                    if "follow=true" in self.path and pod in kubelets.ended:
                        kubelets.ended[pod].wait(600)

            def log_message(self, *_: object) -> None:
                pass

        tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        tls.load_cert_chain(kubernetes.STATE / "server.crt", kubernetes.STATE / "server.key")
        server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        server.daemon_threads, server.request_queue_size = True, 200
        server.socket = tls.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
        self.port = server.server_port
        threading.Thread(target=server.serve_forever, daemon=True).start()


def _path(pod: Pod) -> str:
    return f"/api/v1/namespaces/{pod.metadata.namespace}/pods/{pod.metadata.name}"


def _container(state: dict[str, Any]) -> dict[str, Any]:
    running = "running" in state
    more = {"image": "any", "imageID": "", "ready": running, "restartCount": 0, "started": running}
    return {"name": "task", "containerID": "fake://1", "state": state, "lastState": {}, **more}


def main() -> None:
    machines, seconds, ran = int(sys.argv[1]), float(sys.argv[2]), Path(sys.argv[3])
    kubelets = Kubelets(kubernetes.api(), machines, seconds, ran)
    try:
        kubelets.start()
        print("ready", flush=True)
        sys.stdin.read()
    finally:
        kubelets.stop()


if __name__ == "__main__":
    main()
