"""Query parameters by their declaration in the route table."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from grass.errors import InputError
from master.api.routes import Parameter


def parse_query(declared: Mapping[str, Parameter], given: Mapping[str, str]) -> dict[str, Any]:
    """Every declared name with its value, default or None. Raises InputError."""
    unknown = sorted(set(given) - set(declared))
    if unknown:
        raise InputError(f"unknown query parameter {unknown[0]!r}")
    return {
        name: _value(name, parameter, given[name]) if name in given else parameter.default
        for name, parameter in declared.items()
    }


def _value(name: str, parameter: Parameter, text: str) -> str | bool | float:
    match parameter.type:
        case "string":
            return text
        case "boolean":
            if text not in ("true", "false"):
                raise InputError(f"query parameter {name}: must be true or false, got {text!r}")
            return text == "true"
        case _:
            return _number(name, parameter, text)


def _number(name: str, parameter: Parameter, text: str) -> float:
    try:
        value = int(text) if parameter.type == "integer" else float(text)
    except ValueError:
        raise InputError(f"query parameter {name}: must be a {parameter.type}, got {text!r}") from None
    low = -math.inf if parameter.minimum is None else parameter.minimum
    high = math.inf if parameter.maximum is None else parameter.maximum
    if not low <= value <= high:
        raise InputError(f"query parameter {name}: must be between {low:g} and {high:g}, got {text}")
    return value
