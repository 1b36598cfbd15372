"""Reads the environment of a container, and expands ``$(NAME)`` as Kubernetes does. Used by ``pod``."""

from __future__ import annotations

import re
from collections.abc import Mapping

from grass.manifest import values
from grass.manifest.fields import Fields

_REFERENCE = re.compile(r"\$\$|\$\(([A-Za-z_][A-Za-z0-9_]*)\)")
_INSTEAD = {
    "metadata.name": "GRASS_TASK",
    "spec.nodeName": "GRASS_NODE",
    "status.podIP": "GRASS_ADDRESSES",
    "status.hostIP": "GRASS_ADDRESSES",
    "metadata.labels['job-name']": "GRASS_JOB",
}
"""Field of a pod → the variable or file of Grass that has the same value."""


def read_env(fields: Fields) -> dict[str, str]:
    """Read ``env``. A value may refer to the variables before it."""
    env: dict[str, str] = {}
    for path, item in fields.items("env"):
        entry = Fields(item, path, fields.problems, lenient=True)
        name = entry.require("name", values.text, "")
        value = entry.read("value", values.scalar_text, "")
        if entry.has("valueFrom"):
            _refuse_source(entry)
        entry.done()
        if fields.parsed(entry.at("name"), values.variable_name, name, "") if name else "":
            env[name] = expand(value, env)
    return env


def _refuse_source(entry: Fields) -> None:
    source = entry.section("valueFrom")
    kind, content = next(iter(source.entries()), ("", None)) if source is not None else ("", None)
    path = entry.at("valueFrom")
    if kind == "fieldRef" and isinstance(content, dict):
        field = str(content.get("fieldPath", ""))
        instead = f"use {_INSTEAD[field]}, which Grass sets in each task" if field in _INSTEAD else "a task has none"
        entry.problems.add(f"{path}.fieldRef", f"is not supported; {instead}")
        return
    entry.problems.add(
        f"{path}.{kind}" if kind else path, "is not supported; the cluster has no such store; set `value`"
    )


def expand(text: str, env: Mapping[str, str]) -> str:
    """Replace ``$(NAME)`` by the variable; an unknown name stays as it is, and ``$$`` is a dollar sign."""
    return _REFERENCE.sub(lambda found: "$" if found[1] is None else env.get(found[1], found[0]), text)
