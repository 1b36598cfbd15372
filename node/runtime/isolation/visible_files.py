"""What the tasks of a job see of the node's files, as arguments of bubblewrap. Pure.

A task sees the machine's programs and devices, and of Grass its own job only. Everything is mounted nosuid by
bubblewrap, so programs of the machine give a task no rights of another user. In place of the share there is an empty
folder in memory, into which only what the task may see is mounted. Nothing of the share is ever covered: the kernel
detaches what is mounted on a name of a FUSE file system as soon as a look-up of that name fails, and would show
what was below. Used by ``processes``, ``mount_namespaces``, ``node.agent.conditions``, ``node.runtime.docker`` and
``node.runtime.process.kind``.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from grass.files import rights
from grass.model.names import is_user_name
from node.mounts import device, kind, newest, read_only

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
PROBE_USER = ".probe"
"""In place of a user: no user has this name. Where users are isolated, the trial of a node shows that this works."""
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
    """Folders of a job on its node. ``own``: of its attempts. ``read``: files of the node-agent for them. ``tmp``,
    ``var_tmp``: in place of the machine's."""

    own: str
    read: str
    tmp: str
    var_tmp: str


class InShare(NamedTuple):
    """What a job sees of the share. ``beside``: names beside ``COVERED``. ``output``: its folder; None: it has none.
    ``awaited``: outputs that it may read. ``data``: what it sees in ``data/``."""

    beside: tuple[str, ...] = ()
    output: str | None = None
    awaited: tuple[str, ...] = ()
    data: tuple[Shown, ...] = ()


def arguments(node: Node) -> list[str]:
    """Return bubblewrap's words, before the command, for a view that shows nothing of any job, nor of the share. Later
    mounts cover earlier ones."""
    return [PROGRAM, "--unshare-ipc", *(word for mount in _mounts(node) for word in mount)]


def of_job(node: Node, job: Job) -> list[Shown]:
    """Return what to show of the node in addition to the tasks of a job, in this order."""
    shown = [Shown(job.tmp, "/tmp"), Shown(job.var_tmp, "/var/tmp")]  # noqa: S108 (covers it)
    api = f"{node.runtime_dir}/tasks"
    return [*shown, Shown(job.own, job.own), Shown(job.read, job.read, True), Shown(api, api, True)]


def of_share(share: str, seen: InShare) -> list[Shown]:
    """Return what to show of the share to the tasks of a job, in this order."""
    shown = [Shown(f"{share}/{name}", f"{share}/{name}", True) for name in seen.beside]
    if seen.output:
        shown.append(Shown(seen.output, seen.output))
    return [*shown, *seen.data, *(Shown(path, path, True) for path in seen.awaited)]


def is_closed(share: str, table: str) -> bool:
    """Return whether a view shows an empty folder in place of the share, and not the share. ``table``: of its mounts.
    Earlier versions of Grass covered parts of the share only."""
    line = newest(table).get(share)
    return line is not None and kind(line) == "tmpfs"


def torn(shown: Sequence[Shown], table: str, share: str) -> list[Shown]:
    """Return what a view should show and does not: what the kernel has detached, and what belongs to an earlier mount
    of the share. Parts of such a folder are lost with it. ``table``: of the mounts of the view. ``share``: the device
    of the share now; empty: it has no mount of its own."""
    points = newest(table)
    lost: list[Shown] = []
    for each in shown:
        line = points.get(each.target)
        whole = line is not None and read_only(line) == each.read_only and share in ("", device(line))
        if not whole or any(_is_below(each.target, other.target) for other in lost):
            lost.append(each)
    return lost


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
    yield "--perms", "0755", "--tmpfs", node.share
    for name in COVERED:
        yield "--perms", "0755", "--dir", f"{node.share}/{name}"
    yield "--remount-ro", node.share


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
