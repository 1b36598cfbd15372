"""Puts the content of a backup into the folder of a cluster whose master is dead or gone. Used by ``local`` and, on the
machine of a master, by ``grass.provision.on_premises.backup_on_host``.

Nothing outside of a scratch folder changes until every byte is proven and redis has loaded its copy. What is replaced
is put aside. The file ``restoring`` says that a restore was interrupted while it moved files: the next one finishes it.
"""

from __future__ import annotations

import os
import shutil
from dataclasses import replace
from pathlib import Path

from grass.api import keyring
from grass.config import ClusterConfig, check_writer
from grass.errors import ConflictError, GrassError, InputError
from grass.manifest.local_settings import OfferedResources
from grass.mode_file import read_mode, write_mode
from grass.model.daemons import REDIS, SHEPHERD
from grass.model.mode import KUBERNETES, LOCAL, ON_PREMISES
from grass.model.names import is_name
from grass.node_config import NodeConfig, NodeHome, load_master, own_node
from grass.provision import layout, machine, ports, redis_log, runtime_folder, stopping
from grass.provision.backup.archive import REPLACED
from grass.provision.backup.sealed_file import AlteredError, opened
from grass.provision.backup.unpacking import Unpacked, scratch_folder, tried, unpack
from grass.provision.provisioner import Progress
from grass.store import embedded
from grass.store.keys import Keys
from grass.supervision import processes
from grass.system import clock
from grass.wire.backup import RESTORED, BackupHeader, Restored
from grass.wire.codec import encode

INTERRUPTED = "restoring"
_KEPT = frozenset({"data", "daemon-logs"})
"""What exists of these is newer than the backup, and stays."""
_MERGED = frozenset({"nodes"})
"""Agents of namespaces keep records of their own beside what is restored."""


def header_of(file: Path) -> BackupHeader:
    """Return the header of a backup. Raises InputError."""
    with opened(file) as (header, _):
        pass
    if not is_name(header.cluster):
        raise AlteredError(f"{file}: {header.cluster!r} is no name of a cluster; take another backup")
    return header


def of_this_machine(file: Path) -> BackupHeader:
    """Return the header of a backup of a cluster on one machine. Raises InputError."""
    header = header_of(file)
    if header.mode in (LOCAL, KUBERNETES):
        return header
    raise InputError(
        f"{file}: is of a cluster of mode {header.mode}; "
        + (
            "name the machine of its new master: `grass restore FILE --on HOST`"
            if header.mode == ON_PREMISES
            else "such clusters cannot be restored yet"
        )
    )


def put_in_place(file: Path, passphrase: str, home: Path, *, replaced: bool, progress: Progress) -> ClusterConfig:
    """Return the configuration of the cluster, which can be started now. The caller has the cluster's lock.

    ``home``: GRASS_HOME. ``replaced``: put the state that is there aside. Raises ConflictError: the master lives, the
    folder has state, it is of another cluster, or a newer Grass made the backup; and what ``unpack`` and ``tried``
    raise. Nothing was changed then.
    """
    header = of_this_machine(file)
    folder = home / "clusters" / header.cluster
    _check_target(folder, header, replaced)
    progress(f"reading the backup of {header.cluster}")
    with scratch_folder(home / f".restore-{header.cluster}") as scratch:
        unpacked = unpack(file, passphrase, scratch / "content")
        before = configuration(unpacked.home, header.cluster)
        fresh = not folder.exists()
        config = _moved(before, folder)
        _check_dead(config, folder)
        write_redis(unpacked)
        _end_rest(config, fresh, progress)
        config = _with_ports(config, progress)
        if fresh and (own := own_node(config)) is not None:
            config = replace(own, node=_within_machine(own.node, progress))
        _write_configurations(unpacked, config)
        place(unpacked.home, folder)
    return config


def configuration(unpacked: Path, cluster: str) -> ClusterConfig:
    """Return the configuration of the master. Raises NewerVersionError: a newer Grass wrote a configuration of the
    backup, and this one will write it anew."""
    path = unpacked / "cluster.json"
    for each in (path, *unpacked.glob("nodes/*/cluster.json")):
        check_writer(cluster, each.read_text())
    return load_master(path)


def _check_target(folder: Path, header: BackupHeader, replaced: bool) -> None:
    name = header.cluster
    mode = read_mode(folder)
    if mode not in (None, header.mode):
        raise ConflictError(f"cluster {name}: exists here with the mode {mode}, and the backup has {header.mode}")
    if key_in(folder) not in ("", header.master):
        raise ConflictError(
            f"cluster {name}: the one that exists in {folder} is another one than that of the backup; restore into "
            f"another GRASS_HOME, or remove it first with `grass delete {name}`"
        )
    before = layout.existing(folder)
    if before is not None:
        _check_dead(before, folder)
    check_state(folder, name, replaced)


def check_state(folder: Path, name: str, replaced: bool) -> None:
    """Raises ConflictError: the folder has the state of a cluster, and it shall not be replaced."""
    has_state = any((folder / "redis" / each).exists() for each in ("appendonlydir", "appendonly.aof"))
    if has_state and not replaced and not (folder / INTERRUPTED).exists():
        raise ConflictError(
            f"cluster {name}: exists in {folder} with its state; `grass start` starts it again, and `grass restore "
            "--replace` puts that state aside and takes the backup's"
        )


def key_in(folder: Path) -> str:
    """Return the id of the master's key; empty: there is none that can be read."""
    try:
        return str(keyring.master_key(folder / "master")["kid"])
    except GrassError:
        return ""


