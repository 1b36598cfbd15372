"""Packed histories: exact enough, small, and joined over chunks."""

from __future__ import annotations

import binascii
import math
import random
import struct
import tracemalloc
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from grass.errors import UndecodableError
from grass.wire.usage_history import (
    FINE,
    LEVELS,
    MINUTES,
    QUARTERS,
    Chunk,
    field,
    finest,
    join,
    level_of,
    numbers,
    unpack,
)


def test_the_levels_keep_what_is_promised() -> None:
    kept = [(level.step, level.span * (level.kept - 1)) for level in LEVELS]
    assert kept == [(2, 15 * 60), (60, 24 * 3600), (900, 31 * 24 * 3600)]


def test_a_chunk_is_packed_and_unpacked_within_half_a_percent() -> None:
    chunk, at = Chunk(MINUTES, MINUTES.number(7200)), random.Random(1)
    figures = [{"cpu": at.uniform(0, 100), "memory": at.uniform(0, 2**40), "power": 0.0} for _ in range(60)]
    for minute, each in enumerate(figures):
        if minute != 17:
            chunk.put(7200 + 60 * minute, each)
    again = unpack(MINUTES, chunk.number, chunk.pack())
    assert again.values.keys() == {"cpu", "memory", "power"} and again.start == 7200
    for name, values in again.values.items():
        assert math.isnan(values[17])
        for minute, value in enumerate(values):
            assert minute == 17 or value == pytest.approx(figures[minute][name], rel=0.004)


@given(st.lists(st.floats(-(2.0**127), 2.0**127, width=32) | st.just(math.nan), min_size=30, max_size=30))
def test_each_figure_is_rounded_for_itself(figures: list[float]) -> None:
    chunk = Chunk(FINE, 0)
    for point, figure in enumerate(figures):
        chunk.put(2 * point, {"cpu": figure, "load": -figure})
    again = unpack(FINE, 0, chunk.pack()).values
    for name, sign in (("cpu", 1), ("load", -1)):
        for figure, kept in zip(figures, again[name], strict=True):
            assert _upper(sign * figure) == kept or (math.isnan(figure) and math.isnan(kept))


def _upper(figure: float) -> float:
    """Return the nearest float whose lower 16 bits are 0; the one farther from 0, if two are equally near."""
    [word] = struct.unpack("<I", struct.pack("<f", figure))
    [nearest] = struct.unpack("<f", struct.pack("<I", word + 0x8000 & 0xFFFF0000))
    return float(nearest)


def test_a_constant_figure_costs_almost_nothing() -> None:
    chunk = Chunk(QUARTERS, 0)
    for point in range(96):
        chunk.put(900 * point, {"gpu0.memory": 7 << 30})
    assert len(chunk.pack()) < 100


@pytest.mark.parametrize("text", ["", "!!!", "QUJD", Chunk(FINE, 0).pack()[:-6]])
def test_a_damaged_chunk_is_refused(text: str) -> None:
    with pytest.raises(UndecodableError, match="not a chunk"):
        unpack(FINE, 0, text)


def test_a_damaged_chunk_is_named_and_takes_no_more_memory_than_a_chunk_may() -> None:
    bomb = binascii.b2a_base64(zlib.compress(bytes(32 << 20)), newline=False).decode()
    tracemalloc.start()
    try:
        with pytest.raises(UndecodableError, match=r"^not a chunk of a history: 0 bytes of values for 1 names$"):
            unpack(FINE, 0, bomb)
        assert tracemalloc.get_traced_memory()[1] < 8 << 20
    finally:
        tracemalloc.stop()


def test_the_mean_ignores_what_is_unknown() -> None:
    chunk = Chunk(FINE, 0)
    chunk.put(0, {"cpu": 10, "power": 5})
    chunk.put(4, {"cpu": 20})
    assert chunk.mean() == {"cpu": 15, "power": 5} and chunk.mean(1, 2) == {"cpu": 20} and chunk.mean(3, 9) == {}


def test_chunks_are_joined_to_curves() -> None:
    first, second = Chunk(FINE, 10), Chunk(FINE, 12)
    first.put(658, {"cpu": 1})
    second.put(720, {"cpu": 2, "power": 9})
    start, curves = join(FINE, [first, second], 657, 723)
    assert start == 656 and len(curves["cpu"]) == len(curves["power"]) == 34
    assert [(index, value) for index, value in enumerate(curves["cpu"]) if value == value] == [(1, 1), (32, 2)]
    assert join(FINE, [], 100, 90) == (100, {})


def test_no_more_chunks_are_asked_for_than_are_kept() -> None:
    assert len(numbers(FINE, 0, 1e9)) == FINE.kept and numbers(MINUTES, 3599, 3600) == [0, 1]


def test_the_level_is_the_coarsest_that_is_fine_enough() -> None:
    assert [level_of(step).step for step in (0.1, 2, 59, 60, 899, 900, 1e9)] == [2, 2, 2, 60, 60, 900, 900]
    assert field(FINE, 3) == "2/3" and field(MINUTES, 4, "a.0") == "a.0/60/4"


def test_what_is_old_is_read_at_the_finest_level_that_still_has_it() -> None:
    assert [level.reach for level in LEVELS] == [15 * 60, 24 * 3600, 31 * 24 * 3600]
    ages = (0, 900, 901, 86_400, 86_401, 2_678_400, 9e9)
    assert [finest(age) for age in ages] == [FINE, FINE, MINUTES, MINUTES, QUARTERS, QUARTERS, QUARTERS]
