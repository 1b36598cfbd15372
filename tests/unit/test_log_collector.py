"""The collector without its socket: the protocol's modes and limits, tags, and the files."""

from __future__ import annotations

import gzip
import os
import resource

import msgpack
import pytest
from hypothesis import HealthCheck, given
from hypothesis import strategies as st

from master.collector.blocks import Block, block_from_line
from master.collector.protocol import MESSAGE_LIMIT, Decoder, ProtocolError
from master.collector.server import Dropped, store
from master.collector.storage import Storage, Target
from tests.support.examples import examples

RECORD = {"attempt": 1, "stream": "stdout", "offset": 0, "time": 1.0, "text": "hello\n"}
TAG = "grass.digits-0123abcd.worker.3"


def decode(*messages: object) -> list[tuple[str, list[object], str | None]]:
    decoder = Decoder()
    data = b"".join(msgpack.packb(message) for message in messages)
    found = []
    for start in range(0, len(data), 7):
        found += [(m.tag, list(m.records), m.chunk) for m in decoder.feed(data[start : start + 7])]
    return found


def block(offset: int, data: bytes, *, attempt: int = 1, stream: str = "stdout") -> Block:
    return Block(attempt, stream, offset, 1.0, data)


def stored(root) -> bytes:
    lines = (root / "j-0123abcd" / "w.0.jsonl").read_bytes().splitlines(keepends=True)
    blocks = [block_from_line(line) for line in lines]
    return b"".join(block.data for block in blocks)


TARGET = Target("j-0123abcd", "w.0.jsonl")


def test_all_four_modes_give_the_same_records():
    packed = msgpack.packb([1, RECORD]) + msgpack.packb([msgpack.ExtType(0, bytes(8)), RECORD])
    two_members = gzip.compress(packed[:10]) + gzip.compress(packed[10:])
    assert decode([TAG, 1, RECORD], [TAG, 1, RECORD, {"chunk": "a"}]) == [(TAG, [RECORD], None), (TAG, [RECORD], "a")]
    assert decode([TAG, [[1, RECORD], [2, RECORD]], {"chunk": "b"}]) == [(TAG, [RECORD, RECORD], "b")]
    assert decode([TAG, packed, {"chunk": "c"}]) == [(TAG, [RECORD, RECORD], "c")]
    assert decode([TAG, two_members, {"compressed": "gzip"}]) == [(TAG, [RECORD, RECORD], None)]


def test_heartbeats_are_ignored():
    assert decode(None, [TAG, 1, RECORD], None) == [(TAG, [RECORD], None)]


@pytest.mark.parametrize(
    "data",
    [
        b"\xc1",
        b"GET / HTTP/1.1\r\n\r\n",
        b"\xdd\xff\xff\xff\xff",
        b"\xdf\xff\xff\xff\xff",
        b"\xc6\xff\xff\xff\xff" + bytes(MESSAGE_LIMIT),
        b"\x91" * 5000,
        msgpack.packb({"not": "a message"}),
        msgpack.packb([TAG]),
        msgpack.packb([5, 5, 5]),
        msgpack.packb([TAG, b"\xc1", {"compressed": "gzip"}]),
        msgpack.packb([TAG, gzip.compress(b"0" * 100, mtime=0)[:-10], {"compressed": "gzip"}]),
        msgpack.packb([TAG, gzip.compress(bytes(MESSAGE_LIMIT + 1), mtime=0), {"compressed": "gzip"}]),
    ],
)
def test_what_is_not_the_protocol_is_refused(data):
    with pytest.raises(ProtocolError):
        list(Decoder().feed(data))


def test_a_message_cannot_grow_beyond_its_limit_by_coming_in_pieces():
    decoder = Decoder()
    endless = msgpack.packb([0] * 8000) * 100
    with pytest.raises(ProtocolError, match="larger than"):
        list(decoder.feed(b"\xdc\x20\x00"))
        for _ in range(20):
            list(decoder.feed(endless))


@examples(300)
@given(st.binary(max_size=300))
def test_random_bytes_give_messages_or_a_protocol_error_and_nothing_else(data):
    decoder = Decoder()
    try:
        for message in decoder.feed(data):
            list(message.records)
    except ProtocolError:
        pass


def test_entries_that_are_packed_badly_are_refused_too():
    (message,) = Decoder().feed(msgpack.packb([TAG, b"\xc1", {"chunk": "x"}]))
    with pytest.raises(ProtocolError):
        list(message.records)


@pytest.mark.parametrize(
    ("tag", "job_id", "file"),
    [
        (TAG, "digits-0123abcd", "worker.3.jsonl"),
        ("grass.a.b_c-d-0123abcd.worker.0", "a.b_c-d-0123abcd", "worker.0.jsonl"),
        ("grass.a-0123abcd.b-0123abcd.w_1.12", "a-0123abcd.b-0123abcd", "w_1.12.jsonl"),
    ],
)
def test_a_tag_names_a_file(tag, job_id, file):
    assert Target.of_tag(tag) == Target(job_id, file)


