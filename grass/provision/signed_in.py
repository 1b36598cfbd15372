"""A cluster that this machine only has a user's keys of, from `grass login`. Made by ``grass.provision.registry``.

It runs elsewhere: its hosts and files are its administrators' matter.
"""

from __future__ import annotations

from grass.api.keyring import load_profile
from grass.provision.provisioner import CanCreate, ClusterStatus, Finding, Provisioner, Session
from grass.system.tree_removal import remove_tree


class SignedInProvisioner(Provisioner):
    def __init__(self, session: Session) -> None:
        self._session = session

    def status(self) -> ClusterStatus:
        return ClusterStatus(load_profile(self._session.folder / "client").url, ())

    def findings(self) -> list[Finding]:
        return []

    def forget(self) -> None:
        """Remove the user's key and session from this machine. The cluster knows the user still."""
        remove_tree(self._session.folder)

    def refusal(self, capability: object) -> str:
        advice = "; `grass logout` removes your key of it from this machine" if capability is CanCreate else ""
        only_key = "this machine only has your key of it; do this where it was created"
        return f"cluster {self._session.name}: {only_key}{advice}"
