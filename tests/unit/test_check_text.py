"""How checks of nodes are shown, and compared with the node's own past."""

from __future__ import annotations

from grass.cli.check_text import check_facts, checked
from grass.wire.checks import CheckedView, NodeCheck, NodeVerdict


def check(at: float, state: str = "good", matrix: float = 0.01, **verdict: object) -> NodeCheck:
    found = NodeVerdict("a", state, **verdict)  # type: ignore[arg-type]
    return NodeCheck(at=at, user="root", level=1, verdict=found, times={"matrix": matrix})


def test_the_table_says_what_is_wrong_and_what_cannot_be_told() -> None:
    bad = check(9.0, "bad", fault="gpu", devices=(0, 2), evidence=("gpu 0: 2 ECC errors", "gpu 2: XID 79"))
    view = CheckedView((bad,), ("link(a, b): a and b: no answer within 8 s",), ("cannot tell, needs a witness: …",))
    assert checked(view, None, None) == [
        "NODE  VERDICT        MEASURED      EVIDENCE",
        "a     bad: gpu 0, 2  matrix 10 ms  gpu 0: 2 ECC errors; gpu 2: XID 79",
        "",
        "link(a, b): a and b: no answer within 8 s",
        "",
        "cannot tell, needs a witness: …",
    ]


def test_a_check_is_compared_with_earlier_good_ones_of_the_same_node() -> None:
    past = [check(3.0, "bad", 9.0), check(2.0, matrix=0.01), check(1.0, matrix=0.012)]
    lines = checked(CheckedView((check(9.0, matrix=0.02),), (), ()), {"a": past}, None)
    assert lines[3:] == [
        "NODE  MEASURED    NOW  BEFORE",
        "a     matrix    20 ms   10 ms  median of 2 good checks; 2.0 times slower than its own past",
    ]
    assert checked(CheckedView((check(9.0),), (), ()), {"a": []}, None)[-1] == "no earlier good check to compare with"


def test_the_page_of_a_node_has_its_newest_check() -> None:
    assert list(check_facts(None, 70.0)) == []
    found = check(10.0, "bad", fault="host", evidence=("its disk is full",))
    assert list(check_facts(found, 70.0)) == [
        ("Checked", "1m ago at level 1 by root: bad: host"),
        ("Evidence", "its disk is full"),
        ("Measured", "matrix 10 ms"),
    ]
