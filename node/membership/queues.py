"""Steps of tasks on work queues: passed on to the API server through the store, and the answers to them.

Called by the membership API's threads. One thread receives the answers for all of them. A step whose answer did not
come may have been carried out: the task repeats it with the same id. Used by ``api`` and ``service``.
"""

from __future__ import annotations

import logging
import threading
from concurrent.futures import Future

from msgspec import Raw

from grass.api.error_reply import error_of
from grass.api.task_token import message_code
from grass.backoff import Backoff
from grass.errors import GrassError, UndecodableError, UnreachableError
from grass.store.queue_store import QueueLink
from grass.system import clock
from grass.system.entropy import request_id
from grass.wire.codec import encode
from grass.wire.keys import AttemptKey
from grass.wire.membership_api import LONGEST_WAIT
from grass.wire.queue_api import QUEUE_STEP, Get, QueueAnswer, QueueCall, QueueOutcome

MARGIN = 8.0
"""Seconds beyond what a step may wait: for the API server to restart."""
_POLL = 2.0

log = logging.getLogger(__name__)


class Queues:
    """Safe for many threads. The thread that receives starts with the first step, and goes on to the process's end."""

    def __init__(self, link: QueueLink, node: str, margin: float = MARGIN) -> None:
        self._link = link
        self._node = node
        self._margin = margin
        self._lock = threading.Lock()
        self._awaited: dict[str, Future[QueueOutcome]] = {}
        self._started = False

    def step(self, key: AttemptKey, token: str, queue: str, body: bytes) -> QueueAnswer:
        """Have a step carried out. ``token``: of the attempt. Raises UndecodableError, or the error of the answer."""
        step = QUEUE_STEP.decode(body)
        wait = min(step.wait, LONGEST_WAIT) if isinstance(step, Get) else 0.0
        call = QueueCall(id=request_id(), node=self._node, attempt=str(key), queue=queue, wait=wait, step=Raw(body))
        text = encode(call)
        self._start()
        future: Future[QueueOutcome] = Future()
        self._awaited[call.id] = future
        try:
            self._link.ask(message_code(token, text), text)
            outcome = future.result(wait + self._margin)
        except TimeoutError as error:
            raise UnreachableError(
                f"queue {queue}: the master-api-server does not answer; repeat the step with the same id"
            ) from error
        finally:
            self._awaited.pop(call.id, None)
        if outcome.answer is not None:
            return outcome.answer
        assert outcome.error is not None
        raise error_of({"code": outcome.error.code, "message": outcome.error.message})

    def _start(self) -> None:
        with self._lock:
            if not self._started:
                last = self._link.last()
                threading.Thread(target=self._run, args=(last,), name="queue-answers", daemon=True).start()
                self._started = True

    def _run(self, last: str) -> None:
        backoff = Backoff(0.05, 1.0)
        while True:
            try:
                last, outcomes = self._link.answers(last, _POLL)
                backoff.reset()
            except UndecodableError as error:
                log.error("answers about work queues are left out, and asked for again by tasks: %s", error)
                last = self._link.last()
                continue
            except GrassError as error:
                log.info("answers about work queues are not received (%s); trying again", error)
                clock.sleep(backoff.next())
                continue
            for outcome in outcomes:
                if (future := self._awaited.get(outcome.id)) is not None and not future.done():
                    future.set_result(outcome)
