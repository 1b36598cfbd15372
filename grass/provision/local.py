"""Cluster on this machine, as processes under `supervisord`: create, delete, status. Called through `registry`.

Used by ``registry`` and ``revival``.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from grass.api.metrics_tls import load_context
from grass.config import ClusterConfig, Secrets
from grass.errors import ConflictError, GrassError, NotFoundError, UnreachableError
from grass.manifest.local_settings import LocalSettings
from grass.manifest.namespaces import NamespaceSettings
from grass.mode_file import write_mode
from grass.model.daemons import OPERATOR, REDIS, SUPERVISOR, DaemonState
from grass.model.lifecycle import NodeState
from grass.model.mode import ON_PREMISES
from grass.network_address import network_address
from grass.node_config import NodeHome
from grass.provision import (
    at_boot,
    daemons,
    file_namespaces,
    layout,
    local_namespaces,
    machine,
    readiness,
    redis_log,
    runtime_folder,
    stopping,
    trouble,
)
from grass.provision.backup import making, restoring
from grass.provision.filelock import cluster_lock
from grass.provision.local_findings import local_findings
from grass.provision.namespaces import (
    DAEMONS,
    NamespaceRequest,
    check_node_name,
    plan,
    provide_login,
    wait_ready,
)
from grass.provision.provisioner import (
    CanAddNamespaces,
    CanAddNodes,
    CanBackUp,
    CanCreate,
    CanLogIn,
    CanPlan,
    CanRemoveNodes,
    CanRepair,
    CanStart,
    CanStartAtBoot,
    CanStop,
    ClusterStatus,
    Created,
    Deleted,
    Finding,
    Progress,
    RunsAlreadyError,
    Session,
)
from grass.store.connect import open_backend
from grass.store.keys import Keys
from grass.store.redis_backend import RedisBackend
from grass.supervision import processes
from grass.supervision.supervisor import CannotSuperviseError, Supervisor
from grass.system import clock
from grass.system.atomic_file import replace_file
from grass.system.environment import cluster_home, clusters, grass_home
from grass.system.tree_removal import remove_tree
from grass.wire.node_views import NodeView

if TYPE_CHECKING:
    from grass.api.client import Client
    from grass.wire.backup import BackedUp, BackupHeader

_STARTS = 5
"""Number of consecutive starts of supervisord after which the start has failed."""

_UP = frozenset({"RUNNING", "STARTING", "BACKOFF", "EXITED"})
"""supervisord's states for a daemon that runs or will be started again."""


