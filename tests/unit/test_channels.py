"""What is open on a node: ids that nobody guesses, and that find nothing for anybody but the owner."""

from __future__ import annotations

import pytest

from grass.errors import ConflictError, NotFoundError
from node.api.channels import Channel, Channels, Owner

ANN = Owner("ann", "j-01234567", "w.0")


class Thing:
    """``over``, ``abandoned``: what a session says of itself."""

    def __init__(self) -> None:
        self.over = self.abandoned = False
        self.ended = 0

    def cancel(self) -> None:
        self.ended += 1

    def end(self) -> None:
        self.ended += 1


@pytest.fixture
def opened() -> Channels[Owner, Thing]:
    return Channels("session", 3)


def finished() -> Thing:
    thing = Thing()
    thing.over = thing.abandoned = True
    return thing


def test_what_is_opened_after_one_that_finished_and_was_never_closed_has_an_id_of_its_own(
    opened: Channels[Owner, Thing],
) -> None:
    stale, thing = opened.add(ANN, finished()), Thing()
    fresh = opened.add(ANN, thing)
    assert fresh != stale and opened.get(ANN, fresh) is thing
    with pytest.raises(NotFoundError):
        opened.get(ANN, stale)


@pytest.mark.parametrize(
    "other", [ANN._replace(user="bob"), ANN._replace(job_id="j-76543210"), ANN._replace(task="w.1")]
)
def test_the_right_id_finds_nothing_for_another_user_job_or_task(opened: Channels[Owner, Thing], other: Owner) -> None:
    name, thing = opened.add(ANN, Thing()), opened.add(other, Thing())
    for whose, theirs in ((other, name), (ANN, thing)):
        with pytest.raises(NotFoundError, match="no such session"):
            opened.get(whose, theirs)
        with pytest.raises(NotFoundError, match="no such session"):
            opened.close(whose, theirs)
    assert opened.get(ANN, name).ended == opened.get(other, thing).ended == 0


def test_what_has_ended_stays_until_its_last_output_was_fetched_or_nobody_comes(opened: Channels[Owner, Thing]) -> None:
    thing = Thing()
    name = opened.add(ANN, thing)
    thing.over = True
    opened.add(ANN, Thing())
    assert opened.get(ANN, name) is thing


def test_one_too_many_is_refused_and_ended(opened: Channels[Owner, Thing]) -> None:
    for _ in range(3):
        opened.add(ANN, Thing())
    late = Thing()
    with pytest.raises(ConflictError, match="has 3 sessions open already"):
        opened.add(ANN, late)
    assert late.ended == 1


def test_all_of_a_user_end_and_nothing_of_others(opened: Channels[Owner, Thing]) -> None:
    mine, others = Thing(), Thing()
    opened.add(ANN, mine)
    kept = opened.add(ANN._replace(user="bob"), others)
    opened.cancel(lambda owner: owner.user == "ann")
    assert (mine.ended, others.ended) == (1, 0) and opened.has(kept)


class Kept(Channel[str]):
    """A channel whose output the test puts in."""

    COUNTS_BYTES = True

    def __init__(self) -> None:
        super().__init__(60.0, poll=0.0)
        for source, data in (("a", b"abcd"), ("b", None), ("a", b"ef")):
            self._put(source, data)

    def _put(self, source: str, data: bytes | None) -> None:
        with self._changed:
            super()._put(source, data)

    def _move(self) -> bool:
        return False

    def _release(self) -> None:
        pass


class KeptPieces(Kept):
    COUNTS_BYTES = False


@pytest.mark.parametrize(
    ("kind", "after", "pieces", "following"),
    [
        (Kept, 0, [("a", b"abcd"), ("b", None), ("a", b"ef")], 6),
        (Kept, 3, [("a", b"d"), ("b", None), ("a", b"ef")], 6),
        (Kept, 5, [("a", b"f")], 6),
        (Kept, 9, [], 6),
        (KeptPieces, 1, [("b", None), ("a", b"ef")], 3),
        (KeptPieces, 2, [("a", b"ef")], 3),
        (KeptPieces, 3, [], 3),
    ],
)
def test_output_that_was_received_is_dropped_and_the_rest_comes_again(
    kind: type[Kept], after: int, pieces: list[tuple[str, bytes | None]], following: int
) -> None:
    channel = kind()
    for _ in range(2):
        assert channel.read_after(after) == (pieces, following, False)
    assert channel._waiting == sum(len(data or b"") for _, data in pieces)
    channel._put("b", b"gh")
    assert channel.read_after(following)[0] == [("b", b"gh")]
