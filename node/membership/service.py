"""Memberships on this node as the node-agent uses them: it reports what changed, and requests what an attempt gets.

Made by ``node.agent.__main__``, used by ``node.agent.loop`` and ``node.agent.starts``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from grass.node_config import NodeHome
from grass.store.queue_store import QueueLink
from grass.store.shared_store import SharedStore
from grass.wire.desired import DesiredAttempt
from grass.wire.keys import AttemptKey, LaunchKey
from grass.wire.launch import LaunchTemplate
from grass.wire.membership import Membership
from node.membership import pod_view
from node.membership.api import Api
from node.membership.forwarding import Forwarding
from node.membership.late_files import LateFiles
from node.membership.memberships import Memberships
from node.membership.queues import Queues
from node.membership.rendering import Additions, additions
from node.membership.server import Server
from node.membership.shared_values import SharedValues


class Service:
    """The node-agent's part of memberships.

    ``stores`` None: files and environment only, no API. ``drained`` is called, in any thread, with the key of an
    attempt that left by itself.
    """

    def __init__(
        self,
        config: NodeHome,
        stores: tuple[SharedStore, QueueLink] | None,
        drained: Callable[[str], None],
        done: Callable[[str], None],
    ) -> None:
        self._config = config
        self.late_files = LateFiles()
        self._memberships = Memberships(config, self.late_files)
        self._values = SharedValues(stores[0], self._memberships) if stores else None
        self._queues = Queues(stores[1], config.node.name) if stores else None
        self._drained = drained
        self._done = done
        self._addresses: dict[str, str] = {}
        self._server: Server | None = None

    def _serve(self) -> None:
        """Open the API, once the memberships are known: until then a task waits, rather than being refused."""
        if self._values is not None and self._queues is not None and self._server is None:
            forwarding = Forwarding(self._config, self._memberships)
            api = Api(self._memberships, self._values, forwarding, self._queues, self._drained, self._done)
            self._server = Server(self._config, api)
            self._server.start()

    def stop(self) -> None:
        if self._server is not None:
            self._server.stop()

    def reset(self, memberships: Mapping[str, Membership], launches: Mapping[str, LaunchTemplate]) -> None:
        """Take the whole desired state."""
        self._memberships.reset(memberships, launches)
        self._wake_waiting([*memberships])
        self._serve()

    def apply(
        self,
        memberships: Mapping[str, Membership],
        fresh: Mapping[str, LaunchTemplate],
        launches: Mapping[str, LaunchTemplate],
    ) -> None:
        """Take a change: new memberships and templates. ``launches``: all templates, including those."""
        self._memberships.apply(memberships, fresh, launches)
        self._wake_waiting([*memberships])

    def forget(self, job_ids: Sequence[str]) -> None:
        """Forget jobs that have nothing left on this node."""
        self._memberships.forget(job_ids)
        for job_id in job_ids:
            self._addresses.pop(job_id, None)
        if self._values is not None:
            self._values.forget(job_ids)

    def _wake_waiting(self, launch_keys: Sequence[str]) -> None:
        if self._values is not None and launch_keys:
            self._values.changed(list({LaunchKey.parse(key).job_id for key in launch_keys}))

    def released(self, key: AttemptKey) -> bool:
        """Return whether an attempt was a member, and is none any more."""
        return self._memberships.world(key, -1, 0).released

    def pod_files(self, template: LaunchTemplate) -> Mapping[str, str]:
        """Return the files of its job that a pod sees. Raises InputError: they are too large."""
        memberships = self._memberships.of_job(template.job_id)
        return pod_view.files(self._config, template, memberships, self._addresses.get(template.job_id))

    def pod_additions(self, key: str, template: LaunchTemplate, entry: DesiredAttempt, address: str) -> Additions:
        """Return what an attempt in a pod gets. Raises InputError: its framework cannot render it now."""
        memberships = self._memberships.of_job(template.job_id)
        return pod_view.additions(self._config, key, template, entry, memberships, address)

    def take_addresses(self, addresses: Mapping[str, str]) -> None:
        """Take new addresses files, by job id, for pods. Processes and containers see the files themselves."""
        if self._config.node.kubernetes is not None:
            self._addresses.update(addresses)

    def additions(
        self, key: str, template: LaunchTemplate, entry: DesiredAttempt, base: Mapping[str, str]
    ) -> Additions:
        """Return what an attempt gets. Raises InputError: its framework cannot render it now."""
        memberships = self._memberships.of_job(AttemptKey.parse(key).job_id)
        return additions(self._config, key, template, entry, memberships, base)
