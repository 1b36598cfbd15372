"""Map from the mode of settings or of an existing cluster to its ``Provisioner``.

Called by the CLI. A new kind of cluster is one more entry of ``_PROVISIONERS``. The file ``mode`` in a cluster's folder
holds the mode. The file is written before everything else, and removed last. The only other code that knows modes is
``grass.manifest.settings``, for the readers of settings files, and ``mode_file``, for the client.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any, TypeVar

from grass.errors import ConflictError, InputError
from grass.mode_file import read_mode
from grass.model.mode import AKS, AZURE, KUBERNETES, KUBERNETES_INSIDE, LOCAL, ON_PREMISES, SIGNED_IN
from grass.provision.provisioner import CanCreate, Provisioner, Session

if TYPE_CHECKING:
    from grass.manifest.cluster_settings import ClusterSettings

S = TypeVar("S", bound="ClusterSettings")

_PROVISIONERS = {
    LOCAL: "grass.provision.local:LocalProvisioner",
    ON_PREMISES: "grass.provision.on_premises.provisioner:OnPremisesProvisioner",
    KUBERNETES: "grass.provision.local:LocalProvisioner",
    AKS: "grass.provision.aks.provisioner:AksProvisioner",
    AZURE: "grass.provision.azure.provisioner:AzureProvisioner",
    KUBERNETES_INSIDE: "grass.provision.inside:InsideProvisioner",
    SIGNED_IN: "grass.provision.signed_in:SignedInProvisioner",
}
"""Mode → ``module:class``. Imported on use, because some of these modules import SSH code."""


def for_settings(settings: S, session: Session) -> CanCreate[S]:
    before = read_mode(session.folder)
    if before == SIGNED_IN:
        raise ConflictError(
            f"cluster {session.name}: `grass login` uses this name on this machine; choose another name, "
            f"or run `grass logout {session.name}`"
        )
    if before not in (None, settings.mode):
        raise ConflictError(
            f"cluster {session.name}: exists with the mode {before}, not {settings.mode}; choose another name, or "
            f"remove it first with `grass delete {session.name}`"
        )
    made: CanCreate[S] = _provisioner(settings.mode, session)
    return made


def for_cluster(session: Session) -> Provisioner:
    """Return the provisioner of an existing cluster. Without a mode file, nothing was created on other machines."""
    made: Provisioner = _provisioner(read_mode(session.folder) or LOCAL, session)
    return made


def _provisioner(mode: str, session: Session) -> Any:
    """Any: which class it is, and so what it can, is known from the mode alone."""
    if mode not in _PROVISIONERS:
        raise InputError(
            f"cluster {session.name}: this version of Grass does not know the mode {mode!r}; use a newer one"
        )
    module, _, name = _PROVISIONERS[mode].partition(":")
    return getattr(importlib.import_module(module), name)(session)
