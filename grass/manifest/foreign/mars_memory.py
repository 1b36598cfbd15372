"""Reads the memory options of a MarsJob: ``memoryTuningPolicy``, or ``workerMemoryTuningPolicy`` as KubeDL calls it.

Used by ``mars_job`` and ``grass.manifest.export.kubernetes``.
"""

from __future__ import annotations

from grass.manifest import containers, values
from grass.manifest.fields import Fields
from grass.manifest.foreign import quantity
from grass.manifest.foreign.notes import Notes
from grass.model.framework import Option

KEYS = ("memoryTuningPolicy", "workerMemoryTuningPolicy")
MAX_FOLDERS = 64


def read_tuning(spec: Fields, notes: Notes, *, old: bool, limited: bool) -> dict[str, Option]:
    """Return the options of the workers. ``old``: the job runs Mars before 0.7, to which all options apply.

    ``limited``: the workers have a memory limit.
    """
    sections = [section for key in KEYS if (section := spec.section(key)) is not None]
    if len(sections) == 2:
        spec.problems.add(sections[1].path, f"says the same as {KEYS[0]}; keep one of them")
    options = _read(sections[0], notes, old=old) if sections else {}
    if options.get("workerCachePercentage") and not limited:
        why = "is a percentage of the node's memory, because the Worker has no memory limit"
        notes.add(sections[0].at("workerCachePercentage"), why)
    return options


def _read(section: Fields, notes: Notes, *, old: bool) -> dict[str, Option]:
    options: dict[str, Option] = {}
    store = section.read("plasmaStore", containers.inside_path, None)
    lock_free = section.read("lockFreeFileIO", values.truth, None)
    folders = tuple(section.parsed(path, containers.inside_path, item, "") for path, item in section.items("spillDirs"))
    percentage = section.read("workerCachePercentage", values.whole(0, 100), None)
    size = section.read("workerCacheSize", quantity.size, None)
    if len(folders) > MAX_FOLDERS:
        section.problems.add(section.at("spillDirs"), f"must have at most {MAX_FOLDERS} folders, got {len(folders)}")
    section.done()
    if size is not None and percentage is not None:
        notes.add(section.at("workerCachePercentage"), "ignored, because workerCacheSize is set")
    if lock_free is not None and not old:
        notes.add(section.at("lockFreeFileIO"), "ignored by Mars 0.7 and later, which have no such option")
    found: dict[str, Option | None] = {
        "plasmaStore": store,
        "lockFreeFileIO": lock_free,
        "spillDirs": folders or None,
        "workerCachePercentage": percentage if size is None else None,
        "workerCacheSize": size,
    }
    options.update({name: value for name, value in found.items() if value is not None})
    return options
