"""Names of container images, so that a push and a job that mean the same image say the same. Pure."""

from __future__ import annotations


def full_name(text: str) -> str:
    """With its tag: ``busybox`` is ``busybox:latest``. A name with a digest stays as it is."""
    last = text.rpartition("/")[2]
    return text if ":" in last or "@" in last else f"{text}:latest"
