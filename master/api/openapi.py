"""The OpenAPI document, built from the route table. Served unencrypted at ``/v1/openapi.json``: it has no secrets.

Used by ``app``.
"""

from __future__ import annotations

import re

import grass
from master.api.route import Access, Parameter, Route
from master.api.routes import ROUTES
from master.api.schemas import Schema, schemas

_SEALING = (
    "Every request is encrypted, except those without security, in compact form. A user opens a session with "
    "JWE(RSA-OAEP-256, A256GCM, JWS(PS256, claims and body)). A joining machine has no user, and leaves out the JWS. "
    "All other calls are JWE(dir, A256GCM, method, path, request id and body) under the session's key, with the "
    "session's id as `kid`. POST carries the request as its body, with its length; GET and DELETE as "
    "`Authorization: JOSE …`. Every reply is JWE(dir, A256GCM) under the session's key, or under the key in the "
    "request. The schemas describe the content. A stream is one such object per line; objects are numbered, and the "
    "last one is marked. An empty object shows that the server is working, or ends the stream. An object with `error` "
    "ends the stream, too."
)


_FILE = {"type": "string", "format": "binary"}


def document() -> Schema:
    """Return the document."""
    paths: Schema = {}
    for route in ROUTES:
        paths.setdefault(route.path, {})[route.method.lower()] = _operation(route)
    paths["/v1/health"] = {"get": _open("health", "Check that the server answers", {"type": "object"})}
    paths["/v1/key"] = {"get": _open("key", "The master's public key, as a JWK", {"type": "object"})}
    paths["/v1/join.py"] = {
        "get": _open("joinScript", "The join script, which makes a machine a node", _FILE, "text/x-python")
    }
    paths["/v1/notice"] = {
        "get": _open("notice", "Where the master is, signed with its key", _FILE, "application/grass-notice")
    }
    bundle = _open("bundle", "The bundle for joining machines: a tar of wheels", _FILE, "application/x-tar")
    bundle["parameters"] = [{"name": "digest", "in": "path", "required": True, "schema": {"type": "string"}}]
    paths["/v1/bundle/{digest}"] = {"get": bundle}
    token = _open("joinToken", "Why no machine may join with this token; null: one may", {"type": "object"})
    token["parameters"] = bundle["parameters"]
    paths["/v1/join-tokens/{digest}"] = {"get": token}
    page = _open(
        "metrics", "Figures in OpenMetrics text, for callers on the master or with its token", _FILE, "text/plain"
    )
    paths["/metrics"] = {"get": page}
    paths["/v1/openapi.json"] = {"get": _open("openapi", "This document", {"type": "object"})}
    return {
        "openapi": "3.1.0",
        "info": {"title": "Grass", "version": grass.__version__, "description": _SEALING},
        "paths": paths,
        "components": {
            "schemas": schemas(),
            "securitySchemes": {"sealed": {"type": "http", "scheme": "JOSE", "description": _SEALING}},
        },
    }


def _operation(route: Route) -> Schema:
    path = [
        {"name": name, "in": "path", "required": True, "schema": {"type": "string"}}
        for name in re.findall(r"{(\w+)}", route.path)
    ]
    operation: Schema = {
        "operationId": route.operation,
        "tags": [route.noun],
        "summary": route.summary,
        "security": [{"sealed": [] if route.access is Access.UNSIGNED else [route.role.value]}],
        "x-grass-role": "unauthenticated" if route.access is Access.UNSIGNED else route.role.value,
        "x-grass-access": route.access.value,
        "x-grass-stream": route.stream,
        "parameters": [*path, *(_parameter(name, parameter) for name, parameter in route.query.items())],
        "responses": {
            "2XX": {"description": route.summary, "content": _sealed(route.response.__name__)},
            "default": {"description": "The error", "content": _sealed("ErrorView")},
            "401": {"description": "The request could not be decrypted; or (encrypted) the clocks differ"},
        },
    }
    if route.request is not None:
        operation["requestBody"] = {"required": True, "content": _sealed(route.request.__name__)}
    return operation


def _parameter(name: str, parameter: Parameter) -> Schema:
    schema: Schema = {"type": parameter.type}
    bounds = {"default": parameter.default, "minimum": parameter.minimum, "maximum": parameter.maximum}
    schema.update({key: value for key, value in bounds.items() if value is not None})
    return {"name": name, "in": "query", "description": parameter.summary, "required": False, "schema": schema}


def _sealed(schema: str) -> Schema:
    return {"application/jose": {"schema": {"$ref": f"#/components/schemas/{schema}"}}}


def _open(name: str, summary: str, schema: Schema, kind: str = "application/json") -> Schema:
    content = {kind: {"schema": schema}}
    return {
        "operationId": name,
        "summary": summary,
        "security": [],
        "responses": {"200": {"description": summary, "content": content}},
    }
