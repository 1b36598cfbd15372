"""Accounts of users on a node of a cluster that isolates them: what a machine needs for them, and their removal. Pure.

The node's shepherd makes them on demand (``node.runtime.isolation.accounts``). Used by ``leaving`` and ``node_design``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from grass.model.isolation import UidRange, overlap
from grass.provision.on_premises.facts import Facts
from grass.provision.on_premises.steps import Run, Step

PROGRAM, PACKAGE = "bwrap", "bubblewrap"
"""The program makes the view that tasks have of the node's files. The package has this name in Debian and Fedora."""
OLDEST_LINUX = (5, 3)
"""Moves mounts into the namespace of a job, and has clone3."""
MARK = "Grass "
"""Begin of the comment of every account that Grass makes: ``Grass CLUSTER USER``."""
_CURE = "choose another range with `uids: FIRST-LAST` in the settings"


def packages(facts: Facts, isolate: UidRange | None) -> tuple[str, ...]:
    """Return the missing packages."""
    return (PACKAGE,) if isolate is not None and PROGRAM not in facts.programs else ()


def problems(facts: Facts, isolate: UidRange | None, *, rootless: bool) -> Iterator[str]:
    """Yield what speaks against the machine."""
    if isolate is None:
        return
    if rootless:
        yield (
            "the cluster isolates its users (`isolation: user`), which needs root on its nodes; "
            "leave out --rootless, or make the cluster with `isolation: none`"
        )
        return
    version = re.match(r"(\d+)\.(\d+)", facts.kernel)
    if version and (int(version[1]), int(version[2])) < OLDEST_LINUX:
        yield f"`isolation: user` needs Linux 5.3 or newer, it has {version[0]}"
    theirs = [(name, uid) for name, uid, comment in facts.accounts if not comment.startswith(MARK)]
    taken = [f"{name} ({uid})" for name, uid in theirs if isolate.first <= uid <= isolate.last]
    if taken:
        more = f" and {len(taken) - 3} more" if len(taken) > 3 else ""
        yield f"accounts of this machine are in the range {isolate} of `uids`: {', '.join(taken[:3])}{more}; {_CURE}"
    for user, first, count in facts.subuids:
        if count and overlap(isolate, UidRange(first, first + count - 1)):
            yield f"the range {isolate} of `uids` overlaps the subordinate ids of {user} in /etc/subuid; {_CURE}"


_REMOVE = """
command -v userdel >/dev/null || exit 0
# the name, too: somebody's own account may have such a comment
getent passwd | while IFS=: read -r name _ uid _ comment _; do
  case "$name $comment" in "grass-u$uid Grass $1 "*) ;; *) continue ;; esac
  n=0
  # not the owner of /proc/PID: it is root while a process ends, and userdel still sees the process then
  while left=$(grep -lsE "^Uid:[[:space:]]+$uid[[:space:]]" /proc/[0-9]*/status | cut -d/ -f3) && [ -n "$left" ]; do
    [ $n -lt 50 ] || { echo "processes of $name do not end: $left" >&2; exit 1; }
    kill -KILL $left 2>/dev/null; sleep 0.1; n=$((n+1))
  done
  userdel "$name" || exit 1
done
"""


def remove_step(cluster: str) -> Step:
    """Remove the accounts that the cluster made here. Their files are below the node's folder, which goes as well."""
    return Step("remove the accounts of its users", (Run(("sh", "-c", _REMOVE, "remove", cluster)),))
