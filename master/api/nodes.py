"""`/v1/nodes`: the machines of the cluster."""

from __future__ import annotations

from flask import Blueprint

from grass.errors import NotFoundError
from master.api.call import Api, Call
from master.api.registry import noun_blueprint
from master.api.views import View, node_view


def blueprint(api: Api) -> Blueprint:
    return noun_blueprint("nodes", api, {"list": list_nodes, "show": show_node})


def list_nodes(call: Call) -> View:
    return {"nodes": [node_view(record) for record in call.api.store.nodes()]}


def show_node(call: Call, node: str) -> View:
    for record in call.api.store.nodes():
        if record["name"] == node:
            return node_view(record)
    raise NotFoundError(f"no node {node}; `grass node list` shows what there is")
