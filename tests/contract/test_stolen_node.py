"""Everything of one node in the hands of an attacker, against real servers; compared with docs/security.md."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.stolen_node import PAGE, rows, table, with_table

pytestmark = pytest.mark.needs_redis
_NAMED = {
    ("API", "read its own record"),
    ("share", "read files of all users"),
    ("share", "change files of all users"),
}
"""What it can do. docs/security.md says why, and what to do about the share."""
_CUT_OFF = "cut off and QUARANTINED"


def test_a_stolen_node_harms_only_itself_and_the_documentation_says_what_it_achieved(tmp_path: Path) -> None:
    found = rows(tmp_path)
    harmful = [row for row in found if row[2].startswith("done") and row[:2] not in _NAMED]
    assert harmful == []
    assert len([row for row in found if row[2].startswith(_CUT_OFF)]) == 2
    page = PAGE.read_text()
    assert with_table(page, table(found)) == page, "run `python -m tests.support.stolen_node`"
