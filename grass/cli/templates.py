"""The commented example files that `grass template` writes. Tests parse each file, so the examples stay valid.

Used by ``template`` and ``values``.
"""

from __future__ import annotations

from importlib import resources
from typing import Any

from grass.errors import NotFoundError

_SUFFIX = ".yml"


def names() -> tuple[str, ...]:
    found = (entry.name for entry in _folder().iterdir())
    return tuple(sorted(name[: -len(_SUFFIX)] for name in found if name.endswith(_SUFFIX)))


def text(name: str) -> str:
    """Return the shipped template. NotFoundError names the templates that exist."""
    if name not in names():
        raise NotFoundError(f"unknown template '{name}'; use one of {', '.join(names())}")
    return str(_folder().joinpath(name + _SUFFIX).read_text(encoding="utf-8"))


def _folder() -> Any:
    return resources.files("grass.assets").joinpath("templates")
