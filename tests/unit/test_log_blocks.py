"""Blocks: where output is cut, and how a block is written."""

from __future__ import annotations

import base64
import json

from hypothesis import given
from hypothesis import strategies as st

from grass.wire.codec import builtins
from grass.wire.log_block import LogBlock
from master.collector.blocks import block_from_line, block_from_record
from node.agent.log_blocks import BLOCK, block_end


def pieces(data: bytes) -> list[bytes]:
    cuts, start = [], 0
    while (stop := block_end(data, start, end=True)) > start:
        cuts.append(data[start:stop])
        start = stop
    return cuts


def test_a_block_ends_after_the_last_newline_that_fits():
    assert block_end(b"one\ntwo\nthr") == len(b"one\ntwo\n")


def test_a_line_without_its_end_waits():
    assert block_end(b"progress 10%") == 0


def test_a_line_that_waited_long_enough_is_sent_without_its_end():
    assert block_end(b"progress 10%", flush=True) == len(b"progress 10%")


def test_a_line_longer_than_a_block_is_cut_but_not_in_a_code_point():
    data = b"x" + "ä".encode() * BLOCK
    assert block_end(data) == BLOCK - 1
    assert block_end("ä".encode() * BLOCK) == BLOCK


def test_half_a_code_point_waits_for_its_rest_until_the_end():
    torn = "naïve"[:3].encode()[:-1]
    assert block_end(torn, flush=True) == 2
    assert block_end(torn[2:], flush=True) == 0
    assert block_end(torn, end=True) == len(torn)


@given(st.text(min_size=1).flatmap(lambda text: st.tuples(st.just(text), st.integers(1, 2 * BLOCK))))
def test_text_stays_text_however_long(case):
    text, length = case
    data = (text.encode() * (length // len(text.encode()) + 1))[: max(4, length)]
    data = data.decode(errors="ignore").encode()
    cuts = pieces(data)
    assert b"".join(cuts) == data
    assert all(len(block) <= BLOCK for block in cuts)
    assert all(LogBlock.of_data(1, "stdout", 0, 0.0, block).text is not None for block in cuts)


@given(st.binary(max_size=3000))
def test_any_bytes_survive_being_a_record_and_a_line(data):
    record = builtins(LogBlock.of_data(3, "stderr", 17, 1234.5, data))
    block = block_from_record(json.loads(json.dumps(record)))
    assert block is not None
    assert (block.attempt, block.stream, block.offset, block.time, block.data) == (3, "stderr", 17, 1234.5, data)
    line = block.to_line()
    assert line.count(b"\n") == 1
    assert block_from_line(line) == block


def test_a_torn_line_with_another_behind_it_gives_the_other():
    first = block_from_record({"attempt": 1, "stream": "stdout", "offset": 0, "time": 1, "text": '{"attempt":9'})
    second = block_from_record({"attempt": 1, "stream": "stdout", "offset": 12, "time": 2, "text": "more"})
    assert first is not None and second is not None
    assert block_from_line(first.to_line()) == first
    assert block_from_line(first.to_line()[:60] + second.to_line()) == second


def test_what_is_no_block_is_none():
    good = {"attempt": 1, "stream": "stdout", "offset": 0, "time": 1.0, "text": "x"}
    assert block_from_record(good) is not None
    for change in (
        {"attempt": 0},
        {"attempt": True},
        {"attempt": "1"},
        {"stream": "../x"},
        {"offset": -1},
        {"offset": 10**18},
        {"time": float("nan")},
        {"time": "now"},
        {"text": "\ud800"},
        {"text": None, "base64": "%%%"},
        {"text": None, "base64": base64.b64encode(b"x").decode() + "é"},
    ):
        assert block_from_record({**good, **change}) is None, change
    for line in (b"", b"{}", b"[" * 100_000, b'{"attempt"', b"\xff\xfe", b"null\n"):
        assert block_from_line(line) is None
