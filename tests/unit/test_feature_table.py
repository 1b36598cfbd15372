"""The tables beside other schedulers: they are those of their data, and what Grass has is in guide and tests."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from tests.support.feature_table import ROOT, TABLE, features, tables

OWNED = [row for row in features() if row["grass"] != "no"]


def anchors(path: Path) -> set[str]:
    """Return the anchors of the headings, as GitHub makes them."""
    titles = re.findall(r"^#+ (.+)$", path.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).strip().replace(" ", "-") for title in titles}


def test_each_table_is_that_of_its_data() -> None:
    for page, text in tables().items():
        assert TABLE.findall(page.read_text()) == [text], "run `python -m tests.support.feature_table`"


def test_every_row_has_every_column() -> None:
    assert all(
        len(row["others"]) == 4 and all(isinstance(cell, str) and cell for cell in row["others"]) for row in features()
    )


@pytest.mark.parametrize("row", OWNED, ids=lambda row: row["feature"])
def test_what_grass_has_is_in_the_guide_and_has_a_test(row: dict[str, Any]) -> None:
    name, _, anchor = row["grass"]["guide"].partition("#")
    assert (ROOT / name).is_file()
    assert not anchor or anchor in anchors(ROOT / name), f"{row['grass']['guide']}: no such heading"
    module, _, test = row["grass"]["test"].partition("::")
    assert f"def {test}(" in (ROOT / module).read_text(), f"{module} has no {test}"
