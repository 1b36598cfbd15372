"""A namespace of Kubernetes as what a node runs on. Made by ``node.agent.__main__`` in place of ``ThisMachine``.

It is as large as its quotas leave it, and at most as large as the settings say. Quotas are read again and again: an
administrator may change them at any time. What tasks use there, Kubernetes knows;
a namespace tells nothing of its machines.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress

import grass
from grass.config import ClusterConfig, KubernetesConfig
from grass.errors import GrassError
from grass.kubernetes.api import ApiServer
from grass.kubernetes.capacity import Most, offered
from grass.kubernetes.objects import ResourceQuota
from grass.kubernetes.trial import check_claim, check_pull_secrets, check_rights, check_version, quotas, try_pod
from grass.model.namespace import NAME_LABEL, SHARE_LABEL
from grass.model.reasons import Reason
from grass.model.resources import DEVICE, Resources
from grass.wire.desired import DesiredAttempt
from grass.wire.gpu import GpuDevice
from grass.wire.heartbeat import NodeUsage
from grass.wire.hello import Probe, ProbeCheck
from grass.wire.usage import TaskTotals
from node.agent.machine import Offer
from node.runtime.protocol import Observed

QUOTA_SECONDS = 30.0
"""Seconds between two looks at the quotas."""

log = logging.getLogger(__name__)


class Namespace:
    """A ``Machine``. ``server``: the API server, for its own requests. ``changed`` is called in a thread when it offers
    something else than before. ``every``: seconds between two looks."""

    def __init__(
        self,
        config: ClusterConfig,
        settings: KubernetesConfig,
        server: ApiServer,
        changed: Callable[[], None],
        every: float = QUOTA_SECONDS,
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

    def look(self) -> Probe:
        """Ask the server how large the namespace is, and try what tasks need, as the probe of a machine does."""
        found = self._probe()
        try:
            self._offer = self._offered(found, quotas(self._server, self._settings.namespace))
        except GrassError as error:
            log.warning("the quotas of the namespace cannot be read: %s; the settings alone say how large it is", error)
            self._offer = self._offered(found, [])
        return found

    def start(self, desired: Mapping[str, DesiredAttempt]) -> None:
        """Nothing is measured of attempts."""
        threading.Thread(target=self._follow, name="quotas", daemon=True).start()

    def stop(self) -> None:
        self._ended.set()
        self._server.close()

    def offer(self) -> Offer:
        """Return what was found last."""
        return self._offer

    def _follow(self) -> None:
        """Read the quotas again and again. While they cannot be read, what was known of them counts."""
        while not self._ended.wait(self._every):
            with suppress(GrassError):
                found = self._offered(self._offer.probe, quotas(self._server, self._settings.namespace))
                if found != self._offer:
                    self._offer = found
                    log.info("the quotas of the namespace have changed; it offers %s", found.resources)
                    self._changed()

    def _offered(self, probe: Probe | None, limits: Sequence[ResourceQuota]) -> Offer:
        node = self._config.node
        most = Most(node.cpu, node.memory, node.gpu, node.disk)
        found = offered(limits, most, self._settings.gpu)
        gpus = tuple(
            GpuDevice(number, uuid=f"{self._settings.namespace}/{number}") for number in range(found.gpu // DEVICE)
        )
        return Offer(found, gpus, self._labels(), probe=probe)

    def _labels(self) -> dict[str, str]:
        labels = {NAME_LABEL: self._settings.namespace}
        return {**labels, SHARE_LABEL: self._settings.claim} if self._settings.claim is not None else labels

    def usage(self) -> NodeUsage:
        return NodeUsage()

    def programs(self) -> tuple[str, ...] | None:
        return None

    def conditions(self) -> tuple[Reason, ...]:
        return ()

    def loss(self, begun: float, ended: float) -> Reason | None:
        return None

    def taken(self, ports: Mapping[str, int]) -> int | None:
        """Return None: each pod has an address, and all ports, of its own."""
        return None

    def software(self, attempt: Observed) -> dict[str, str]:
        known = {"image": attempt.image, "grass": grass.__version__}
        return {name: text for name, text in known.items() if text}

    def listed(self, keys: list[str]) -> None:
        """Nothing is kept of attempts."""

    def started(self, attempt: Observed) -> None:
        """As ``listed``."""

    def stopping(self, key: str, grace: float) -> None:
        """As ``listed``: the runtime ends what does not end."""

    def cannot_end(self) -> Mapping[str, Reason]:
        return {}

    def totals_at_end(self, attempt: Observed) -> TaskTotals | None:
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
