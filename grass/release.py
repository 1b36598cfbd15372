"""The version of this Grass. Apart from ``grass``, so that modules of every layer may name it. Used by all packages."""

from __future__ import annotations

__version__ = "0.1.0"
