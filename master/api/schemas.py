"""JSON Schemas (OpenAPI 3.1) of all bodies, generated from the types in the route table. Called by ``openapi``."""

from __future__ import annotations

import ast
import inspect
from functools import cache
from types import ModuleType
from typing import Any

import msgspec

from grass.wire import (
    autoscale_views,
    calls,
    change_views,
    channel_views,
    checks,
    cloud,
    error_views,
    event_views,
    finding,
    gpu,
    heartbeat,
    image_views,
    job_details,
    job_file,
    job_views,
    join_views,
    log_views,
    node_views,
    plan_answer,
    queue_api,
    result_views,
    stacks,
    status_views,
    usage,
    usage_views,
    user_views,
    views,
)
from master.api.routes import ROUTES

_DESCRIBED = (
    *(
        calls,
        views,
        change_views,
        cloud,
        error_views,
        event_views,
        channel_views,
        image_views,
        job_details,
        job_views,
        join_views,
        log_views,
        node_views,
        queue_api,
        autoscale_views,
        result_views,
        status_views,
        usage_views,
        user_views,
    ),
    *(checks, finding, gpu, heartbeat, job_file, plan_answer, stacks, usage),
)
"""Modules whose docstrings describe types of requests and replies."""

Schema = dict[str, Any]  # Any: JSON Schema allows any keys

_REF = "#/components/schemas/{name}"


@cache
def schemas() -> dict[str, Schema]:
    """Return the schemas of all requests and replies, and of their parts, by name."""
    found = msgspec.json.schema_components(_types(), ref_template=_REF)[1]  # noqa: TID251 (describes, encodes nothing)
    texts = {name: text for module in _DESCRIBED for name, text in _descriptions(module).items()}
    for name, schema in found.items():
        for field, part in schema.get("properties", {}).items():
            if f"{name}.{field}" in texts:
                part["description"] = texts[f"{name}.{field}"]
    return dict(sorted(found.items()))


def described() -> set[str]:
    """Return the names of the modules whose docstrings are in the schemas."""
    return {module.__name__ for module in _DESCRIBED}


def _types() -> list[type]:
    named = [shape for route in ROUTES for shape in (route.request, route.response) if shape is not None]
    return list(dict.fromkeys([*named, error_views.ErrorView]))


def _descriptions(module: ModuleType) -> dict[str, str]:
    """Return ``Type.field`` → the docstring below the field, for all classes of a module."""
    found = {}
    for made in ast.parse(inspect.getsource(module)).body:
        if not isinstance(made, ast.ClassDef):
            continue
        for field, after in zip(made.body, made.body[1:], strict=False):
            match field, after:
                case ast.AnnAssign(target=ast.Name(id=name)), ast.Expr(value=ast.Constant(value=str(text))):
                    found[f"{made.name}.{name}"] = " ".join(text.split()).replace("``", "`")
    return found
