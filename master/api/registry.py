"""Makes blueprints from the route table and the handlers of a noun, and checks that both have the same names."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import partial

from flask import Blueprint, Response

from grass.clock import steady
from master.api.call import Api, Handler, serve
from master.api.route import Route
from master.api.routes import ROUTES


def noun_blueprint(noun: str, api: Api, handlers: Mapping[str, Handler]) -> Blueprint:
    """Return the blueprint. ``handlers``: by route name. Raises KeyError or ValueError if the names do not match."""
    blueprint = Blueprint(noun, __name__)
    routes = [route for route in ROUTES if route.noun == noun]
    extra = set(handlers) - {route.name for route in routes}
    if extra:
        raise ValueError(f"{noun}: no route for {', '.join(sorted(extra))}")
    for route in routes:
        view = partial(_view, api, route, handlers[route.name])
        rule = re.sub(r"{(\w+)}", r"<\1>", route.path)
        blueprint.add_url_rule(rule, route.name, view, methods=[route.method], provide_automatic_options=False)
    return blueprint


def _view(api: Api, route: Route, handler: Handler, **path: str) -> Response:
    began = steady()
    reply = serve(api, route, handler, path)
    api.latencies.add(route.operation, steady() - began, reply.status_code)
    return reply
