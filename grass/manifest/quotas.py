"""Reads users' quotas, and the resources that a node reserves for the system. Part of every settings file."""

from __future__ import annotations

from typing import Any

from grass.manifest import quantities, resource_fields, values
from grass.manifest.fields import Fields
from grass.manifest.values import Wrong, show
from grass.model.names import MAX_NAME

DEFAULT = "default"

Quota = dict[str, int]
"""Resource → the most that all running tasks of one user may use. A resource without an entry is unlimited."""


def read_quotas(fields: Fields) -> tuple[dict[str, Quota], Quota]:
    """Return user → quota, and the quota of all other users (``default``)."""
    quotas: dict[str, Quota] = {}
    for path, user, content in fields.named("quotas"):
        quota = Fields(content, path, fields.problems)
        quotas[fields.parsed(path, _user, user, user)] = resource_fields.read_quota(quota)
        quota.done()
    default = quotas.pop(DEFAULT, {})
    return quotas, default


def _user(value: Any) -> str:
    name = values.text(value)
    if len(name) > MAX_NAME or any(mark.isspace() or not mark.isprintable() for mark in name):
        raise Wrong(f"must be a user name, got {show(value)}")
    return name


def read_reserve(fields: Fields) -> Quota:
    """Return the amounts that a node reserves for the system, by resource."""
    parsers = (("cpu", quantities.cpu), ("memory", quantities.memory), ("disk", quantities.memory))
    with fields.within("reserve") as section:
        reserve = {name: section.read(name, parse, 0) for name, parse in parsers}
    return {name: amount for name, amount in reserve.items() if amount}
