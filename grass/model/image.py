"""Names of container images, so that a push and a job that mean the same image say the same. Pure."""

from __future__ import annotations

PROBE_IMAGE = "grass-probe:1"
"""What a node that joins makes for itself, to try its engine with."""


def full_name(text: str) -> str:
    """With its tag: ``busybox`` is ``busybox:latest``. A name with a digest stays as it is."""
    last = text.rpartition("/")[2]
    return text if ":" in last or "@" in last else f"{text}:latest"
