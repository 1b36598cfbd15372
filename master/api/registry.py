"""Registers the calls of the route table with their handlers, and checks that both tables have the same names.

Used by ``app`` and ``direct_calls``.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from flask import Flask, Response
from flask import request as flask_request
from werkzeug.wrappers import Request

from grass.system.clock import steady
from master.api.call import Api, Handler, serve
from master.api.handlers import HANDLERS
from master.api.route import Route
from master.api.routes import ROUTES


def add_calls(app: Flask, api: Api, handlers: Mapping[str, Handler] = HANDLERS) -> None:
    """Let the application answer all routes. Raises KeyError or ValueError if routes and handlers do not match."""
    if extra := set(handlers) - {route.operation for route in ROUTES}:
        raise ValueError(f"no route for {', '.join(sorted(extra))}")
    for route in ROUTES:
        sealed = SealedRoute(api, route, handlers[route.operation])
        rule = re.sub(r"{(\w+)}", r"<\1>", route.path)
        app.add_url_rule(rule, route.operation, sealed, methods=[route.method], provide_automatic_options=False)


class SealedRoute:
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
