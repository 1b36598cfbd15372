"""The type of what the client returns and commands show. Used by this package."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

View = Mapping[str, Any]  # Any: JSON of the API; the types are in grass.wire.views and the modules beside it
