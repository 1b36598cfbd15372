"""The membership API of Grass, for Python programs in tasks. No dependencies; Python 3.6 or newer.

    from grass_membership import Api
    api = Api()                                    # of this task, by GRASS_API and GRASS_TOKEN
    world = api.world()                            # {"generation": 3, "rank": 0, "members": [...], ...}
    world = api.world(after=world["generation"], wait=30)   # returns when the membership changes

Every method raises OSError while the node-agent is away (it restarts within seconds; try again), and ApiError for an
answer that is an error. docs/reference/membership-api.md describes the answers.
"""

import contextlib
import http.client
import json
import os
import socket
from urllib.parse import quote

_MARGIN = 10.0


class ApiError(Exception):
    """The API refused a request. ``status``: as in HTTP."""

    def __init__(self, status, message):
        super().__init__(message)
        self.status = status


class _Connection(http.client.HTTPConnection):
    def __init__(self, path, seconds):
        super().__init__("localhost", timeout=seconds)
        self._path = path

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self._path)


class Api:
    """Safe to share among threads: each call has a connection of its own."""

    def __init__(self, path=None, token=None):
        self._path = path or os.environ["GRASS_API"]
        self._token = token or os.environ["GRASS_TOKEN"]

    def world(self, after=-1, wait=0):
        """Return the membership of this task's component. Wait up to ``wait`` seconds for a generation above
        ``after``."""
        return self.call("GET", "/v1/world?after=%d&wait=%g" % (after, wait), seconds=wait)

    def pulse(self, after=-1, wait=0):
        """Return ``{"generation", "epoch", "changed", "released"}``."""
        return self.call("GET", "/v1/pulse?after=%d&wait=%g" % (after, wait), seconds=wait)

    def leave(self):
        """Tell that this task has nothing left to do, so that a released task is stopped at once."""
        return self.call("POST", "/v1/leave", {})

    def barrier(self, name, wait=30):
        """Wait until every member of the present generation has called this. ``passed`` in the answer says whether."""
        return self.call("POST", "/v1/barrier/%s?wait=%g" % (quote(name), wait), {}, seconds=wait)

    def get(self, key, revision="", wait=0):
        """Return ``(value, revision)``, or ``(None, "")``. Wait up to ``wait`` seconds for another revision."""
        path = "/v1/kv/%s?revision=%s&wait=%g" % (quote(key), revision or "none", wait)
        answer = self.call("GET", path, seconds=wait)
        return answer["value"], answer["revision"]

    def put(self, key, value, ttl=None, expect=None):
        """Store a text that all tasks of the job see. Return whether it was stored.

        ``expect``: store it only if the key has this revision; ``""``: only if there is no such key. ``ttl``: seconds.
        """
        body = {"value": value}
        if ttl is not None:
            body["ttl"] = ttl
        if expect is not None:
            body["expect"] = expect
        return self.call("PUT", "/v1/kv/" + quote(key), body)["stored"]

    def delete(self, key):
        return self.call("DELETE", "/v1/kv/" + quote(key))["stored"]

    def call(self, method, path, body=None, seconds=0.0):
        """Return the decoded answer."""
        connection = _Connection(self._path, seconds + _MARGIN)
        try:
            headers = {"Authorization": "Bearer " + self._token, "Content-Type": "application/json"}
            with contextlib.suppress(BrokenPipeError):  # the answer says why it was refused before its end
                connection.request(method, path, None if body is None else json.dumps(body), headers)
            answer = connection.getresponse()
            decoded = json.loads(answer.read().decode())
            if answer.status >= 400:
                raise ApiError(answer.status, decoded["error"]["message"])
            return decoded
        except (http.client.HTTPException, ValueError) as error:
            raise OSError("the node-agent gave no complete answer: %s" % error) from error
        finally:
            connection.close()
