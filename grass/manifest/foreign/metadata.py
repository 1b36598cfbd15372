"""Reads ``metadata`` of a foreign document: the name of the job, and its labels as tags.

Used by ``dialects`` and ``scaling``; each dialect gets what it says.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple

from grass.manifest import values
from grass.manifest.fields import Fields
from grass.manifest.foreign.notes import Notes

IGNORED: Mapping[str, str] = MappingProxyType(
    {
        "namespace": "ignored; Grass has no namespaces",
        "annotations": "ignored; Grass knows no annotations",
        "uid": "ignored; written by Kubernetes",
        "resourceVersion": "ignored; written by Kubernetes",
        "generation": "ignored; written by Kubernetes",
        "creationTimestamp": "ignored; written by Kubernetes",
        "managedFields": "ignored; written by Kubernetes",
        "selfLink": "ignored; written by Kubernetes",
        "finalizers": "ignored; Grass deletes by itself",
        "ownerReferences": "ignored; a job belongs to its user",
    }
)
_GENERATED = "the job is named without the random end; each run of it has an id with one"


class Metadata(NamedTuple):
    """What a document says of the job as a whole. ``annotations``: those that its dialect knows."""

    name: str
    labels: dict[str, str]
    annotations: Mapping[str, str]


def read_metadata(fields: Fields, notes: Notes, known: Mapping[str, str] = MappingProxyType({})) -> Metadata:
    """Read ``metadata``. ``known``: annotation → why it is refused; empty: it is taken."""
    section = fields.section("metadata")
    if section is None:
        fields.problems.add(fields.at("metadata"), "is missing; it names the job")
        return Metadata("", {}, {})
    name = _read_name(section, notes)
    labels = _read_labels(section)
    annotations = _read_annotations(section, notes, known)
    notes.ignore(section, {key: why for key, why in IGNORED.items() if key != "annotations"})
    section.done()
    return Metadata(name, labels, annotations)


def _read_name(section: Fields, notes: Notes) -> str:
    prefix = section.read("generateName", values.text, "")
    if section.has("name") or not prefix:
        return section.require("name", values.name, "", "is missing; it names the job")
    notes.add(section.at("generateName"), _GENERATED)
    return section.parsed(section.at("generateName"), values.name, prefix.rstrip("-."), "")


def _read_labels(section: Fields) -> dict[str, str]:
    return {name: section.parsed(path, values.scalar_text, value, "") for path, name, value in section.named("labels")}


def _read_annotations(section: Fields, notes: Notes, known: Mapping[str, str]) -> dict[str, str]:
    content = section.raw("annotations")
    if not content:
        return {}
    annotations = section.section("annotations")
    if annotations is None:
        return {}
    found: dict[str, str] = {}
    for name, value in annotations.entries():
        if name not in known:
            notes.add(annotations.at(name), IGNORED["annotations"])
        elif known[name]:
            section.problems.add(annotations.at(name), known[name])
        else:
            found[name] = annotations.parsed(annotations.at(name), values.scalar_text, value, "")
    return found
