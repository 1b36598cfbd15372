"""Each row of the tables of docs/security.md is held by a test that exists, and the page names it."""

from __future__ import annotations

import pytest

from tests.support.security_claims import CLAIMS, PAGE, ROOT, claimed, with_text


def test_each_row_that_claims_something_names_a_test() -> None:
    rows = claimed(PAGE.read_text())
    assert len(rows) > 20
    assert [row for row in rows if row not in CLAIMS] == []
    assert [row for row in CLAIMS if row not in rows] == []
    assert [row for row, held in CLAIMS.items() if not held.after] == [], "what opens after a fault does not hold"


@pytest.mark.parametrize("test", sorted({test for held in CLAIMS.values() for test in (*held.tests, *held.after)}))
def test_each_test_that_is_named_exists(test: str) -> None:
    module, _, name = test.partition("::")
    assert f"def {name}(" in (ROOT / module).read_text()


def test_the_page_names_them() -> None:
    page = PAGE.read_text()
    assert with_text(page) == page, "run `python -m tests.support.security_claims`"
