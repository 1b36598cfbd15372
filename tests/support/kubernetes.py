"""A real Kubernetes for tests: one control plane and one kubelet on this machine, started once and kept.

Its programs and ``cluster.sh`` are in ``$GRASS_TEST_KUBERNETES``, by default beside the checkout.
`scripts/test --long` starts it with ``python -m tests.support.kubernetes``, so that its start is in no
test's time; a test starts it if need be.
"""

from __future__ import annotations

import base64
import fcntl
import functools
import json
import os
import signal
import subprocess
import urllib.request
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
import yaml

from grass.errors import GrassError
from grass.kubernetes.api import ApiServer, RefusedError
from grass.kubernetes.credentials import Credential, Login
from grass.system.entropy import run_id
from grass.wire.codec import Form
from tests.support.api_gateway import Gateway
from tests.support.engine import IMAGE, image_files
from tests.support.needs import require_root
from tests.support.waiting import wait_until

SOURCE = Path(os.environ.get("GRASS_TEST_KUBERNETES", Path(__file__).parents[3] / "shared" / "kubernetes"))
STATE = Path.home() / ".cache" / "grass-kubernetes"
KUBECONFIG = STATE / "admin.kubeconfig"
ETCD_PORT = 16444
_FIRST = ("nice", "-n", "-8")
"""Its daemons need little of the processor, and that at once: otherwise pods begin late while other tests run."""
ANY: Form[Any] = Form(object)


def gateway() -> Gateway:
    """A gateway to the server, which a test must close."""
    files = (str(STATE / name) for name in ("ca.crt", "admin.crt", "admin.key"))
    return Gateway(Login(str(KUBECONFIG)).read(), *files)


def api() -> ApiServer:
    return ApiServer(Credential(Login(str(KUBECONFIG)).read))


@functools.cache
def require_kubernetes() -> None:
    """Start the cluster unless it answers. Skip where there is none."""
    require_root()
    if not (SOURCE / "cluster.sh").exists():
        pytest.skip(f"needs Kubernetes: its programs are not in {SOURCE}")
    start()


