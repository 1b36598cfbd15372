"""The Lua scripts that run in redis, and what ``RedisBackend`` sends to them. Pure.

``APPLY`` is the one step by which Grass changes several keys: it checks the guards, then writes, and nothing comes
between (docs/adr/0004-store-steps.md).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgpack

from grass.store.backend import Guard, Op

APPLY = """
local step = cmsgpack.unpack(ARGV[1])
for i, guard in ipairs(step[1]) do
  local kind, key, value = guard[1], guard[2], guard[3]
  if kind == 'equals' then
    if redis.call('GET', key) ~= value then return i end
  elseif kind == 'below' then
    if tonumber(redis.call('GET', key) or '0') >= tonumber(value) then return i end
  elseif kind == 'no-field' then
    if redis.call('HEXISTS', key, value) == 1 then return i end
  elseif kind == 'no-key' then
    if redis.call('EXISTS', key) == 1 then return i end
  end
end
for _, op in ipairs(step[2]) do
  if op[1] == 'XADD' then
    if op[3] == 0 then
      redis.call('XADD', op[2], '*', unpack(op, 4))
    else
      redis.call('XADD', op[2], 'MAXLEN', '~', op[3], '*', unpack(op, 4))
    end
  elseif op[1] == 'HSWAP' then
    if redis.call('HGET', op[2], op[3]) == op[4] then
      if op[5] == '' then redis.call('HDEL', op[2], op[3]) else redis.call('HSET', op[2], op[3], op[5]) end
    end
  else
    redis.call(unpack(op))
  end
end
return 0
"""

SIZES = """
local found = {}
for i, key in ipairs(KEYS) do
  local entries = redis.call('XLEN', key)
  found[#found + 1] = entries
  found[#found + 1] = entries > 0 and redis.call('MEMORY', 'USAGE', key) or 0
end
return found
"""

_MOST_ARGUMENTS = 2_000
"""Lua cannot unpack much longer lists; longer writes are split into several of the same step."""


def packed_step(ops: list[Op], guards: list[Guard]) -> bytes:
    """Return the argument of ``APPLY``."""
    packed: bytes = msgpack.packb([guards, list(_bounded(ops))])
    return packed


def command_of(op: Op) -> tuple[Any, ...]:
    """Return the command of an XADD or XDEL as the script writes it."""
    if op[0] != "XADD":
        return op
    _, key, limit, *pairs = op
    return ("XADD", key, *(("MAXLEN", "~", limit) if limit else ()), "*", *pairs)


def _bounded(ops: list[Op]) -> Iterator[Op]:
    for op in ops:
        if len(op) <= _MOST_ARGUMENTS or op[0] not in ("HSET", "HDEL", "XDEL"):
            yield op
            continue
        head, rest = op[:2], op[2:]
        for start in range(0, len(rest), _MOST_ARGUMENTS):
            yield head + rest[start : start + _MOST_ARGUMENTS]
