"""The routes of ``forwards``: connections to a port of a task. Used by ``app``.

POST   /v1/forward {"key", "port", "user"}                {"id"}: ready for connections to this port of the attempt
GET    …/<id>/output?after=N                              wait up to 20 s for more:
                                                          {"chunks": [[connection, base64 | null]], "next", "over"}
POST   …/<id>/input {"connection", "at", "data": base64, "end"}   {"taken"}; send the rest again
DELETE …/<id>/connections/<connection>                    close one connection
DELETE …/<id>                                             end it; 60 s without a GET end it, too

``…``: ``/v1/forward/<user>/<job id>``, those for which it was opened.
"""

from __future__ import annotations

import base64
import re

from flask import Flask, request

from grass.config import ClusterConfig
from grass.errors import InputError
from grass.model.key_text import is_attempt_key, job_of
from grass.model.names import is_user_name
from node.api.forwards import Forward
from node.api.opened import Opened, Owner
from node.runtime.registry import reach

MOST_FORWARDS = 64
_FORWARD = "/v1/forward/<user>/<job_id>/<name>"
_SHAPE = 'the body must be {"connection": number, "at": number, "data": base64, "end": bool}'


def add_forwards(app: Flask, config: ClusterConfig, abandoned: float) -> Opened[Owner, Forward]:
    """Add the routes to the application. Return what they open."""
    forwards: Opened[Owner, Forward] = Opened("forward", MOST_FORWARDS)

    @app.post("/v1/forward")
    def open_forward() -> dict[str, str]:
        match request.get_json():
            case {"key": str(key), "port": int(port), "user": str(user)} if (
                is_attempt_key(key) and 0 < port < 65536 and is_user_name(user)
            ):
                forward = Forward(reach(config, key), port, abandoned)
                return {"id": forwards.add(Owner(user, job_of(key)), forward)}
        raise InputError('the body must be {"key": attempt key, "port": number, "user": name}')

    @app.get(f"{_FORWARD}/output")
    def forward_output(name: str, **owner: str) -> dict[str, object]:
        text = request.args.get("after", "0")
        if not re.fullmatch(r"[0-9]{1,18}", text):
            raise InputError(f"after: must be a number of chunks, got {text!r}")
        chunks, following, over = forwards.get(Owner(**owner), name).output(int(text))
        encoded = [[number, None if data is None else base64.b64encode(data).decode()] for number, data in chunks]
        return {"chunks": encoded, "next": following, "over": over}

    @app.post(f"{_FORWARD}/input")
    def forward_input(name: str, **owner: str) -> dict[str, int]:
        match request.get_json():
            case {"connection": int(number), "at": int(at), "data": str(text), "end": bool(end)} if at >= 0:
                try:
                    data = base64.b64decode(text, validate=True)
                except ValueError as error:
                    raise InputError(_SHAPE) from error
                return {"taken": forwards.get(Owner(**owner), name).send(number, at, data, end=end)}
        raise InputError(_SHAPE)

    @app.delete(f"{_FORWARD}/connections/<int:number>")
    def close_connection(name: str, number: int, **owner: str) -> dict[str, object]:
        forwards.get(Owner(**owner), name).close(number)
        return {}

    @app.delete(_FORWARD)
    def close_forward(name: str, **owner: str) -> dict[str, object]:
        forwards.close(Owner(**owner), name)
        return {}

    return forwards
