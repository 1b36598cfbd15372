"""Makes blueprints from the route table and the handlers of a noun, and checks that both have the same names.

Used by this package.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from flask import Blueprint, Response
from flask import request as flask_request
from werkzeug.wrappers import Request

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
        view = SealedView(api, route, handlers[route.name])
        rule = re.sub(r"{(\w+)}", r"<\1>", route.path)
        blueprint.add_url_rule(rule, route.name, view, methods=[route.method], provide_automatic_options=False)
    return blueprint


class SealedView:
    """Answers the requests of one route."""

    def __init__(self, api: Api, route: Route, handler: Handler) -> None:
        self._api = api
        self._route = route
        self._handler = handler

    def __call__(self, **path: str) -> Response:
        """Answer Flask's present request."""
        return self.answer(flask_request, path)

    def answer(self, request: Request, path: dict[str, str]) -> Response:
        """Answer a call. Raises HTTPException and UnreachableError."""
        began = steady()
        reply = serve(self._api, self._route, self._handler, path, request)
        self._api.latencies.add(self._route.operation, steady() - began, reply.status_code)
        return reply
