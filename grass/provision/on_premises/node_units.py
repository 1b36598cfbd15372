"""Units of a node: unchanged for the system, or converted for a user. Pure. Used by ``node_steps``."""

from __future__ import annotations

import json
from collections.abc import Iterator

from grass.assets import asset
from grass.lines import lines_of
from grass.model.daemons import NODE_DAEMONS
from grass.provision.on_premises.node_paths import NodePaths
from grass.provision.on_premises.steps import Put

_OF_A_USER = frozenset(
    {"Description", "Documentation", "StartLimitIntervalSec", "Type", "NotifyAccess", "WatchdogSec", "TimeoutStartSec"}
    | {"UMask", "ExecStart", "Restart", "RestartSec", "StandardOutput", "StandardError", "SyslogIdentifier", "KillMode"}
    | {
        "TimeoutStopSec",
        "ExecStopPost",
        "OOMPolicy",
        "RuntimeDirectory",
        "RuntimeDirectoryMode",
        "RuntimeDirectoryPreserve",
        "PathExists",
    }
)
"""Directives that a user's unit keeps.

The others are dropped: without root there is neither a sandbox nor another user.
"""


FOLLOW = ("grass-follow@.path", "grass-follow@.service")
"""Files in `deploy/systemd`: they have the node join its master where that is after a move."""
ISOLATED = "grass-shepherd-isolated.conf"
"""File in `deploy/systemd`: an addition to the shepherd's unit where users are isolated."""


def unit_puts(paths: NodePaths, *, isolated: bool = False, share: str | None = None) -> Iterator[Put]:
    """``share``: as of ``NodeDesign``. The sandbox of the node-agent includes only what is in ``/srv/grass``."""
    for file in (*(f"grass-{name}@.service" for name in NODE_DAEMONS), *FOLLOW):
        text = asset(f"deploy/systemd/{file}").read_text()
        if paths.rootless:
            text = user_unit(text)
        yield Put(f"{paths.units}/{file}", text.encode(), owner=paths.owner if paths.rootless else "root:root")
    if isolated:
        yield Put(f"{drop_in(paths)}/isolated.conf", asset(f"deploy/systemd/{ISOLATED}").read_bytes())
    if share and not paths.rootless:
        text = f"[Service]\nReadWritePaths={share}\n"
        yield Put(f"{agent_drop_in(paths)}/share.conf", text.encode())
    if not paths.rootless:
        yield Put(f"{paths.units}/grass@.target", asset("deploy/systemd/grass@.target").read_bytes())


def follow_units(paths: NodePaths) -> tuple[str, ...]:
    """Return the names of these instances: what waits for a notice, and what it starts."""
    return tuple(name.replace("@", f"@{paths.cluster}") for name in FOLLOW)


def drop_in(paths: NodePaths) -> str:
    """Return the folder of additions to the shepherd's unit of this cluster."""
    return f"{paths.units}/{paths.unit('shepherd')}.d"


def agent_drop_in(paths: NodePaths) -> str:
    """Return the folder of additions to the node-agent's unit of this cluster."""
    return f"{paths.units}/{paths.unit('node-agent')}.d"


def user_unit(text: str) -> str:
    lines = []
    for line in lines_of(text):
        name, sign, _ = line.partition("=")
        if line.startswith("[") or (sign and name in _OF_A_USER):
            lines.append(line)
        elif name == "EnvironmentFile":
            lines.append("EnvironmentFile=%h/.grass/nodes/%i/env")
        elif name == "WantedBy":
            lines.append("WantedBy=default.target")
    return "\n".join(lines) + "\n"


def environment(paths: NodePaths) -> bytes:
    lines = {"GRASS_PYTHON": paths.python, "CLUSTER_JSON": paths.config}
    return "".join(f"{name}={json.dumps(value)}\n" for name, value in lines.items()).encode()
