"""Clusters of the mode `k8s/aks`: a Kubernetes that Grass makes on Azure, with the master on this machine. Made by
``grass.provision.registry``.

Once it is there, everything is as with a namespace of a Kubernetes that exists already.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from grass.errors import ConflictError, InputError, NotFoundError
from grass.manifest.aks import AksSettings
from grass.manifest.local_settings import KubernetesSettings, LocalSettings
from grass.provision import layout, stopping
from grass.provision.aks import cost, create, delete, power, scale
from grass.provision.aks.edges import Edges, Local
from grass.provision.local import LocalProvisioner
from grass.provision.provisioner import (
    CanAddNodes,
    CanPowerNodes,
    CanScaleNodes,
    CanTellCosts,
    Created,
    Deleted,
    Scaled,
    ScaleRequest,
    Session,
)

if TYPE_CHECKING:
    from grass.api.client import Client
    from grass.wire.backup import BackedUp, BackupHeader
    from grass.wire.cloud import CloudCosts


class AksProvisioner(LocalProvisioner, CanScaleNodes, CanTellCosts):
    def __init__(self, session: Session) -> None:
        super().__init__(session)
        self._edges = Edges(
            Local(
                self._create_here, lambda: LocalProvisioner.create(self, None), self._stop_here, self._end, self._remove
            )
        )

    def plan(self, settings: LocalSettings) -> list[str]:
        assert isinstance(settings, AksSettings), "the registry knows the mode"
        return create.plan(settings, self._session, self._edges)

    def create(self, settings: LocalSettings | None) -> Created:
        if settings is None:
            return self.start()
        assert isinstance(settings, AksSettings), "the registry knows the mode"
        return create.create(settings, self._session, self._edges)

    def delete(self, *, force: bool, packages: bool) -> Deleted:
        return delete.delete(self._session, self._edges)

    def start(self) -> Created:
        return power.start(self._session, self._edges)

    def stop(self) -> bool:
        return power.stop(self._session, self._edges)

    def scale_nodes(self, request: ScaleRequest, client: Client, take_out: Callable[[str], None]) -> Scaled:
        return scale.scale(self._session, self._edges, request)

    def costs(self) -> CloudCosts:
        return cost.costs(self._session, self._edges)

    def start_at_boot(self) -> str:
        raise ConflictError(
            f"cluster {self._session.name}: each boot would start machines that are paid; use `grass start` when you "
            "need them"
        )

    def back_up(self, target: Path, passphrase: str, parts: Sequence[str]) -> tuple[BackupHeader, BackedUp]:
        raise InputError(
            f"cluster {self._session.name}: backups of clusters of mode {AksSettings.mode} cannot be restored yet; "
            "`grass job pull` and `grass data pull` copy what is needed"
        )

    def refusal(self, capability: object) -> str:
        if capability is CanPowerNodes:
            return (
                f"cluster {self._session.name}: its machines are a pool; `grass stop` turns all off, `grass node scale "
                "SIZE 0` those of a size"
            )
        if capability is CanAddNodes:
            return (
                f"cluster {self._session.name}: its node is in Kubernetes; `grass node scale SIZE N` gives it machines"
            )
        return super().refusal(capability)

    def _create_here(self, settings: KubernetesSettings) -> Created:
        return LocalProvisioner.create(self, settings)

    def _stop_here(self) -> bool:
        try:
            return LocalProvisioner.stop(self)
        except NotFoundError:
            return False

    def _end(self) -> None:
        """End the daemons, and leave pods: they go with the Kubernetes."""
        config = layout.existing(self._session.folder)
        if config is not None:
            stopping.stop_processes(config)

    def _remove(self) -> None:
        with suppress(NotFoundError):  # an interrupted call removed it
            LocalProvisioner.delete(self, force=False, packages=False)
