"""``python -m node.agent CLUSTER_JSON``: run the node-agent of one node until SIGTERM.

Tasks outlive it, unless SIGTERM comes because the machine shuts down."""

from __future__ import annotations

import functools
import logging
import os
import signal
import sys
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING

from grass.api.collector_link import key_for
from grass.api.daemon_log import start_node_log
from grass.config import Secrets
from grass.errors import NotAllowedError
from grass.node_config import KubernetesConfig, NodeHome
from grass.store.connect import open_backend
from grass.store.embedded import TASKS_USER
from grass.store.keys import Keys
from grass.store.node_store import NodeStore
from grass.store.queue_store import QueueLink
from grass.store.shared_store import SharedStore
from grass.supervision.address_watch import watch_address
from grass.supervision.certificate_renewal import start_renewal
from grass.system import process_memory
from grass.system.environment import whole_environment
from grass.system.systemd import Notifier
from grass.tls_files import MASTER, identity
from grass.wire.hello import Probe
from node.agent import gpu
from node.agent.environment import inherited
from node.agent.eviction import eviction
from node.agent.inbox import Inbox
from node.agent.loop import NodeAgent
from node.agent.machine import Machine
from node.agent.master_search import start_search
from node.agent.probe_record import mounted, share_is_mounted
from node.agent.shipper import Shipper
from node.agent.shutdown import machine_shuts_down
from node.agent.task_redis import Proof, TaskRedis
from node.agent.this_machine import ThisMachine
from node.membership.service import Service
from node.runtime.registry import open_runtimes

if TYPE_CHECKING:
    from node.agent.namespace import Namespace

PROBE_AGAIN = 30.0
"""Seconds after which an agent whose probe failed ends. It is restarted and probes again."""
REFUSED_AGAIN = 30.0
"""Seconds after which an agent that redis refuses ends: its node was removed, or is being recreated."""

log = logging.getLogger("node.agent")


def main(path: str) -> int:
    threading.excepthook = ThreadFailureHook(REFUSED_AGAIN)
    sys.setswitchinterval(0.0005)  # threads that send reports must not wait for the loop
    config = NodeHome.load(path)
    secrets = Secrets.load(config.home)
    key = key_for(config, secrets.node_token)
    start_node_log(config, config.node.name, "node-agent", key)
    start_renewal(config)
    start_search(config)
    backend = open_backend(config, secrets, "node", config.node.name)
    notifier = Notifier()
    notifier.ready()
    gpus = gpu.devices() if config.node.kubernetes is None else ()
    sound = [device.id for device in gpus if device.uuid]
    result = None
    keys, inbox = Keys(config.key_prefix), Inbox()
    store = NodeStore(backend, keys, config.node.name)
    runtime = open_runtimes(config, functools.partial(share_is_mounted, config), store.signed_off)
    machine: Machine
    on_output = None
    if config.node.kubernetes is not None:
        machine = namespace = _namespace(config, config.node.kubernetes, inbox.offers)
        result = _probe(namespace.look, notifier)
    else:
        if config.node.probe:
            result = _probe(functools.partial(_probe_machine, config, sound, key), notifier)
        machine = this = ThisMachine(
            config,
            inherited(whole_environment()),
            gpus,
            inbox.wake,
            runtime.roots,
            store.usage,
            result,
            mounted(config) if config.node.probe else None,
        )
        on_output = this.own_figures.found
    shipper = Shipper(config, key, on_complete=inbox.shipped, on_output=on_output)
    stores = SharedStore(backend, keys), QueueLink(backend, keys, config.node.name)
    service = Service(config, stores, inbox.left, inbox.done)
    agent = NodeAgent(config, store, runtime, machine, shipper, service, inbox, notifier.beat)
    watch_address(config, agent.stop)
    signal.signal(signal.SIGINT, lambda *_: agent.stop())
    signal.signal(signal.SIGTERM, lambda *_: threading.Thread(target=_end_agent, args=(agent,), daemon=True).start())
    signal.signal(signal.SIGUSR1, lambda *_: threading.Thread(target=_look, args=(agent, config), daemon=True).start())
    _look(agent, config)
    if result is not None and not result.passed:
        again = threading.Timer(PROBE_AGAIN, agent.stop)
        again.daemon = True
        again.start()
    if config.task_redis_server is not None:
        tls = Proof(config.tls_files, identity(config.name, MASTER)) if config.redis.tls else None
        TaskRedis(config.task_redis, config.task_redis_server, secrets.redis.get(TASKS_USER, ""), tls).start()
    process_memory.keep_imported()
    agent.run()
    return 0


def _namespace(config: NodeHome, settings: KubernetesConfig, changed: Callable[[], None]) -> Namespace:
    from grass.kubernetes.trial import server_of
    from node.agent.namespace import Namespace

    return Namespace(config, settings, server_of(settings), changed)


def _end_agent(agent: NodeAgent) -> None:
    """End the agent. Its tasks run on, unless the machine shuts down."""
    if machine_shuts_down():
        agent.leave()
    else:
        agent.stop()


def _look(agent: NodeAgent, config: NodeHome) -> None:
    agent.evict(eviction(config.runtime_dir))


def _probe_machine(config: NodeHome, gpus: list[int], key: str) -> Probe:
    from node.agent.probe import probe

    return probe(config, gpus, key=key)


def _probe(look: Callable[[], Probe], notifier: Notifier) -> Probe:
    """Probe in a thread, and send signs of life to the supervisor meanwhile."""
    found: list[Probe] = []
    thread = threading.Thread(target=lambda: found.append(look()), name="probe", daemon=True)
    thread.start()
    while thread.is_alive():
        notifier.beat()
        thread.join(1.0)
    for check in found[0].checks:
        log.log(logging.INFO if check.ok else logging.ERROR, "probe: %s: %s", check.name, check.message)
    return found[0]


class ThreadFailureHook:
    """The hook for threads that fail: it ends the agent. The next agent continues where this one stopped.

    ``refused_again``: seconds until the end of an agent that redis refuses. Until then its tasks run on, and can be
    stopped. Both threads that use redis are refused; one of them logs it.
    """

    def __init__(self, refused_again: float) -> None:
        self._refused_again = refused_again
        self._refused = threading.Lock()

    def __call__(self, failure: threading.ExceptHookArgs) -> None:
        if isinstance(failure.exc_value, NotAllowedError):
            self._end_later(failure.exc_value)
            return
        log.critical("a thread failed; the node-agent ends and is restarted", exc_info=failure.exc_value)
        _end()

    def _end_later(self, error: NotAllowedError) -> None:
        if not self._refused.acquire(blocking=False):
            return
        hint = "if this machine is no longer a node of the cluster, run `grass leave` on it to clean up"
        log.error("%s; %s; the node-agent restarts in %g s", error, hint, self._refused_again)
        again = threading.Timer(self._refused_again, _end)
        again.daemon = True
        again.start()


def _end() -> None:
    logging.shutdown()
    os._exit(70)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
