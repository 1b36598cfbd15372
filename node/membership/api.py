"""The routes of the membership API: what a task may ask its own node (docs/reference/membership-api.md).

Called by ``server`` in many threads. Each request carries the token of an attempt, and sees only that attempt's job.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import NamedTuple
from urllib.parse import parse_qs, unquote, urlsplit

from grass.api.task_token import bearer, check
from grass.errors import GrassError, InputError, NotFoundError, UndecodableError
from grass.model.key_text import opened_parts
from grass.wire.keys import AttemptKey
from grass.wire.membership_api import KEY_CHANGE, LONGEST_WAIT, TASK_EXEC, Left, Pulse, Refusal, RefusedRequest, World
from grass.wire.queue_api import QueueReply
from node.membership.forwarding import Forwarding
from node.membership.memberships import Memberships
from node.membership.queues import Queues
from node.membership.shared_values import SharedValues

_KEY = re.compile(r"[A-Za-z0-9._/-]{1,160}")
_VERBS: tuple[list[str], ...] = ([], ["output"], ["input"], ["signal"])
"""What may follow the name of a command's session."""


class Request(NamedTuple):
    """One request of a task.

    ``path``: with the query. ``authorization``: the header.
    """

    method: str
    path: str
    authorization: str
    body: bytes


class Call:
    """An authenticated request."""

    def __init__(self, request: Request, key: AttemptKey, token: str) -> None:
        self.method, self.body, self.key, self.token = request.method, request.body, key, token
        parts = urlsplit(request.path)
        self.path = unquote(parts.path)
        self.query = {name: values[-1] for name, values in parse_qs(parts.query, keep_blank_values=True).items()}

    @property
    def wait(self) -> float:
        text = self.query.get("wait", "0")
        if not re.fullmatch(r"[0-9]{1,6}(\.[0-9]{1,6})?", text):
            raise InputError(f"wait: must be a number of seconds, got {text!r}")
        return min(float(text), LONGEST_WAIT)

    @property
    def after(self) -> int:
        text = self.query.get("after", "-1")
        if not re.fullmatch(r"-1|[0-9]{1,18}", text):
            raise InputError(f"after: must be a number, got {text!r}")
        return int(text)


class Api:
    """Answers the requests of tasks.

    ``drained`` is called with the key of an attempt that has left by itself, ``done`` with that of one that has saved
    its work.
    """

    def __init__(
        self,
        memberships: Memberships,
        values: SharedValues,
        forwarding: Forwarding,
        queues: Queues,
        drained: Callable[[str], None],
        done: Callable[[str], None],
    ) -> None:
        self._memberships = memberships
        self._values = values
        self._forwarding = forwarding
        self._queues = queues
        self._drained = drained
        self._done = done

    def answer(self, request: Request) -> object:
        """Return the answer. Raises GrassError."""
        call = Call(request, *self._checked(request))
        try:
            return self._route(call)
        except UndecodableError as error:
            raise InputError(f"the body: {error}") from error

    def refusal(self, error: GrassError, request: Request | None) -> Refusal:
        """Return the answer to a request that failed. None: it could not be read."""
        why = RefusedRequest(error.code, str(error))
        try:
            key, _ = self._checked(request) if request is not None else (None, "")
        except GrassError:
            key = None
        if key is None:
            return Refusal(error=why)
        world = self._memberships.world(key, -1, 0)
        return Refusal(error=why, generation=world.generation, epoch=world.epoch)

    def _checked(self, request: Request) -> tuple[AttemptKey, str]:
        """Return who asks, and the token. Raises NotAllowedError."""
        key, token = bearer(request.authorization)
        check(self._memberships.secret(key.job_id), key, token)
        return key, token

    def _route(self, call: Call) -> object:
        match call.method, call.path.split("/")[1:]:
            case "GET", ["v1", "world"]:
                return self._world(call)
            case "GET", ["v1", "pulse"]:
                world = self._world(call)
                changed = world.generation > call.after
                return Pulse(generation=world.generation, epoch=world.epoch, changed=changed, released=world.released)
            case "POST", ["v1", "leave"]:
                return self._leave(call)
            case "POST", ["v1", "done"]:
                self._done(str(call.key))
                world = self._memberships.world(call.key, -1, 0)
                return Left(generation=world.generation, epoch=world.epoch)
            case "POST", ["v1", "barrier", *rest]:
                return self._values.barrier(call.key, _name(rest), call.wait)
            case "GET" | "PUT" | "DELETE", ["v1", "kv", *rest]:
                return self._key_value(call, _name(rest))
            case "POST", ["v1", "queues", queue]:
                answer = self._queues.step(call.key, call.token, queue, call.body)
                world = self._memberships.world(call.key, -1, 0)
                return QueueReply(generation=world.generation, epoch=world.epoch, queue=answer)
            case _, ["v1", "exec", *rest]:
                return self._exec(call, rest)
        raise NotFoundError(f"{call.method} {call.path}: no such route")

    def _world(self, call: Call) -> World:
        return self._memberships.world(call.key, call.after, call.wait)

    def _leave(self, call: Call) -> Left:
        world = self._memberships.world(call.key, -1, 0)
        if world.released:
            self._drained(str(call.key))
        return Left(generation=world.generation, epoch=world.epoch)

    def _key_value(self, call: Call, name: str) -> object:
        match call.method:
            case "GET":
                return self._values.get(call.key, name, call.query.get("revision"), call.wait)
            case "PUT":
                return self._values.put(call.key, name, KEY_CHANGE.decode(call.body))
            case _:
                return self._values.delete(call.key, name)

    def _exec(self, call: Call, rest: list[str]) -> object:
        match call.method, rest:
            case "POST", []:
                wanted = TASK_EXEC.decode(call.body)
                return self._forwarding.open(call.key.job_id, call.token, wanted)
            case _, [session, *verb] if verb in _VERBS and (found := opened_parts(session)):
                node, name = found
                path = "/".join((name, *verb))
                if call.method == "GET":
                    path += f"?after={max(0, call.after)}"
                return self._forwarding.call(call.key.job_id, node, call.token, call.method, path, call.body)
        raise NotFoundError(f"{call.method} {call.path}: no such route")


def _name(rest: list[str]) -> str:
    name = "/".join(rest)
    if not _KEY.fullmatch(name):
        raise InputError(f"{name!r}: use letters, digits and ._/-, at most 160 of them")
    return name
