"""Ids of requests, operations and what is open on a node: made and checked in one place each."""

from __future__ import annotations

import pytest

from grass.model.key_text import opened_name, opened_parts
from grass.model.names import is_request_id, is_run_of, is_session_id, is_short_id
from grass.system import entropy


def test_ids_that_grass_makes_pass_their_own_checks() -> None:
    assert is_run_of(entropy.run_id("sim-1"), "sim-1")
    assert is_short_id(entropy.operation_id())
    assert is_request_id(entropy.request_id()) and is_session_id(entropy.request_id())


@pytest.mark.parametrize("text", ["", "0123456", "012345678", "0123456G", "01234567\n", "ABCDEF01"])
def test_what_is_not_eight_hexadecimal_digits_is_no_short_id(text: str) -> None:
    assert not is_short_id(text) and not is_run_of(f"sim-{text}", "sim")


def test_a_run_of_another_job_is_told_apart() -> None:
    assert not is_run_of("sim-1-01234567", "sim")
    assert not is_run_of("sim01234567", "sim")


def test_the_name_of_what_is_open_on_a_node_is_taken_apart_again() -> None:
    assert opened_parts(opened_name("n1.rack-2", "abcdefgh_-12")) == ("n1.rack-2", "abcdefgh_-12")


@pytest.mark.parametrize(
    "text", ["n1", "n1:", ":abcdefgh", "n1:short", "n1:abcdefgh:x", "../n1:abcdefgh", "n1:../abcdef"]
)
def test_what_names_nothing_on_a_node_is_refused(text: str) -> None:
    assert opened_parts(text) is None
