"""Keys of a foreign file that do not apply here: each kind becomes one warning, with the paths where it was found.

Used by this package.
"""

from __future__ import annotations

from collections.abc import Mapping

from grass.manifest.fields import Fields

_SHOWN = 4
"""Paths that one warning names; it counts the others."""


class Notes:
    """The warnings about one file."""

    def __init__(self) -> None:
        self._found: dict[str, list[str]] = {}

    def add(self, path: str, why: str) -> None:
        """Note that the value at ``path`` does not apply. Equal ``why`` become one warning."""
        paths = self._found.setdefault(why, [])
        if path not in paths:
            paths.append(path)

    def ignore(self, fields: Fields, reasons: Mapping[str, str]) -> None:
        """Note each key of ``fields`` that is in ``reasons`` (key → why it does not apply)."""
        for key, why in reasons.items():
            if fields.has(key):
                self.add(fields.at(key), why)

    def lines(self) -> list[str]:
        """Return the warnings, in the order in which they were found."""
        return [f"{_shown(paths)}: {why}" for why, paths in self._found.items()]


def refuse(fields: Fields, reasons: Mapping[str, str]) -> None:
    """Report each key of ``fields`` that is in ``reasons`` (key → why the job would mean something else without it)."""
    for key, why in reasons.items():
        if fields.has(key):
            fields.refuse(key, why)


def _shown(paths: list[str]) -> str:
    more = len(paths) - _SHOWN
    return ", ".join(paths[:_SHOWN]) + (f" and {more} more" if more > 0 else "")
