"""Reads placement constraints in native files: labels, topology, gangs, policies.

``placement_checks`` finds contradictions between the constraints. Used by this package, ``grass.cli`` and
``grass.manifest.foreign``.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from grass.manifest import values
from grass.manifest.fields import Fields
from grass.manifest.values import Wrong, show
from grass.model.amounts import BUILT_IN
from grass.model.job import NODE_LEVEL, Policy
from grass.model.machine_labels import TOPOLOGY
from grass.model.names import LABEL_RULE, MAX_NAME, MAX_TOPOLOGY_LEVELS, is_label_name, is_topology_path

MAX_ITEMS = 1000
"""Most nodes, components or label values in one list: the planner compares each item with each node."""


def label_name(value: Any) -> str:
    if not is_label_name(value):
        raise Wrong(f"a label must be made of at most {MAX_NAME} {LABEL_RULE}; got {show(value)}")
    return str(value)


def label_value(value: Any) -> str:
    text = values.scalar_text(value)
    if not text.strip() or len(text) > 255:
        raise Wrong(f"must have 1 to 255 characters, got {show(value)}")
    return text


def level(value: Any) -> int:
    """Parse ``node``, or a level of the topology path: level 1 is ``rack1`` in ``rack1/switch3``."""
    if value == "node":
        return NODE_LEVEL
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= MAX_TOPOLOGY_LEVELS:
        raise Wrong(f"must be node, or a level of the topology from 1 to {MAX_TOPOLOGY_LEVELS}; got {show(value)}")
    return value


def one_word(words: tuple[str, ...]) -> Callable[[Any], str]:
    def parse(value: Any) -> str:
        if isinstance(value, str) and value in words:
            return value
        raise Wrong(f"must be one of {', '.join(words)}; got {show(value)}")

    return parse


def read_where(fields: Fields) -> dict[str, tuple[str, ...]]:
    """Return label → values; a node must have one of the values."""
    return {
        name: _wanted(fields, path, content)
        for path, name, content in fields.named("where")
        if fields.parsed(path, label_name, name, "")
    }


def _wanted(fields: Fields, path: str, content: Any) -> tuple[str, ...]:
    if not isinstance(content, (list, tuple)):
        return (fields.parsed(path, label_value, content, ""),)
    if not content:
        fields.problems.add(path, "must not be empty; no node could match it")
    return different(fields, path, content, label_value)


def read_avoid(fields: Fields) -> tuple[str, ...]:
    """Return names of nodes, from a list or from one name."""
    content = fields.raw("avoid")
    if isinstance(content, (list, tuple)):
        return different(fields, fields.at("avoid"), content, values.name)
    name = fields.read("avoid", values.name, "")
    return (name,) if name else ()


def different(fields: Fields, path: str, content: Any, parse: Callable[[Any], str]) -> tuple[str, ...]:
    """Return the parsed items of a list. Report duplicate items and a list that is too long."""
    if len(content) > MAX_ITEMS:
        fields.problems.add(path, f"must have at most {MAX_ITEMS:,} items, got {len(content):,}")
        return ()
    found: dict[str, None] = {}
    for index, item in enumerate(content):
        text = fields.parsed(f"{path}[{index}]", parse, item, "")
        if text in found:
            fields.problems.add(f"{path}[{index}]", f"`{text}` is named twice")
        elif text:
            found[text] = None
    return tuple(found)


def read_gang(fields: Fields, components: tuple[str, ...]) -> tuple[str, ...]:
    """Read ``true`` (all components), ``false``, or a list of components."""
    content = fields.raw("gang")
    if not isinstance(content, (list, tuple)):
        return components if fields.read("gang", _truth_or_list, False) else ()
    if not content:
        fields.problems.add(fields.at("gang"), "must not be empty; `true` means all components")
    return different(fields, fields.at("gang"), content, values.component_name)


def _truth_or_list(value: Any) -> bool:
    if not isinstance(value, bool):
        raise Wrong(f"must be true, false or a list of components, got {show(value)}")
    return value


def read_place(fields: Fields) -> tuple[Policy, str]:
    """Read policy and metric: ``best-fit``, or ``{policy: single-metric-balanced, metric: gpu}``."""
    policy = values.one_of(Policy)
    if isinstance(fields.raw("place"), str):
        chosen = fields.read("place", policy, Policy.BEST_FIT)
        if chosen is not Policy.BEST_FIT:
            _no_metric(fields, fields.at("place"), chosen)
        return chosen, "cpu"
    with fields.within("place") as section:
        chosen = section.require("policy", policy, Policy.BEST_FIT)
        metric = section.read("metric", one_word(tuple(BUILT_IN)), "cpu")
        if chosen is Policy.BEST_FIT and section.has("metric") and section.has("policy"):
            section.problems.add(section.at("metric"), "requires a single-metric policy; best-fit uses all resources")
        if chosen is not Policy.BEST_FIT and not section.has("metric"):
            _no_metric(fields, section.at("metric"), chosen)
    return chosen, metric


def _no_metric(fields: Fields, path: str, policy: Policy) -> None:
    example = f"{{policy: {policy.value}, metric: cpu}}"
    fields.problems.add(path, f"needs a metric ({', '.join(BUILT_IN)}), as in {example}")


def topology(value: Any) -> tuple[str, ...]:
    """Parse a node's path, from the outside in: ``rack1/switch3``, or a list of its parts."""
    parts = value if isinstance(value, (list, tuple)) and value else values.text(value).split("/")
    if len(parts) > MAX_TOPOLOGY_LEVELS:
        raise Wrong(f"must have at most {MAX_TOPOLOGY_LEVELS} parts, got {len(parts)}")
    if not is_topology_path(parts):
        raise Wrong(f"must be names separated by /, such as rack1/switch3; got {show(value)}")
    return tuple(parts)


def node_label(name: str, value: Any) -> str:
    """Parse the value of the label ``name`` of a node. That of ``topology`` is a path."""
    text = label_value(value)
    if name == TOPOLOGY:
        topology(text)
    return text


def read_labels(fields: Fields, key: str = "labels") -> dict[str, str]:
    """Read labels of nodes, each with one value."""
    return {
        name: fields.parsed(path, partial(node_label, name), content, "")
        for path, name, content in fields.named(key)
        if fields.parsed(path, label_name, name, "")
    }


def read_topology(fields: Fields) -> tuple[str, ...]:
    """Read the topology path of a node, under ``topology``."""
    nowhere: tuple[str, ...] = ()
    return fields.read("topology", topology, nowhere)
