"""Normalised names of container images, so that a push and a job use the same name. Pure. Used by all packages."""

from __future__ import annotations

PROBE_IMAGE = "grass-probe:1"
"""The empty image that a joining node creates to try its engine."""

MOST_INDEX = 16 << 20
"""Bytes of the list of images in a share. Tasks may write there, and it is read whole."""


_ARCHIVES = (".tar", ".tar.gz", ".tgz", ".tar.bz2", ".tar.xz", ".tar.zst")


def is_path(text: str) -> bool:
    """Return whether the text is meant as a file and not as the name of an image, by its beginning or its end."""
    return text.startswith(("/", "./", "../", "~")) or text.lower().endswith(_ARCHIVES)


def full_name(text: str) -> str:
    """Add the default tag: ``busybox`` becomes ``busybox:latest``. A name with a tag or digest is unchanged."""
    last = text.rpartition("/")[2]
    return text if ":" in last or "@" in last else f"{text}:latest"
