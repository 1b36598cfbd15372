"""The engine's own JSON. Its fields are those of docker's API, of which engines leave some out: no types of ours."""

from __future__ import annotations

from typing import Any

Answer = dict[str, Any]
"""What the engine says of a container, an image, a command or itself."""
Request = dict[str, Any]
"""What it is asked to make."""
