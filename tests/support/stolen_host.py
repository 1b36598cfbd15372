"""What root on a node tries with all that is in the node's folder, against the rest of its cluster. Runs there.

    python - CLUSTER_JSON MASTER_API NODE=HOST:PORT JOB < stolen_host.py

``NODE``: another node, with its API. ``JOB``: the id of a job that runs there, with the task ``t.0``. Prints a JSON
object: what was tried → what came of it.
"""

from __future__ import annotations

import json
import sys
import urllib.error
import urllib.request
from collections.abc import Callable
from http.client import HTTPResponse
from pathlib import Path
from socket import create_connection

import redis

from grass.api.collector_link import collector_address
from grass.config import Secrets
from grass.errors import GrassError
from grass.network_address import host_and_port
from grass.node_config import NodeHome
from grass.store.connect import open_backend
from grass.store.keys import Keys
from grass.tls import wrap
from grass.tls_files import node_identity
from grass.wire.handshake import collector_key
from grass.wire.log_block import LogBlock
from master.api.route import Access
from master.api.routes import ROUTES
from node.agent.forward import Link, Signal

REFUSED, DONE = "refused", "done"


def main() -> None:
    path, api, node, job = sys.argv[1:]
    config = NodeHome.load(Path(path))
    secrets = Secrets.load(config.home)
    other, _, address = node.partition("=")
    print(
        json.dumps(
            {
                **of_redis(config, secrets, other),
                "call each route of users": of_api(api, secrets.node_token),
                "run a command on another node": of_node(config, secrets.node_token, other, address),
                "forge a line of a task of another node": of_collector(config, secrets.node_token, job),
            }
        )
    )


def of_redis(config: NodeHome, secrets: Secrets, other: str) -> dict[str, str]:
    keys, own = Keys(config.key_prefix), open_backend(config, secrets, "node", config.node.name)
    commands = {
        "keep redis busy": ("EVAL", "while true do end", "0"),
        "read the jobs of users": ("HGETALL", keys.jobs),
        "file a ticket": ("XADD", keys.tickets, "*", "body", "{}"),
        "report for another node": ("XADD", keys.reports(other), "*", "kind", "heartbeat", "body", "{}"),
        "read what another node should run": ("HGETALL", keys.desired(other)),
        "change what it should run itself": ("HSET", keys.desired(config.node.name), "a", "{}"),
        "make a user": ("ACL", "SETUSER", "evil", "on", "nopass", "~*", "+@all"),
        "read its own orders": ("HGETALL", keys.desired(config.node.name)),
    }
    found = {what: outcome(lambda words=words: own._redis.execute_command(*words)) for what, words in commands.items()}
    for user in ("admin", "agent", "api"):
        guessed = Secrets({user: secrets.redis["node"]}, secrets.node_token)
        found[f"log in to redis as {user}"] = outcome(open_backend(config, guessed, user).ping)
    return found


def outcome(attempt: Callable[[], object]) -> str:
    try:
        attempt()
    except (redis.exceptions.RedisError, GrassError, OSError):
        return REFUSED
    return DONE


def of_api(api: str, token: str) -> str:
    """Call every route that needs a key of a user, with the node's token in its place."""
    for route in ROUTES:
        if route.access is Access.UNSIGNED:
            continue
        path = route.path.replace("{", "").replace("}", "")
        for scheme in ("Bearer", "JOSE"):
            headers = {"Authorization": f"{scheme} {token}"}
            body = None if route.method == "GET" else token.encode()
            asked = urllib.request.Request(f"{api}{path}", body, headers, method=route.method)
            try:
                urllib.request.urlopen(asked, timeout=10).close()
            except urllib.error.HTTPError as error:
                error.close()
                if error.code == 401:
                    continue
            return f"{DONE}: {route.operation}"
    return REFUSED


def of_node(config: NodeHome, token: str, other: str, address: str) -> str:
    body = b'{"key": "a-0/w.0/1", "argv": ["true"]}'
    head = f"POST /v1/exec HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {token}\r\nConnection: close\r\n"
    head += f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    connection = create_connection(host_and_port(address), 10)
    with wrap(connection, config.tls_files, node_identity(config.name, other)) as secure:
        secure.sendall(head.encode() + body)
        reply = HTTPResponse(secure)
        reply.begin()
        return REFUSED if reply.status in (401, 403) else f"{DONE}: {reply.status}"


def of_collector(config: NodeHome, token: str, job: str) -> str:
    """Send; whether the line is in the log is for the caller to see."""
    stop = Signal()
    link = Link(collector_address(config), stop.descriptor, config.node.name, collector_key(token))
    forged = [(f"grass.{job}.t.0", [LogBlock.of_data(1, "stdout", 10**15, 1.0, b"FORGED\n")])]
    try:
        return "sent" if link.connected() and link.exchange(forged) else REFUSED
    finally:
        link.close()
        stop.close()


if __name__ == "__main__":
    main()
