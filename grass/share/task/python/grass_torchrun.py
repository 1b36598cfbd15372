"""The rendezvous ``grass`` of torchrun: ranks and membership come from Grass, through the membership API.

torch loads it by the entry point group ``torchrun.handlers``. Agents agree through the job's key-value store:

    torchrun/COMPONENT/round        number of the open round
    torchrun/COMPONENT/N/TASK       an agent has joined round N
    torchrun/COMPONENT/N/world      the members of round N, written once by the agent that sees all of them first
    torchrun/COMPONENT/N/store      address and ports of its rank 0
    torchrun/COMPONENT/done         the members that have finished the training

An agent opens the next round when its workers failed, or when the membership is another one. The others see that in
``num_nodes_waiting`` and join. Rules of torchrun that shaped this: any exception in ``num_nodes_waiting`` ends the
agent, so it raises none; only ``SystemExit(0)`` ends a leaving agent with 0; workers that fail because others stop
first would count as failures, so agents settle before any of them stops its workers.
"""

import json
import logging
import os
import socket
import sys
import threading
import time

from grass_membership import Api, ApiError
from torch.distributed import PrefixStore, TCPStore
from torch.distributed.elastic.rendezvous import RendezvousHandler, RendezvousInfo, RendezvousStoreInfo
from torch.distributed.elastic.rendezvous.api import RendezvousClosedError, RendezvousError, RendezvousTimeoutError

JOIN_SECONDS = 600.0
SETTLE_SECONDS = 3.0
"""How long agents wait for each other before they stop their workers. A dead one does not answer."""
GLANCE = 0.05
WATCH_SECONDS = 1.0
AWAY_SECONDS = 0.5

log = logging.getLogger("grass.torchrun")


def get_creator():
    return lambda parameters: GrassRendezvous(parameters)


class Watch:
    """Keeps the newest membership and the number of the open round, in a thread. The last ones stay if the node-agent
    or the store is away."""

    def __init__(self, api, round_key):
        self._api = api
        self._round_key = round_key
        self.world = None
        self.round = 0
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name="grass-watch", daemon=True)
        self._thread.start()

    def stop(self):
        self._stopped.set()

    def _run(self):
        while not self._stopped.is_set():
            try:
                after = self.world["generation"] if self.world and not self.world["released"] else -1
                self.world = self._api.world(after, WATCH_SECONDS if after >= 0 else 0)
                value, _ = self._api.get(self._round_key)
                self.round = int(value or 0)
            except (OSError, ApiError, ValueError) as error:
                log.debug("the membership is not known now: %s", error)
                self._stopped.wait(AWAY_SECONDS)
            if after < 0:
                self._stopped.wait(GLANCE)


