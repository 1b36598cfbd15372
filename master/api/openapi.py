"""The OpenAPI document, built from the route table. Served at ``/v1/openapi.json``, unsealed: it holds no secret."""

from __future__ import annotations

import re

import grass
from master.api.routes import ROUTES, Access, Parameter, Route
from master.api.schemas import Schema, schemas

_SEALING = (
    "Every request but those without security is sealed, in compact form. A user opens a session with "
    "JWE(RSA-OAEP-256, A256GCM, JWS(PS256, claims and body)); a machine that joins has no user and leaves the JWS out. "
    "All other calls are JWE(dir, A256GCM, method, path, request id and body) under the session's key, with its id as "
    "`kid`. POST carries its request as the body, with its length; GET and DELETE as `Authorization: JOSE …`. Every "
    "reply is JWE(dir, A256GCM) under the session's key, or the one that the request carried. The schemas say what is "
    "inside. A stream is one such object a line, numbered, the last one marked; an empty one says that the server "
    "is there, or ends it without more, and one with `error` ends it, too."
)


_FILE = {"type": "string", "format": "binary"}


def document() -> Schema:
    paths: Schema = {}
    for route in ROUTES:
        paths.setdefault(route.path, {})[route.method.lower()] = _operation(route)
    paths["/v1/health"] = {"get": _open("health", "Whether the server answers", {"type": "object"})}
    paths["/v1/key"] = {"get": _open("key", "The master's public key, as a JWK", {"type": "object"})}
    paths["/v1/join.py"] = {
        "get": _open("joinScript", "The program that makes a machine a node", _FILE, "text/x-python")
    }
    bundle = _open("bundle", "Grass for machines that join: a tar of wheels", _FILE, "application/x-tar")
    bundle["parameters"] = [{"name": "digest", "in": "path", "required": True, "schema": {"type": "string"}}]
    paths["/v1/bundle/{digest}"] = {"get": bundle}
    token = _open("joinToken", "Why no machine may join with a token any more; null: one may", {"type": "object"})
    token["parameters"] = bundle["parameters"]
    paths["/v1/join-tokens/{digest}"] = {"get": token}
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
        "security": [{"sealed": [] if route.access is Access.GUEST else [route.role.value]}],
        "x-grass-role": "guest" if route.access is Access.GUEST else route.role.value,
        "x-grass-access": route.access.value,
        "x-grass-stream": route.stream,
        "parameters": [*path, *(_parameter(name, parameter) for name, parameter in route.query.items())],
        "responses": {
            "2XX": {"description": route.summary, "content": _sealed(route.response.__name__)},
            "default": {"description": "What went wrong", "content": _sealed("ErrorView")},
            "401": {"description": "The request could not be opened; or (sealed) the clocks differ"},
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
