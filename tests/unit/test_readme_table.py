"""The table of the README beside other schedulers: complete rows, and links to the guide for what Grass has."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SECTION = (ROOT / "README.md").read_text().split("## Beside other schedulers", 1)[1].split("\n## ", 1)[0]
ROWS = [[cell.strip() for cell in line.strip("|").split("|")] for line in SECTION.splitlines() if line.startswith("|")]


def anchors(path: Path) -> set[str]:
    """Return the anchors of the headings, as GitHub makes them."""
    titles = re.findall(r"^#+ (.+)$", path.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).strip().replace(" ", "-") for title in titles}


def test_every_row_has_every_column() -> None:
    assert ROWS[0][1:] == ["Grass", "Slurm", "HyperQueue", "dstack", "submitit"]
    assert all(len(row) == 6 and all(row[1:]) for row in ROWS[2:])


@pytest.mark.parametrize("row", ROWS[2:], ids=lambda row: row[0])
def test_what_grass_has_leads_to_the_guide(row: list[str]) -> None:
    if row[1] == "no":
        return
    (link,) = re.findall(r"\]\(([^)]+)\)", row[1])
    name, _, anchor = link.partition("#")
    assert (ROOT / name).is_file()
    assert not anchor or anchor in anchors(ROOT / name), f"{link}: no such heading"
