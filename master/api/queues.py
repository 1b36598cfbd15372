"""`/v1/queues`: work queues. Used by ``handlers``."""

from __future__ import annotations

from grass.api.keyring import Role
from grass.errors import NotFoundError
from grass.wire.queue_api import Get, QueueAnswer, QueueRequest, QueuesView, QueueView
from grass.wire.waits import LONGEST_WAIT
from master.api.call import Call


def list_queues(call: Call) -> QueuesView:
    return QueuesView(tuple(call.api.desk.views(call.sees)))


def show_queue(call: Call, queue: str) -> QueueView:
    found = call.api.desk.views(lambda _: True, queue)
    if not found:
        raise NotFoundError(f"queue {queue}: not found; `grass queue list` lists all queues")
    call.check_owner(found[0].user, f"queue {queue}")
    return found[0]


def change_queue(call: Call, queue: str) -> QueueAnswer:
    """Carry out a step. One that waits for items holds a waiting slot; without one, it answers at once."""
    step = call.read(QueueRequest).step
    everything = call.role is Role.ADMIN
    if not isinstance(step, Get) or not step.wait:
        return call.api.desk.ask(queue, step, user=call.user, everything=everything, wait=0.0)
    with call.waiting() as granted:
        wait = min(step.wait, LONGEST_WAIT) if granted else 0.0
        return call.api.desk.ask(queue, step, user=call.user, everything=everything, wait=wait)
