"""A cluster on hosts whose standby takes over by itself: n1 is the witness, n2 the standby, n3 another node."""

from __future__ import annotations

import json
import shutil
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from grass.api.client import Client
from grass.errors import GrassError
from grass.system.clock import steady
from grass.wire.standby import StandbyView
from tests.support.lab import SessionLab
from tests.support.on_premises import Cluster, settings
from tests.support.waiting import wait_until

HOME = "/var/lib/grass/clusters/e2e"
SHARE = "/srv/grass"
HOSTS = ("master", "n1", "n2", "n3")


@contextmanager
def witnessed(lab: SessionLab, site: Path, folder: Path) -> Iterator[Cluster]:
    share = folder / "share"
    share.mkdir()
    share.chmod(0o777)
    for host in HOSTS:
        lab.show_folder(host, share, SHARE)
    nodes = [{"name": name, "address": lab.hosts[name].address} for name in ("n1", "n3")]
    standby = {"address": lab.hosts["n2"].address, "witness": "n1"}
    made = Cluster(lab, site, folder / "home", settings(lab, nodes=nodes, standby=standby, share={"path": SHARE}))
    try:
        made.created()
        yield made
    finally:
        for host in HOSTS:  # one that was killed, too
            lab.reset(host)


def view_of(cluster: Cluster) -> StandbyView | None:
    with Client(cluster.name, home=cluster.home) as client:
        return client.status().standby


def takes_over(cluster: Cluster, witness: str = "n1") -> bool:
    view = view_of(cluster)
    return view is not None and view.state == "in step" and view.witness == witness and not view.why


def started(cluster: Cluster, name: str, command: str) -> None:
    file = cluster.home / f"{name}.yml"
    file.write_text(json.dumps({"name": name, "components": {"w": {"command": command}}}))
    done = cluster.grass("job", "start", str(file))
    assert done.returncode == 0, done.stderr


def states(cluster: Cluster) -> dict[str, tuple[str, int]]:
    with Client(cluster.name, home=cluster.home) as client:
        return {job.name: (task.state, task.attempt) for job in client.jobs(all=True) for task in client.tasks(job.id)}


def apart(lab: SessionLab, host: str, others: tuple[str, ...], *, healed: bool = False) -> None:
    for other in others:
        for chain, way in (("INPUT", "-s"), ("OUTPUT", "-d")):
            action = "-D" if healed else "-I"
            lab.hosts[host].sh(f"iptables {action} {chain} {way} {lab.hosts[other].address} -j DROP")


def is_master(lab: SessionLab, host: str) -> bool:
    return lab.ssh(host, "systemctl", "is-active", "grass-master-api-server@e2e").stdout.strip() == "active"


def fenced(lab: SessionLab) -> bool:
    return "user agent" not in (lab.ssh("master", "cat", f"{HOME}/redis/users.acl").stdout or "user agent")


class Submitter:
    """Submits jobs to the first master, whose address alone it knows, one after the other. ``accepted``: when each was
    acknowledged."""

    def __init__(self, cluster: Cluster, folder: Path) -> None:
        self.accepted: dict[str, float] = {}
        self._home = folder / "old"
        shutil.copytree(cluster.home, self._home, symlinks=True)
        (self._home / "clusters" / "e2e" / "client" / "other_profile.json").unlink()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()
        wait_until(lambda: len(self.accepted) >= 3, 60, "jobs")

    def _run(self) -> None:
        number = 0
        while not self._stop.is_set():
            number += 1
            name = f"job-{number}"
            try:
                with Client("e2e", home=self._home) as client:
                    client.submit({"name": name, "components": {"w": {"command": "true"}}})
                self.accepted[name] = steady()
            except GrassError:
                self._stop.wait(0.2)

    def end(self) -> dict[str, float]:
        self._stop.set()
        self._thread.join(60)
        return self.accepted
