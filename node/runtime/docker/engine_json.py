"""JSON of the engine's API. Used by this package."""

from __future__ import annotations

from typing import Any

Answer = dict[str, Any]  # Any: the types belong to docker, and engines leave fields out
"""The engine's description of a container, an image, a command or itself."""
Request = dict[str, Any]  # Any: as above
"""The body of a request to create something."""
