"""From the body of a request to the body of its answer. Pure but for ``keep`` and ``say``; used by ``__main__``.

An answer that changed something is kept before anybody sees it. Answers to polls are remembered while nothing changes:
each agent of DLRover asks 8.5 times a second whether others wait.
"""

from __future__ import annotations

import base64
import json

from grass_dlrover.gets import GETS, RENDEZVOUS, Node
from grass_dlrover.messages import Message
from grass_dlrover.pickles import Refused, decode, encode
from grass_dlrover.reports import REPORTS
from grass_dlrover.state import State

_POLLS = ("WaitingNodeNumRequest", "PreCheckRequest")
_MOST_REMEMBERED = 4096


class Answers:
    """``keep`` stores the state, and returns once it is safe. ``say`` prints a line."""

    def __init__(self, state: State, keep, say):
        self._state, self._keep, self._say = state, keep, say
        self._remembered = {}

    def see(self, groups):
        """Take new memberships."""
        self._state.see(groups)
        for line in self._state.judge():  # whoever was waited for may be gone
            self._say(line)
        self._remembered = {}
        self._keep_changes()

    def of(self, path, body):
        """Return the pickle that answers a request. Raises Refused."""
        known = self._remembered.get((path, body))
        if known is not None:
            return known
        node, message = _request(body)
        answer = encode(self._answer(path, node, message))
        self._keep_changes()
        if path == "/get" and message.kind in _POLLS:
            if len(self._remembered) >= _MOST_REMEMBERED:
                self._remembered = {}
            self._remembered[path, body] = answer
        return answer

    def _answer(self, path, node, message):
        table = {"/get": GETS, "/report": REPORTS}.get(path)
        if table is None or message.kind not in table:
            raise Refused("%s of %.100s, which DLRover 0.6.1 does not send" % (message.kind, path))
        if getattr(message, "rdzv_name", None) not in (None, *RENDEZVOUS):
            raise Refused("the rendezvous %.100s, which DLRover 0.6.1 does not have" % message.rdzv_name)
        try:
            found = table[message.kind](self._state, node, message)
        except (ValueError, TypeError, KeyError, AttributeError, IndexError) as error:
            raise Refused("%s with a field that cannot be: %s" % (message.kind, str(error)[:200])) from error
        if path == "/get":
            return Message("BaseResponse", data=encode(found))
        passed, line = found if isinstance(found, tuple) else (found, None)
        if line:
            self._say(line)
        return Message("BaseResponse", success=bool(passed))

    def _keep_changes(self):
        if self._state.changed:
            self._remembered = {}
            self._keep(self._state.kept())
            self._state.changed = False


def _request(body):
    """Return (node, message). Raises Refused."""
    try:
        found = json.loads(body)
        node = Node(str(found["node_type"])[:100], int(found["node_id"]))
        data = base64.b64decode(found["data"], validate=True)
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        raise Refused("no request of DLRover: %s" % str(error)[:200]) from error
    return node, decode(data)
