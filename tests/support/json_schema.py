"""As much of JSON Schema as the API's own schemas use. An unknown keyword is an error, so nothing goes unchecked."""

from __future__ import annotations

from typing import Any

_TYPES: dict[str, Any] = {
    "string": str,
    "number": (int, float),
    "integer": int,
    "boolean": bool,
    "object": dict,
    "array": list,
    "null": type(None),
}
_KNOWN = {"type", "properties", "required", "additionalProperties", "enum", "items", "prefixItems", "oneOf", "$ref"}


def faults(value: Any, schema: dict[str, Any], schemas: dict[str, Any], path: str = "$") -> list[str]:
    """What is wrong with ``value``, each with its path."""
    unknown = schema.keys() - _KNOWN - {"description", "default"}
    if unknown:
        raise ValueError(f"{path}: keywords {unknown} are not checked")
    if "$ref" in schema:
        return faults(value, schemas[schema["$ref"].rpartition("/")[2]], schemas, path)
    if "oneOf" in schema:
        ways = [faults(value, way, schemas, path) for way in schema["oneOf"]]
        return [] if sum(not way for way in ways) == 1 else [f"{path}: fits not exactly one: {ways}"]
    if "type" in schema and not _is(value, schema["type"]):
        return [f"{path}: {value!r} is no {schema['type']}"]
    if "enum" in schema and value not in schema["enum"]:
        return [f"{path}: {value!r} is not among {schema['enum']}"]
    if isinstance(value, dict):
        return _object_faults(value, schema, schemas, path)
    return _list_faults(value, schema, schemas, path) if isinstance(value, list) else []


def _is(value: Any, types: str | list[str]) -> bool:
    names = [types] if isinstance(types, str) else types
    return any(isinstance(value, _TYPES[name]) and (name == "boolean" or not isinstance(value, bool)) for name in names)


def _object_faults(value: dict[str, Any], schema: dict[str, Any], schemas: dict[str, Any], path: str) -> list[str]:
    found = [f"{path}: {name} is missing" for name in schema.get("required", []) if name not in value]
    for name, part in value.items():
        known = schema.get("properties", {}).get(name, schema.get("additionalProperties", True))
        if known is False:
            found.append(f"{path}: {name} is unknown")
        elif isinstance(known, dict):
            found += faults(part, known, schemas, f"{path}.{name}")
    return found


def _list_faults(value: list[Any], schema: dict[str, Any], schemas: dict[str, Any], path: str) -> list[str]:
    parts = schema.get("prefixItems", [])
    found = [f"{path}: {len(value)} items, not {len(parts)}"] if parts and len(parts) != len(value) else []
    for index, part in enumerate(value):
        rule = parts[index] if index < len(parts) else schema.get("items", {})
        found += faults(part, rule, schemas, f"{path}[{index}]")
    return found
