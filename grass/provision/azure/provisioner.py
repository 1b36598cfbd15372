"""Clusters of the mode `grass/azure`: machines that Grass makes. Made by ``grass.provision.registry``.

Once the machines exist, everything is as with machines that exist already.
"""

from __future__ import annotations

from grass.manifest.azure import AzureSettings
from grass.provision.azure import create, delete
from grass.provision.azure.edges import Edges
from grass.provision.on_premises.provisioner import HostsProvisioner
from grass.provision.provisioner import CanCreate, CanPlan, Created, Deleted, Session


class AzureProvisioner(HostsProvisioner, CanCreate[AzureSettings], CanPlan[AzureSettings]):
    def __init__(self, session: Session) -> None:
        super().__init__(session)
        self._edges = Edges()

    def plan(self, settings: AzureSettings) -> list[str]:
        return create.plan(settings, self._session, self._edges)

    def create(self, settings: AzureSettings) -> Created:
        return create.create(settings, self._session, self._edges)

    def delete(self, *, force: bool, packages: bool) -> Deleted:
        return delete.delete(self._session, self._edges, force=force, packages=packages)
