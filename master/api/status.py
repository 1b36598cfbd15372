"""`/v1/status`: a summary of the cluster."""

from __future__ import annotations

from collections import Counter

from flask import Blueprint

import grass
from grass.errors import StoreRefusesError
from grass.model.isolation import Isolation
from grass.wire.version import PROTOCOL
from grass.wire.views import StatusView, StoreTrouble
from master.api.call import Api, Call
from master.api.registry import noun_blueprint


def blueprint(api: Api) -> Blueprint:
    return noun_blueprint("status", api, {"show": show_status})


def show_status(call: Call) -> StatusView:
    store, config = call.api.store, call.api.config
    return StatusView(
        cluster=config.name,
        mode=config.mode,
        version=grass.__version__,
        protocol=PROTOCOL,
        time=call.api.wall(),
        user=call.user,
        role=call.role.value,
        jobs=store.job_index.counts(call.scope),
        nodes=dict(Counter(record.state for record in store.nodes())),
        store=store_trouble(call),
        isolation=Isolation.USER if config.node.isolate else Isolation.NONE,
    )


def store_trouble(call: Call) -> StoreTrouble | None:
    """Return why the store refuses writes now, or None. The agents wait until it accepts writes."""
    try:
        call.api.store.check_writes()
    except StoreRefusesError as error:
        return StoreTrouble(error.code, str(error))
    return None
