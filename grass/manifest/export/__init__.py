"""Writes jobs as files of other systems. Pure. ``formats`` is the entry; the readers are in ``manifest.foreign``."""
