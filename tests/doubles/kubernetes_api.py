"""A double of a Kubernetes API server: objects, watches, logs, rights. No kubelet: a test says what becomes of a pod.

``tests/contract/test_kubernetes_api.py`` holds it to what the real server answers. Without TLS; any token is accepted.
"""

from __future__ import annotations

import copy
import itertools
import json
import re
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import datetime, timezone
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple
from urllib.parse import parse_qsl, urlsplit

from grass.kubernetes.api import ApiServer
from grass.kubernetes.credentials import Credential, Credentials

Body = dict[str, Any]
_PATH = re.compile(r"(/(?:api/v1|apis/[^/]+/[^/]+)/namespaces/([^/]+)/([^/]+))(?:/([^/]+))?(?:/([^/]+))?$")


class RefusalError(Exception):
    """``code``: HTTP status; 0: the connection is closed instead. ``reason`` and ``message``: of the Status."""

    def __init__(self, code: int, reason: str, message: str = "", field: str = "") -> None:
        super().__init__(message or reason)
        self.code, self.reason, self.message, self.field = code, reason, message or reason, field


class Asked(NamedTuple):
    method: str
    path: str
    query: dict[str, str]
    body: Body


class KubernetesApi:
    """``asked``: requests, in the order in which they came. ``refuse``: called with each; it may raise RefusalError."""

    def __init__(self, namespace: str = "lab") -> None:
        self.namespace = namespace
        self.path = f"/api/v1/namespaces/{namespace}/pods"
        self.version = {"major": "1", "minor": "20", "gitVersion": "v1.20.2"}
        self.denied: set[tuple[str, str]] = set()
        """(verb, resource) that the user may not do."""
        self.groups = ["apps"]
        """API groups."""
        self.asked: list[Asked] = []
        self.refuse: Callable[[Asked], None] = lambda asked: None
        self.objects: dict[str, Body] = {}
        self._logs: dict[str, list[bytes]] = {}
        self._numbers = itertools.count(1)
        self._events: list[tuple[int, str, str, Body]] = []
        """Version, collection, type and object of each change."""
        self._changed = threading.Condition()
        self._ended = False
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), type("Handler", (_Handler,), {"of": self}))
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def close(self) -> None:
        with self._changed:
            self._ended = True
            self._changed.notify_all()
        self._server.shutdown()
        self._server.server_close()

    def api(self) -> ApiServer:
        return ApiServer(Credential(lambda: Credentials(self.url, token="any")))

    # what a test does in the place of machines

    def pods(self) -> list[Body]:
        with self._changed:
            return [copy.deepcopy(each) for path, each in self.objects.items() if path.startswith(f"{self.path}/")]

    def begin(self, name: str) -> None:
        """Let the task of a pod run."""
        state = {"running": {"startedAt": _now()}}
        self.say(name, {"phase": "Running", "containerStatuses": [{"name": "task", "state": state}]})

    def end(self, name: str, code: int) -> None:
        """Let the task of a pod end, and with it what follows its log."""
        state = {"terminated": {"exitCode": code, "startedAt": _now(), "finishedAt": _now()}}
        phase = "Failed" if code else "Succeeded"
        self.say(name, {"phase": phase, "containerStatuses": [{"name": "task", "state": state}]})

    def say(self, name: str, status: Body) -> None:
        """Set the status of a pod."""
        with self._changed:
            found = self.objects[f"{self.path}/{name}"]
            self._put("MODIFIED", self.path, {**found, "status": status})

    def write(self, name: str, text: str) -> None:
        """Add a line to the log of a pod."""
        with self._changed:
            number = len(self._logs.setdefault(name, []))
            self._logs[name].append(f"2026-11-27T08:00:00.{number:09}Z {text}\n".encode())
            self._changed.notify_all()

    def tell(self, collection: str, name: str, content: Body) -> None:
        """Add an object, as an administrator."""
        self._post(collection, {"metadata": {"name": name}, **content})

    # requests

    def answer(self, asked: Asked) -> Body:
        with self._changed:
            self.asked.append(asked)
        self.refuse(asked)
        if asked.path == "/version":
            return self.version
        if asked.path.endswith("/selfsubjectaccessreviews"):
            return self._review(asked.body)
        if asked.path == "/apis":
            return {"groups": [{"name": each} for each in self.groups]}
        if asked.path == "/api/v1/nodes":
            return self._machines()
        match = _PATH.match(asked.path)
        if match is None or match[2] != self.namespace:
            name = match[2] if match else asked.path
            raise RefusalError(404, "NotFound", f'namespaces "{name}" not found')
        with self._changed:
            return self._answer(asked, match[1], match[4])

    def _answer(self, asked: Asked, collection: str, name: str | None) -> Body:
        if name is None:
            if asked.method == "POST":
                return self._post(collection, asked.body, stored="dryRun" not in asked.query)
            return self._list(collection, asked.query.get("labelSelector", ""))
        path = f"{collection}/{name}"
        found = self.objects.get(path)
        if found is None:
            raise RefusalError(404, "NotFound", f'{collection.rpartition("/")[2]} "{name}" not found')
        match asked.method:
            case "PUT":
                return self._replace(collection, found, asked.body)
            case "PATCH":
                return self._patch(collection, found, asked.body)
            case "DELETE":
                return self._delete(collection, found, asked.body)
            case _:
                return found

    def _review(self, body: Body) -> Body:
        wanted = body["spec"]["resourceAttributes"]
        resource = "/".join(wanted[each] for each in ("resource", "subresource") if each in wanted)
        return {"status": {"allowed": (wanted["verb"], resource) not in self.denied}}

    def _machines(self) -> Body:
        if ("list", "nodes") in self.denied:
            raise RefusalError(403, "Forbidden", 'cannot list resource "nodes"')
        return self._list("/api/v1/nodes", "")

    def _list(self, collection: str, selector: str) -> Body:
        items = [each for path, each in self.objects.items() if path.rpartition("/")[0] == collection]
        items = [each for each in items if _selected(each, selector)]
        return {"metadata": {"resourceVersion": str(self._last())}, "items": items}

    def _post(self, collection: str, body: Body, *, stored: bool = True) -> Body:
        with self._changed:
            number = next(self._numbers)
            metadata = {"name": f"{body['metadata'].get('generateName', '')}{number}", **body["metadata"]}
            metadata |= {"uid": f"uid-{number}", "creationTimestamp": _now(), "namespace": self.namespace}
            path = f"{collection}/{metadata['name']}"
            if path in self.objects:
                raise RefusalError(409, "AlreadyExists", f'"{metadata["name"]}" already exists')
            made = {**body, "metadata": metadata}
            return self._put("ADDED", collection, made) if stored else made

    def _replace(self, collection: str, found: Body, body: Body) -> Body:
        sent = body["metadata"].get("resourceVersion")
        if sent and sent != found["metadata"]["resourceVersion"]:
            raise RefusalError(409, "Conflict", "the object has been modified")
        return self._put("MODIFIED", collection, {**body, "metadata": {**found["metadata"], **body["metadata"]}})

    def _patch(self, collection: str, found: Body, body: Body) -> Body:
        metadata, wanted = dict(found["metadata"]), dict(body["metadata"])
        if wanted.pop("uid", metadata["uid"]) != metadata["uid"]:
            raise RefusalError(422, "Invalid", "metadata.uid: field is immutable", field="metadata.uid")
        gone = wanted.pop("$deleteFromPrimitiveList/finalizers", [])
        if gone and "finalizers" not in metadata and "deletionTimestamp" in metadata:
            raise RefusalError(422, "Invalid", "no new finalizers can be added", field="metadata.finalizers")
        metadata["finalizers"] = [each for each in metadata.get("finalizers", []) if each not in gone]
        for name, values in wanted.items():
            metadata[name] = {**metadata.get(name, {}), **values} if isinstance(values, dict) else values
        changed = {**found, **body, "metadata": metadata}
        if metadata.get("deletionTimestamp") and not metadata["finalizers"]:
            return self._gone(collection, changed)
        return self._put("MODIFIED", collection, changed)

    def _delete(self, collection: str, found: Body, body: Body) -> Body:
        metadata = found["metadata"]
        if body.get("preconditions", {}).get("uid", metadata["uid"]) != metadata["uid"]:
            raise RefusalError(409, "Conflict", "the UID in the precondition is another one")
        ends_later = found.get("spec", {}).get("nodeName") and body.get("gracePeriodSeconds", 30)
        if not metadata.get("finalizers") and not ends_later:
            return self._gone(collection, found)
        marks = {"deletionTimestamp": _now(), "deletionGracePeriodSeconds": body.get("gracePeriodSeconds", 30)}
        return self._put("MODIFIED", collection, {**found, "metadata": {**marks, **metadata}})

    def _put(self, kind: str, collection: str, found: Body) -> Body:
        version = self._last() + 1
        found = {**found, "metadata": {**found["metadata"], "resourceVersion": str(version)}}
        self.objects[f"{collection}/{found['metadata']['name']}"] = found
        self._events.append((version, collection, kind, found))
        self._changed.notify_all()
        return found

    def _gone(self, collection: str, found: Body) -> Body:
        self._put("DELETED", collection, found)
        del self.objects[f"{collection}/{found['metadata']['name']}"]
        return found

    def _last(self) -> int:
        return self._events[-1][0] if self._events else 0

    def watch(self, asked: Asked) -> Iterator[bytes]:
        """Yield the lines of a watch; nothing comes for as long as nothing changes."""
        collection, seen = asked.path, int(asked.query["resourceVersion"])
        while True:
            with self._changed:
                self._changed.wait_for(lambda seen=seen: self._ended or self._last() > seen)
                if self._ended:
                    return
                new = [each for each in self._events if each[0] > seen]
                seen = self._last()
            for _, where, kind, found in new:
                if where == collection and _selected(found, asked.query.get("labelSelector", "")):
                    yield json.dumps({"type": kind, "object": found}).encode() + b"\n"

    def log(self, asked: Asked) -> Iterator[bytes]:
        """Yield the lines of a log; those who follow it, until the task has ended."""
        name, sent = asked.path.split("/")[-2], 0
        while True:
            with self._changed:
                known = self._logs.get(name, [])
                if len(known) == sent and (asked.query.get("follow") != "true" or self._over(name)):
                    return
                if len(known) == sent:
                    self._changed.wait(1.0)
                new, sent = known[sent:], len(known)
            yield b"".join(new)

    def _over(self, name: str) -> bool:
        found = self.objects.get(f"{self.path}/{name}")
        return self._ended or found is None or found.get("status", {}).get("phase") in ("Succeeded", "Failed")


