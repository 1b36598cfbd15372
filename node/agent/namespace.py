"""A namespace of Kubernetes as what a node runs on. Made by ``node.agent.__main__`` in place of ``ThisMachine``.

It is as large as its quotas leave it, and at most as large as the settings say. Its machines are seen only where an
administrator gave the right to list them. Both are looked at again and again: an administrator may change them at any
time. What tasks use there, Kubernetes knows.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping, Sequence

import grass
from grass.errors import GrassError
from grass.kubernetes.api import ApiServer
from grass.kubernetes.capacity import Most, limited, offered
from grass.kubernetes.machines import devices, shown, total
from grass.kubernetes.objects import ResourceQuota
from grass.kubernetes.trial import (
    check_claim,
    check_pull_secrets,
    check_queue,
    check_rights,
    check_version,
    machines,
    quotas,
    try_pod,
)
from grass.model.namespace import own_labels
from grass.model.reasons import Reason
from grass.model.resources import DEVICE, Resources
from grass.node_config import KubernetesConfig, NodeHome
from grass.wire.desired import DesiredAttempt
from grass.wire.heartbeat import NodeUsage
from grass.wire.hello import Probe, ProbeCheck
from grass.wire.machines import Machines
from grass.wire.usage import TaskTotals
from node.agent.machine import Offer
from node.runtime.protocol import Observed

LOOK_SECONDS = 30.0
"""Seconds between two looks at quotas and machines."""

log = logging.getLogger(__name__)


class Namespace:
    """A ``Machine``. ``server``: the API server, for its own requests. ``changed`` is called in a thread when it offers
    something else than before. ``every``: seconds between two looks."""

    def __init__(
        self,
        config: NodeHome,
        settings: KubernetesConfig,
        server: ApiServer,
        changed: Callable[[], None],
        every: float = LOOK_SECONDS,
    ) -> None:
        self.environment: Mapping[str, str] = {}
        self.visible_gpus = 0
        self._config = config
        self._settings = settings
        self._server = server
        self._changed = changed
        self._every = every
        self._ended = threading.Event()
        self._offer = Offer(Resources())
        self._quotas: Sequence[ResourceQuota] | None = None
        """Those of the last look; None: they could not be read yet."""
        self._machines: Machines | None = None
        """Those of the last look; None: they may not be seen."""
        self._places: dict[str, str] = {}
        """Key of an attempt that runs → its machine."""

    def look(self) -> Probe:
        """Ask the server how large the namespace is, and try what tasks need, as the probe of a machine does."""
        probe = self._probe()
        self._see()
        self._offer = self._offered(probe)
        return probe

    def start(self, desired: Mapping[str, DesiredAttempt]) -> None:
        """Nothing is measured of attempts."""
        threading.Thread(target=self._follow, name="looks", daemon=True).start()

    def stop(self) -> None:
        self._ended.set()
        self._server.close()

    def offer(self) -> Offer:
        """Return what the last look found."""
        return self._offer

    def machines(self) -> Machines | None:
        """Return the machines, and what runs on each. None: they may not be seen."""
        if self._machines is None:
            return None
        tasks: dict[str, list[str]] = {}
        for key, machine in self._places.items():
            tasks.setdefault(machine, []).append(key)
        return shown(self._machines, tasks)

    def _follow(self) -> None:
        """Look again and again, and tell what has changed."""
        while not self._ended.wait(self._every):
            offer, seen = self._offer, self._machines
            self._see()
            self._offer = self._offered(offer.probe)
            if self._offer.resources != offer.resources:
                log.info("the namespace has changed; it offers %s", self._offer.resources)
            if (self._offer, self._machines) != (offer, seen):
                self._changed()
        self._server.close()  # a look may have opened another connection since ``stop``

    def _see(self) -> None:
        """Look at the quotas and the machines. While they cannot be read, what was known of them counts."""
        try:
            self._quotas = quotas(self._server, self._settings.namespace)
        except GrassError as error:
            if self._quotas is None:
                log.warning(
                    "the quotas of the namespace cannot be read: %s; the settings alone say how large it is", error
                )
        try:
            self._machines = machines(self._server, self._settings)
        except GrassError as error:
            log.info("the machines of the namespace cannot be read now: %s", error)

    def _offered(self, probe: Probe | None) -> Offer:
        node, settings, seen = self._config.node, self._settings, self._machines
        most = Most(node.cpu, node.memory, node.gpu, node.disk)
        limits = limited(self._quotas or (), most, settings.gpu)
        found = offered(limits, total(seen) if seen is not None else None)
        labels = own_labels(settings.namespace, settings.claim)
        return Offer(found, devices(seen, found.gpu // DEVICE, settings.namespace), labels, probe=probe)

    def usage(self) -> NodeUsage:
        return NodeUsage()

    def programs(self) -> tuple[str, ...] | None:
        return None

    def conditions(self) -> tuple[Reason, ...]:
        return ()

    def loss(self, begun: float, ended: float) -> Reason | None:
        return None

    def seen_after(self) -> float:
        """Return 0: pods take longer to start than their machines need to see what is new in a claim."""
        return 0.0

    def taken(self, ports: Mapping[str, int]) -> int | None:
        """Return None: each pod has an address, and all ports, of its own."""
        return None

    def software(self, attempt: Observed) -> dict[str, str]:
        known = {"image": attempt.image, "grass": grass.__version__, "machine": attempt.machine}
        return {name: text for name, text in known.items() if text}

    def listed(self, keys: list[str]) -> None:
        """Nothing is kept of attempts."""

    def started(self, attempt: Observed) -> None:
        if attempt.machine is not None:
            self._places[attempt.key] = attempt.machine

    def stopping(self, key: str, grace: float) -> None:
        """As ``listed``: the runtime ends what does not end."""

    def cannot_end(self) -> Mapping[str, Reason]:
        return {}

    def totals_at_end(self, attempt: Observed) -> TaskTotals | None:
        self._places.pop(attempt.key, None)
        return None

    def forget(self, keys: list[str]) -> None:
        """As ``listed``."""

    def _probe(self) -> Probe:
        """Try what tasks need, as the probe of a machine does."""
        settings, server = self._settings, self._server
        tries: dict[str, Callable[[], object]] = {
            "server": lambda: check_version(server),
            "rights": lambda: check_rights(server, settings),
            "claim": lambda: check_claim(server, settings),
            "pull secret": lambda: check_pull_secrets(server, settings),
            "queue": lambda: check_queue(server, settings),
            "pod": lambda: try_pod(server, settings),
        }
        checks = tuple(_check(name, test) for name, test in tries.items())
        return Probe(all(each.ok for each in checks), checks)


def _check(name: str, test: Callable[[], object]) -> ProbeCheck:
    try:
        said = test()
    except GrassError as error:
        return ProbeCheck(name, False, str(error))
    return ProbeCheck(name, True, str(said or "ok"))
