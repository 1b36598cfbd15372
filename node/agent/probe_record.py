"""The file ``node/probe.json``: the probe that this node passed, and where its share was mounted then.

Used by ``__main__`` and ``probe``.
"""

from __future__ import annotations

import msgspec

from grass.config import ClusterConfig
from grass.errors import UndecodableError
from grass.system.atomic_file import replace_file
from grass.wire.codec import Form, encode
from grass.wire.hello import Probe
from node.mounts import mount_point


class PassedProbe(msgspec.Struct, frozen=True):
    probe: Probe
    mount: str
    """Mount point of the share at that time; ``/``: the share had no mount of its own."""


_PASSED: Form[PassedProbe] = Form(PassedProbe)


def passed(config: ClusterConfig) -> PassedProbe | None:
    """Return the recorded probe. None: no probe was passed yet, or the file is unreadable."""
    try:
        return _PASSED.decode((config.node_dir / "probe.json").read_bytes())
    except (OSError, UndecodableError):
        return None


def mounted(config: ClusterConfig) -> str | None:
    """Return the share's mount point when the probe passed."""
    found = passed(config)
    return found.mount if found else None


def share_is_mounted(config: ClusterConfig) -> bool:
    """Return whether the share is mounted as it was when the probe passed. True if that is unknown."""
    return mounted(config) in (None, mount_point(config.data_dir))


def remember(config: ClusterConfig, result: Probe) -> None:
    config.node_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
    replace_file(config.node_dir / "probe.json", encode(PassedProbe(result, mount_point(config.data_dir))))
