"""Renders the tables beside other schedulers from ``docs/features.yml``: some rows for the README, all for a page.

``python -m tests.support.feature_table`` writes them. ``test_feature_table`` compares.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "docs" / "features.yml"
README = ROOT / "README.md"
PAGE = ROOT / "docs" / "comparison.md"
HEAD = ("| | Grass | Slurm | HyperQueue | dstack | submitit |", "|---|---|---|---|---|---|")
TABLE = re.compile(rf"^{re.escape(HEAD[0])}\n(?:\|.*\n)+", re.MULTILINE)


def features() -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = yaml.safe_load(SOURCE.read_text())
    return rows


def tables() -> dict[Path, str]:
    """Return the table of each page."""
    rows = features()
    return {README: table([row for row in rows if row.get("first")], ""), PAGE: table(rows, "docs/")}


def table(rows: list[dict[str, Any]], folder: str) -> str:
    """Return the table in a page that is in ``folder``."""
    return "\n".join([*HEAD, *(_line(row, folder) for row in rows)]) + "\n"


def _line(row: dict[str, Any], folder: str) -> str:
    own = row["grass"]
    shown = own if isinstance(own, str) else f"[{own['words']}]({own['guide'].removeprefix(folder)})"
    return f"| {' | '.join([row['feature'], shown, *row['others']])} |"


def main() -> None:
    for page, text in tables().items():
        before = page.read_text()
        page.write_text(before.replace(TABLE.findall(before)[0], text))


if __name__ == "__main__":
    main()
