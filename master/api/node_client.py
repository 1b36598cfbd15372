"""The master's calls to a node-api-server, with the node's token. Errors come back as the node raised them."""

from __future__ import annotations

import http.client
import json
from typing import Any

from grass.api.node_token import node_token
from grass.api.transport import error_of
from grass.config import ClusterConfig, Secrets
from grass.errors import UnreachableError

SECONDS = 30.0
"""Longer than a node keeps anybody waiting."""


def call_node(config: ClusterConfig, record: dict[str, Any], method: str, path: str, body: Any = None) -> Any:
    """``record``: of the node. Raises UnreachableError, or what the node answered."""
    name, address, port = record["name"], record.get("address"), record.get("api_port")
    if not address or not port:
        raise UnreachableError(f"node {name} has not said where its API is")
    secret = Secrets.load(config.home).node_token
    token = secret if config.mode == "local" else node_token(secret, name)
    headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
    connection = http.client.HTTPConnection(address, port, timeout=SECONDS)
    try:
        connection.request(method, path, None if body is None else json.dumps(body), headers)
        response = connection.getresponse()
        answer = json.loads(response.read())
    except (OSError, http.client.HTTPException, ValueError) as error:
        raise UnreachableError(
            f"node {name} does not answer at {address}:{port} ({error or type(error).__name__})"
        ) from error
    finally:
        connection.close()
    if response.status >= 300:
        wire = answer["error"]
        raise error_of({"code": wire["code"], "message": wire["message"], "problems": []})
    return answer
