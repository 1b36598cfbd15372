"""Map from the mode of settings or of an existing cluster to its ``Provisioner``.

Called by the CLI. A new kind of cluster is one more entry of ``_PROVISIONERS``. The file ``mode`` in a cluster's folder
holds the mode. The file is written before everything else, and removed last. The only other code that compares modes is
``grass.manifest.settings``, for the keys of a settings file, and ``mode_file.is_on_this_machine``, for the client.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import TYPE_CHECKING

from grass.errors import ConflictError, InputError
from grass.mode_file import read_mode
from grass.model.mode import LOCAL, ON_PREMISES, SIGNED_IN
from grass.provision.provisioner import Provisioner, Session

if TYPE_CHECKING:
    from grass.manifest.settings import Settings

_PROVISIONERS = {
    LOCAL: "grass.provision.local:LocalProvisioner",
    ON_PREMISES: "grass.provision.on_premises.provisioner:OnPremisesProvisioner",
    SIGNED_IN: "grass.provision.signed_in:SignedInProvisioner",
}
"""Mode → ``module:class``. Imported on use, because some of these modules import SSH code."""


def for_settings(settings: Settings, session: Session) -> Provisioner:
    if read_mode(session.folder) == SIGNED_IN:
        raise ConflictError(
            f"cluster {session.name}: `grass login` uses this name on this machine; choose another name, "
            f"or run `grass logout {session.name}`"
        )
    return _provisioner(settings.mode, session)


def for_cluster(session: Session) -> Provisioner:
    """Return the provisioner of an existing cluster. Without a mode file, nothing was created on other machines."""
    return _provisioner(read_mode(session.folder) or LOCAL, session)


def _provisioner(mode: str, session: Session) -> Provisioner:
    if mode not in _PROVISIONERS:
        raise InputError(
            f"cluster {session.name}: this version of Grass does not know the mode {mode!r}; use a newer one"
        )
    module, _, name = _PROVISIONERS[mode].partition(":")
    make: Callable[[Session], Provisioner] = getattr(importlib.import_module(module), name)
    return make(session)
