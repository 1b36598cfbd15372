"""A cluster that this machine only has a user's keys of, from `grass login`. Made by ``grass.provision.registry``.

It runs elsewhere: its hosts and files are its administrators' matter, so every method but ``status`` refuses.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NoReturn

from grass.api.keyring import load_profile
from grass.errors import InputError
from grass.provision.provisioner import (
    AddedNode,
    ClusterStatus,
    Created,
    Deleted,
    Finding,
    NodeRequest,
    Provisioner,
    Session,
)
from grass.tree_removal import remove_tree

if TYPE_CHECKING:
    from grass.api.client import ApiClient
    from grass.manifest.settings import Settings


class SignedInProvisioner(Provisioner):
    def __init__(self, session: Session) -> None:
        self._session = session

    def plan(self, settings: Settings) -> list[str]:
        self._refuse()

    def create(self, settings: Settings | None, *, repair: bool = False) -> Created:
        self._refuse()

    def delete(self, *, force: bool, packages: bool) -> Deleted:
        self._refuse("; `grass logout` removes your key of it from this machine")

    def status(self) -> ClusterStatus:
        return ClusterStatus(load_profile(self._session.folder / "client").url, ())

    def findings(self) -> list[Finding]:
        return []

    def add_nodes(self, request: NodeRequest, client: ApiClient) -> Sequence[AddedNode]:
        self._refuse()

    def remove_node(self, name: str, take_out: Callable[[], None], *, force: bool, packages: bool) -> None:
        self._refuse()

    def ssh_command(self, name: str, client: ApiClient) -> list[str]:
        self._refuse()

    def forget(self) -> None:
        """Remove the user's key and session from this machine. The cluster knows the user still."""
        remove_tree(self._session.folder)

    def _refuse(self, advice: str = "") -> NoReturn:
        raise InputError(
            f"cluster {self._session.name}: this machine only has your key of it; do this where it was created{advice}"
        )
