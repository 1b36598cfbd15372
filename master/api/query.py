"""Parses query parameters by their declaration in the route table, and durations in bodies. Pure.

Used by this package.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from grass.errors import InputError
from grass.manifest.quantities import duration_or_zero
from grass.manifest.values import Wrong
from grass.model.exhaustive import assert_never
from grass.model.names import is_short_id
from master.api.route import Parameter

Query = dict[str, Any]  # Any: each value has the type that the route declares for its parameter
"""The value of every declared parameter, by name; its default, or None, if it was not given."""


def parse_query(declared: Mapping[str, Parameter], given: Mapping[str, str]) -> Query:
    """Parse the parameters. Raises InputError."""
    unknown = sorted(set(given) - set(declared))
    if unknown:
        raise InputError(f"unknown query parameter {unknown[0]!r}")
    return {
        name: _value(name, parameter, given[name]) if name in given else parameter.default
        for name, parameter in declared.items()
    }


def parse_duration(name: str, value: float | str | None) -> float | None:
    """Return seconds from seconds or a duration such as ``1m``. Raises InputError that names the field."""
    try:
        return None if value is None else duration_or_zero(value)
    except Wrong as error:
        raise InputError(f"{name}: {error}") from error


def checked_id(text: str | None) -> str | None:
    """Check the id of a request, which the client chooses so that it can repeat one whose reply was lost. Raises
    InputError."""
    if text is not None and not is_short_id(text):
        raise InputError(f"id: must be 8 hexadecimal digits, got {text!r}")
    return text


def _value(name: str, parameter: Parameter, text: str) -> str | bool | float:
    match parameter.type:
        case "string":
            return text
        case "boolean":
            if text not in ("true", "false"):
                raise InputError(f"query parameter {name}: must be true or false, got {text!r}")
            return text == "true"
        case "integer" | "number":
            return _number(name, parameter, text)
        case _:
            assert_never(parameter.type)


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
