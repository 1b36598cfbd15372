"""Has this node follow the notice that its agent heard: ``python -m`` this module, with the name of the cluster.

`grass-follow@.service` runs it as root, or as the user of a node without root. The agent may have been taken over: its
file is read with the rights of its user, and counts only if the key that root keeps has signed it, and if it is newer
than what the node followed before. All that is used beside it only root can change.
"""

from __future__ import annotations

import os
import sys
from zlib import crc32

from grass.api.notice import LONGEST
from grass.errors import GrassError, NotAllowedError
from grass.hosts import Host, LocalHost
from grass.provision.on_premises import following, node_paths, node_steps, own_host, record
from grass.provision.on_premises.following import Followed
from grass.provision.on_premises.install import AS_GRASS
from grass.provision.on_premises.node_paths import NodePaths
from grass.provision.on_premises.pinned import PINNED
from grass.system import clock

_LEAST, _SPREAD = 10, 10
"""Seconds until it begins. Who moves the master tells the nodes first that SSH reaches; others do not come at once."""
_PATIENCE = 5.0
_TAKE = 'timeout "$3" head -c "$2" -- "$1"; rm -rf -- "$1"'
_OF_ROOT = """
for path in "$@"; do
  [ ! -L "$path" ] && [ "$(stat -c %u -- "$path")" = 0 ] || { echo "$path" >&2; exit 1; }
done
"""


def follow_heard(host: Host, cluster: str, paths: NodePaths | None) -> Followed:
    """Follow the notice that was heard. ``paths``: of a node without root.

    Raises NotAllowedError: something that only root may change is not root's; and what ``following.follow`` raises.
    """
    known = paths or node_paths.of_root(cluster, None)
    text = take(host, known.heard, () if known.rootless else AS_GRASS)
    if paths is None:
        check_of_root(host, (known.pinned, record.FOLDER, record.path(cluster, node_steps.ROLE)))
    pinned = PINNED.decode(host.get(known.pinned))
    return following.follow(host, cluster, text, progress=_say, paths=paths, pinned=pinned)


def take(host: Host, path: str, as_its_user: tuple[str, ...], seconds: float = _PATIENCE) -> str:
    """Read the file of the notice, no more of it than a notice is long, and remove it. It may be anything."""
    return host.run((*as_its_user, "sh", "-c", _TAKE, "take", path, f"{LONGEST + 1}", f"{seconds}")).check().out


def check_of_root(host: Host, paths: tuple[str, ...]) -> None:
    done = host.run(("sh", "-c", _OF_ROOT, "check", *paths))
    if not done.ok:
        raise NotAllowedError(
            f"{done.err.strip()}: is not root's; somebody put it there. Run `grass join` with a token"
        )


def _say(line: str) -> None:
    sys.stderr.write(f"{line}\n")


def main(cluster: str) -> None:
    """A notice that is not followed is no failure of the unit: else the cluster would hear of it each time."""
    name = os.uname().nodename
    clock.sleep(_LEAST + crc32(name.encode()) % _SPREAD)
    try:
        if os.geteuid() == 0:
            done = follow_heard(LocalHost(name), cluster, None)
        else:
            done = follow_heard(own_host.OwnHost(name), cluster, own_host.own_paths(cluster))
    except GrassError as error:
        _say(f"the notice that was heard is not followed: {error}")
        return
    _say(f"{done.node}: its master is at {done.url}")


if __name__ == "__main__":
    main(sys.argv[1])
