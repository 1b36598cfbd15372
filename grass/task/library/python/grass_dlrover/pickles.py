"""Reads and writes the pickles of DLRover's client without ``pickle``: nothing is imported, resolved or called.

``decode`` is a machine for the few opcodes that ``pickle.dumps`` writes for DLRover's messages (protocols 3 to 5). A
class is known only by its exact pair of module and name (``messages``). Its instances are ``Message``. Time and memory
are bounded by the length of the data. Used by ``answers``; tests feed it hostile pickles.
"""

from __future__ import annotations

import pickletools
import struct

from grass_dlrover.messages import FIELDS, MODULE, Message, fits

MOST_BYTES = 1 << 20
MOST_STEPS = 200_000
MOST_WEIGHT = 2 << 20
MOST_DIGITS = 64
"""Bytes of the longest integer."""
_CONSTANTS = {"NONE": None, "NEWTRUE": True, "NEWFALSE": False}
_LITERALS = frozenset(
    ("BININT", "BININT1", "BININT2", "BINFLOAT", "SHORT_BINUNICODE", "BINUNICODE", "SHORT_BINBYTES", "BINBYTES")
)
_EMPTY = {"EMPTY_DICT": dict, "EMPTY_LIST": list, "EMPTY_TUPLE": tuple}
_TUPLES = {"TUPLE1": 1, "TUPLE2": 2, "TUPLE3": 3}
_MARK = object()


class Refused(ValueError):
    """The data is no message of DLRover. The text says why, with the name of an unknown class."""


class _Class:
    def __init__(self, kind):
        self.kind = kind


class _Raw:
    """An instance that has no fields yet."""

    def __init__(self, kind):
        self.kind, self.message = kind, None


def decode(data):
    """Return the message of a pickle. Raises Refused."""
    if len(data) > MOST_BYTES:
        raise Refused("a pickle of %d bytes; at most %d" % (len(data), MOST_BYTES))
    try:
        return _message(_Machine().run(data))
    except Refused:
        raise
    except (ValueError, IndexError, KeyError, TypeError, AttributeError, OverflowError, UnicodeError) as error:
        raise Refused("a broken pickle: %s" % str(error)[:200]) from error


class _Machine:
    def __init__(self):
        self._stack = []
        self._memo = {}
        self._weight = 0

    def run(self, data):
        for steps, (opcode, argument, _) in enumerate(pickletools.genops(data)):
            name = opcode.name
            if name == "STOP":
                if len(self._stack) != 1:
                    raise Refused("a pickle of several objects")
                return self._stack[0]
            if steps > MOST_STEPS:
                raise Refused("a pickle of more than %d steps" % MOST_STEPS)
            self._step(name, argument)
        raise Refused("a pickle without an end")

    def _step(self, name, argument):
        stack = self._stack
        if name in _LITERALS:
            stack.append(argument)
        elif name in _CONSTANTS:
            stack.append(_CONSTANTS[name])
        elif name in _EMPTY:
            stack.append(_EMPTY[name]())
        elif name in _TUPLES:
            count = _TUPLES[name]
            stack[-count:] = [tuple(stack[-count:])]
        elif name in _STEPS:
            _STEPS[name](self, argument)
        elif name not in ("PROTO", "FRAME"):
            raise Refused("the opcode %s, which no message of DLRover has" % name)

    def _long(self, number):
        if number.bit_length() > 8 * MOST_DIGITS:
            raise Refused("an integer of more than %d bytes" % MOST_DIGITS)
        self._stack.append(number)

    def _mark(self, _):
        self._stack.append(_MARK)

    def _memorize(self, place):
        self._memo[len(self._memo) if place is None else place] = self._stack[-1]

    def _recall(self, place):
        self._stack.append(self._memo[place])

    def _tuple(self, _):
        self._stack.append(tuple(self._marked()))

    def _append(self, _):
        item = self._stack.pop()
        _of(list, self._stack[-1]).append(item)

    def _appends(self, _):
        items = self._marked()
        _of(list, self._stack[-1]).extend(items)

    def _item(self, _):
        items = [self._stack.pop(-2), self._stack.pop()]
        self._put(_of(dict, self._stack[-1]), items)

    def _items(self, _):
        items = self._marked()
        self._put(_of(dict, self._stack[-1]), items)

    def _new(self, _):
        arguments, kind = self._stack.pop(), self._stack.pop()
        if arguments != () or not isinstance(kind, _Class):
            raise Refused("an object that is made with arguments")
        self._stack.append(_Raw(kind.kind))

    def _build(self, _):
        fields, raw = _of(dict, self._stack.pop()), _of(_Raw, self._stack[-1])
        raw.message = self._built(raw.kind, fields)

    def _marked(self):
        at = len(self._stack) - 1
        while self._stack[at] is not _MARK:
            at -= 1  # an IndexError below the first one ends it
        items = self._stack[at + 1 :]
        del self._stack[at:]
        return items

    @staticmethod
    def _put(target, items):
        for key, value in zip(items[::2], items[1::2]):  # noqa: B905 (Python 3.8)
            if not isinstance(key, str):
                raise Refused("a dictionary with keys that are no text")
            target[key] = value

    def _find(self, argument):
        if argument is None:
            name, module = self._stack.pop(), self._stack.pop()
        else:
            module, _, name = argument.partition(" ")
        if module != MODULE or name not in FIELDS:
            raise Refused("the class %.100s of the module %.100s, which no message of DLRover has" % (name, module))
        self._stack.append(_Class(name))

    def _built(self, kind, fields):
        known, made = FIELDS[kind], {}
        for name, value in fields.items():
            if name not in known:
                raise Refused("%s has the unknown field %.100s; only DLRover 0.6.1 is known" % (kind, name))
            self._weight += _weight(value)
            if self._weight > MOST_WEIGHT:
                raise Refused("fields of more than %d bytes" % MOST_WEIGHT)
            found = (
                [_message(each) if isinstance(each, _Raw) else each for each in value] if type(value) is list else value
            )
            made[name] = found = _message(found) if isinstance(found, _Raw) else found
            if not fits(found, known[name]):
                raise Refused("%s.%s has the wrong type %s" % (kind, name, type(found).__name__))
        return Message(kind, **made)


