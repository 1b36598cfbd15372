"""JSON of the engine's API. Untyped (Any), because the types belong to docker and engines leave fields out."""

from __future__ import annotations

from typing import Any

Answer = dict[str, Any]
"""The engine's description of a container, an image, a command or itself."""
Request = dict[str, Any]
"""The body of a request to create something."""
