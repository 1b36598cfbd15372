"""Checks of one local cluster for `grass doctor`. Called by ``local``. Must change nothing."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from grass.config import ClusterConfig
from grass.node_config import own_node
from grass.provision import layout, local_namespaces, ports
from grass.provision.namespace_findings import namespace_findings
from grass.provision.provisioner import Finding
from grass.supervision import processes
from grass.supervision.supervisor import Supervisor


def local_findings(folder: Path) -> Iterator[Finding]:
    config = layout.existing(folder)
    again = f"`grass create` finishes it, `grass delete {folder.name}` removes it"
    if config is None:
        yield Finding(f"cluster {folder.name}", False, "creating it was interrupted", again)
        return
    yield _daemons(config)
    yield from _ports(config)
    yield from namespace_findings(each.node for each in local_namespaces.nodes(config))


def _daemons(config: ClusterConfig) -> Finding:
    name = f"cluster {config.name}"
    try:
        states = Supervisor(config).daemons()
    except OSError:
        alive = sorted({process.name for process in processes.of_cluster(config)})
        if alive:
            fix = "`grass create` with its settings takes them over; tasks go on meanwhile"
            return Finding(name, False, f"runs without supervisord: {', '.join(alive)}", fix)
        return Finding(name, True, f"is stopped; `grass start {config.name}` starts it again")
    down = [f"{state.name} is {state.state}" for state in states if state.state != "RUNNING"]
    return Finding(name, not down, ", ".join(down) or "all its daemons run", f"read the logs in {config.home}/log")


def _ports(config: ClusterConfig) -> Iterator[Finding]:
    """Check the ports of a stopped cluster. A running cluster uses its own ports."""
    if processes.of_cluster(config):
        return
    own = own_node(config)
    for port in (config.master.api_port, *([own.node.api_port] if own is not None else [])):
        if not ports.available(config.master.api_host, port):
            message = f"port {port} of cluster {config.name} is taken by {ports.holder(port)}"
            yield Finding(f"port {port}", False, message, "end that, or name another port in the settings file")