class LocalProvisioner(
    CanCreate[LocalSettings],
    CanPlan[LocalSettings],
    CanStart,
    CanStop,
    CanStartAtBoot,
    CanRepair,
    CanBackUp,
    CanAddNamespaces,
    CanRemoveNodes,
):
    """Clusters of the modes `local` and `grass/k8s`. Made by ``grass.provision.registry``."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._repair = False

    def start(self) -> Created:
        return self.create(None)

    def stop(self) -> bool:
        with cluster_lock(self._session.home, self._session.name):
            config = _existing(self._session.name, self._session.home)
            if not processes.of_cluster(config) and not processes.tasks_of(config):
                return False
            self._session.progress(f"ending the tasks and daemons of cluster {config.name}; its state stays")
            stopping.stop(config)
            return True

    def start_at_boot(self) -> str:
        return at_boot.remember(_existing(self._session.name, self._session.home))

    def forget_at_boot(self) -> bool:
        return at_boot.forget(_existing(self._session.name, self._session.home))

    def repair_at_start(self) -> None:
        self._repair = True

    def create(self, settings: LocalSettings | None) -> Created:
        wanted = settings.namespaces if settings is not None else ()
        before = layout.existing(self._session.folder)
        there = [node.node for node in local_namespaces.nodes(before)] if before is not None else []
        names = {node.name for node in there}
        looked = file_namespaces.looked_at([each for each in wanted if each.name not in names], self._session.ask)
        try:
            config = create(
                settings,
                name=self._session.name,
                home=self._session.home,
                progress=self._session.progress,
                repair=self._repair,
            )
        except RunsAlreadyError:
            if settings is None or not wanted:
                raise
            config = self._running(settings)
        for note in file_namespaces.notes(there, wanted) if wanted else ():
            self._session.progress(note)
        done = self._add_namespaces(config, wanted, looked) if wanted else 0
        return Created(config.name, config.mode, config.home, config.master.url, done, len(wanted) - done)

    def plan(self, settings: LocalSettings) -> list[str]:
        where = f"# cluster {settings.name}: its daemons run on this machine, in {self._session.folder}"
        node = f"# this machine is its node {settings.own_node}" if settings.own_node else "# this machine is no node"
        return [where, node, *file_namespaces.plan_lines(settings.namespaces)]

    def _running(self, settings: LocalSettings) -> ClusterConfig:
        """Return the configuration of a cluster that runs, and say if ``settings`` are others."""
        config = _existing(settings.name, self._session.home)
        if layout.design(settings, Path(config.home), config) != config:
            self._session.progress(
                f"warning: cluster {config.name} runs with other settings than those of the file, which count when it "
                "is started again; only new namespaces are added now"
            )
        return config

    def _add_namespaces(
        self, config: ClusterConfig, wanted: Sequence[NamespaceSettings], looked: Mapping[str, NamespaceRequest]
    ) -> int:
        """Make those namespaces nodes that are none yet, or not completely. Return how many these were."""
        from grass.api.client import Client

        done = 0
        with Client(config.name, home=self._session.home) as client:
            members = {node.name for node in client.nodes() if node.state is not NodeState.LEFT}
            for each in wanted:
                if each.name in members and each.name not in looked and _is_supervised(config, each.name):
                    continue
                request = looked.get(each.name) or file_namespaces.looked_at([each], self._session.ask)[each.name]
                self._session.progress(f"adding the namespace {each.namespace} as node {each.name}")
                self.add_namespace(request, client)
                done += 1
        return done

    def delete(self, *, force: bool, packages: bool) -> Deleted:
        """Delete the cluster. ``force`` and ``packages`` have no effect: no other hosts, no installed packages."""
        delete(self._session.name, home=self._session.home, progress=self._session.progress)
        return Deleted()

    def status(self) -> ClusterStatus:
        config = _existing(self._session.name, self._session.home)
        states = _states(config)
        return ClusterStatus(config.master.url, tuple(states), tuple(trouble.look(config, states)))

    def findings(self) -> list[Finding]:
        return list(local_findings(self._session.folder))

    def back_up(self, target: Path, passphrase: str, parts: Sequence[str]) -> tuple[BackupHeader, BackedUp]:
        return making.make(_existing(self._session.name, self._session.home), target, passphrase, parts)

    def remove_node(self, name: str, take_out: Callable[[], None], *, force: bool, packages: bool) -> None:
        config = _existing(self._session.name, self._session.home)
        namespaces, left = _namespaces(config, name), self.keeps(name)
        if not force:
            for node in namespaces:
                local_namespaces.check_reachable(node)
        try:
            take_out()
        except NotFoundError:  # `node add` was interrupted before that, or an earlier removal after it
            if not left:
                raise
        with cluster_lock(self._session.home, config.name):
            for node in namespaces:
                _remove_namespace(config, node, self._session.progress)
            if left:
                _remove_tree(local_namespaces.folder_of(config, name))
                _supervise_namespaces(config)

    def keeps(self, name: str) -> bool:
        config = _existing(self._session.name, self._session.home)
        return local_namespaces.folder_of(config, name).exists() or _is_supervised(config, name)

    def add_namespace(self, request: NamespaceRequest, client: Client) -> NodeView | None:
        if request.plan is not None:
            for line in plan(request):
                request.plan(line)
            return None
        check_node_name(request.name)
        config = _existing(self._session.name, self._session.home)
        with cluster_lock(self._session.home, config.name):
            if not self._is_made(config, request, client):
                local_namespaces.make(config, request, client)
            for node in _namespaces(config, request.name):
                local_namespaces.make_runtime_folder(config, node)
                provide_login(request, node.namespace)
            _supervise_namespaces(config)
            if request.change and request.settings.serve is not None:
                Supervisor(config).start_daemon(local_namespaces.program_name(OPERATOR, request.name))
        return wait_ready(request.name, client)

    def _is_made(self, config: ClusterConfig, request: NamespaceRequest, client: Client) -> bool:
        """Return whether only the start of the node's daemons is missing. Remove what an interrupted removal left.

        Raises ConflictError: nothing was interrupted.
        """
        name = request.name
        left = _namespaces(config, name)
        if any(node.name == name and node.state is not NodeState.LEFT for node in client.nodes()):
            runs = _is_supervised(config, name)
            if runs and left and request.change:
                local_namespaces.change_serving(config, left[0], request)
                return True
            if runs or not local_namespaces.folder_of(config, name).exists():
                raise ConflictError(f"node {name}: exists already; `grass node show {name}` shows it")
            if left:
                return True
        for node in left:
            _remove_namespace(config, node, self._session.progress)
        return False

    def namespace(self, name: str) -> NodeHome:
        found = _namespaces(_existing(self._session.name, self._session.home), name)
        if not found:
            raise NotFoundError(f"node {name}: is no namespace of Kubernetes of cluster {self._session.name}")
        return found[0]

    def refusal(self, capability: object) -> str:
        here = f"cluster {self._session.name} is on this machine only"
        if capability is CanLogIn:
            return f"{here}; open a shell here instead"
        return f"{here}; nodes join a cluster of mode {ON_PREMISES}" if capability is CanAddNodes else here


def create(
    settings: LocalSettings | None = None,
    *,
    name: str = LocalSettings.name,
    home: Path | None = None,
    progress: Progress,
    repair: bool = False,
) -> ClusterConfig:
    """Create the cluster, or start a stopped one, and return when it is READY. ``home``: GRASS_HOME.

    Without ``settings``: the cluster ``name``, with its former settings if it existed. Raises ConflictError when the
    cluster already runs or a port is taken, UnreachableError when the user's own redis does not answer, NotReadyError
    when a daemon fails, and DamagedLogError when redis cannot read its log. With ``repair``, the unreadable part of the
    log is cut off instead.
    """
    base = (home or grass_home()).absolute()
    name = settings.name if settings else name
    folder = cluster_home(name, base)
    with cluster_lock(base, name):
        if (folder / restoring.INTERRUPTED).exists():
            raise ConflictError(f"cluster {name}: `grass restore` was interrupted; run it again, which finishes it")
        before = layout.existing(folder)
        if before is not None:
            with suppress(OSError, readiness.SupervisorGoneError):
                return _complete(before, progress, repair)
            return _start_again(before, settings, folder, progress, repair)
        machine.check_processes()
        if settings is not None and settings.metrics is not None:
            load_context(settings.metrics, clock.wall())  # only the errors matter here
        progress(f"creating cluster {name} in {folder}")
        config = layout.design(settings or LocalSettings(name=name), folder, None)
        if processes.of_cluster(config):
            progress(f"ending processes of an earlier cluster {name}, whose folder was removed")
            stopping.stop(config, forever=True)
        layout.check_ports(config)
        try:
            return _start(config, settings, progress, fresh=True)
        except KeyboardInterrupt:
            progress(f"interrupted; removing cluster {name} again")
            _end(config, progress)
            raise
        except BaseException:
            if not config.path.exists():  # no daemon was started yet
                _remove_files(config)
            raise


def _complete(config: ClusterConfig, progress: Progress, repair: bool) -> ClusterConfig:
    """Complete a running cluster: start stopped daemons, or wait for daemons that a killed `create` started.

    Raises ConflictError when there is nothing to complete. OSError: supervisord does not answer.
    """
    supervisor = Supervisor(config)
    down = [state.name for state in _settled(supervisor) if state.state not in _UP]
    if REDIS not in down and not redis_log.answers(config):
        if not repair:
            redis_log.check(config)
        else:
            supervisor.end_daemon(REDIS, stopping.TASKS_SECONDS)  # otherwise it may read the log that is being repaired
            redis_log.repair(config, progress)
            down.append(REDIS)
    if not down and not _confirmed(config).exists():
        progress(f"waiting for cluster {config.name}, which an interrupted `grass create` started")
        _wait_ready(config, Secrets.load(config.home), 0.0)
        return config
    if not down and layout.mend_client(config):
        progress(f"the client's files of cluster {config.name} were missing or damaged; made a new key")
        return config
    if not down:
        raise RunsAlreadyError(f"cluster {config.name} exists and runs; `grass delete {config.name}` ends it")
    progress(f"starting {', '.join(down)} of cluster {config.name} again")
    since = clock.wall()
    for name in down:
        supervisor.start_daemon(name)
    _wait_ready(config, Secrets.load(config.home), since)
    return config


def _settled(supervisor: Supervisor) -> list[DaemonState]:
    """Return the daemons once none is being stopped, as by a `grass stop` that was killed: until then, supervisord does
    not start it again."""
    until, found = clock.steady() + stopping.TASKS_SECONDS, supervisor.daemons()
    while any(state.state == "STOPPING" for state in found) and clock.steady() < until:
        clock.sleep(0.05)
        found = supervisor.daemons()
    return found


def _start_again(
    before: ClusterConfig, settings: LocalSettings | None, folder: Path, progress: Progress, repair: bool = False
) -> ClusterConfig:
    machine.check_processes()
    progress(f"starting cluster {before.name} again with its state")
    config = before if settings is None else layout.design(settings, folder, before)
    stopping.end_orphans(before)
    if repair and config.redis.embedded:
        redis_log.repair(config, progress)
    layout.check_ports(config)
    return _start(config, settings, progress, fresh=False)


def restore(
    file: Path, passphrase: str, *, home: Path, replaced: bool, progress: Progress
) -> tuple[ClusterConfig, float]:
    """Make a cluster from a backup, and return when it is READY. Also return when the backup was made.

    Raises what ``restoring.put_in_place`` raises: then nothing was changed; and what ``create`` raises.
    """
    header = restoring.of_this_machine(file)
    with cluster_lock(home, header.cluster):
        config = restoring.put_in_place(file, passphrase, home, replaced=replaced, progress=progress)
        return _start_again(config, None, Path(config.home), progress), header.made


def start_again(config: ClusterConfig, progress: Progress) -> None:
    """Restart a cluster whose supervisord died: end all remaining processes except the tasks, then start it as before.

    The caller must hold the cluster's lock.
    """
    _start_again(config, None, Path(config.home), progress)


def _start(config: ClusterConfig, settings: LocalSettings | None, progress: Progress, *, fresh: bool) -> ClusterConfig:
    layout.make_folders(config)
    write_mode(Path(config.home), config.mode)
    secrets = layout.make_secrets(config, settings.redis.password if settings else None)
    redis: list[str] = []
    if config.redis.embedded:
        redis = layout.make_redis(config, secrets)
    else:
        _check_redis(config, secrets, fresh, progress)
    layout.make_keys(config)
    layout.refresh_profile(config)
    for node in local_namespaces.nodes(config):
        local_namespaces.make_runtime_folder(config, node)
    _write_conf(config, redis)
    config.save()
    progress(f"starting {', '.join(daemons.names(config))}")
    _supervise(config, secrets, progress)
    return config


def _write_conf(config: ClusterConfig, redis: list[str]) -> None:
    umask = os.umask(0o077)
    os.umask(umask)
    conf = Path(config.home) / "supervisord.conf"
    replace_file(conf, daemons.supervisord_conf(config, redis, umask))


def _write_supervision(config: ClusterConfig, secrets: Secrets) -> None:
    """Write supervisord's configuration of a running cluster anew."""
    _write_conf(config, layout.make_redis(config, secrets) if config.redis.embedded else [])


