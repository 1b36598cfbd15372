"""How many examples a property test tries: few in every run, where they are the same, and many with ``--long``."""

from __future__ import annotations

from typing import Any

from hypothesis import settings

SAME, NEW = "same", "new"
"""Profiles of hypothesis. ``tests/conftest.py`` loads one of them before it imports any test."""


def examples(most: int, **more: Any) -> settings:
    """Return the settings of a property test: ``most`` examples with ``--long``, a quarter of them otherwise."""
    return settings(max_examples=chosen(most), **more)


def chosen(most: int) -> int:
    return most if settings.get_current_profile_name() == NEW else -(-most // 4)
