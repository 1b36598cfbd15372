"""How a reply leaves the server: in as few pieces as its peer can use."""

from __future__ import annotations

import socket

import pytest

from grass.serving.outbox import Outbox


def test_head_and_body_arrive_together_and_a_stream_piece_by_piece() -> None:
    ours, peer = socket.socketpair()
    with ours, peer:
        ours.setblocking(False)
        peer.setblocking(False)
        outbox = Outbox(ours, 5)
        outbox.sendall(b"head")
        with pytest.raises(BlockingIOError):
            peer.recv(100)
        outbox.sendall(b" and body")
        outbox.flush()
        assert peer.recv(100) == b"head and body"
        outbox.send(b"100 Continue")
        assert peer.recv(100) == b"100 Continue"


def test_what_a_slow_reader_leaves_is_handed_over_unless_the_reply_is_a_stream() -> None:
    ours, peer = socket.socketpair()
    with ours, peer:
        ours.setblocking(False)
        outbox = Outbox(ours, 0.01)
        long = b"x" * (8 << 20)
        outbox.sendall(long)
        outbox.flush()
        rest = outbox.take_unsent()
        assert 0 < len(rest) < len(long) and outbox.take_unsent() == b""
        outbox.stream = True
        outbox.sendall(rest)
        with pytest.raises(TimeoutError):
            outbox.flush()