_STEPS = {
    "LONG1": _Machine._long,
    "MARK": _Machine._mark,
    **dict.fromkeys(("MEMOIZE", "BINPUT", "LONG_BINPUT"), _Machine._memorize),
    **dict.fromkeys(("BINGET", "LONG_BINGET"), _Machine._recall),
    "TUPLE": _Machine._tuple,
    "APPEND": _Machine._append,
    "APPENDS": _Machine._appends,
    "SETITEM": _Machine._item,
    "SETITEMS": _Machine._items,
    **dict.fromkeys(("GLOBAL", "STACK_GLOBAL"), _Machine._find),
    "NEWOBJ": _Machine._new,
    "BUILD": _Machine._build,
}


def _weight(value):
    """Return about how many bytes a field has. A pickle may name one long text many times."""
    if isinstance(value, (str, bytes)):
        return len(value)
    if isinstance(value, (list, tuple)):
        return len(value) + sum(len(each) for each in value if isinstance(each, (str, bytes)))
    if isinstance(value, dict):
        return sum(
            len(key) + _weight(each) if isinstance(each, (str, bytes)) else len(key) + 1 for key, each in value.items()
        )
    return 1


def _of(kind, value):
    if not isinstance(value, kind):
        raise Refused("a step that does not fit its object")
    return value


def _message(raw):
    if not isinstance(raw, _Raw):
        raise Refused("a pickle of something else than a message")
    return raw.message or Message(raw.kind)


def encode(message):
    """Return the pickle of a message, which only DLRover's client can resolve. Protocol 3 has bytes and no frames."""
    return b"\x80\x03" + _encoded(message) + b"."


def _encoded(value):
    if isinstance(value, Message):
        found = b"c%b\n%b\n)\x81" % (MODULE.encode(), value.kind.encode())
        return found + _encoded(value.fields()) + b"b"
    if value is None or isinstance(value, bool):
        return {None: b"N", True: b"\x88", False: b"\x89"}[value]
    if isinstance(value, int):
        if -(1 << 31) <= value < 1 << 31:
            return b"J" + struct.pack("<i", value)
        digits = value.to_bytes(value.bit_length() // 8 + 1, "little", signed=True)
        return b"\x8a" + bytes([len(digits)]) + digits
    if isinstance(value, float):
        return b"G" + struct.pack(">d", value)
    if isinstance(value, str):
        text = value.encode("utf-8", "surrogatepass")
        return b"X" + struct.pack("<I", len(text)) + text
    if isinstance(value, bytes):
        return b"B" + struct.pack("<I", len(value)) + value
    if isinstance(value, (list, tuple)):
        return b"](" + b"".join(map(_encoded, value)) + b"e"
    return b"}(" + b"".join(_encoded(key) + _encoded(each) for key, each in value.items()) + b"u"
