"""The rule on untyped data: what the parts say to each other has a type, and each exception gives its reason."""

from __future__ import annotations

from pathlib import Path

import pytest

MOST = 40
"""Lines with one of these types. Prefer a type of ``grass.wire`` or a dataclass to a higher number."""
SOURCES = Path(__file__).parents[2]
UNTYPED = ("dict[str, Any]", "Mapping[str, Any]")


def untyped(text: str) -> list[str]:
    return [line.strip() for line in text.splitlines() if any(each in line for each in UNTYPED)]


def without_reason(text: str) -> list[str]:
    return [line for line in untyped(text) if "  # Any: " not in line]


def sources() -> dict[Path, str]:
    found = [path for package in ("grass", "master", "node") for path in (SOURCES / package).rglob("*.py")]
    return {path.relative_to(SOURCES): path.read_text() for path in found}


def test_untyped_data_is_rare_and_each_line_gives_its_reason() -> None:
    texts = sources()
    assert texts
    assert [f"{path}: {line}" for path, text in texts.items() for line in without_reason(text)] == []
    assert sum(len(untyped(text)) for text in texts.values()) <= MOST


@pytest.mark.parametrize(
    ("line", "faults"),
    [
        ("View = dict[str, Any]  # Any: plain data for users' programs", 0),
        ("View = dict[str, Any]", 1),
        ("def read(body: dict[str, Any]) -> None:  # unchecked", 1),
        ("View = dict[str, int]", 0),
        ("View = Mapping[str, Any]", 1),
    ],
)
def test_a_line_without_a_reason_is_found(line: str, faults: int) -> None:
    assert len(without_reason(line)) == faults
