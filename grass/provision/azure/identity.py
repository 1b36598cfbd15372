"""The identity of the master's machine on Azure: given to it, taken from it, and whether it may do anything.

An owner of the subscription gives it a role on the resource group, once: Grass only says how. Used by ``create``.
"""

from __future__ import annotations

from urllib.parse import quote

from grass.azure.arm import Arm
from grass.azure.faults import AzureError, AzureForbiddenError
from grass.azure.resources import ROLES, Site, Wanted, identity, principal_of, role_command
from grass.errors import NotFoundError
from grass.manifest.document import Document

OF_PLAN = "ID"
"""In place of the id of an identity that is not made yet."""


def ensure_identity(arm: Arm, master: Wanted, there: Document, *, wanted: bool) -> str:
    """Give the machine an identity, or take it away. Return its id; empty: it has none."""
    has = principal_of(there)
    if bool(has) == wanted:
        return has
    what = f"{master.label}: {'giving it' if wanted else 'taking away'} its identity"
    accepted = arm.patch(master.kind, master.path, identity(on=wanted), what)
    arm.finish(accepted, what, usual=30)
    found = arm.get(master.path, master.kind.version, master.label)
    return principal_of(found)


def has_role(arm: Arm, site: Site, principal: str) -> bool | None:
    """Return whether an identity has a role on the group. None: this login may not know."""
    path = f"{site.group_path}/providers/Microsoft.Authorization/roleAssignments"
    try:
        return bool(arm.list(path, ROLES, "roles", "$filter=" + quote(f"principalId eq '{principal}'")))
    except (AzureError, AzureForbiddenError, NotFoundError):
        return None


def say_role(site: Site, principal: str) -> str:
    return (
        "autoscaling on the master begins once an owner of the subscription or the group has run this, once:\n  "
        + role_command(site, principal)
    )