def start() -> None:
    """Start the cluster unless it answers, and give it the image of the tests. For several processes at once."""
    STATE.mkdir(parents=True, exist_ok=True)
    with (STATE / "tests.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not _answers():
            programs = _done([SOURCE / "unpack.sh"]).decode().strip()
            _done([*_FIRST, SOURCE / "cluster.sh", "up"], {"KUBEBUILDER_ASSETS": programs, "KDIR": str(STATE)})
            wait_until(_answers, 30, "a node that is ready")
        provide(IMAGE, image_files)


@contextmanager
def without(*parts: str) -> Iterator[None]:
    """Kill parts of the cluster, such as ``etcd``, with SIGKILL. Start them again after the block."""
    words = {part: Path(f"/proc/{_pid(part)}/cmdline").read_bytes().rstrip(b"\0").split(b"\0") for part in parts}
    for part in parts:
        os.kill(_pid(part), signal.SIGKILL)
        wait_until(lambda part=part: not _lives(_pid(part)), 10, f"the end of {part}")
    try:
        yield
    finally:
        for part, argv in words.items():
            start = f'{" ".join(_FIRST)} setsid nohup "$@" </dev/null >>{part}.log 2>&1 & echo $! >{part}.pid'
            subprocess.run([b"/bin/sh", b"-c", start.encode(), b"sh", *argv], cwd=STATE, check=True)
        wait_until(_answers, 60, "a cluster that answers")


def compact() -> None:
    """Write something beside all objects, and let etcd forget all versions before that. It needs no API server."""
    server = f"http://127.0.0.1:{ETCD_PORT}/v3/kv"
    with urllib.request.urlopen(f"{server}/put", data=b'{"key": "L2dyYXNzLXRlc3Q="}') as answer:  # /grass-test
        revision = json.load(answer)["header"]["revision"]
    urllib.request.urlopen(f"{server}/compaction", data=json.dumps({"revision": revision}).encode()).close()


def _pid(part: str) -> int:
    return int((STATE / f"{part}.pid").read_text())


def _lives(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def provide(image: str, files: Callable[[], bytes], other: str | None = None, without: str = "") -> None:
    """Give the cluster an image, unless it has it. ``other``: another name for it. ``without``: the name of a
    repository; its other images are removed first."""
    docker: list[str | Path] = ["docker", "-H", f"unix://{STATE / 'docker.sock'}"]
    there = _done([*docker, "images", "--format", "{{.Repository}}:{{.Tag}}"]).decode().split()
    if image in there:
        return
    for each in there:
        if without and each.startswith(f"{without}:"):
            subprocess.run([*docker, "rmi", each], capture_output=True, check=False)  # a pod may have it still
    _done([*docker, "import", "-", image], given=files())
    if other is not None:
        _done([*docker, "tag", image, other])


def _done(command: Sequence[str | Path], env: Mapping[str, str] | None = None, given: bytes = b"") -> bytes:
    """Run a command, and return what it printed. Raises AssertionError, with what it said, if it fails."""
    done = subprocess.run(command, env={**os.environ, **(env or {})}, input=given, capture_output=True, check=False)
    said = f"{done.stdout.decode(errors='replace')[-2000:]}\n{done.stderr.decode(errors='replace')[-2000:]}"
    assert done.returncode == 0, f"{command} ended with {done.returncode}: {said}"
    return done.stdout


def _answers() -> bool:
    if not KUBECONFIG.exists():
        return False
    server = api()
    try:
        node = server.get("/api/v1/nodes/real1", ANY)
    except GrassError:
        return False
    finally:
        server.close()
    return any(each["type"] == "Ready" and each["status"] == "True" for each in node["status"]["conditions"])


@contextmanager
def namespace() -> Iterator[tuple[ApiServer, str]]:
    """A namespace of its own, and the server as an administrator."""
    require_kubernetes()
    server, name = api(), run_id("test").lower()
    server.post("/api/v1/namespaces", {"metadata": {"name": name}}, ANY)
    # pods are refused until the namespace has its account
    wait_until(lambda: exists(server, f"/api/v1/namespaces/{name}/serviceaccounts/default"))
    try:
        yield server, name
    finally:
        strip_all(server, name)
        with suppress(RefusedError):  # a test has deleted it
            server.delete(f"/api/v1/namespaces/{name}", ANY)
        server.close()


@contextmanager
def claim(server: ApiServer, namespace: str, name: str, folder: Path, mode: str = "ReadWriteMany") -> Iterator[None]:
    """A claim that is bound to a volume, which is a folder of this machine."""
    folder.mkdir()
    folder.chmod(0o777)
    volume = f"{namespace}-{name}"
    size = {"storage": "1Gi"}
    spec = {"accessModes": [mode], "storageClassName": ""}
    source = {"capacity": size, "hostPath": {"path": str(folder)}, "persistentVolumeReclaimPolicy": "Retain"}
    server.post("/api/v1/persistentvolumes", {"metadata": {"name": volume}, "spec": {**spec, **source}}, ANY)
    path = f"/api/v1/namespaces/{namespace}/persistentvolumeclaims"
    try:
        wanted = {**spec, "volumeName": volume, "resources": {"requests": size}}
        server.post(path, {"metadata": {"name": name}, "spec": wanted}, ANY)
        wait_until(lambda: server.get(f"{path}/{name}", ANY)["status"].get("phase") == "Bound", 30, "a volume")
        yield
    finally:
        for each in (f"{path}/{name}", f"/api/v1/persistentvolumes/{volume}"):
            with suppress(RefusedError):
                server.patch(each, {"metadata": {"finalizers": None}}, ANY)
                server.delete(each, ANY)


@contextmanager
def volume(server: ApiServer, namespace: str, claim: str, folder: Path) -> Iterator[None]:
    """A volume for a claim that will be made, which is a folder of this machine."""
    folder.mkdir()
    folder.chmod(0o777)
    name = f"{namespace}-{claim}"
    spec = {
        "accessModes": ["ReadWriteOnce"],
        "capacity": {"storage": "10Gi"},
        "hostPath": {"path": str(folder)},
        "persistentVolumeReclaimPolicy": "Retain",
        "claimRef": {"namespace": namespace, "name": claim},
    }
    server.post("/api/v1/persistentvolumes", {"metadata": {"name": name}, "spec": spec}, ANY)
    try:
        yield
    finally:
        with suppress(RefusedError):
            server.patch(f"/api/v1/persistentvolumes/{name}", {"metadata": {"finalizers": None}}, ANY)
            server.delete(f"/api/v1/persistentvolumes/{name}", ANY)


def kubectl(*words: str, given: str = "") -> str:
    """Run kubectl as an administrator. Return what it printed."""
    program = STATE / "bin" / "kubectl"
    return _done([program, "--kubeconfig", str(KUBECONFIG), *words], given=given.encode()).decode()


def account(server: ApiServer, namespace: str, name: str, folder: Path) -> Path:
    """Make a service account without rights. Return a kubeconfig of it, in a folder."""
    server.post(f"/api/v1/namespaces/{namespace}/serviceaccounts", {"metadata": {"name": name}}, ANY)
    path = f"/api/v1/namespaces/{namespace}/serviceaccounts/{name}"
    wait_until(lambda: server.get(path, ANY).get("secrets"), 20, "a token")
    secret = server.get(path, ANY)["secrets"][0]["name"]
    data = server.get(f"/api/v1/namespaces/{namespace}/secrets/{secret}", ANY)["data"]
    content = yaml.safe_load(KUBECONFIG.read_text())
    content["users"][0]["user"] = {"token": base64.b64decode(data["token"]).decode()}
    made = folder / f"{name}.kubeconfig"
    made.write_text(yaml.safe_dump(content))
    return made


def strip_all(server: ApiServer, name: str) -> None:
    """Take the finalizers from all pods of a namespace, and delete them."""
    path = f"/api/v1/namespaces/{name}/pods"
    for pod in server.get(path, ANY)["items"]:
        one = f"{path}/{pod['metadata']['name']}"
        for call in (
            lambda one=one: server.patch(one, {"metadata": {"finalizers": None}}, ANY),
            lambda one=one: server.delete(one, ANY, {"gracePeriodSeconds": 0}),
        ):
            try:
                call()
            except RefusedError as error:
                if error.http != 404:
                    raise


def exists(server: ApiServer, path: str) -> bool:
    try:
        server.get(path, ANY)
    except RefusedError:
        return False
    return True


if __name__ == "__main__":
    start()
