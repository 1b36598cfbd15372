"""Which connection is closed for the next one, of those that have proved nothing yet."""

from __future__ import annotations

from grass.serving.newcomers import Newcomers
from grass.store.accounts import LOGIN_SECONDS, MOST_STRANGERS, strangers


def filled(**counts: int) -> Newcomers[str]:
    found: Newcomers[str] = Newcomers(most=10, of_address=4)
    for address, count in counts.items():
        for number in range(count):
            found.add(address, f"{address}{number}")
    return found


def test_the_oldest_of_an_address_that_has_too_many_is_closed():
    newcomers = filled(a=4, b=1)
    assert newcomers.to_close("a") == "a0"
    newcomers.remove("a0")
    assert newcomers.to_close("a") is newcomers.to_close("c") is None


def test_of_too_many_in_all_the_address_with_the_most_pays():
    newcomers = filled(b=3, a=4, c=3)
    assert newcomers.to_close("d") == "a0"
    assert filled(a=3).to_close("b", others=7) == "a0"
    assert filled().to_close("b", others=10) is None


def test_what_was_removed_does_not_count_and_may_be_removed_again():
    newcomers = filled(a=4, b=4)
    for _ in range(2):
        newcomers.remove("a3")
    assert (len(newcomers), newcomers.to_close("a")) == (7, None)


def client(number: int, user: str, age: int) -> dict[str, str]:
    return {"id": str(number), "user": user, "age": str(age), "idle": "0"}


def test_connections_to_redis_that_do_not_log_in_are_closed_by_age_also_when_they_are_not_idle():
    clients = [client(1, "default", LOGIN_SECONDS + 1), client(2, "default", LOGIN_SECONDS), client(3, "agent", 99)]
    assert strangers(clients) == ["1"]


def test_too_many_connections_to_redis_that_do_not_log_in_are_closed_at_once_the_oldest_first():
    clients = [client(number, "default", number % 3) for number in range(MOST_STRANGERS + 30)]
    closed = strangers(clients)
    assert len(closed) == 30
    assert {number % 3 for number in map(int, closed)} == {2}