def _namespaces(config: ClusterConfig, name: str) -> list[NodeHome]:
    return [node for node in local_namespaces.nodes(config) if node.node.name == name]


def _remove_namespace(config: ClusterConfig, node: NodeHome, progress: Progress) -> None:
    """End the daemons of a namespace first, so that they create no more pods; then remove its pods and files. They are
    supervised until ``_supervise_namespaces``."""
    name = node.node.name
    local_namespaces.end_daemons(config, name)
    stopping.end_containers(node, forever=True)
    progress(f"removing the files of node {name}")
    _remove_files(node)


def _supervise_namespaces(config: ClusterConfig) -> None:
    """Let supervisord run the daemons of those namespaces that are there now."""
    _write_supervision(config, Secrets.load(config.home))
    Supervisor(config).reload()


def _is_supervised(config: ClusterConfig, name: str) -> bool:
    own = {local_namespaces.program_name(daemon, name) for daemon in DAEMONS}
    return any(state.name in own for state in Supervisor(config).daemons())


def _supervise(config: ClusterConfig, secrets: Secrets, progress: Progress) -> None:
    """Start supervisord, and restart it if it ends before the cluster is ready: no daemon may be watching it yet."""
    for _ in range(_STARTS):
        since = clock.wall()
        Supervisor(config).start()
        try:
            _wait_ready(config, secrets, since)
            return
        except readiness.SupervisorGoneError:
            progress(f"cluster {config.name}: supervisord ended while it started the daemons; starting it again")
            stopping.end_orphans(config)
    raise CannotSuperviseError(
        f"cluster {config.name}: supervisord ended {_STARTS} times while it started the daemons; "
        f"{config.home}/log/supervisord.log may say why"
    )


