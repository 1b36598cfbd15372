"""Pickles of DLRover's client are read without ``pickle``: nothing is imported or called, and all is bounded."""

from __future__ import annotations

import os
import pickle
import pickletools
import struct
import time
from typing import Any

import pytest

from tests.support.dlrover_pickles import client_load, client_pickle, library

messages, pickles = library("messages"), library("pickles")
MODULE = messages.MODULE


@pytest.mark.parametrize("protocol", [3, 4, 5])
def test_a_message_of_the_client_is_read_with_all_its_fields(protocol: int) -> None:
    data = client_pickle("KeyValuePairs", protocol, kvs={"a": b"1", "b": 2}, op="set")
    found = pickles.decode(data)
    assert (found.kind, found.kvs, found.op) == ("KeyValuePairs", {"a": b"1", "b": 2}, "set")
    event = client_pickle("NodeEvent", protocol, event_type="x", event_elapsed_time=1.5, node=("NodeMeta", {"rank": 3}))
    assert pickles.decode(event).node.rank == 3
    assert pickles.decode(client_pickle("PsReady", protocol)).kind == "PsReady"
    assert pickles.decode(client_pickle("HeartBeat", protocol)).timestamp == 0, (
        "a field that is left out has its default"
    )


@pytest.mark.parametrize("kind", sorted(messages.FIELDS))
def test_the_client_reads_each_message(kind: str) -> None:
    found = client_load(pickles.encode(messages.Message(kind)))
    assert type(found).__name__ == kind
    assert set(vars(found)) == set(messages.FIELDS[kind])


def test_values_of_all_kinds_come_back() -> None:
    value = {"a": 1 << 70, "b": -5, "c": 2.5, "d": "ä", "e": b"\0", "f": True, "g": None}
    state = messages.Message("RendezvousState", world={0: 8, 7: 1}, waiting_num=-1)
    assert client_load(pickles.encode(messages.Message("Event", labels=value))).labels == value
    found = client_load(pickles.encode(state))
    assert (found.world, found.waiting_num) == ({0: 8, 7: 1}, -1)


def built(kind: str, body: bytes) -> bytes:
    return b"\x80\x04c%b\n%b\n)\x81}(%bub." % (MODULE.encode(), kind.encode(), body)


class Calls:
    """Reduces to a call, as attacks do."""

    def __init__(self, call: Any, *arguments: Any) -> None:
        self.reduced = call, arguments

    def __reduce__(self) -> Any:
        return self.reduced


HOSTILE = {
    "os.system": pickle.dumps(Calls(os.system, "touch /tmp/grass-was-here")),
    "eval": pickle.dumps(Calls(eval, "1 + 1")),
    "a dotted name": b"\x80\x04\x8c\x1cdlrover.python.common.comm.os\x8c\x06system\x93.",
    "a name with a dot": b"\x80\x04c" + MODULE.encode() + b"\nMessage.serialize.__globals__\n.",
    "a class of the module that is no message": b"\x80\x04c" + MODULE.encode() + b"\nJsonSerializable\n.",
    "REDUCE of a message": b"\x80\x04c" + MODULE.encode() + b"\nShard\n)R.",
    "NEWOBJ with arguments": b"\x80\x04c" + MODULE.encode() + b"\nShard\nK\x01\x85\x81.",
    "an unknown field": built("Shard", b"X\x05\0\0\0colorK\x01"),
    "__class__": built("Shard", b"X\x09\0\0\0__class__K\x01"),
    "the wrong type": built("Shard", b"X\x05\0\0\0startX\x01\0\0\0a"),
    "a list in itself": built("Shard", b"X\x07\0\0\0indices](h\0q\0h\0e".replace(b"](h\0q\0", b"]q\0(")),
    "no message": pickle.dumps({"a": 1}),
    "only a class": b"\x80\x04c" + MODULE.encode() + b"\nShard\n.",
    "nothing": b"",
    "no end": b"\x80\x04}",
    "an empty stack": b"\x80\x04u.",
    "several objects": b"\x80\x04NN.",
    "an unknown opcode": b"\x80\x04\xff.",
    "persistent id": b"\x80\x04Pabc\n.",
    "an extension": b"\x80\x04\x82\x01.",
    "a text that ends early": b"\x80\x04X" + struct.pack("<I", 1 << 31) + b"abc",
    "a huge length": b"\x80\x04\x8e" + struct.pack("<Q", 1 << 62) + b"abc",
    "a huge place in the memo": built("Shard", b"X\x05\0\0\0startK\x01r\xff\xff\xff\xff"),
    "a long integer": b"\x80\x04\x8a\xff" + b"\x7f" * 255 + b".",
    "a decimal of a million digits": b"\x80\x04I" + b"9" * 1_000_000 + b"\n.",
    "a deep list": b"\x80\x04" + b"]" * 400_000 + b"a" * 399_999 + b".",
    "deep tuples": b"\x80\x04)" + b"\x85" * 150_000 + b".",
    "many steps": b"\x80\x04" + b"N" * 900_000 + b".",
    "too long": b"\x80\x04" + b"N" * 2_000_000,
    # a text of 100 kB, named 50,000 times
    "one text many times": built(
        "KeyValuePairs",
        b"X\x03\0\0\0kvs}(X\x01\0\0\0aX"
        + struct.pack("<I", 100_000)
        + b"x" * 100_000
        + b"q\0"
        + b"".join(b"X\x05\0\0\0%05dh\0" % at for at in range(50_000))
        + b"u",
    ),
    # a list of 60,000, in 10,000 messages
    "one list in many messages": built("Shard", b"X\x07\0\0\0indices](" + b"N" * 60_000 + b"eq\0")[:-3]
    + b"0"
    + b"".join(b"(c%b\nShard\n)\x81}X\x07\0\0\0indicesh\0sb" % MODULE.encode() for _ in range(10_000))
    + b".",
}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_pickle_is_refused_at_once(name: str) -> None:
    if name == "a huge place in the memo":
        assert pickles.decode(HOSTILE[name]).start == 1, "the memo is a dict: it has no size to reserve"
        return
    begun = time.process_time()
    with pytest.raises(pickles.Refused) as refused:
        pickles.decode(HOSTILE[name])
    assert time.process_time() - begun < 2.0
    assert len(str(refused.value)) < 500
    assert not os.path.exists("/tmp/grass-was-here")


def test_each_opcode_that_calls_or_resolves_is_refused() -> None:
    for opcode in pickletools.opcodes:
        if opcode.name in ("REDUCE", "INST", "OBJ", "NEWOBJ_EX", "EXT1", "EXT2", "EXT4", "PERSID", "BINPERSID"):
            with pytest.raises(pickles.Refused):
                pickles.decode(b"\x80\x04N)" + opcode.code.encode("latin-1") + b"\x01\0\0\0\n\n.")


def test_a_message_that_is_not_known_is_named() -> None:
    with pytest.raises(pickles.Refused, match=r"the class NewRequest of the module dlrover\.python\.common\.comm"):
        pickles.decode(b"\x80\x04c" + MODULE.encode() + b"\nNewRequest\n)\x81.")
