"""The rendezvous ``grass`` of torchrun: ranks and membership come from Grass, through the membership API.

torch loads it by the entry point group ``torchrun.handlers``. Agents agree through the job's key-value store:

    torchrun/COMPONENT/arrived/TASK a new agent is ready to join
    torchrun/COMPONENT/round        number of the open round
    torchrun/COMPONENT/N/TASK       an agent has joined round N
    torchrun/COMPONENT/N/world      the members of round N, written once by the agent that sees all of them first
    torchrun/COMPONENT/N/store      address and ports of its rank 0
    torchrun/COMPONENT/done         the members that have finished the training

An agent opens the next round when its workers failed, or when the membership is another one. The others see that in
``num_nodes_waiting`` and join. While members only join, the others train until all new agents have imported torch and
said so. Rules of torchrun that shaped this: any exception in ``num_nodes_waiting`` ends the agent, so it raises none;
only ``SystemExit(0)`` ends a leaving agent with 0; workers that fail because others stop first would count as failures,
so agents settle before any of them stops its workers.
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
"""How long a request waits for a change. Then the rest is looked at, too."""
AWAY_SECONDS = 0.5

log = logging.getLogger("grass.torchrun")


def get_creator():
    return lambda parameters: GrassRendezvous(parameters)


class Watch:
    """Keeps the newest membership, the number of the open round, and which new agents have arrived, in two threads. The
    last values stay if the node-agent or the store is away."""

    def __init__(self, api, prefix):
        self._api = api
        self._prefix = prefix
        self.world = None
        self.round = 0
        self._revision = ""
        self._awaited = []
        self._arrived = []
        self._stopped = threading.Event()
        for step in (self._see_world, self._see_round):
            threading.Thread(target=self._run, args=(step,), name="grass-watch", daemon=True).start()

    def stop(self):
        self._stopped.set()

    def all_arrived(self, members):
        """Return whether these new members are known to have arrived. The others are looked for from now on."""
        self._awaited = [member for member in members if member not in self._arrived]
        return not self._awaited

    def _run(self, step):
        while not self._stopped.is_set():
            try:
                step()
            except (OSError, ApiError, ValueError) as error:
                log.debug("the membership is not known now: %s", error)
                self._stopped.wait(AWAY_SECONDS)

    def _see_world(self):
        if self.world and not self.world["released"]:
            self.world = self._api.world(self.world["generation"], WATCH_SECONDS)
        else:
            self.world = self._api.world()
            self._stopped.wait(GLANCE)

    def _see_round(self):
        awaited = self._awaited
        if awaited:
            task, attempt = awaited[0]
            key = self._prefix + "arrived/" + task
            value, revision = self._api.get(key)
            if value != str(attempt):
                value, _ = self._api.get(key, revision, WATCH_SECONDS)
            if value == str(attempt):
                self._arrived = [*self._arrived, awaited[0]]
                self._awaited = [member for member in self._awaited if member != awaited[0]]
        value, revision = self._api.get(self._prefix + "round", self._revision, 0 if awaited else WATCH_SECONDS)
        self.round, self._revision = int(value or 0), revision


class GrassRendezvous(RendezvousHandler):
    def __init__(self, parameters):
        self._run_id = parameters.run_id
        self._api = Api()
        component = os.environ["GRASS_COMPONENT"]
        self._me = [component + "." + os.environ["GRASS_INDEX"], int(os.environ["GRASS_ATTEMPT"])]
        self._prefix = "torchrun/%s/" % component
        self._restarts = int(os.environ.get("GRASS_TORCHRUN_RESTARTS", "3"))
        self._join_seconds = float(parameters.config.get("join_timeout", JOIN_SECONDS))
        self._watch = Watch(self._api, self._prefix)
        self._round = 0
        self._joined = 0
        """Number of the round that this agent joined last."""
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
        reopened = self._watch.round > self._round
        if world["released"] or (world["rank"] is not None and _members(world) != self._members):
            if not reopened and self._newcomers_are_away(_members(world)):
                return False
            self._settle()
        elif not reopened:
            return False
        self._expected = True
        return True

    def _newcomers_are_away(self, members):
        """Return whether members only join, and some of them have not arrived yet."""
        if any(member not in members for member in self._members):
            return False
        return not self._watch.all_arrived([member for member in members if member not in self._members])

    def _settle(self):
        """Wait until the other agents of this round have seen the change, too. Their workers run on meanwhile."""
        self._put("%d/settled/%s" % (self._round, self._me[0]), True)
        until = time.monotonic() + SETTLE_SECONDS
        others = [task for task, _ in self._members if task != self._me[0]]
        while others and time.monotonic() < until and self._watch.round <= self._round:
            if self._get("%d/settled/%s" % (self._round, others[0]), GLANCE * 4):
                others.pop(0)

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
        if number is None:
            self._pause(until, 0)
            return None
        self._put("%d/%s" % (number, self._me[0]), self._me[1])
        self._joined, present = number, []
        while self._watch.world is not None and not self._watch.world["released"]:
            decided = self._get("%d/world" % number) or self._decide(number, present)
            if decided is not None:
                return self._enter(number, decided, until)
            self._pause(until, 0)
        return None

    def _open_round(self):
        """Return the number of the open round. It is above that of the last round of this agent. None: other members
        train; they open the next one for this agent."""
        value, revision = self._api.get(self._prefix + "round")
        number = int(value or 0)
        decided = self._get("%d/world" % number) if number > self._round else None
        if number > self._round and (decided is None or (number == self._joined and self._me in decided["members"])):
            return number
        members = _members(self._watch.world)
        if decided and self._me not in decided["members"] and any(each in members for each in decided["members"]):
            self._put("arrived/" + self._me[0], self._me[1])
            self._api.get(self._prefix + "round", revision, WATCH_SECONDS)
        else:
            self._api.put(self._prefix + "round", str(max(number, self._round) + 1), expect=revision)
        return None

    def _decide(self, number, present):
        """Fix the members of a round once all have joined: the first one does, and the others wait for it.

        ``present``: members that have joined; it is extended.
        """
        world = self._watch.world
        members = _members(world)
        done = self._get("done")
        if done and any(member in members for member in done):
            self._leave("the training is done")
        if not members or members[0] != self._me:
            return self._get("%d/world" % number, WATCH_SECONDS)
        for task, attempt in (member for member in members if member not in present):
            key = "%s%d/%s" % (self._prefix, number, task)
            value, revision = self._api.get(key)
            if value != str(attempt):
                self._api.get(key, revision, WATCH_SECONDS)
                return None
            present.append([task, attempt])
        decided = {"generation": world["generation"], "members": members}
        self._api.put("%s%d/world" % (self._prefix, number), json.dumps(decided), expect="")
        return self._get("%d/world" % number)

    def _enter(self, number, decided, until):
        if self._me not in decided["members"]:
            return None
        self._round, self._members, self._generation = number, decided["members"], decided["generation"]
        rank, size = self._members.index(self._me), len(self._members)
        if rank == 0:
            self._serve(number)
        while True:
            served = self._get("%d/store" % number, WATCH_SECONDS)
            if served:
                break
            if self._watch.round > number or self._watch.world["generation"] != self._generation:
                return None  # rank 0 is gone
            self._pause(until, 0)
        if rank != 0:
            self._store = TCPStore(served["address"], served["store"], is_master=False)
        bootstrap = RendezvousStoreInfo(served["address"], served["workers"])
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

    def _get(self, key, wait=0):
        """Return a value. None: there is none, after so many seconds."""
        value, _ = self._api.get(self._prefix + key, wait=wait)
        return None if value is None else json.loads(value)

    def _put(self, key, value):
        self._api.put(self._prefix + key, json.dumps(value))


def _members(world):
    return [[member["task"], member["attempt"]] for member in world["members"]]


def _free_port():
    with socket.socket() as probe:
        probe.bind(("", 0))
        return probe.getsockname()[1]
