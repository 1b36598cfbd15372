"""DLRover's data shards: parts of a dataset that workers take, and report as done or failed. Pure; used by ``state``.

What is to do follows from a seed and a position, so that the state is small for a dataset of any size. Shards that came
back and those that are being done are kept one by one.
"""

from __future__ import annotations

import json
from random import Random

MINIBATCHES = 100
"""Minibatches of a shard whose dataset says none, as in DLRover."""
RETRIES = 3
MOST_SHARDS = 50_000
"""Shards of a part of an epoch that are shuffled with each other, as in DLRover."""
TABLE, TEXT = "table", "text"


class Wrong(ValueError):
    """A dataset that cannot be."""


class Dataset:
    """``doing``: task id → [shard, kind and id of the node, tries]. ``again``: [shard, tries] of those that came back.

    A shard is [start, end], with the indices of its records in a shuffled text.
    """

    def __init__(self, settings, kept=None):
        kept = kept or {}
        self.settings = settings
        self.seed = kept.get("seed", 0)
        self.epoch = kept.get("epoch", 0)
        self.at = kept.get("at", 0)
        self.next_id = kept.get("next_id", 0)
        self.doing = {int(number): list(entry) for number, entry in kept.get("doing", [])}
        self.again = [list(each) for each in kept.get("again", [])]
        self._order = None

    def kept(self):
        return {
            **{"settings": self.settings, "seed": self.seed, "epoch": self.epoch, "at": self.at},
            **{"next_id": self.next_id, "doing": list(self.doing.items()), "again": self.again},
        }

    @property
    def _count(self):
        return -(-self.settings["size"] // self.settings["shard"])

    def finished(self):
        return not self.doing and not self.again and self._all_taken()

    def _all_taken(self):
        epochs = self.settings["epochs"]
        return self._count == 0 or (epochs > 0 and self.epoch >= epochs)

    def take(self, kind, node):
        """Return (task id, shard). None: nothing is left now."""
        if not self.again and self._all_taken():
            return None
        shard, tries = self.again.pop(0) if self.again else (self._fresh(), 0)
        number = self.next_id
        self.next_id += 1
        self.doing[number] = [shard, kind, node, tries]
        return number, shard

    def _fresh(self):
        shard = self._shard(self.at)
        self.at += 1
        if self.at >= self._count:
            self.epoch, self.at, self._order = self.epoch + 1, 0, None
        return shard

    def _shard(self, number):
        size, length = self.settings["shard"], self.settings["size"]
        if not self.settings["shuffle"]:
            return [number * size, min(length, (number + 1) * size)]
        if self.settings["storage"] == TEXT:
            records = self._shuffled(0, 0, length)
            return [number * size, min(length, (number + 1) * size), records[number * size : (number + 1) * size]]
        part = number // MOST_SHARDS
        first = part * MOST_SHARDS
        found = self._shuffled(part, first, min(self._count, first + MOST_SHARDS))[number - first]
        return [found * size, min(length, (found + 1) * size)]

    def _shuffled(self, part, first, last):
        """Return the numbers of a part of this epoch in their order, which only the seed decides."""
        key = (self.epoch, part)
        if self._order is None or self._order[0] != key:
            numbers = list(range(first, last))
            Random("%d/%d/%d" % (self.seed, *key)).shuffle(numbers)  # noqa: S311 (an order of data, no secret)
            self._order = (key, numbers)
        return self._order[1]

    def done(self, number, passed):
        """Note the end of a task. Return whether it was known. A failed shard is given out again, three times."""
        entry = self.doing.pop(number, None)
        if entry is None:
            return False
        if not passed:
            self._give_back(entry)
        return True

    def recover(self, alive):
        """Take back the shards of nodes that are gone. ``alive``: (kind, id). Return whether there were some."""
        lost = [number for number, entry in self.doing.items() if (entry[1], entry[2]) not in alive]
        for number in lost:
            self._give_back(self.doing.pop(number))
        return bool(lost)

    def _give_back(self, entry):
        shard, _, _, tries = entry
        if tries < RETRIES:
            self.again.append([shard, tries + 1])

    def checkpoint(self):
        """Return DLRover's text for what is not done. It names each shard of this epoch."""
        left = [] if self._all_taken() or self.at == 0 else [self._shard(each) for each in range(self.at, self._count)]
        epoch = self.epoch + (1 if self.at else 0)
        todo = left + [shard for shard, _ in self.again]
        doing = [entry[0] for entry in self.doing.values()]
        return json.dumps({"dataset_name": self.settings["name"], "todo": todo, "doing": doing, "epoch": epoch})

    def restore(self, checkpoint):
        shards = [
            list(map(int, each[:2])) + [list(map(int, index)) for index in each[2:3]]
            for each in [*checkpoint["doing"], *checkpoint["todo"]]
        ]
        self.again = [[shard, 0] for shard in shards]
        self.doing, self.epoch, self.at, self._order = {}, int(checkpoint["epoch"]), 0, None


def settings_of(message, name):
    """Return the settings of a new dataset. Raises Wrong."""
    size, batch = int(message.dataset_size or 0), int(message.batch_size or 0)
    shard = batch * int(message.num_minibatches_per_shard or MINIBATCHES)
    if shard < 1 or size < 0 or size > 1 << 53:
        raise Wrong("dataset %.100s: a batch size of %d and %d records cannot be" % (name, batch, size))
    if message.storage_type == TEXT and message.shuffle and size > 10_000_000:
        raise Wrong("dataset %.100s: at most 10,000,000 lines can be shuffled; use storage_type table" % name)
    return {
        **{"name": name, "size": size, "shard": shard, "epochs": int(message.num_epochs or 0)},
        **{"shuffle": bool(message.shuffle), "storage": message.storage_type or TABLE, "type": message.task_type},
    }
