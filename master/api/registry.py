"""Blueprints out of the route table and a noun's handlers: neither can have what the other lacks."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import partial

from flask import Blueprint, Response

from master.api.call import Api, Handler, serve
from master.api.routes import ROUTES, Route


def noun_blueprint(noun: str, api: Api, handlers: Mapping[str, Handler]) -> Blueprint:
    """``handlers`` by the route's name. Raises KeyError for a route without one, ValueError for one without a route."""
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
    return serve(api, route, handler, path)
