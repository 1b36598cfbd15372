"""What 200 agents of DLRover cost its master: each asks 8.5 times a second whether others wait, over a new connection.

CPU of the master's process, as a share of one core. Its answers and its server are those of a job; its state is kept
nowhere, because polls change nothing. The bench plays the agents. Seen on 2026-11-28, on 2 cores with a load of 13
to 17 beside it: 7.2 to 12 % for 1,699 answers a second.
"""

from __future__ import annotations

import multiprocessing
import select
import socket
import sys
import time
from collections import deque
from pathlib import Path
from typing import Any

sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parents[2])]

import figures  # noqa: E402
import psutil  # noqa: E402

from tests.support.dlrover_pickles import library, request  # noqa: E402

PER_AGENT = 8.5
"""Requests a second. Of these, one of a hundred is a sign of life, and others are about the same."""
TRAINING = "elastic-training"
UID = "u" * 32


def serve(listener: socket.socket, agents: int) -> None:
    """Be the master of agents that train."""
    answers, members, server, state = map(library, ("answers", "members", "server", "state"))
    known = state.State()
    for rank in range(agents):
        known.training.join(rank, 1, 1)
    group = members.Group(tuple(members.Member(rank, 1) for rank in range(agents)), agents, agents)
    known.training.decide(group)
    answer = answers.Answers(known, lambda _: None, print)
    answer.see({"worker": group})
    running = server.Server(listener, UID, answer.of, print)
    while True:
        running.turn(1.0)


def bodies(agents: int) -> list[bytes]:
    """Return the whole requests that agents send, as ``requests`` writes them."""
    found = []
    for rank in range(agents):
        body = request("WaitingNodeNumRequest", rank, rdzv_name=TRAINING)
        head = (
            "POST /get HTTP/1.1\r\nHost: 127.0.0.1:1\r\nUser-Agent: python-requests/2.32.5\r\n"
            "Accept-Encoding: gzip, deflate\r\nAccept: application/json\r\nConnection: keep-alive\r\n"
            f"Content-Type: application/json\r\njob_uid: {UID}\r\nContent-Length: {len(body)}\r\n\r\n"
        )
        found.append(head.encode() + body)
    return found


def ask(port: int, requests: list[bytes], seconds: float) -> int:
    """Send the agents' requests at their pace, in turns. Return how many were answered."""
    pace, begun = len(requests) * PER_AGENT, time.monotonic()
    open_ones: dict[int, socket.socket] = {}
    order: deque[bytes] = deque(requests)
    poll, sent, answered = select.epoll(), 0, 0
    while (now := time.monotonic()) - begun < seconds or open_ones:
        due = min(int(pace * (now - begun)), int(pace * seconds))
        while sent < due:
            client = socket.create_connection(("127.0.0.1", port))
            client.sendall(order[0])
            order.rotate(-1)
            open_ones[client.fileno()] = client
            poll.register(client.fileno(), select.EPOLLIN)
            sent += 1
        for descriptor, _ in poll.poll(0.001):
            client = open_ones.pop(descriptor)
            answered += client.recv(1 << 16).startswith(b"HTTP/1.1 200")
            poll.unregister(descriptor)
            client.close()
    return answered


def used(pid: int) -> float:
    return float(sum(psutil.Process(pid).cpu_times()[:2]))


def main() -> None:
    parser = figures.arguments(__doc__, rounds=3)
    parser.add_argument("--agents", type=int, default=200)
    parser.add_argument("--seconds", type=float, default=10, help="of one round (default: %(default)s)")
    options = parser.parse_args()
    listener = library("server").listen(0)
    process: Any = multiprocessing.get_context("fork").Process(
        target=serve, args=(listener, options.agents), daemon=True
    )
    process.start()
    cpu, rate = figures.Figure("master", [], "%"), figures.Figure("answers", [], "/s")
    requests = bodies(options.agents)
    for _ in range(options.rounds):
        before, begun = used(process.pid), time.monotonic()
        answered = ask(listener.getsockname()[1], requests, options.seconds)
        took = time.monotonic() - begun
        cpu.samples.append(100 * (used(process.pid) - before) / took)
        rate.samples.append(answered / took)
    process.terminate()
    title = f"a master of {options.agents} agents of DLRover, {options.rounds} × {options.seconds:g} s"
    figures.report(options, title, [cpu, rate], "at most 25 % of a core")


if __name__ == "__main__":
    main()
