from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from grass.api.keyring import Role
from master.api.app import create_app
from master.api.handlers import HANDLERS
from master.api.openapi import document
from master.api.registry import add_calls
from master.api.routes import ROUTES
from master.api.schemas import described, schemas
from tests.support.api_world import ApiWorld, api_world

OPEN = {
    (path, "GET")
    for path in (
        "/metrics",  # only for callers on the master, or with its token
        "/v1/health",
        "/v1/openapi.json",
        "/v1/key",
        "/v1/notice",  # signed; an old master answers it as well
        "/v1/join.py",
        "/v1/bundle/{digest}",
        "/v1/join-tokens/{digest}",
    )
}


@pytest.fixture
def world(tmp_path: Path) -> Iterator[ApiWorld]:
    with api_world(tmp_path) as world:
        yield world


def test_the_document_describes_the_very_routes_that_are_served(world: ApiWorld) -> None:
    served = {
        (re.sub(r"<(\w+)>", r"{\1}", rule.rule), method)
        for rule in world.app.url_map.iter_rules()
        for method in (rule.methods or set()) - {"HEAD"}
    }
    described = {(path, method.upper()) for path, item in document()["paths"].items() for method in item}
    assert served == described
    assert described - OPEN == {(route.path, route.method) for route in ROUTES}


def test_only_what_holds_no_secret_is_open() -> None:
    for path, item in document()["paths"].items():
        for method, operation in item.items():
            assert (operation["security"] == []) is ((path, method.upper()) in OPEN)


def test_every_reference_leads_to_a_schema_and_every_schema_is_used() -> None:
    references = set(re.findall(r'"#/components/schemas/(\w+)"', json.dumps(document())))
    assert references == set(schemas())


def test_the_docstrings_of_every_reply_are_in_the_document() -> None:
    shapes = {shape.__module__ for route in ROUTES for shape in (route.request, route.response) if shape is not None}
    assert shapes <= described()
    assert schemas()["TaskView"]["properties"]["attempt"]["description"].startswith("Number of the newest attempt")


def test_every_path_parameter_is_described() -> None:
    for path, item in document()["paths"].items():
        for operation in item.values():
            named = {one["name"] for one in operation.get("parameters", []) if one["in"] == "path"}
            assert named == set(re.findall(r"{(\w+)}", path))


def test_operations_have_names_of_their_own() -> None:
    names = [operation["operationId"] for item in document()["paths"].values() for operation in item.values()]
    assert len(names) == len(set(names))


CHANGES = {
    "start",
    "stop",
    "delete",
    "rerun",
    "hold",
    "release",
    "set",
    "pause",
    "resume",
    "run",
    "file",
    "cancel",
    "stacks",
    "change",
}


def test_a_viewer_may_call_nothing_that_changes_anything() -> None:
    for route in ROUTES:
        changes = route.name in CHANGES or route.noun in ("exec", "forward")
        rules = route.name in ("cordon", "uncordon", "drain", "remove") or route.noun == "joins"
        changes |= route.noun == "images"
        rules |= route.noun == "users" and route.name not in ("key", "login")
        rules |= (route.noun, route.name) == ("nodes", "stop")
        rules |= route.noun == "checks" and route.name != "list"
        rules |= route.noun == "cloud"
        rules |= route.noun == "daemons"  # they may show what belongs to others
        assert route.admits(Role.VIEWER) is not (changes or rules)
        assert route.admits(Role.USER) is not rules
        assert route.admits(Role.ADMIN)


def test_a_handler_without_a_route_cannot_be_registered(world: ApiWorld) -> None:
    api: Any = world.app.extensions["grass"]
    with pytest.raises(ValueError, match=r"no route for nodes\.lst"):
        add_calls(world.app, api, {**HANDLERS, "nodes.lst": print})


def test_the_document_needs_no_key(world: ApiWorld) -> None:
    reply = world.app.test_client().get("/v1/openapi.json")
    assert reply.json == json.loads(json.dumps(document()))


def test_health_tells_nothing(world: ApiWorld) -> None:
    assert world.app.test_client().get("/v1/health").json == {}


def test_a_server_without_a_key_does_not_start(tmp_path: Path, world: ApiWorld) -> None:
    from dataclasses import replace

    from grass.errors import NotFoundError

    with pytest.raises(NotFoundError, match=r"key\.pem"):
        create_app(replace(world.config, home=str(tmp_path / "elsewhere")), world.store)
