"""The Flask application of the server. It answers sealed calls without Flask's contexts, which use a fifth of a call.

Handlers of sealed calls get a ``Call`` and use nothing of Flask. Flask answers all other requests. Used by ``app``.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from flask import Flask, Response
from werkzeug.exceptions import HTTPException, InternalServerError
from werkzeug.wrappers import Request

from grass.errors import UnreachableError
from master.api.fenced import signpost
from master.api.registry import SealedRoute

if TYPE_CHECKING:
    from _typeshed.wsgi import StartResponse, WSGIEnvironment

log = logging.getLogger("master.api")


class Application(Flask):
    """Flask's application, which answers sealed calls itself."""

    def __init__(self) -> None:
        super().__init__("master.api", static_folder=None)
        self.url_map.merge_slashes = False
        self.moved = ""
        """Set: the notice of the master that replaced this one. It answers all requests."""
        self._urls = self.url_map.bind("")
        self.register_error_handler(HTTPException, unknown)
        self.register_error_handler(UnreachableError, away)

    def wsgi_app(self, environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        if self.moved:
            return signpost(self.moved)(environ, start_response)
        view, path = self._find(environ)
        if view is None:
            return super().wsgi_app(environ, start_response)
        return _answer(view, Request(environ), path)(environ, start_response)

    def _find(self, environ: WSGIEnvironment) -> tuple[SealedRoute | None, dict[str, Any]]:  # Any: parts of the path
        asked = environ["PATH_INFO"].encode("latin-1").decode(errors="replace")  # as PEP 3333 has it
        try:
            endpoint, path = self._urls.match(asked, environ["REQUEST_METHOD"])
        except HTTPException:
            return None, {}
        view = self.view_functions[endpoint]
        return (view if isinstance(view, SealedRoute) else None), dict(path)


def unknown(error: HTTPException) -> Response:
    """Answer an HTTP error: an unauthenticated client learns only the status."""
    return Response(f"{error.name}\n", error.code or 500, mimetype="text/plain")


def away(_: Exception) -> Response:
    """The same while the store does not answer, which a caller without a session cannot help."""
    return Response("the store does not answer\n", 503, mimetype="text/plain")


def _answer(view: SealedRoute, request: Request, path: dict[str, Any]) -> Response:  # Any: as above
    try:
        return view.answer(request, path)
    except HTTPException as error:
        return unknown(error)
    except UnreachableError as error:
        return away(error)
    except Exception:
        log.exception("%s %s failed", request.method, request.path)
        return unknown(InternalServerError())
