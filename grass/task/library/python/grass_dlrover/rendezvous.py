"""The rendezvous of agents: a round is decided once all present members have joined it. Pure; used by ``state``.

DLRover decides by ``--nnodes`` and a time without a further agent. Here the membership of Grass says who belongs to it,
and in which order. So a replaced, a new or a released task needs no time-out.
"""

from __future__ import annotations

from grass_dlrover.members import Group


class Rendezvous:
    """``waiting``: rank → [attempt, processes] of the agents that have joined since the last round. ``world``: the last
    round, in order of ranks: rank → [attempt, processes]."""

    def __init__(self, kept=None):
        kept = kept or {}
        self.round = kept.get("round", 0)
        self.waiting = _by_rank(kept.get("waiting", []))
        self.world = _by_rank(kept.get("world", []))

    def kept(self):
        return {"round": self.round, "waiting": list(self.waiting.items()), "world": list(self.world.items())}

    def join(self, rank, attempt, processes):
        """Return the number of the open round. An agent that asks again has joined once."""
        self.waiting[rank] = [attempt, processes]
        return self.round

    def clear_waiting(self):
        self.waiting = {}

    def decide(self, group: Group) -> bool:
        """Begin the next round if all members have joined. Agents that are no members any more are forgotten."""
        present = [rank for rank, attempt in group.attempts.items() if self._joined(rank, attempt)]
        if not present or len(present) < len(group.members) or len(present) < group.least:
            return False
        self.world = {rank: self.waiting[rank] for rank in present}
        self.waiting = {}
        self.round += 1
        return True

    def world_of(self, rank):
        """Return the world of the last round for an agent, rank → processes; empty: it waits for the next round."""
        return {} if rank in self.waiting else {each: processes for each, (_, processes) in self.world.items()}

    def restarts(self, group: Group) -> int:
        """Return for how many agents the others must stop training, to join the next round; 0: none.

        A member that has joined again, or is gone, is a reason at once; new members are one once all have joined.
        """
        attempts = group.attempts
        joined = [rank for rank, attempt in attempts.items() if self._joined(rank, attempt)]
        if not self.world or len(attempts) < group.least:
            return 0
        if any(rank in self.world for rank in joined):
            return len(joined)
        if any(attempts.get(rank) != attempt for rank, (attempt, _) in self.world.items()):
            return max(1, len(joined))
        new = [rank for rank in attempts if rank not in self.world]
        return len(joined) if new and len(joined) >= len(new) else 0

    def _joined(self, rank, attempt):
        return rank in self.waiting and self.waiting[rank][0] == attempt


def _by_rank(items):
    return {rank: list(entry) for rank, entry in items}