def _selected(found: Body, selector: str) -> bool:
    labels = found["metadata"].get("labels", {})
    return all(labels.get(each.partition("=")[0]) == each.partition("=")[2] for each in selector.split(",") if each)


def _now() -> str:
    return datetime.now(timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    of: KubernetesApi

    def log_message(self, *_: object) -> None:
        return

    def serve(self) -> None:
        url = urlsplit(self.path)
        content = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        asked = Asked(self.command, url.path, dict(parse_qsl(url.query)), json.loads(content) if content else {})
        try:
            found = self.of.answer(asked)
        except RefusalError as refusal:
            if not refusal.code:
                self.close_connection = True
                return
            said = {"kind": "Status", "status": "Failure", "reason": refusal.reason, "message": refusal.message}
            details = {"causes": [{"field": refusal.field, "message": refusal.message}]} if refusal.field else {}
            self.send(refusal.code, {**said, "code": refusal.code, "details": details})
            return
        if asked.query.get("watch") == "true":
            self.stream(self.of.watch(asked))
        elif asked.path.endswith("/log"):
            self.stream(self.of.log(asked))
        else:
            self.send(201 if asked.method == "POST" else 200, found)

    def send(self, status: int, found: Body) -> None:
        text = json.dumps(found).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def stream(self, pieces: Iterator[bytes]) -> None:
        self.close_connection = True
        self.send_response(200)
        self.send_header("Connection", "close")
        self.end_headers()
        with suppress(OSError):
            for piece in pieces:
                self.wfile.write(piece)
                self.wfile.flush()

    do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = serve


@contextmanager
def kubernetes_api(namespace: str = "lab") -> Iterator[KubernetesApi]:
    made = KubernetesApi(namespace)
    try:
        yield made
    finally:
        made.close()
