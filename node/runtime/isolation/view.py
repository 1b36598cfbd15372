"""What the tasks of a job see of the node's files, as arguments of bubblewrap. Pure.

A task sees the machine's programs and devices, and of Grass its own job only. Everything is mounted nosuid by
bubblewrap, so programs of the machine give a task no rights of another user. Used by ``processes``, ``views``,
``node.agent.conditions`` and ``node.runtime.docker.share``.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from grass.files import rights
from grass.model.names import is_user_name
from node.runtime.protocol import PROBE_USER

PROGRAM = "bwrap"
PACKAGE = "bubblewrap"
HIDDEN = ("/var/lib/grass", "/etc/grass", "/srv/grass")
"""Folders of all clusters of the host."""
RUN = (
    "/run/systemd/resolve",
    "/run/resolvconf",
    "/run/NetworkManager/resolv.conf",
    "/run/nscd",
    "/run/nvidia-persistenced",
    "/run/udev",
)
"""What programs need of /run: names of hosts, and devices. Sockets of engines and of other services stay outside."""
QUEUES = "/dev/mqueue"
"""Where a machine shows message queues of POSIX as files."""
OF_GRASS = ("logs", "images", "jobs")
"""Folders of the share that hold what belongs to the cluster or to other jobs."""
COVERED = (*OF_GRASS, rights.DATA)
"""Folders of the share in which a task sees only what is shown to its job."""


class Node(NamedTuple):
    """Where a node keeps its files. ``hidden``: folders to cover besides. ``queues``: the machine shows its message
    queues."""

    share: str
    home: str
    runtime_dir: str
    hidden: tuple[str, ...] = HIDDEN
    queues: bool = True


class Shown(NamedTuple):
    """A folder of the host, and where a view shows it."""

    source: str
    target: str
    read_only: bool = False


class Job(NamedTuple):
    """Folders of a job. ``own``: of its attempts. ``read``: files of the node-agent for them. ``tmp``, ``var_tmp``: in
    place of the machine's. ``output``: in the share; None: it has none. ``awaited``: outputs that it may read.
    ``data``: what it sees in ``data/`` of the share."""

    own: str
    read: str
    tmp: str
    var_tmp: str
    output: str | None = None
    awaited: tuple[str, ...] = ()
    data: tuple[Shown, ...] = ()


def arguments(node: Node) -> list[str]:
    """Return bubblewrap's words, before the command, for a view that shows nothing of any job. Later mounts cover
    earlier ones."""
    return [PROGRAM, "--unshare-ipc", *(word for mount in _mounts(node) for word in mount)]


def of_job(node: Node, job: Job) -> list[Shown]:
    """Return what to show in addition to the tasks of a job, in this order."""
    shown = [Shown(job.tmp, "/tmp"), Shown(job.var_tmp, "/var/tmp")]  # noqa: S108 (covers it)
    api = f"{node.runtime_dir}/tasks"
    shown += [Shown(job.own, job.own), Shown(job.read, job.read, True), Shown(api, api, True)]
    if job.output:
        shown.append(Shown(job.output, job.output))
    return [*shown, *job.data, *(Shown(path, path, True) for path in job.awaited)]


def of_user(share: str, user: str, target: str, *, read_only: bool) -> tuple[Shown, ...]:
    """Return what tasks of this user see in ``data/`` of the share, which is shown as ``target``. Later folders cover
    parts of earlier ones. Files in the folder of all are changed in the user's own folder there only."""
    own, shared = (*folders_of(share, user), "", "")[:2]
    shown = [Shown(own, f"{target}/{user}", read_only)] if own else []
    shown.append(Shown(f"{share}/{rights.OF_ALL}", f"{target}/{rights.SHARED}", True))
    if shared and not read_only:
        shown.append(Shown(shared, f"{target}/{rights.SHARED}/{user}"))
    return tuple(shown)


def folders_of(share: str, user: str) -> tuple[str, ...]:
    """Return the folders in ``data/`` of the share in which tasks of this user may write. The trial of a node has the
    first only. What is no name of a user has none, nor has an administrator whose name is that of the folder of all."""
    own, shared = (f"{share}/{folder}" for folder in rights.own_folders(user))
    if user == PROBE_USER:
        return (own,)
    return (own, shared) if is_user_name(user) and user != rights.SHARED else ()


def _mounts(node: Node) -> Iterator[tuple[str, ...]]:
    yield "--dev-bind", "/", "/"
    yield "--perms", "1777", "--tmpfs", "/dev/shm"
    if node.queues:
        yield "--mqueue", QUEUES
    covers = _covers(node)
    for path in covers:
        yield "--perms", "0755", "--tmpfs", path
    for path in RUN:
        yield "--ro-bind-try", path, path
    for folder in _parents(node.share, covers):
        yield "--perms", "0755", "--dir", folder
    yield "--bind", node.share, node.share
    for name in COVERED:
        yield "--perms", "0755", "--tmpfs", f"{node.share}/{name}"
    yield "--remount-ro", node.share  # the share itself, not what is mounted below it


def _covers(node: Node) -> list[str]:
    """Return the folders to cover with empty ones, without those inside of others."""
    wanted = ["/run", *node.hidden, node.home, node.runtime_dir]
    return [path for path in dict.fromkeys(wanted) if not any(_is_below(path, other) for other in wanted)]


def _parents(path: str, covers: Sequence[str]) -> list[str]:
    """Return the folders above ``path`` that must be made in empty folders: bubblewrap would close them to others."""
    parts = path.split("/")
    above = ["/".join(parts[:count]) for count in range(2, len(parts))]
    return [each for each in above if any(_is_below(each, cover) for cover in covers)]


def _is_below(path: str, folder: str) -> bool:
    return path.startswith(f"{folder}/")
