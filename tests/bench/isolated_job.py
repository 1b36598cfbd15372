"""Submit until the first instruction of the task, with and without isolation of users, in turns. No peer.

Two clusters on hosts of a lab (`scripts/lab`): one with `isolation: user`, one with `isolation: none`. Each has one
node, its master's own, where the share is a local folder; with ``--remote``, a host that mounts the share. A job has
one task, or with ``--tasks`` several at once; the first on the node waits until the view of the job is made. With
``--kept``, the share has folders of so many other jobs, all of which rclone lists to find that of the new job. A task
prints the clock, which all hosts of a lab share. ``GRASS_LAB=NAME`` takes a lab that is up; otherwise one is made,
which takes minutes the first time. `isolated_start.py` measures the shepherd's part alone.
"""

from __future__ import annotations

import random
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path

import figures
from local_cluster import one_task

from grass.api.client import Client

sys.path.insert(0, str(Path(__file__).parents[2]))

from tests.support.lab import SessionLab, session_lab
from tests.support.on_premises import Cluster, install, settings

COMMAND = ["/bin/date", "+%s.%N"]


def main() -> None:
    parser = figures.arguments(__doc__, rounds=40)
    parser.add_argument("--remote", action="store_true", help="the node is another host than the master")
    parser.add_argument("--tasks", type=int, default=1, help="of each job; of all of them the start is measured")
    parser.add_argument("--kept", type=int, default=0, help="folders of other jobs in the share")
    options = parser.parse_args()
    taken: dict[str, list[float]] = {"user": [], "none": []}
    with (
        session_lab(3 if options.remote else 1) as lab,
        tempfile.TemporaryDirectory(prefix="grass-bench-") as folder,
        ExitStack() as stack,
    ):
        (site := Path(folder) / "site").mkdir()
        installed = install(site)
        nodes = {"master": "n1", "n2": "n3"} if options.remote else {"master": "master", "n1": "n1"}
        hosts = dict(zip(taken, nodes.items(), strict=True))
        clients = {
            isolation: _created(lab, installed, Path(folder), isolation, hosts[isolation], stack) for isolation in taken
        }
        for isolation, (master, _) in hosts.items():
            make = f"seq {options.kept} | sed s/^/kept-/ | xargs -r mkdir"
            lab.hosts[master].sh(f"cd /srv/grass/{isolation}/jobs && {make}")
        for number in range(-2, options.rounds):
            for isolation, client in clients.items():
                time.sleep(0.5 + random.uniform(0.0, 0.1))  # as in start_latency.py
                milliseconds = _start(client, options.tasks)
                if number >= 0:  # the first two warm up
                    taken[isolation] += milliseconds
    isolated, plain = (figures.Figure(f"isolation: {name}", samples, "ms") for name, samples in taken.items())
    bar = "p50 with isolation at most 1.3 × that without"
    figures.report(
        options,
        f"start of tasks with isolation, {options.tasks} in a job",
        [isolated, plain, figures.ratio(isolated, plain)],
        bar,
    )


def _created(
    lab: SessionLab, site: Path, folder: Path, isolation: str, hosts: tuple[str, str], stack: ExitStack
) -> Client:
    """Create a cluster of a master and a node. Leaving the stack deletes it."""
    master, node = (lab.hosts[name] for name in hosts)
    chosen = settings(lab, isolation, name=isolation)
    chosen["master"] = {"hostname": hosts[0], "address": master.address}
    cluster = Cluster(lab, site, folder / "home", chosen)
    stack.callback(cluster.grass, "delete", "--force", isolation)
    cluster.created()
    added = cluster.grass("node", "add", f"ops@{node.address}", GRASS_CLUSTER=isolation)
    if added.returncode:
        raise SystemExit(added.stderr)
    client = Client(isolation, home=cluster.home)
    stack.callback(client.close)
    return client


def _start(client: Client, tasks: int) -> list[float]:
    """Return the milliseconds until each task of a job began."""
    job = one_task("bench-isolation", COMMAND)
    job["components"]["task"].update(replicas=tasks, resources={"cpu": 1 / tasks})
    submitted = time.time()
    name = client.start(job).name
    view = client.wait(name, 30)
    if view.state != "SUCCEEDED":
        raise SystemExit(f"the job {name} of the bench is {view.state}: {view.reason}")
    return [1000 * (float(record.text) - submitted) for record in client.logs(name, follow=True)]


if __name__ == "__main__":
    main()
