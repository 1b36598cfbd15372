"""What this machine keeps of a cluster on Azure: written before anything is made there, removed when nothing is left.

``azure.json`` in the cluster's folder holds where the cluster is, and the id that marks what was made for it. It has
no secrets. Used by this package.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path

from grass.azure.resources import Kind, Site, Terms, builder_name, names
from grass.manifest.azure import MachineSettings
from grass.system.private_file import write_private
from grass.wire.codec import Form, indented

FILE = "azure.json"


@dataclass(frozen=True)
class Asked:
    """A machine that Azure is asked for: noted before the request.

    ``zone`` empty: as the settings say for the master, and Azure's choice for nodes. ``operation``: where Azure tells
    how making it goes on; empty: nothing is known of it. ``stopped``: it was turned off on purpose, and exists, also if
    it then failed to start. ``spot``, ``max_price``: as for ``MachineSettings``. ``image``, ``disk``: empty: as the
    master's.
    """

    size: str
    zone: str = ""
    operation: str = ""
    stopped: bool = False
    spot: bool = False
    max_price: float | None = None
    stands_in: bool = False
    """It is regular, in place of a Spot machine that could not be had."""
    image: str = ""
    disk: int = 0

    @property
    def counts_as_spot(self) -> bool:
        return self.spot or self.stands_in

    @property
    def sold(self) -> str:
        """Return the size as it is sold."""
        return f"{self.size} Spot" if self.spot else self.size

    def like(self, common: MachineSettings) -> MachineSettings:
        """Return the machine. ``common``: what it has in common with the master."""
        return replace(
            common,
            size=self.size,
            image=self.image or common.image,
            disk=self.disk or common.disk,
            zone=self.zone or None,
            spot=self.spot,
            max_price=self.max_price,
        )


@dataclass(frozen=True)
class Record:
    """Where a cluster is, and of what. ``machines``: by name, the master as well."""

    subscription: str
    group: str
    location: str
    id: str
    endpoint: str
    terms: Terms | None = None
    machines: dict[str, Asked] = field(default_factory=dict)

    @property
    def site(self) -> Site:
        return Site(self.subscription, self.group, self.id)

    def with_machines(self, more: dict[str, Asked]) -> Record:
        return replace(self, machines={**self.machines, **more})

    def save(self, folder: Path) -> None:
        write_private(folder / FILE, indented(self))

    def nodes(self, cluster: str) -> dict[str, Asked]:
        others = (names(cluster, "")[Kind.MACHINE], builder_name(cluster))
        return {name: asked for name, asked in self.machines.items() if name not in others}


_RECORD: Form[Record] = Form(Record)


def load_record(folder: Path) -> Record | None:
    """Load the record; None: nothing was made on Azure."""
    try:
        return _RECORD.decode((folder / FILE).read_bytes())
    except FileNotFoundError:
        return None


def note(folder: Path, name: str, asked: Asked | None) -> None:
    """Note a machine before it is asked for, and whatever is learnt of it; None: it is gone."""
    record = load_record(folder)
    assert record is not None, "it is saved before anything is made"
    machines = {each: known for each, known in record.machines.items() if each != name}
    replace(record, machines=machines if asked is None else {**machines, name: asked}).save(folder)
