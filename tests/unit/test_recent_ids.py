from __future__ import annotations

from master.api.recent_ids import KEEP_SECONDS, RecentIds


def test_an_id_is_new_once() -> None:
    seen = RecentIds(0.0)
    assert [seen.first_sight(name, 1.0) for name in ("a", "a", "b", "b")] == [True, False, True, False]


def test_an_id_is_remembered_for_as_long_as_a_request_can_be_fresh() -> None:
    for first in (0.0, KEEP_SECONDS * 0.99, KEEP_SECONDS + 1):
        seen = RecentIds(0.0)
        assert seen.first_sight("a", first)
        for step in range(100):
            assert not seen.first_sight("a", first + step / 100 * KEEP_SECONDS)


def test_ids_are_forgotten_in_the_end() -> None:
    seen = RecentIds(0.0)
    for number in range(1000):
        assert seen.first_sight("a" if number == 0 else str(number), number * 1.0)
    assert seen.first_sight("a", 1000.0)
    assert len(seen._new) + len(seen._old) < 3 * KEEP_SECONDS
