"""The runtime's memory of one attempt. What must survive the kube-agent is in the pod itself. Used by this package."""

from __future__ import annotations

from collections.abc import Mapping

from grass.kubernetes.objects import Pod
from grass.model.reasons import Reason
from grass.system import clock
from node.runtime.kubernetes.job_files import told
from node.runtime.kubernetes.judge import TASK, Ended, Waits, container_of, wall
from node.runtime.kubernetes.logs import PodLog
from node.runtime.protocol import Observed, Start


class PodAttempt:
    """One attempt. ``uid`` None: its pod was not created, or the server has not answered yet (``creating``)."""

    def __init__(self, key: str, launch: str, name: str, start: Start | None = None) -> None:
        self.key = key
        self.launch = launch
        self.name = name
        self.start = start
        self.creating = False
        self.unsure = False
        """Whether its pod may exist: the server has not answered."""
        self.uid: str | None = None
        self.pod: Pod | None = None
        """As it was seen last."""
        self.address: str | None = None
        """Of its pod, if others may want to know it."""
        self.wanted: Mapping[str, str] = {}
        """Annotations by which its pod is told of its job."""
        self.told: dict[str, str] | None = None
        """Those that the server has. None: it was made without any, or not yet."""
        self.telling = False
        """Whether a change of them is under way."""
        self.memory = 0
        self.group = ""
        """Name of the group of its gang; empty: it is of none."""
        self.bounded = False
        """Whether a time is set after which it does not wait for a quota any more, because others of its gang do."""
        self.queued = False
        """Whether it was seen to wait in a queue of Kubernetes, or may have been."""
        self.image = ""
        self.started: float | None = None
        self.since: float | None = None
        self.asked = clock.steady()
        """When its pod was created, or before that, when it was asked for; its patience counts from here."""
        self.heard: Waits | None = None
        """Why it waits, as events say."""
        self.asking = False
        """Whether its events are looked at again and again."""
        self.looked: float | None = None
        """When they were looked at."""
        self.stopping = False
        self.grace: float | None = None
        """Seconds that the server was, or will be, told for its end."""
        self.leaving: Reason | None = None
        """Why somebody else ends its pod while its task runs."""
        self.asked_grace: float | None = None
        """Seconds that the server was told for its end; None: it was not asked for."""
        self.signalled = False
        """Whether its task was sent TERM."""
        self.unsent = 0
        """Signals that could not be sent."""
        self.deleting = False
        """Whether its end was begun."""
        self.reason: Reason | None = None
        """Why it was stopped."""
        self.said: Reason | None = None
        """Why it waits, as reported."""
        self.judged: Ended | None = None
        """Its end, while the rest of its log is still being read."""
        self.given_up: Reason | None = None
        """Why it was deleted before it began."""
        self.log: PodLog | None = None
        self.fetching = False
        """Whether its files are being fetched."""
        self.unserved = ""
        """Why its pod has no membership API."""
        self.unkept = ""
        """Why its files, or some of them, were not kept."""
        self.ended: float | None = None
        self.code: int | None = None
        self.signal: int | None = None
        self.why: Reason | None = None
        self.sizes: dict[str, int] | None = None

    def update(self, pod: Pod, now: float | None) -> None:
        """Take over the facts of its pod. ``now``: by the server's clock, which also says when the pod was created.

        An agent that adopts the pod counts its patience from there, too, and needs no mark of its own for that.
        """
        made = wall(pod.metadata.creation_timestamp)
        if self.uid is None and now is not None and made is not None:
            self.asked = clock.steady() - max(0.0, now - made)
        self.uid, self.pod = pod.metadata.uid, pod
        self.creating = False
        if self.told is None:
            self.told = told(pod)
        if self.told is not None:
            self.address = pod.status.pod_ip or self.address
        task = container_of(pod, TASK)
        if task is not None and task.image_id:
            self.image = task.image_id

    def begins(self, started: float | None) -> None:
        """Note that its container runs. ``started``: by the clock of its machine, which is not compared with ours."""
        self.started = started or clock.wall()
        self.since = clock.steady()

    def observed(self) -> Observed:
        return Observed(
            self.key,
            None,
            self.started,
            self.since,
            self.stopping,
            self.ended,
            self.code,
            self.signal,
            self.why,
            self.sizes,
            image=self.image or None,
            address=self.address,
            machine=(self.pod.spec.node_name or None) if self.pod is not None else None,
            leaving=self.leaving,
            log_gaps=self.log.gaps if self.log is not None else 0,
        )
