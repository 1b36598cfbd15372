"""What this machine keeps of a cluster on Azure's Kubernetes: written before anything is made there.

``aks.json`` in the cluster's folder has no secrets; ``aks.kubeconfig`` beside it is one. Used by this package.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from enum import Enum
from pathlib import Path

from grass.azure.aks import Pool, Terms, node_group
from grass.azure.resources import Kind, Site
from grass.errors import ConflictError
from grass.provision.provisioner import Session
from grass.system.private_file import write_private
from grass.wire.codec import Form, indented

FILE, KUBECONFIG = "aks.json", "aks.kubeconfig"


class Pull(str, Enum):
    """How images are pulled from the registry: by a right of the machines, or with a login in a Secret."""

    UNDECIDED = ""
    RIGHT = "right"
    LOGIN = "login"


@dataclass(frozen=True)
class Record:
    """Where a cluster is, and of what. ``pools``: by name, without that of the system; each before it is asked for."""

    subscription: str
    group: str
    location: str
    id: str
    endpoint: str
    terms: Terms | None = None
    pull: Pull = Pull.UNDECIDED
    pools: dict[str, Pool] = field(default_factory=dict)

    @property
    def site(self) -> Site:
        return Site(self.subscription, self.group, self.id)

    @property
    def nodes_path(self) -> str:
        """Return the path of the group in which Azure puts the cluster's machines."""
        assert self.terms is not None, "it is saved with them"
        return replace(self.site, group=node_group(self.terms.cluster, self.id)).path(Kind.GROUP, "")

    def save(self, folder: Path) -> None:
        write_private(folder / FILE, indented(self))


_RECORD: Form[Record] = Form(Record)


def load_record(folder: Path) -> Record | None:
    """Load the record; None: nothing was made on Azure."""
    try:
        return _RECORD.decode((folder / FILE).read_bytes())
    except FileNotFoundError:
        return None


def record_of(session: Session) -> tuple[Record, Terms]:
    """Return the record of a cluster that was made. Raises ConflictError."""
    record = load_record(session.folder)
    if record is None or record.terms is None or not (session.folder / KUBECONFIG).exists():
        raise ConflictError(f"cluster {session.name}: creating it was interrupted; repeat `grass create FILE`")
    return record, record.terms
