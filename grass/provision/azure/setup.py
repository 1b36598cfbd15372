"""What the autoscaler on the master gets from `grass create`: where the cluster is, its rules, and what sizes have.

It has no secrets. The right of the master's identity is for the group alone, so sizes and prices come with it. Used by
``create`` and ``on_master``.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from grass.azure.autoscale import Kind
from grass.azure.catalogue import Size
from grass.azure.resources import role_command
from grass.manifest.azure_autoscale import Autoscale, Rule
from grass.provision.azure.look import Region
from grass.provision.azure.record import Record
from grass.wire.codec import Form


@dataclass(frozen=True)
class Setup:
    """Where a cluster is, and by which rules its nodes start and stop.

    ``kinds``: one for each of the rules of ``policy``, in order. ``principal``: the id of the identity.
    """

    record: Record
    policy: Autoscale
    kinds: tuple[Kind, ...]
    sizes: tuple[Size, ...]
    principal: str

    @property
    def kind_of(self) -> dict[Rule, Kind]:
        return dict(zip(self.policy.rules, self.kinds, strict=True))

    @property
    def region(self) -> Region:
        """Return the sizes of the rules. Quotas are not known: Azure says when one is used up."""
        return Region(self.record.location, {size.name.lower(): size for size in self.sizes}, {})

    @property
    def command(self) -> str:
        """Return the command that gives the identity its right."""
        return role_command(self.record.site, self.principal)


SETUP: Form[Setup] = Form(Setup)


def setup_of(record: Record, policy: Autoscale, kinds: dict[Rule, Kind], region: Region, principal: str) -> Setup:
    named = {rule.size.lower() for rule in policy.rules}
    sizes = tuple(size for name, size in sorted(region.sizes.items()) if name in named)
    bare = replace(record, machines={})
    return Setup(bare, policy, tuple(kinds[rule] for rule in policy.rules), sizes, principal)
