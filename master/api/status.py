"""`/v1/status`: the cluster at a glance."""

from __future__ import annotations

from collections import Counter

from flask import Blueprint

import grass
from grass.errors import StoreRefusesError
from grass.wire.version import PROTOCOL
from master.api.call import Api, Call
from master.api.registry import noun_blueprint
from master.api.views import View


def blueprint(api: Api) -> Blueprint:
    return noun_blueprint("status", api, {"show": show_status})


def show_status(call: Call) -> View:
    store, config = call.api.store, call.api.config
    jobs = Counter(head.state.value for head in store.job_list().heads if call.sees(head.user))
    nodes = Counter(record["state"] for record in store.nodes())
    return {
        "cluster": config.name,
        "mode": config.mode,
        "version": grass.__version__,
        "protocol": PROTOCOL,
        "time": call.api.wall(),
        "user": call.user,
        "role": call.role.value,
        "jobs": dict(jobs),
        "nodes": dict(nodes),
        "store": _refusal(call),
    }


def _refusal(call: Call) -> View | None:
    """Why the store takes no writes now. The agents wait until it does."""
    try:
        call.api.store.check_writes()
    except StoreRefusesError as error:
        return {"code": error.code, "message": str(error)}
    return None
