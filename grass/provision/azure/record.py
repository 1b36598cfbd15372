"""What this machine keeps of a cluster on Azure: written before anything is made there, removed when nothing is left.

``azure.json`` in the cluster's folder holds where the cluster is, and the id that marks what was made for it. It has
no secrets. Used by this package.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from grass.azure.resources import Site
from grass.system.private_file import write_private
from grass.wire.codec import Form, indented

FILE = "azure.json"


@dataclass(frozen=True)
class Record:
    """Where a cluster is.

    ``operation``: where Azure tells how making the machine goes on; empty: nothing is known of it."""

    subscription: str
    group: str
    location: str
    id: str
    endpoint: str
    operation: str = ""
    machine_zone: str = ""
    """Zone of the machine, if it is another than the settings say."""

    @property
    def site(self) -> Site:
        return Site(self.subscription, self.group, self.id)

    def save(self, folder: Path) -> None:
        write_private(folder / FILE, indented(self))


_RECORD: Form[Record] = Form(Record)


def load_record(folder: Path) -> Record | None:
    """Load the record; None: nothing was made on Azure."""
    try:
        return _RECORD.decode((folder / FILE).read_bytes())
    except FileNotFoundError:
        return None