def _check_dead(config: ClusterConfig, folder: Path) -> None:
    """Raises ConflictError: the master of this folder lives."""
    runs = {process.name for process in processes.of_cluster(config)} - {SHEPHERD.name}
    lost = not (folder / "secrets.json").exists() or not config.path.exists()  # then nobody can ask its redis
    if REDIS in runs if lost else runs and redis_log.answers(config):  # redis may be starting again just now
        raise ConflictError(
            f"cluster {config.name}: its master lives, and a restore would end it; `grass status` shows it, and `grass "
            f"delete {config.name}` removes it"
        )


def _moved(before: ClusterConfig, folder: Path) -> ClusterConfig:
    runtime_dir = runtime_folder.choose(folder)
    redis = replace(before.redis, socket=str(runtime_dir / "redis.sock"))
    return replace(before, home=str(folder), runtime_dir=str(runtime_dir), redis=redis)


def _with_ports(config: ClusterConfig, progress: Progress) -> ClusterConfig:
    """Return it with other ports for those that are taken: the backup may be of another machine."""
    taken: set[int] = set()

    def free(host: str, port: int) -> int:
        if not port or ports.available(host, port):
            return port
        other = ports.free(host, Path(config.home), taken)
        taken.add(other)
        progress(f"port {port} is taken by {ports.holder(port)}; the cluster gets {other} instead")
        return other

    master = replace(config.master, api_port=free(config.master.api_host, config.master.api_port))
    if (own := own_node(config)) is not None:
        config = replace(own, node=replace(own.node, api_port=free(own.node.address, own.node.api_port)))
    return replace(config, master=master, task_redis=free("127.0.0.1", config.task_redis))


def _within_machine(node: NodeConfig, progress: Progress) -> NodeConfig:
    """Return the node with no more than this machine has."""
    has = machine.offered(OfferedResources())
    less = replace(
        node, cpu=_least(node.cpu, has.cpu), memory=_least(node.memory, has.memory), gpu=_least(node.gpu, has.gpu)
    )
    if less != node:
        progress(f"node {node.name}: offers less than before, because this machine has less")
    return less


def _least(wanted: int | None, there: int) -> int | None:
    return None if wanted is None else min(wanted, there)


def write_redis(unpacked: Unpacked, program: embedded.Server | None = None, term: int = 0) -> int:
    """Prove the copy of the keys, and make of it the files of a restored cluster's redis. ``program``: as of
    ``scratch.loaded``. ``term``: the highest that is known. Return that of the new master. Raises what ``tried``
    raises."""
    keys, now = Keys(f"grass:{unpacked.header.cluster}:"), clock.wall()
    with tried(unpacked, program) as server:
        before = server.restored(keys)
        term = 1 + max(term, RESTORED.decode(before).term if before else 0)
        server.settle(keys, encode(Restored(made=unpacked.header.made, at=now, term=term)), horizon=now)
        server.write_log()
    (unpacked.redis / "dump.rdb").unlink()
    accounts = unpacked.home / "redis" / "users.acl"
    if accounts.exists():
        accounts.rename(unpacked.redis / "users.acl")
        accounts.parent.rmdir()
    unpacked.redis.rename(unpacked.home / "redis")
    return term


def _end_rest(config: ClusterConfig, fresh: bool, progress: Progress) -> None:
    """End what is left of the dead master. Tasks run on, if their files are there."""
    if not fresh:
        stopping.end_orphans(config)
    elif processes.of_cluster(config):
        progress(f"ending processes of an earlier cluster {config.name}, whose folder was removed")
        stopping.stop(config, forever=True)


def _write_configurations(unpacked: Unpacked, config: ClusterConfig) -> None:
    write_mode(unpacked.home, config.mode)
    for path in (unpacked.home / "nodes").glob("*/cluster.json"):
        node = NodeHome.load(path)
        home = Path(config.home) / "nodes" / path.parent.name
        runtime_dir = Path(config.runtime_dir) / Path(node.runtime_dir).name
        moved = replace(node, home=str(home), runtime_dir=str(runtime_dir), share=str(config.data_dir))
        replace(moved, redis=config.redis).save(path)
    config.save(unpacked.home / "cluster.json")


def place(staged: Path, folder: Path, share: Path | None = None) -> None:
    """Move what is staged into the folder. ``cluster.json`` leaves first and comes last: without it nothing starts.
    ``share``: where files of the share go; None: into the folder."""
    folder.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    if not folder.exists():
        staged.rename(folder)
        return
    (folder / INTERRUPTED).touch()
    aside = folder / f"{REPLACED}{int(clock.wall())}"
    last = "cluster.json"
    if (folder / last).exists():
        _put_aside(folder / last, aside)
    for path in sorted(staged.iterdir(), key=lambda each: each.name == last):
        if path.name in _KEPT or path.name in _MERGED:
            target = share if share is not None and path.name == "data" else folder / path.name
            _merge(path, target, aside / path.name, replaced=path.name in _MERGED)
            continue
        if (folder / path.name).exists():
            _put_aside(folder / path.name, aside)
        path.rename(folder / path.name)
    (folder / INTERRUPTED).unlink()


def _put_aside(path: Path, aside: Path) -> None:
    aside.mkdir(mode=0o700, parents=True, exist_ok=True)
    path.rename(aside / path.name)


def _merge(source: Path, target: Path, aside: Path, *, replaced: bool) -> None:
    if not os.path.lexists(target):
        shutil.move(source, target)  # the share may be on another disk
    elif source.is_dir() and not source.is_symlink() and target.is_dir():
        for path in source.iterdir():
            _merge(path, target / path.name, aside / path.name, replaced=replaced)
    elif replaced:
        _put_aside(target, aside.parent)
        source.rename(target)
