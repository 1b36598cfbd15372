"""Everything that the master remembers. Plain data goes in and out (``kept``): a restarted master goes on. Pure.

Used by ``gets``, ``reports`` and ``answers``.
"""

from __future__ import annotations

import base64
import re

from grass_dlrover.members import WORKER, Group, Groups
from grass_dlrover.node_checks import NodeChecks
from grass_dlrover.rendezvous import Rendezvous
from grass_dlrover.shards import Dataset

FAULT = "node_check_fault"
"""The figure that names a node at fault: its rank as the step, its attempt as the value; 0: it is good again."""
TRAINING, CHECK = "elastic-training", "network-check"
"""The names of the rendezvous."""
MOST_KEYS, MOST_VALUE = 4096, 1 << 16
"""How many keys the store of the agents has, and the bytes of a value."""
MOST_BYTES = 4 << 20
"""Of all values together: each change writes the whole state."""
MOST_NAMES = 1024
"""Datasets, barriers, versions, addresses: of each kind so many."""
_ROUND = re.compile(r"torch\.rendezvous\.([a-z-]+)\.(\d+)\.")
_OLD_ROUNDS = 2


class State:
    """``groups``: the members now; it is not kept. ``changed``: whether something was changed that must be kept."""

    def __init__(self, kept=None):
        kept = kept or {}
        self.groups: Groups = {}
        self.changed = False
        self.training = Rendezvous(kept.get("training"))
        self.checks = NodeChecks(kept.get("checks"))
        self.values = {key: _read(value) for key, value in kept.get("values", {}).items()}
        self.datasets = {name: Dataset(each["settings"], each) for name, each in kept.get("datasets", {}).items()}
        self.versions = dict(kept.get("versions", {}))
        self.syncs = dict(kept.get("syncs", {}))
        self.barriers = list(kept.get("barriers", []))
        self.saved_steps = dict(kept.get("saved_steps", []))
        self.ports = dict(kept.get("ports", {"agreed": 0, "from": 0, "seen": []}))
        self.addresses = dict(kept.get("addresses", {}))
        self.tuning = kept.get("tuning")
        self.done = kept.get("done", False)
        self.step = 0

    def kept(self):
        return {
            "training": self.training.kept(),
            "checks": self.checks.kept(),
            "values": {key: _written(value) for key, value in self.values.items()},
            "datasets": {name: each.kept() for name, each in self.datasets.items()},
            **{"versions": self.versions, "syncs": self.syncs, "barriers": self.barriers},
            **{"saved_steps": list(self.saved_steps.items()), "ports": self.ports, "addresses": self.addresses},
            **{"tuning": self.tuning, "done": self.done},
        }

    @property
    def workers(self) -> Group:
        return self.groups.get(WORKER, Group())

    def rendezvous(self, name):
        return self.checks if name == CHECK else self.training

    def put(self, key, value):
        """Store a value of the agents. Return whether there is room for it."""
        if isinstance(value, str):
            value = value.encode()
        if key not in self.values and len(self.values) >= MOST_KEYS:
            return False
        if (
            not isinstance(value, (bytes, int))
            or (isinstance(value, bytes) and len(value) > MOST_VALUE)
            or len(key) > 1024
        ):
            return False
        if sum(len(each) for each in self.values.values() if isinstance(each, bytes)) > MOST_BYTES:
            return False
        self.values[key] = value
        self.changed = True
        return True

    def forget_old_rounds(self, name):
        """Remove what agents stored for rounds that are over. DLRover's client removes nothing."""
        last = self.rendezvous(name).round - _OLD_ROUNDS
        old = [
            key for key in self.values if (found := _ROUND.search(key)) and found[1] == name and int(found[2]) < last
        ]
        for key in old:
            del self.values[key]

    def judge(self):
        """Return what a check of nodes has found, if it is over: lines that the monitor of the cluster reads."""
        found = self.checks.verdict(self.workers)
        self.changed = self.changed or bool(found)
        return ["GRASS_METRIC %s=%d step=%d" % (FAULT, attempt, rank) for rank, attempt in found]

    def see(self, groups: Groups):
        """Take the memberships as they are now: shards of tasks that are gone come back."""
        self.groups = groups
        alive = {(kind, each.id) for kind, group in groups.items() for each in group.members}
        for dataset in self.datasets.values():
            self.changed = dataset.recover(alive) or self.changed
        for name, waiting in self.syncs.items():
            left = [each for each in waiting if (each[0], each[1]) in alive]
            if left != waiting:
                self.syncs[name], self.changed = left, True


def _written(value):
    return value if isinstance(value, int) else base64.b64encode(value).decode()


def _read(value):
    return value if isinstance(value, int) else base64.b64decode(value)