@pytest.mark.parametrize(
    "tag",
    [
        "grass",
        "docker.container",
        "grass.a-0123abcd.worker",
        "grass.a-0123abcd.worker.x",
        "grass.a-0123abcd.worker.-1",
        "grass...w.0",
        "grass...-0123abcd.w.0",
        "grass.../../etc-0123abcd.passwd.0",
        "grass.a/b-0123abcd.w.0",
        "grass.a-0123abcd./etc/x.0",
        "grass.a-0123abcd.w.0\n",
        "grass.a-0123abcd.w\x00.0",
        "grass.a-0123abcd.w.\u0663",
        "grass." + "a" * 300 + "-0123abcd.w.0",
        "grass.a-0123abcd." + "w" * 64 + ".0",
        "grass._a-0123abcd.w.0",
        "grass.a-0123abcd._w.0",
        "grass.a-0123abcd.w-.0",
    ],
)
def test_a_tag_that_is_not_ours_names_none(tag):
    assert Target.of_tag(tag) is None


@examples(60, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(
    data=st.binary(min_size=1, max_size=200),
    deliveries=st.lists(st.tuples(st.integers(0, 200), st.integers(1, 60), st.booleans(), st.booleans()), max_size=12),
)
def test_resent_overlapping_and_torn_deliveries_store_each_byte_once(tmp_path_factory, data, deliveries):
    root = tmp_path_factory.mktemp("logs")
    storage, end = Storage(root), 0
    for start, size, restart, torn in [*deliveries, (0, len(data), True, False)]:
        offset = min(start, end)
        piece = data[offset : offset + size]
        storage.append(TARGET, [block(offset, piece[:5]), block(offset + 5, piece[5:])])
        end = max(end, offset + len(piece))
        if restart:
            storage = Storage(root)
        if torn:
            with (root / TARGET.job_id / TARGET.file).open("ab") as file:
                file.write(b'{"attempt":1,"stream":"stdout","offset":0,"time":1.0,"te')
    assert stored(root) == data


def test_a_write_that_fails_half_way_leaves_the_file_as_it_was(tmp_path):
    storage = Storage(tmp_path)
    storage.append(TARGET, [block(0, b"first\n")])
    size = (tmp_path / TARGET.job_id / TARGET.file).stat().st_size
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size + 100, limits[1]))
    try:
        with pytest.raises(OSError, match="too large"):
            storage.append(TARGET, [block(6, b"x" * 5000)])
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert stored(tmp_path) == b"first\n"
    storage.append(TARGET, [block(6, b"x" * 5000)])
    assert stored(tmp_path) == b"first\n" + b"x" * 5000


def test_streams_and_attempts_are_told_apart(tmp_path):
    storage = Storage(tmp_path)
    for _ in range(2):
        storage.append(TARGET, [block(0, b"a"), block(0, b"b", stream="stderr"), block(0, b"c", attempt=2)])
        storage = Storage(tmp_path)
    assert stored(tmp_path) == b"abc"


def test_a_job_folder_that_is_deleted_meanwhile_begins_anew(tmp_path):
    storage = Storage(tmp_path)
    storage.append(TARGET, [block(0, b"old\n")])
    (tmp_path / TARGET.job_id / TARGET.file).unlink()
    (tmp_path / TARGET.job_id).rmdir()
    storage.append(TARGET, [block(4, b"new\n")])
    assert stored(tmp_path) == b"new\n"


def test_what_is_remembered_is_bounded_and_recovered_from_the_file(tmp_path):
    storage = Storage(tmp_path, remembered=2)
    targets = [Target("j-0123abcd", f"w.{index}.jsonl") for index in range(5)]
    for _ in range(2):
        for target in targets:
            storage.append(target, [block(0, b"x")])
    sizes = {(tmp_path / "j-0123abcd" / target.file).stat().st_size for target in targets}
    assert sizes == {len(block(0, b"x").to_line())}


def test_links_and_pipes_in_the_share_are_not_written_to(tmp_path):
    outside = tmp_path / "outside"
    outside.mkdir()
    root = tmp_path / "logs"
    (root / "j-0123abcd").mkdir(parents=True)
    (root / "l-0123abcd").symlink_to(outside)
    (root / "j-0123abcd" / "w.0.jsonl").symlink_to(outside / "file")
    os.mkfifo(root / "j-0123abcd" / "w.1.jsonl")
    storage, dropped = Storage(root), Dropped()
    for tag in ("grass.l-0123abcd.w.0", "grass.j-0123abcd.w.0", "grass.j-0123abcd.w.1"):
        decoder = Decoder()
        for message in decoder.feed(msgpack.packb([tag, 1, RECORD])):
            store(message, storage, dropped)
    assert dropped.counts["file cannot be written"] == 3
    assert list(outside.iterdir()) == []


def test_foreign_tags_and_records_are_counted_and_dropped(tmp_path):
    storage, dropped = Storage(tmp_path), Dropped()
    for tag, record in (("docker.x", RECORD), (TAG, {"message": "hi"}), (TAG, 5), (TAG, RECORD)):
        for message in Decoder().feed(msgpack.packb([tag, [[1, record]], {"chunk": "x"}])):
            store(message, storage, dropped)
    assert dropped.counts == {"foreign tag": 1, "malformed record": 2}
    assert [path.name for path in tmp_path.iterdir()] == ["digits-0123abcd"]
