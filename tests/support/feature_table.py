"""Renders the README's table beside other schedulers from ``docs/features.yml``.

``python -m tests.support.feature_table`` writes it into the README. ``test_readme_table`` compares the two.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "docs" / "features.yml"
README = ROOT / "README.md"
HEAD = ("| | Grass | Slurm | HyperQueue | dstack | submitit |", "|---|---|---|---|---|---|")
AFTER = "\n## What it survives"


def features() -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = yaml.safe_load(SOURCE.read_text())
    return rows


def table() -> str:
    return "\n".join([*HEAD, *map(_line, features())]) + "\n"


def _line(row: dict[str, Any]) -> str:
    own = row["grass"]
    shown = own if isinstance(own, str) else f"[{own['words']}]({own['guide']})"
    return f"| {' | '.join([row['feature'], shown, *row['others']])} |"


def main() -> None:
    text = README.read_text()
    begin = text.index(HEAD[0])
    README.write_text(text[:begin] + table() + text[text.index(AFTER, begin) :])


if __name__ == "__main__":
    main()
