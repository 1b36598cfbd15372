"""How long tickets wait, asked by a process of its own, so that what the fleet costs does not delay the asking."""

from __future__ import annotations

import multiprocessing
import time
from multiprocessing.connection import Connection
from multiprocessing.synchronize import Event

from grass.store.api_store import ApiStore
from grass.store.keys import Keys
from grass.store.redis_backend import RedisBackend
from grass.wire.tickets import CordonNode

PAUSE = 0.005


def one_wait(api: ApiStore, number: int) -> float:
    """Milliseconds from a ticket until what it led to is in the store. It asks for a node that there is not."""
    last, name = api.last_event(), f"nowhere-{number}"
    begin = time.perf_counter()
    api.ticket(CordonNode(name, "bench"))
    while True:
        events, last = api.wait_events(last, 1.0)
        if any(name in event.record.message for event in events):
            return 1000 * (time.perf_counter() - begin)


def _ask(socket: str, password: str, prefix: str, over: Event, answer: Connection) -> None:
    api = ApiStore(RedisBackend(unix_socket_path=socket, username="admin", password=password), Keys(prefix))
    waits = [one_wait(api, 0)]
    answer.send([])
    while not over.is_set():
        waits.append(one_wait(api, len(waits)))
        time.sleep(PAUSE)
    answer.send(waits[1:])


class Waits:
    """Asks again and again until ``end``, which returns the waits in milliseconds."""

    def __init__(self, socket: str, password: str, prefix: str) -> None:
        context = multiprocessing.get_context("spawn")
        self._over = context.Event()
        self._answer, there = context.Pipe()
        self._process = context.Process(target=_ask, args=(socket, password, prefix, self._over, there), daemon=True)
        self._process.start()
        self._answer.recv()

    def end(self) -> list[float]:
        self._over.set()
        waits: list[float] = self._answer.recv()
        self._process.join()
        return waits
