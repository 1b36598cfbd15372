"""The faults of hosts. Each returns when its fault was over, on the steady clock; the cluster then heals by itself."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

from grass.model.daemons import MASTER_DAEMONS, NODE_DAEMONS
from scripts.labkit.host import Host
from tests.faults.host_bed import NAME, NODES, HostBed, host_bed
from tests.support.certificates import cluster_files
from tests.support.waiting import wait_until

ALL = ("master", *NODES)
ON_NODE = (*NODE_DAEMONS, "share-fuse")
ON_MASTER = ("redis", "samba", *MASTER_DAEMONS)
CUT = PAUSED = 12.0
"""Seconds; a node is SILENT after 5."""
SLOW = LOSSY = 20.0
AGENT_BACK = 30.0


def pid(host: Host, daemon: str) -> int:
    """Of a service that is up; 0 while it is not."""
    unit = f"grass-{daemon}@{NAME}.service"
    said = host.sh(f"systemctl is-active {unit}; systemctl show -p MainPID --value {unit}").split()
    return int(said[1]) if said[0] == "active" else 0


def kill_all(name: str, daemons: tuple[str, ...], bed: HostBed) -> float:
    host = bed.lab.hosts[name]
    for daemon in daemons:
        old = pid(host, daemon)
        assert old, daemon
        host.run("kill", "-KILL", str(old))
        wait_until(lambda: pid(host, daemon) not in (0, old), AGENT_BACK, f"{daemon} again", 0.1)  # noqa: B023
    return time.monotonic()


def cut(name: str, bed: HostBed) -> float:
    bed.lab.hosts[name].cut()
    time.sleep(CUT)
    bed.lab.hosts[name].heal()
    return time.monotonic()


def pause(bed: HostBed) -> float:
    bed.lab.hosts["n1"].hang()
    time.sleep(PAUSED)
    bed.lab.hosts["n1"].resume()
    return time.monotonic()


def reboot(name: str, bed: HostBed) -> float:
    bed.lab.hosts[name].reboot()
    return time.monotonic()


def power_off(name: str, bed: HostBed) -> float:
    bed.lab.hosts[name].kill()
    bed.lab.hosts[name].start()
    return time.monotonic()


def meanwhile(seconds: float, names: tuple[str, ...], ill: str, well: str, bed: HostBed) -> float:
    """Make hosts ill for some seconds, by a script."""
    try:
        for name in names:
            bed.lab.hosts[name].sh(ill)
        time.sleep(seconds)
    finally:
        for name in names:
            bed.lab.hosts[name].sh(well)
    return time.monotonic()


def expire(bed: HostBed) -> float:
    """n1 has a certificate of the right authority that is too old, and its daemons begin new connections with it."""
    home = f"/var/lib/grass/clusters/{NAME}"
    with tempfile.TemporaryDirectory() as folder:
        signing = cluster_files(Path(folder), NAME)
        for name in ("ca.key", "ca.pem"):
            (signing.master.folder / name).write_text(bed.lab.hosts["master"].sh(f"cat {home}/tls/{name}"))
        expired = signing.add(Path(folder) / "expired", "n1", days=40)
        host = bed.lab.hosts["n1"]
        host.run("sh", "-c", f"cat > {home}/tls/host.pem", text_in=expired.host.read_text())
    host.sh(f"systemctl restart grass-node-agent@{NAME} grass-node-api-server@{NAME}")
    return time.monotonic()


def without_resolver(bed: HostBed) -> float:
    """Names lead nowhere, slowly. Daemons that start meanwhile work, and so do jobs."""
    for name in ALL:
        bed.lab.hosts[name].sh("cp /etc/resolv.conf /root/kept; echo nameserver 192.0.2.1 > /etc/resolv.conf")
    try:
        kill_all("n1", ("node-agent",), bed)
        kill_all("master", ("collector", "master-agent"), bed)
        bed.heal(int(time.monotonic()), 60)
    finally:
        for name in ALL:
            bed.lab.hosts[name].sh("cat /root/kept > /etc/resolv.conf")
    return time.monotonic()


_SLOW = "tc qdisc add dev eth0 root tbf rate 256kbit burst 16kb latency 2s"
_LOSS = "iptables {} {} ! -{} lo -m statistic --mode random --probability 0.3 -j DROP"
_LOSSY, _WHOLE = (
    "; ".join(_LOSS.format(what, chain, side) for chain, side in (("INPUT", "i"), ("OUTPUT", "o")))
    for what in ("-A", "-D")
)
_SAMBA = f"grass-samba@{NAME}"


def share_gone(seconds: float, bed: HostBed) -> float:
    return meanwhile(seconds, ("master",), f"systemctl stop {_SAMBA}", f"systemctl start {_SAMBA}", bed)


def on(names: tuple[str, ...], script: str, bed: HostBed) -> float:
    return meanwhile(0, names, script, "true", bed)


INJECTED: dict[str, Callable[[HostBed], float]] = {
    "each daemon of a node killed": partial(kill_all, "n1", ON_NODE),
    "each daemon of the master killed": partial(kill_all, "master", ON_MASTER),
    "node cut off": partial(cut, "n1"),
    "node paused": pause,
    "node rebooted": partial(reboot, "n1"),
    "node powered off": partial(power_off, "n1"),
    "master cut off": partial(cut, "master"),
    "master rebooted": partial(reboot, "master"),
    "master powered off": partial(power_off, "master"),
    "slow link": partial(meanwhile, SLOW, ("n1", "master"), _SLOW, "tc qdisc del dev eth0 root"),
    "30 % of packets lost": partial(meanwhile, LOSSY, ("n1",), _LOSSY, _WHOLE),
    "docker restarted": partial(on, ("n1",), "systemctl restart docker.service"),
    "daemon-reload": partial(on, ALL, "for i in 1 2 3; do systemctl daemon-reload; done"),
    "share gone for 5 s": partial(share_gone, 5.0),
    "share gone for 60 s": partial(share_gone, 60.0),
    "server of the share restarted": partial(on, ("master",), f"systemctl restart {_SAMBA}"),
    "certificate of a node expired": expire,
    "resolver away": without_resolver,
}
bed_for = host_bed