class GrassRendezvous(RendezvousHandler):
    def __init__(self, parameters):
        self._run_id = parameters.run_id
        self._api = Api()
        component = os.environ["GRASS_COMPONENT"]
        self._me = [component + "." + os.environ["GRASS_INDEX"], int(os.environ["GRASS_ATTEMPT"])]
        self._prefix = "torchrun/%s/" % component
        self._restarts = int(os.environ.get("GRASS_TORCHRUN_RESTARTS", "3"))
        self._join_seconds = float(parameters.config.get("join_timeout", JOIN_SECONDS))
        self._watch = Watch(self._api, self._prefix + "round")
        self._round = 0
        self._members = []
        self._generation = -1
        self._expected = True
        """Whether this agent stopped its workers because the membership changed. Otherwise they failed."""
        self._failures = 0
        self._store = None
        self._closed = False

    def get_backend(self):
        return "grass"

    @property
    def use_agent_store(self):
        return False  # its keys would contain the restart count, which differs between agents

    def get_run_id(self):
        return self._run_id

    def is_closed(self):
        return self._closed

    def set_closed(self):
        self._closed = True

    def shutdown(self):
        """Called at the end of torchrun, in a ``finally``. Tell agents that start now that the work is done, if it
        is."""
        if sys.exc_info()[0] is None and self._members:
            try:
                self._put("done", self._members)
            except (OSError, ApiError) as error:
                log.warning("cannot tell others that the training is done: %s", error)
        self._closed = True
        self._watch.stop()
        return True

    # while workers run

    def num_nodes_waiting(self):
        try:
            return 1 if self._must_restart() else 0
        except Exception as error:  # torchrun would end
            log.warning("the membership is not known now; training goes on: %s", error)
            return 0

    def _must_restart(self):
        world = self._watch.world
        if world is None:
            return False
        changed = world["released"] or (world["rank"] is not None and _members(world) != self._members)
        if changed:
            self._settle()
        elif self._watch.round <= self._round:
            return False
        self._expected = True
        return True

    def _settle(self):
        """Wait until the other agents of this round have seen the change, too. Their workers run on meanwhile."""
        self._put("%d/settled/%s" % (self._round, self._me[0]), True)
        until = time.monotonic() + SETTLE_SECONDS
        others = [task for task, _ in self._members if task != self._me[0]]
        while others and time.monotonic() < until and self._watch.round <= self._round:
            others = [task for task in others if not self._get("%d/settled/%s" % (self._round, task))]
            time.sleep(GLANCE)

    # joining

    def next_rendezvous(self):
        if self._closed:
            raise RendezvousClosedError("the rendezvous is closed")
        self._count_failures()
        until = time.monotonic() + self._join_seconds
        while True:
            self._await_membership(until)
            try:
                info = self._join(until)
            except (OSError, ApiError) as error:
                log.warning("the key-value store does not answer; trying again: %s", error)
                self._pause(until, AWAY_SECONDS)
                continue
            if info is not None:
                return info

    def _count_failures(self):
        """Bound the restarts after failures of this agent's own workers, since the last change of the membership."""
        world = self._watch.world
        if self._expected or (world is not None and world["generation"] != self._generation):
            self._failures = 0
        else:
            self._failures += 1
        self._expected = False
        if self._failures > self._restarts:
            raise RendezvousError("workers failed %d times in the same membership" % self._failures)

    def _await_membership(self, until):
        """Wait until this agent is a member. A released one ends here, with 0."""
        while True:
            world = self._watch.world
            if world is not None and world["released"]:
                self._leave("released")
            if world is not None and world["rank"] is not None:
                return
            self._pause(until)

    def _join(self, until):
        """Join the open round. None: it went on without this agent; join the next."""
        number = self._open_round()
        self._put("%d/%s" % (number, self._me[0]), self._me[1])
        while self._watch.world is not None and not self._watch.world["released"]:
            decided = self._get("%d/world" % number) or self._decide(number)
            if decided is not None:
                return self._enter(number, decided, until)
            self._pause(until)
        return None

    def _open_round(self):
        """Return the number of the open round. It is above that of the last round of this agent."""
        key = self._prefix + "round"
        while True:
            value, revision = self._api.get(key)
            if int(value or 0) > self._round:
                return int(value)
            self._api.put(key, str(self._round + 1), expect=revision)

    def _decide(self, number):
        """Fix the members of a round once all have joined. The first to do so decides for all."""
        world = self._watch.world
        members = _members(world)
        done = self._get("done")
        if done and any(member in members for member in done):
            self._leave("the training is done")
        if self._me not in members or any(self._get("%d/%s" % (number, task)) != attempt for task, attempt in members):
            return None
        decided = {"generation": world["generation"], "members": members}
        self._api.put("%s%d/world" % (self._prefix, number), json.dumps(decided), expect="")
        return self._get("%d/world" % number)

    def _enter(self, number, decided, until):
        self._round, self._members, self._generation = number, decided["members"], decided["generation"]
        if self._me not in self._members:
            return None
        rank, size = self._members.index(self._me), len(self._members)
        if rank == 0:
            self._serve(number)
        while True:
            place = self._get("%d/store" % number)
            if place:
                break
            if self._watch.round > number or self._watch.world["generation"] != self._generation:
                return None  # rank 0 is gone
            self._pause(until)
        if rank != 0:
            self._store = TCPStore(place["address"], place["store"], is_master=False)
        bootstrap = RendezvousStoreInfo(place["address"], place["workers"])
        return RendezvousInfo(PrefixStore("grass/%d" % number, self._store), rank, size, bootstrap)

    def _serve(self, number):
        """Start the store of this round. One of another round could still have its keys."""
        own = [member for member in self._watch.world["members"] if [member["task"], member["attempt"]] == self._me]
        address = own[0]["address"] if own else socket.gethostname()
        self._store = TCPStore(address, 0, is_master=True, wait_for_workers=False)
        self._put("%d/store" % number, {"address": address, "store": self._store.port, "workers": _free_port()})

    def _leave(self, why):
        """End torchrun with 0. Not with ``leave`` of the API: the node would stop it while it ends."""
        log.info("this task leaves: %s", why)
        self._watch.stop()
        raise SystemExit(0)

    def _pause(self, until, seconds=GLANCE):
        if time.monotonic() > until:
            raise RendezvousTimeoutError("not all members joined within %g s" % self._join_seconds)
        time.sleep(seconds)

    def _get(self, key):
        value, _ = self._api.get(self._prefix + key)
        return None if value is None else json.loads(value)

    def _put(self, key, value):
        self._api.put(self._prefix + key, json.dumps(value))


def _members(world):
    return [[member["task"], member["attempt"]] for member in world["members"]]


def _free_port():
    with socket.socket() as probe:
        probe.bind(("", 0))
        return probe.getsockname()[1]
