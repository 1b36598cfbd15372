"""When silence is too long: the pure part of the watchdog; and the ends that it notes."""

from __future__ import annotations

from pathlib import Path

from grass.supervision.daemon_ends import MOST, note, noted
from grass.supervision.watchdog import TICK, SignsOfLife
from grass.wire.daemon_end import DaemonEnd, sentence


def looks(signs: SignsOfLife, start: float, end: float, pids: dict[str, int]) -> list[str]:
    """Looks every 5 s from ``start`` to ``end``; returns what was overdue at the last."""
    found: list[str] = []
    now = start
    while now <= end:
        found = signs.overdue(pids, now)
        now += TICK
    return found


def test_a_daemon_that_goes_silent_is_overdue_after_the_limit_and_not_before() -> None:
    signs = SignsOfLife(limit=40)
    signs.heard("collector", 7, 0.0)
    assert looks(signs, 0, 40, {"collector": 7}) == []
    assert looks(signs, 45, 45, {"collector": 7}) == ["collector"]


def test_one_that_is_heard_is_never_overdue() -> None:
    signs = SignsOfLife(limit=40)
    for now in range(0, 400, 5):
        signs.heard("collector", 7, float(now))
        assert signs.overdue({"collector": 7, "redis": 8}, float(now)) == []


def test_the_next_process_of_that_name_has_its_own_time() -> None:
    signs = SignsOfLife(limit=40)
    signs.heard("collector", 7, 0.0)
    assert looks(signs, 0, 100, {"collector": 9}) == []


def test_after_a_machine_slept_nobody_is_overdue_at_once() -> None:
    signs = SignsOfLife(limit=40)
    signs.heard("collector", 7, 0.0)
    looks(signs, 0, 20, {"collector": 7})
    assert signs.overdue({"collector": 7}, 8 * 3600.0) == []
    assert looks(signs, 8 * 3600.0 + TICK, 8 * 3600.0 + 60, {"collector": 7}) == ["collector"]


def test_ends_of_daemons_are_kept_in_order_until_they_are_told(tmp_path: Path) -> None:
    for number, code in enumerate((-9, 70)):
        note(tmp_path, DaemonEnd(daemon="monitor", pid=7 + number, time=1000.0 + number, code=code))
    note(tmp_path, DaemonEnd(daemon="monitor", pid=6, time=999.0, code=-9, hung=True))
    (tmp_path / "ends" / "0.json").write_text("{")
    assert [sentence(end) for _, end in noted(tmp_path)] == [
        "monitor: killed, because it gave no sign of life (pid 6); it is started again",
        "monitor: ended by signal SIGKILL (pid 7); it is started again",
        "monitor: ended by itself, exit code 70 (pid 8); it is started again",
    ]
    assert not (tmp_path / "ends" / "0.json").exists()


def test_ends_that_nobody_takes_are_bounded(tmp_path: Path) -> None:
    (tmp_path / "ends").mkdir()
    for number in range(MOST):
        (tmp_path / "ends" / f"{number}.json").touch()
    note(tmp_path, DaemonEnd(daemon="monitor", pid=7, time=1000.0, code=-9))
    assert len(list((tmp_path / "ends").iterdir())) == MOST


def test_an_end_that_cannot_be_read_hides_no_other(tmp_path: Path) -> None:
    note(tmp_path, DaemonEnd(daemon="monitor", pid=7, time=1000.0, code=70))
    (tmp_path / "ends" / "0.json").mkdir()
    (tmp_path / "ends" / "1.end").symlink_to("1.end")
    assert [end.pid for _, end in noted(tmp_path)] == [7]