def _confirmed(config: ClusterConfig) -> Path:
    """Return the path of a file that exists once a `grass create` has seen the cluster READY."""
    return Path(config.home) / "confirmed"


def _wait_ready(config: ClusterConfig, secrets: Secrets, since: float) -> None:
    try:
        readiness.wait_ready(config, secrets, since=since)
        _confirmed(config).touch()
    except readiness.NotReadyError as error:
        raise readiness.NotReadyError(
            f"cluster {config.name} was started, but {error} after {readiness.PATIENCE:g} s; `grass status` shows its "
            f"daemons, {config.home}/log has their output, and `grass delete {config.name}` ends it"
        ) from error


def _check_redis(config: ClusterConfig, secrets: Secrets, fresh: bool, progress: Progress) -> None:
    """Check that the user's own redis answers, and that it holds no other cluster of this name."""
    where = _endpoint(config)
    backend = open_backend(config, secrets, "admin")
    try:
        taken = backend.get(Keys(config.key_prefix).fence) is not None
        durable = backend.durability()
    except UnreachableError as error:
        raise UnreachableError(f"cluster {config.name}: your redis at {where} does not answer ({error})") from error
    finally:
        backend.close()
    if fresh and taken:
        raise ConflictError(f"the redis at {where} already holds a cluster {config.name}; choose another name")
    if durable and (durable.get("appendonly"), durable.get("appendfsync")) != ("yes", "always"):
        progress(
            f"warning: the redis at {where} has `appendonly {durable.get('appendonly')}` and `appendfsync "
            f"{durable.get('appendfsync')}`: jobs accepted just before a crash may be lost (the "
            "embedded redis has yes and always)"
        )


