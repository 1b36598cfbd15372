"""A master-api-server on a real socket over a store in memory, with users and clients; keys of ``rsa_keys``."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from werkzeug.serving import make_server

from grass.api import keyring, user_files
from grass.api.client import Client
from grass.api.patience import TIMEOUT
from grass.api.transport import Transport
from grass.config import ClusterConfig, MasterConfig
from grass.model.lifecycle import JobState
from grass.store.api_store import ApiStore
from grass.store.job_index import moved
from grass.store.keys import Keys
from grass.system import clock
from grass.wire.codec import builtins
from grass.wire.codec import encode as pack
from grass.wire.operation_record import OperationRecord
from master.api.app import close_app, create_app
from master.api.call import WaitLimits
from tests.doubles.memory_backend import MemoryBackend
from tests.support.example_run import listening
from tests.support.rsa_keys import public_jwk, write_key


def write_cluster(home: Path, port: int, users: dict[str, str]) -> ClusterConfig:
    """Write ``home``/clusters/local with a master key, and ``home``-<user>/… with the client files of each user."""
    folder = home / "clusters" / "local"
    config = ClusterConfig("local", "local", str(folder), str(folder), master=replace(LOCAL, api_port=port))
    write_key(config.master_dir / "key.pem", "master")
    for user, role in users.items():
        user_files.register_user(config.master_dir, user, role, public_jwk(user))
        write_client(home, user, f"http://127.0.0.1:{port}")
    return config


def write_client(home: Path, user: str, url: str, key: str | None = None) -> Path:
    """Return the GRASS_HOME of ``user``, who signs with the key called ``key``."""
    own = home / f"home-{user}"
    client = own / "clusters" / "local" / "client"
    write_key(client / "user.pem", key or user)
    profile = keyring.Profile("local", url, user, public_jwk(key or user)["kid"])
    keyring.save_profile(client, profile, public_jwk("master"))
    return own


LOCAL = MasterConfig(own_node="local", nodes_on_client=True)


class ApiWorld:
    """Changes of the store as the agent makes them, clients by user, and a server that can be restarted."""

    def __init__(
        self, home: Path, backend: MemoryBackend | None = None, master: MasterConfig = LOCAL, **waits: Any
    ) -> None:
        """``waits``: values that differ from ``WaitLimits``."""
        self.home, self.master = home, master
        self.backend = backend or MemoryBackend()
        self.keys = Keys("grass:local:")
        self.store = ApiStore(self.backend, self.keys)
        self.waits = WaitLimits(**{"poll": 0.05, **waits})  # tests do not wait long for a server to close
        self.clients: list[Client] = []
        self.port = 0
        self.serve()
        self.config = write_cluster(home, self.port, {"root": "admin", "ann": "user", "bob": "user", "eve": "viewer"})

    def serve(self) -> None:
        write_key(self.home / "clusters" / "local" / "master" / "key.pem", "master")
        (self.home / "clusters" / "local" / "master" / "users").mkdir(exist_ok=True)
        folder = str(self.home / "clusters" / "local")
        self.app = create_app(
            ClusterConfig("local", "local", folder, folder, master=self.master), self.store, waits=self.waits
        )
        own = socket.create_server(("127.0.0.1", self.port), backlog=128) if self.port else listening()
        with own:
            self.port = own.getsockname()[1]
            self.server = make_server("127.0.0.1", self.port, self.app, threaded=True, fd=own.fileno())
        self.thread = threading.Thread(target=self.server.serve_forever, args=(0.01,), daemon=True)
        self.thread.start()

    def stop(self) -> None:
        close_app(self.app)
        self.server.shutdown()
        self.thread.join()
        self.server.server_close()

    def client(
        self,
        user: str = "ann",
        *,
        wall: Callable[[], float] = clock.wall,
        timeout: float = TIMEOUT,
        transport: type[Transport] = Transport,
    ) -> Client:
        client = Client("local", home=self.home / f"home-{user}", wall=wall, timeout=timeout, transport=transport)
        self.clients.append(client)
        return client

    def change_job(self, job_id: str, event: str = "", **values: Any) -> None:
        """Write the record and its event in one step, as the master-agent does."""
        record = self.store.job(job_id)
        assert record is not None
        changed = {**builtins(record), **values}
        ops: list[Any] = [("HSET", self.keys.jobs, job_id, pack(changed))]
        state = JobState(changed["state"])
        ops += moved(self.keys, record.user, record.submitted, job_id, record.state, state)
        if event:
            body = {"time": 1.0, "kind": event, "user": "", "message": event, "job": record.name}
            ops.append(("XADD", self.keys.events, 0, "event", pack(body)))
        if values.get("state") and state.ended:
            ops.append(("HDEL", self.keys.live, record.name))
            ops.append(("XADD", self.keys.ends, 0, "id", job_id, "record", pack(changed)))
        self.backend.apply(ops)

    def change_operation(self, operation: OperationRecord) -> None:
        """Write the record of an operation and its event in one step, as the master-agent does."""
        job = self.store.job(operation.job_id)
        assert job is not None
        body = {"time": 1.0, "kind": "operation", "user": "", "message": operation.id, "job": job.name}
        self.backend.apply(
            [
                ("HSET", self.keys.operations(job.id), operation.id, pack(operation)),
                ("XADD", self.keys.events, 0, "event", pack(body)),
            ]
        )

    def end_job(self, job_id: str, state: str = "SUCCEEDED") -> None:
        self.change_job(job_id, f"job-{state.lower()}", state=state, ended=2.0, exit_code=0)

    def answer_plan(self, **answer: Any) -> None:
        """Answer the newest ticket of kind ``plan``, as the master-agent does."""
        newest = self.backend.newest(self.keys.tickets)
        assert newest is not None and json.loads(newest[1]["body"])["kind"] == "plan"
        place = {"node": "n1", "count": 1, "devices": [[0, 500]]}
        part = {"replicas": 2, "at_once": 2, "depends_on": {}, "nodes": [place], "reason": None}
        body = {"reason": None, "components": {"w": part}, "preemptions": [], **answer}
        question = json.loads(newest[1]["body"])["question"]
        self.backend.apply([("XADD", self.keys.plans, 10, "question", question, "body", pack(body))])

    def close(self) -> None:
        for client in self.clients:
            client.close()
        self.stop()


@contextmanager
def api_world(home: Path, **options: Any) -> Iterator[ApiWorld]:
    world = ApiWorld(home, **options)
    try:
        yield world
    finally:
        world.close()
