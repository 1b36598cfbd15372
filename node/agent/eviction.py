"""What says that the cloud takes this machine back: a file that root writes into the folder of sockets.

The program that watches the cloud's events (``grass/assets/azure/machine_events.py``) writes it, then sends USR1 to the
node-agent; it removes the file if the cloud changes its mind. Used by ``node.agent``.
"""

from __future__ import annotations

from pathlib import Path

FILE = "eviction"
_LONGEST = 200


def eviction(runtime_dir: str) -> str:
    """Return why the machine goes, for people; empty: it stays."""
    try:
        with (Path(runtime_dir) / FILE).open(errors="replace") as file:
            text = file.read(_LONGEST)
    except OSError:
        return ""
    return "".join(each for each in text if each.isprintable()).strip() or "the cloud takes this machine back"