def delete(name: str, *, home: Path | None = None, progress: Progress) -> None:
    """Stop the cluster and remove everything that belongs to it. An interrupted call can be repeated.

    Raises NotFoundError: there is no such cluster.
    """
    base = (home or grass_home()).absolute()
    folder = cluster_home(name, base)
    if name not in clusters(base):  # a name such as `../..` would be a path outside, and is no cluster's name
        raise NotFoundError(f"there is no cluster {name}; {_others(base)}")
    with cluster_lock(base, name):
        config = layout.existing(folder)
        if config is not None:
            progress(f"ending the tasks and daemons of cluster {name}; removing {folder}")
            _end(config, progress)
        else:
            _remove_tree(folder)


def _end(config: ClusterConfig, progress: Progress) -> None:
    at_boot.forget(config)
    stopping.stop(config, forever=True)
    if not config.redis.embedded:
        _clear_redis(config, progress)
    _remove_files(config)


def _others(base: Path) -> str:
    names = clusters(base)
    return f"there are: {', '.join(names)}" if names else f"none exists in {base}"


def _endpoint(config: ClusterConfig) -> str:
    """Return the address of a redis that is the user's own."""
    assert config.redis.host is not None and config.redis.port is not None
    return network_address(config.redis.host, config.redis.port)


def _clear_redis(config: ClusterConfig, progress: Progress) -> None:
    with suppress(FileNotFoundError):
        backend: RedisBackend = open_backend(config, Secrets.load(config.home), "admin")
        try:
            backend.delete_prefix(config.key_prefix)
        except GrassError as error:
            progress(f"the keys {config.key_prefix}* stay in {_endpoint(config)}: {error}")
        finally:
            backend.close()


def _remove_files(config: ClusterConfig) -> None:
    runtime_folder.remove(Path(config.runtime_dir))
    _remove_tree(Path(config.home))


def _remove_tree(folder: Path) -> None:
    """Remove a folder, even if tasks made parts of it unwritable."""
    for path, inner, _ in os.walk(folder):
        for name in inner:  # before the walk enters these folders
            below = Path(path) / name
            if not below.is_symlink():
                with suppress(FileNotFoundError):  # a `grass` command has just removed it
                    below.chmod(0o700)
    remove_tree(folder)


def _existing(name: str, base: Path) -> ClusterConfig:
    config = layout.existing(cluster_home(name, base)) if name in clusters(base) else None
    if config is None:
        raise NotFoundError(f"there is no cluster {name}; {_others(base)}")
    return config


def _states(config: ClusterConfig) -> list[DaemonState]:
    """Return the states of supervisord and each daemon, even if parts of the cluster are down.

    Without supervisord: ORPHANED for a process that runs unsupervised (`grass create` takes it over), STOPPED for the
    others.
    """
    return _supervised(config) or _orphaned(config)


def _supervised(config: ClusterConfig) -> list[DaemonState]:
    supervisor = Supervisor(config)
    try:
        own, states = supervisor.pid(), {state.name: state for state in supervisor.daemons()}
    except OSError:
        return []
    since = processes.start_of(own)
    return [
        DaemonState(SUPERVISOR, own, "RUNNING", since),
        *(states[name] for name in daemons.names(config) if name in states),
    ]


def _orphaned(config: ClusterConfig) -> list[DaemonState]:
    alive = {process.name: process for process in reversed(processes.of_cluster(config))}
    found = []
    for name in (SUPERVISOR, *daemons.names(config)):
        process = alive.get(name)
        if process is None:
            found.append(DaemonState(name, None, "STOPPED", None))
        else:
            found.append(DaemonState(name, process.pid, "ORPHANED", process.started_at()))
    return found
