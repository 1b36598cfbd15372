"""Keeps the master's state in the key-value store of the job, so that a master on any node goes on.

The state is one compressed text, in pieces if it is long. It takes effect with its head, which only the master that
wrote the one before can replace: an earlier master, which somebody believed dead, ends. Used by ``__main__``.
"""

from __future__ import annotations

import base64
import json
import time
import zlib

from grass_membership import ApiError

HEAD, PIECE = "dlrover/state", "dlrover/state/%s/%d"
UID = "dlrover/uid"
WEEK = 604_800
REFRESH_SECONDS = 6 * 3600.0
"""Values last for a week. A state that does not change is written again after so long."""
_LENGTH = 16_000
_AGAIN = 0.2


class Superseded(Exception):
    """Another master has written the state."""


class Keeper:
    """``writer``: a word of this master's own. What it writes until its head is there, no other master reads."""

    def __init__(self, api, writer):
        self._api, self._writer = api, writer
        self._number, self._revision, self._text = 0, "", None
        self._written = time.monotonic()
        self._earlier = []

    def read(self):
        """Return the state that the last master kept; None: there is none."""
        head, self._revision = self._patiently(lambda: self._api.get(HEAD))
        if head is None:
            return None
        found = json.loads(head)
        self._earlier = [PIECE % (found["folder"], at) for at in range(found["pieces"])]
        pieces = [self._patiently(lambda key=key: self._api.get(key))[0] for key in self._earlier]
        self._text = found["text"] + "".join(text or "" for text in pieces)
        return json.loads(zlib.decompress(base64.b64decode(self._text)))

    def write(self, state):
        """Return once the state is kept. Raises Superseded."""
        self._put(base64.b64encode(zlib.compress(json.dumps(state, separators=(",", ":")).encode(), 1)).decode())

    def refresh(self):
        if self._text is not None and time.monotonic() - self._written > REFRESH_SECONDS:
            self._put(self._text)

    def _put(self, text):
        self._number = 1 - self._number
        folder = "%s%d" % (self._writer, self._number)
        rest = [text[at : at + _LENGTH] for at in range(_LENGTH - 200, len(text), _LENGTH)]
        for at, piece in enumerate(rest):
            self._patiently(lambda at=at, piece=piece: self._api.put(PIECE % (folder, at), piece, ttl=WEEK))
        self._write_head(json.dumps({"folder": folder, "pieces": len(rest), "text": text[: _LENGTH - 200]}))
        self._text, self._written = text, time.monotonic()
        for key in self._earlier:
            self._patiently(lambda key=key: self._api.delete(key))
        self._earlier = []

    def _write_head(self, head):
        body = {"value": head, "ttl": WEEK, "expect": self._revision}
        answer = self._patiently(lambda: self._api.call("PUT", "/v1/kv/" + HEAD, body))
        if not answer["stored"] and answer["value"] != head:  # a repetition finds what the first request wrote
            raise Superseded("another master of this job has written the state")
        self._revision = answer["revision"]

    @staticmethod
    def _patiently(step):
        """Carry out a step, also while the node-agent or the store is away."""
        while True:
            try:
                return step()
            except ApiError as error:
                if error.status != 503:
                    raise
            except OSError:
                pass
            time.sleep(_AGAIN)


def job_uid(api, fresh):
    """Return the secret of the job, which all its tasks can read. ``fresh``: it, if there is none."""
    Keeper._patiently(lambda: api.put(UID, fresh, ttl=WEEK, expect=""))
    return Keeper._patiently(lambda: api.get(UID))[0]
