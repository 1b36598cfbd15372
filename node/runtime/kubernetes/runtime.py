"""The Kubernetes runtime: attempts as pods of one namespace, for the kube-agent's (or any) single-threaded loop.

Its threads only wait for the API server. State that must survive this process is in the pods: their annotations name
the attempt, their status shows how it ended, and a finalizer keeps them until ``forget``. What happens is read from an
informer; answers to requests decide only what the informer cannot show. The parts: ``starts``, ``logs`` and
``removal``, driven by the ``reactor``; ``judge`` and ``creation`` decide.

Nothing is started or judged before this agent holds the lease of its node and the first list was read. A pod that is
gone is judged by its last state.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable

from grass.errors import GrassError, InputError, NotAllowedError, UnreachableError
from grass.kubernetes import names
from grass.kubernetes.api import ApiServer, RefusedError
from grass.kubernetes.informer import Change, Informer
from grass.kubernetes.objects import POD_EVENT, PODS, Pod
from grass.kubernetes.queues import has_groups, takes_replacements
from grass.model.reasons import Reason, ReasonCode
from grass.node_config import KubernetesConfig
from grass.system import clock
from node.runtime.attempts import Folders
from node.runtime.kubernetes.annotations import Annotations
from node.runtime.kubernetes.attempt import PodAttempt
from node.runtime.kubernetes.claim import Times
from node.runtime.kubernetes.creation import Decision, Step
from node.runtime.kubernetes.events import EventLooks
from node.runtime.kubernetes.gangs import Gangs
from node.runtime.kubernetes.job_files import RELAY, news
from node.runtime.kubernetes.judge import (
    DELETED,
    START_PATIENCE,
    Ended,
    Runs,
    Waits,
    judge,
    leaves,
    lost,
    of_deletion,
    waits_for_others,
)
from node.runtime.kubernetes.keeper import has_keeper
from node.runtime.kubernetes.lease import LeaseHolder, Standing
from node.runtime.kubernetes.logs import FOLLOWERS, Logs, PodLog
from node.runtime.kubernetes.outputs import Outputs
from node.runtime.kubernetes.place import Place
from node.runtime.kubernetes.quota_queue import QuotaQueue
from node.runtime.kubernetes.relays import Relays
from node.runtime.kubernetes.removal import TOMBSTONE, Removal
from node.runtime.kubernetes.starts import Starts
from node.runtime.kubernetes.tunnel import Door
from node.runtime.parallelism import ParallelismLimits
from node.runtime.protocol import Launch, Listed, RuntimeEvent, Start, Stop, Waiting
from node.runtime.reactor import Reactor

_LAST_WORDS = 3.0
"""Seconds that a closing runtime waits for requests in progress."""
_AWAY_AFTER = 10.0
"""Seconds without an answer of the server after which the node takes no tasks."""
_STUCK = 30.0
"""Seconds beyond its grace after which a deleted pod that does not end counts as lost."""
_NEVER_BEGUN = 5.0
"""The same for a pod whose container had not begun."""
_LOG_PATIENCE = 2.0
"""Seconds that the deletion of a pod waits for its log to be followed."""
_LOG_ENDS = 10.0
"""Seconds after the end of a task in which the server is to end the reply with its log."""
_SIGNAL_RETRY, _SIGNAL_TRIES = 1.0, 5
"""Seconds between two tries to signal a task, and how many are made before its pod is deleted instead."""
_KILLED = 5.0
"""Seconds after which a task that was sent KILL, and does not end, is deleted."""
_AWAY = "waits for the Kubernetes API server of its node, which does not answer"


_GONE = "its Kubernetes namespace was deleted"


class PodRuntime:
    """A ``Runtime`` whose attempts are pods. ``times``: of the lease. ``tombstone``: seconds, see ``removal``.
    ``followers``: logs that are followed at once."""

    def __init__(
        self,
        api: ApiServer,
        place: Place,
        settings: KubernetesConfig,
        times: Times | None = None,
        tombstone: float = TOMBSTONE,
        followers: int = FOLLOWERS,
    ) -> None:
        self._place = place
        self._folders = Folders(place.folder)
        self._launches: dict[str, Launch] = {}
        self._limits = ParallelismLimits()
        self._attempts: dict[str, PodAttempt] = {}
        self._begun = False
        """Whether the informer runs: this agent holds the lease, or has held it."""
        self._listed = False
        self._away_since: float | None = None
        self._away = ""
        self._standing = Standing()
        self._going: Reason | None = None
        """Why no pod can be created in the namespace any more, before the lease shows it."""
        self._refused: dict[str, Reason] = {}
        """Attempts whose pods the namespace, as it is now, refuses whatever they are; and why."""
        self._reactor = Reactor()
        self._lease = LeaseHolder(
            api, place, lambda now: self._reactor.post(functools.partial(self._on_standing, now)), times
        )
        self._api = api = api.fenced(self._lease.writing)
        self._events = EventLooks(api, place, self._reactor, self._heard)
        self._starts = Starts(api, place, settings, self._reactor)
        self._annotations = Annotations(api, place, self._reactor)
        self._relays = Relays(api, self._on_no_relay)
        self._removal = Removal(api, place, self._reactor, tombstone)
        self._logs = Logs(
            api, self._on_log_read, lambda: self._away_since is None, followers, gone=self._on_container_gone
        )
        self._outputs = Outputs(api, place, self._reactor, in_share=settings.claim is not None)
        self._settings = settings
        self._gangs = Gangs(place.cluster)
        self._quota = QuotaQueue(self._reactor.after, self._try_again)
        self._informer: Informer[Pod] = Informer(
            api,
            place.path,
            PODS,
            POD_EVENT,
            lambda changes: self._reactor.post(functools.partial(self._on_changes, changes)),
            lambda error: self._reactor.post(functools.partial(self._on_trouble, error)),
            selector=names.selector(place.cluster, place.node),
            name="pods",
        )
        self._lease.start()

    # called by the kube-agent

    def define(self, launches: dict[str, Launch]) -> None:
        self._launches.update(launches)
        for name, launch in launches.items():
            self._begin(self._limits.set_width(name, launch.width))

    def _tell(self, attempt: PodAttempt) -> None:
        """Have the pod of an attempt told what it should know now."""
        launch = self._launches.get(attempt.launch)
        if launch is not None and attempt.start is not None and attempt.ended is None:
            self._annotations.want(attempt, news(launch, attempt.start))
            self._serve(attempt, launch, attempt.start)

    def _serve(self, attempt: PodAttempt, launch: Launch, start: Start) -> None:
        """Bring the membership API into a pod, once its task runs."""
        path, token = launch.env.get("GRASS_API"), start.env.get("GRASS_TOKEN")
        if RELAY in launch.files and path and token and attempt.since is not None and attempt.judged is None:
            self._relays.open(attempt.key, f"{self._place.path}/{attempt.name}", Door(path, token))

    def _on_no_relay(self, key: str, why: str) -> None:
        """Take the news that the image of a task cannot run the program. Called in a thread."""

        def note() -> None:
            if (attempt := self._attempts.get(key)) is not None:
                attempt.unserved = why

        self._reactor.post(note)

    def drop(self, launches: Iterable[str]) -> None:
        for name in launches:
            self._launches.pop(name, None)
            self._limits.drop(name)

    def let_go(self, tasks: Iterable[str]) -> None:
        """Do nothing: nothing is kept of pods."""

    def start(self, starts: list[Start]) -> None:
        for start in starts:
            if not self._listed:
                self._reactor.publish(Waiting(start.key, self.trouble() or Reason(ReasonCode.RUNTIME, _AWAY)))
            elif (known := self._attempts.get(start.key)) is not None:
                self._start_again(known, start)
            else:
                name = names.pod_name(self._place.cluster, start.key)
                self._attempts[start.key] = PodAttempt(start.key, start.launch, name, start)
                self._begin(self._limits.add(start.launch, start.key))

    def _start_again(self, attempt: PodAttempt, start: Start) -> None:
        """Take over what the task of a pod should know now."""
        if attempt.ended is None:
            attempt.start = start
            self._tell(attempt)
            if attempt.pod is not None and attempt.since is None and attempt.judged is None:
                self._look(attempt, attempt.pod)

    def stop(self, stops: list[Stop]) -> None:
        for key, grace, reason in stops:
            attempt = self._attempts.get(key)
            if attempt is None or attempt.ended is not None or attempt.judged is not None:
                continue
            if attempt.uid is None and not attempt.creating and not attempt.unsure:
                attempt.stopping, attempt.reason = True, reason
                self._finish(attempt, Ended(None, None, None, None, None, begun=False))
                continue
            if attempt.grace is not None and attempt.grace <= grace:
                continue
            attempt.reason = attempt.reason if attempt.stopping else reason
            attempt.stopping, attempt.grace = True, grace
            if attempt.uid is not None:
                self._end(attempt)

    def forget(self, keys: list[str]) -> None:
        for key in keys:
            attempt = self._attempts.get(key)
            if attempt is not None and attempt.ended is not None:
                del self._attempts[key]
                if attempt.pod is not None:
                    self._removal.release(attempt.pod, at_once=self._gone)

    def receive(self) -> list[RuntimeEvent]:
        return self._reactor.turn()

    def fileno(self) -> int:
        return self._reactor.fileno()

    def due(self) -> float | None:
        return self._reactor.due()

    def trouble(self) -> Reason | None:
        """Return why the namespace takes no tasks: another agent acts for it, it is gone, a right is missing, or the
        server has not answered for a while."""
        refused = (
            self._going or self._standing.trouble or self._removal.trouble or next(iter(self._refused.values()), None)
        )
        since = self._away_since
        if refused is not None or since is None or clock.steady() - since < _AWAY_AFTER:
            return refused
        return Reason(ReasonCode.RUNTIME, self._away)

    @property
    def _gone(self) -> bool:
        return self._standing.gone or self._going is not None

    def roots(self) -> list[int]:
        return []

    def close(self) -> None:
        self._informer.stop()
        self._logs.stop()
        self._relays.stop()
        self._outputs.stop(_LAST_WORDS)
        self._lease.stop(release=self._reactor.end_work(_LAST_WORDS))
        self._api.close()
        self._reactor.close()

    # called by the lease and the informer, through the reactor

    def _on_standing(self, now: Standing) -> None:
        begins = now.held and not self._begun
        if self._standing.gone and not now.gone:  # there is a new namespace of that name
            self._going = None
        self._standing = now
        if begins:
            self._begun = True
            self._informer.start()

    def _on_trouble(self, error: GrassError | None) -> None:
        if error is None:
            self._away_since = None
            if self._listed:
                self._list()
        elif _definite(error):
            self._away_since, self._away = clock.steady() - _AWAY_AFTER, f"Kubernetes refuses the agent: {error}"
        elif self._away_since is None:
            self._away_since, self._away = clock.steady(), str(error)
            self._reactor.after(_AWAY_AFTER, self._reactor.wake)

    def _on_changes(self, changes: list[Change[Pod]]) -> None:
        known = len(self._attempts)
        for change in changes:
            pod = change.now or change.last
            if pod is not None:
                self._on_pod(pod, change)
        if not self._listed or len(self._attempts) > known:  # the kube-agent ends what it does not want
            if not self._listed and has_groups(self._settings):
                self._removal.remove_other_groups(self._gangs.names)
            self._listed = True
            self._list()

    def _list(self) -> None:
        self._reactor.publish(Listed([each.observed() for each in self._attempts.values()]))

    def _on_pod(self, pod: Pod, change: Change[Pod]) -> None:
        key = pod.metadata.annotations.get(names.ATTEMPT)
        if key is None:
            return
        attempt = self._attempts.get(key)
        if attempt is None:
            if change.now is None or self._removal.continues(pod):
                return
            attempt = self._adopt(key, pod)
        if attempt.uid not in (None, pod.metadata.uid):
            return
        if attempt.ended is not None:
            if attempt.uid is None and change.now is not None:  # a request that was late
                attempt.update(pod, self._api.wall())
                self._delete(attempt)
            return
        self._update(attempt, pod)
        if attempt.stopping and not attempt.deleting:
            self._end(attempt)
        if change.now is None:
            final = judge(pod, attempt.memory) if change.seen else None
            self._on_end(attempt, final if isinstance(final, Ended) else lost(pod))
            return
        self._look(attempt, pod)

    def _update(self, attempt: PodAttempt, pod: Pod) -> None:
        """Take over what is new of a pod, and tell it what changed while it was being made."""
        fresh, address = attempt.uid is None, attempt.address
        attempt.update(pod, self._api.wall())
        if fresh:
            self._tell(attempt)
        if attempt.address != address:
            self._reactor.publish(attempt.observed())

    def _adopt(self, key: str, pod: Pod) -> PodAttempt:
        """Take over a pod of an earlier agent."""
        launch = pod.metadata.annotations.get(names.LAUNCH, "")
        attempt = self._attempts[key] = PodAttempt(key, launch, pod.metadata.name)
        attempt.deleting = (
            pod.metadata.deletion_timestamp is not None
        )  # by whom, the loop knows: it stops its own again
        attempt.queued = self._settings.queue is not None
        group = pod.metadata.annotations.get(names.GANG, "")
        if group:
            attempt.group = self._gangs.join(key, group)
        self._limits.add_running(launch, key)
        return attempt

    def _look(self, attempt: PodAttempt, pod: Pod) -> None:
        found = judge(pod, attempt.memory)
        match found:
            case Ended():
                self._on_end(attempt, found)
            case Runs(started):
                if attempt.since is None:
                    attempt.begins(started)
                    self._follow(attempt)
                    self._tell(attempt)
                    self._reactor.publish(attempt.observed())
                if not attempt.stopping and attempt.leaving is None and (leaving := leaves(pod)) is not None:
                    attempt.leaving = leaving
                    self._reactor.publish(attempt.observed())
            case Waits():
                self._on_waits(attempt, pod, found)
        if pod.metadata.deletion_timestamp and attempt.judged is None:
            if attempt.log is not None and attempt.log.gone:  # kubelets before 1.22 say no more of a forced deletion
                self._on_end(attempt, lost(pod))
                return
            patience = _NEVER_BEGUN if attempt.since is None else _STUCK
            grace = pod.metadata.deletion_grace_period_seconds or 0
            begun = attempt.since is not None
            self._reactor.after(grace + patience, functools.partial(self._count_as_lost, attempt, begun))

    def _on_waits(self, attempt: PodAttempt, pod: Pod, found: Waits) -> None:
        if found.quiet:
            self._events.watch(attempt)
            found = attempt.heard or found
        reason, patience = found.reason, found.patience
        if attempt.start is not None and attempt.start.awaits and waits_for_others(pod):
            reason = Reason(reason.code, attempt.start.awaits)
        if reason.code is ReasonCode.NAMESPACE_QUEUE:
            attempt.queued = True
        elif attempt.queued:  # its patience begins when the queue has let it go
            attempt.queued, attempt.asked = False, clock.steady()
        if attempt.said != reason:
            attempt.said = reason
            self._reactor.publish(Waiting(attempt.key, reason))
        if patience is not None:
            self._reactor.at(attempt.asked + patience, functools.partial(self._give_up, attempt, reason))

    def _heard(self, attempt: PodAttempt) -> None:
        """Look again at an attempt of whose pod there are events."""
        if attempt.pod is not None:
            self._look(attempt, attempt.pod)

    def _give_up(self, attempt: PodAttempt, reason: Reason) -> None:
        """End an attempt that has waited for too long."""
        if attempt.since is None and attempt.judged is None and not attempt.stopping and attempt.said == reason:
            attempt.given_up = reason
            attempt.grace = 0.0
            self._delete(attempt)

    def _count_as_lost(self, attempt: PodAttempt, begun: bool) -> None:
        """End an attempt whose machine does not say that its deleted pod has ended. It may still run there.

        ``begun``: whether it had begun when this was planned. One that began since has more time."""
        if attempt.judged is not None or attempt.ended is not None or attempt.pod is None:
            return
        if (attempt.since is not None) != begun:
            return
        if not begun:  # kubelets before 1.22 say nothing more of a container that they never began
            self._on_end(attempt, lost(attempt.pod))
        else:
            reason = Reason(ReasonCode.EVICTED, f"its Kubernetes node {attempt.pod.spec.node_name} does not answer")
            self._on_end(attempt, lost(attempt.pod)._replace(reason=reason))

    # starting

    def _begin(self, keys: Iterable[str]) -> None:
        for key in keys:
            attempt = self._attempts[key]
            launch = self._launches.get(attempt.launch)
            if launch is not None:
                attempt.memory = launch.memory
                if launch.gang:
                    most = None if takes_replacements(self._settings) else launch.gang
                    attempt.group = self._gangs.join(key, most=most)
            attempt.creating, attempt.asked = True, clock.steady()
            self._starts.begin(attempt, launch, functools.partial(self._on_created, attempt))

    def _on_created(self, attempt: PodAttempt, made: Pod | Decision) -> None:
        attempt.creating = False
        self._refused.pop(attempt.key, None)
        attempt.unsure = isinstance(made, Decision) and made.step is Step.LOOK
        if self._attempts.get(attempt.key) is not attempt or attempt.ended is not None:
            return
        if isinstance(made, Pod):
            self._quota.admitted(attempt.key)
            if attempt.uid is None:
                self._update(attempt, made)
                self._look(attempt, made)
            if attempt.stopping and not attempt.deleting:
                self._end(attempt)
        elif attempt.stopping and made.step is not Step.LOOK:
            self._finish(attempt, Ended(None, None, None, None, None, begun=False))
        elif made.step is Step.FAIL:
            self._finish(attempt, Ended(None, None, made.reason, None, None, begun=False))
        elif made.step is Step.GONE:
            self._going = made.reason
            reason = Reason(ReasonCode.EVICTED, _GONE)
            self._finish(attempt, Ended(None, None, reason, None, None, begun=False))
        else:
            self._later(attempt, made)

    def _later(self, attempt: PodAttempt, made: Decision) -> None:
        if made.reason is not None and attempt.said != made.reason:
            attempt.said = made.reason
            self._reactor.publish(Waiting(attempt.key, made.reason))
        if made.step is Step.AWAY and made.reason is not None:
            self._refused[attempt.key] = made.reason
        if made.quota:
            self._quota.refused(attempt.key)
            if attempt.group and not attempt.bounded:
                attempt.bounded = True
                self._reactor.at(clock.steady() + START_PATIENCE, functools.partial(self._give_up_gang, attempt))
        else:
            self._quota.leave(attempt.key)
            self._reactor.after(made.pause or 1.0, functools.partial(self._begin_again, attempt))

    def _give_up_gang(self, attempt: PodAttempt) -> None:
        """End an attempt of a gang that has waited for a quota for too long, while others of its gang may run."""
        waits = attempt.uid is None and not attempt.creating and not attempt.unsure and not attempt.stopping
        if attempt.ended is None and waits and attempt.said is not None:
            self._finish(attempt, Ended(None, None, attempt.said, None, None, begun=False))
        elif attempt.ended is None and attempt.uid is None and not attempt.stopping:
            self._reactor.after(1.0, functools.partial(self._give_up_gang, attempt))

    def _try_again(self, key: str) -> None:
        attempt = self._attempts.get(key)
        if attempt is None:
            self._quota.leave(key)
        else:
            self._begin_again(attempt)

    def _begin_again(self, attempt: PodAttempt) -> None:
        waits = attempt.uid is None and not attempt.creating and attempt.ended is None
        if self._attempts.get(attempt.key) is attempt and waits:
            self._begin([attempt.key])

    # ending

    def _follow(self, attempt: PodAttempt) -> None:
        if attempt.log is None:
            path = f"{self._place.path}/{attempt.name}/log"
            attempt.log = PodLog(attempt.key, path, self._folders.path(attempt.key, "stdout"))
            self._logs.add(attempt.log)

    def _end(self, attempt: PodAttempt) -> None:
        """Let a pod end. Its task is sent signals where something in the pod can do that: its files can be fetched
        then. Otherwise the pod is deleted."""
        attempt.deleting = True
        if attempt.since is None or attempt.pod is None or not has_keeper(attempt.pod):
            self._delete(attempt)
        elif attempt.signalled:  # it has less time than it was given before
            self._after_term(attempt, attempt.grace or 0.0, sent=True)
        else:
            self._outputs.signal(
                attempt.pod, "TERM", functools.partial(self._after_term, attempt, attempt.grace or 0.0)
            )

    def _after_term(self, attempt: PodAttempt, grace: float, sent: bool | GrassError) -> None:
        if sent is True:
            attempt.signalled = True
            self._reactor.after(grace, functools.partial(self._kill, attempt))
        elif isinstance(sent, UnreachableError) and attempt.unsent < _SIGNAL_TRIES:
            attempt.unsent += 1
            self._reactor.after(_SIGNAL_RETRY, functools.partial(self._term_again, attempt))
        else:
            self._delete_if_runs(attempt)

    def _term_again(self, attempt: PodAttempt) -> None:
        if attempt.judged is None:
            self._end(attempt)

    def _kill(self, attempt: PodAttempt) -> None:
        if attempt.pod is not None and attempt.judged is None:
            self._outputs.signal(attempt.pod, "KILL", lambda _: None)
            self._reactor.after(_KILLED, functools.partial(self._delete_if_runs, attempt))

    def _delete_if_runs(self, attempt: PodAttempt) -> None:
        if attempt.judged is None:
            self._delete(attempt)

    def _delete(self, attempt: PodAttempt) -> None:
        """Let a pod be deleted, once its log is followed: a log that nobody reads when its container ends may be gone.

        There may be more pods than logs that are followed at once, so this waits for a moment only."""
        attempt.deleting = True
        if attempt.log is None or attempt.since is None or attempt.ended is not None:
            self._ask_for_end(attempt)
            return
        ask = functools.partial(self._ask_for_end, attempt)
        self._reactor.after(_LOG_PATIENCE, ask)
        self._logs.hurry(attempt.log, lambda: self._reactor.post(ask))

    def _ask_for_end(self, attempt: PodAttempt) -> None:
        """Ask the server for the end of a pod, unless it knows. The rest of the log of one that has ended is read."""
        grace = attempt.grace or 0.0
        asked = attempt.asked_grace is not None and attempt.asked_grace <= grace
        if not asked and (attempt.judged is None or attempt.ended is not None):
            assert attempt.uid is not None
            attempt.asked_grace = grace
            self._removal.delete(attempt.name, attempt.uid, grace)

    def _on_end(self, attempt: PodAttempt, end: Ended) -> None:
        """Note how a pod has ended, and read the rest of its log."""
        if attempt.judged is not None:
            return
        attempt.judged = end
        self._relays.close(attempt.key)
        if end.begun:
            self._follow(attempt)
            self._fetch(attempt)
        if attempt.log is None:
            self._finish(attempt, end)
        else:
            self._logs.finish(attempt.log)
            self._reactor.after(_LOG_ENDS, attempt.log.follow_no_more)

    def _fetch(self, attempt: PodAttempt) -> None:
        if attempt.pod is not None and has_keeper(attempt.pod):
            attempt.fetching = True
            self._outputs.fetch(attempt.key, attempt.pod, functools.partial(self._on_fetched, attempt))

    def _on_fetched(self, attempt: PodAttempt, unkept: str) -> None:
        attempt.fetching, attempt.unkept = False, unkept
        self._finish_if_complete(attempt)

    def _on_log_read(self, each: PodLog) -> None:
        self._reactor.post(functools.partial(self._on_log_over, each))

    def _on_container_gone(self, each: PodLog) -> None:
        """Take the news that a container is gone whose end the pod does not show. Called in a thread."""

        def look() -> None:
            attempt = self._attempts.get(each.key)
            if attempt is not None and attempt.log is each and attempt.pod is not None and attempt.judged is None:
                self._look(attempt, attempt.pod)

        self._reactor.post(look)

    def _on_log_over(self, each: PodLog) -> None:
        attempt = self._attempts.get(each.key)
        if attempt is not None and attempt.log is each:
            self._finish_if_complete(attempt)

    def _finish_if_complete(self, attempt: PodAttempt) -> None:
        """End an attempt once its log and its files are there."""
        if attempt.judged is None or attempt.ended is not None or attempt.fetching:
            return
        if attempt.log is not None and attempt.log.complete:
            if attempt.unserved:
                attempt.log.note(f"[grass] there was no membership API in its pod: {attempt.unserved}\n".encode())
            if attempt.unkept:
                attempt.log.note(f"[grass] its files in GRASS_OUTPUT were not kept: {attempt.unkept}\n".encode())
            self._finish(attempt, attempt.judged)

    def _finish(self, attempt: PodAttempt, end: Ended) -> None:
        if attempt.since is None and end.begun:
            attempt.begins(end.started)
        attempt.judged = end
        attempt.code, attempt.signal = end.code, end.signal
        attempt.why = attempt.given_up or self._reason(attempt, end)
        attempt.ended = end.ended or clock.wall()
        attempt.sizes = attempt.log.sizes() if attempt.log is not None else {"stdout": 0, "stderr": 0}
        self._quota.leave(attempt.key)
        self._refused.pop(attempt.key, None)
        group = self._gangs.leave(attempt.key)
        if group and has_groups(self._settings):
            self._removal.remove_group(group)
        self._reactor.publish(attempt.observed())
        self._begin(self._limits.leave(attempt.launch, attempt.key))
        if attempt.launch not in self._launches:
            self._limits.drop(attempt.launch)
        self._quota.room()

    def _reason(self, attempt: PodAttempt, end: Ended) -> Reason | None:
        """Return the reason of an end: of who stopped it, unless it ended for another one."""
        if not attempt.stopping:
            pod = attempt.pod
            deleted = self._gone or (pod is not None and pod.metadata.deletion_timestamp)
            if deleted and attempt.given_up is None:
                end = of_deletion(end, _GONE if self._gone else DELETED)
            return end.reason
        ours = end.reason is None or not end.begun or end.reason.code is ReasonCode.EXIT_UNKNOWN
        return attempt.reason if ours else end.reason


def _definite(error: GrassError) -> bool:
    """Return whether an answer is not one of a moment."""
    if isinstance(error, RefusedError):
        return error.http in (403, 404)
    return isinstance(error, (NotAllowedError, InputError))
