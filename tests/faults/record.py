"""The last run as data. A run of some cells replaces these and keeps the others."""

from __future__ import annotations

import json
import os
import platform
import subprocess
from dataclasses import asdict, dataclass
from pathlib import Path

from tests.faults.promise import Found

PATH = Path(__file__).with_name("last_run.json")
LONGEST = 300


@dataclass(frozen=True)
class Result:
    """What a cell came to. ``wrong``: what of its promise was broken; ``calls``: what an open call said at its end."""

    date: str
    commit: str
    healed: float
    again: int
    missing: int
    calls: str
    wrong: tuple[str, ...]


def result(found: Found, wrong: list[str], date: str, commit: str) -> Result:
    texts = tuple(each[:LONGEST] for each in wrong)
    return Result(date, commit, round(found.healed, 1), found.again, found.missing, found.calls[:LONGEST], texts)


def load() -> dict[str, Result]:
    """Return ``FAULT/STATE`` → its last result."""
    if not PATH.exists():
        return {}
    cells = json.loads(PATH.read_text())["cells"]
    return {cell: Result(**{**each, "wrong": tuple(each["wrong"])}) for cell, each in cells.items()}


def save(new: dict[str, Result]) -> None:
    cells = {**load(), **new}
    content = {"machine": machine(), "cells": {cell: asdict(cells[cell]) for cell in sorted(cells)}}
    PATH.write_text(json.dumps(content, indent=1, ensure_ascii=False) + "\n")


def commit() -> str:
    command = ["git", "rev-parse", "--short=8", "HEAD"]
    return subprocess.run(command, cwd=PATH.parent, capture_output=True, text=True, check=True).stdout.strip()


def machine() -> str:
    return f"{os.cpu_count()} cores, Linux {platform.release().partition('-')[0]}"
