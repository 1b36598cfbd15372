"""The loop of the operator: look at resources and jobs, decide, and carry out.

It looks at all of them each time, so nothing depends on what happened while it was away. Run by ``node.operator``.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import NamedTuple

from msgspec import UNSET

from grass.api.client import Client
from grass.errors import ConflictError, InputError, NotAllowedError, NotFoundError, UnreachableError
from grass.kubernetes.api import PLAIN_MERGE, ApiServer, BusyError, RefusedError
from grass.kubernetes.custom_kinds import JOBS, MARS_JOB, SCALES, TRAINING_JOB, Kind
from grass.kubernetes.custom_resources import Resource, other_writer
from grass.kubernetes.names import short
from grass.kubernetes.objects import ANY
from grass.manifest.document import Document
from grass.model.exhaustive import assert_never
from grass.model.namespace import Serve
from grass.system import clock
from grass.wire.job_views import JobView
from node.operator import identity, jobs, page, scales, status
from node.operator.events import warning
from node.operator.pages import AGAIN, Pages
from node.operator.status import Said
from node.operator.watch import Watch

BUSY, IDLE, WHY = 1.0, 10.0, 5.0
"""Seconds between two looks at jobs, with resources that are not finished and without; and at why a job waits."""

log = logging.getLogger(__name__)


class Place(NamedTuple):
    """Which resources are served. ``cluster``: id of the Grass cluster. ``node``: of it, that is the namespace.

    ``serve``: where their tasks run.
    """

    cluster: str
    node: str
    namespace: str
    serve: Serve

    @property
    def operator(self) -> str:
        """The tag of its jobs."""
        return f"{short(self.cluster)}.{self.node}"

    @property
    def writer(self) -> str:
        """The name under which the server notes what it writes."""
        return f"grass-{short(self.cluster)}-{short(self.node)}"


class Operator:
    """Serves the resources of a namespace.

    ``home``: the folder in which tasks start that are processes on this machine. ``beat``: called often, while it
    works.
    """

    def __init__(
        self, client: Client, server: ApiServer, place: Place, home: str, beat: Callable[[], None] = lambda: None
    ) -> None:
        self._client = client
        self._server = server
        self._place = place
        self._home = home
        self._beat = beat
        self._new = threading.Event()
        self._watch = Watch(server, place.namespace, self._new.set)
        self._written: dict[str, Document] = {}
        """Uid → the status that was written last: a CRD of another system may have dropped fields of it."""
        self._published: dict[str, tuple[int, Document]] = {}
        """Uid → for which number of restarts of its job the page was published, and what the status says of it."""
        self._pages = Pages(server, place.namespace)
        self._page_again: dict[str, float] = {}
        """Uid → steady time before which its page is not tried again."""
        self._told: dict[tuple[str, str], str] = {}
        """Uid and reason → what was said last."""
        self._reasons: dict[str, tuple[float, str]] = {}
        """Job → until when it is not asked for again why the job waits, and the answer."""
        self._stopped: set[str] = set()
        """Jobs that were asked to stop, and have not ended."""
        self._away = False

    def run(self, stop: threading.Event) -> None:
        self._watch.start()
        try:
            while not stop.is_set():
                self._beat()
                self._new.clear()
                busy = self._guarded_turn()
                self._wait(stop, BUSY if busy else IDLE)
        finally:
            self._watch.stop()

    def wake(self) -> None:
        """Look again now. From any thread."""
        self._new.set()

    def _wait(self, stop: threading.Event, seconds: float) -> None:
        if not stop.is_set():
            self._new.wait(seconds)

    def _guarded_turn(self) -> bool:
        """Return whether to look again soon."""
        try:
            busy = self.turn()
        except UnreachableError as error:
            if not self._away:
                log.warning("%s; trying again", error)
            self._away = True
            return True
        if self._away:
            log.info("the cluster and the API server answer again")
        self._away = False
        return busy

    def turn(self) -> bool:
        """Take the next step for each resource. Return whether one of them is not finished.

        Raises UnreachableError: the cluster or the API server does not answer.
        """
        known = self._watch.resources()
        active = {each.id: each for each in self._client.jobs(tag=[f"{identity.OPERATOR}={self._place.operator}"])}
        busy = False
        for kind in (*JOBS, *SCALES):
            if kind in SCALES and TRAINING_JOB not in known:
                continue
            for resource in _oldest_first(known.get(kind, {})):
                if jobs.is_finished(resource):
                    continue
                busy = True
                self._beat()
                if not self._is_ours(kind, resource):
                    continue
                try:
                    self._serve(kind, resource, active, known)
                except NotFoundError:  # its job was deleted just now, which the next turn sees
                    continue
                except (RefusedError, NotAllowedError, BusyError) as error:  # of this one; others may be served
                    self._tell(kind, resource, "CannotServe", str(error))
        self._stop_orphans(known, active)
        self._forget(known, active)
        return busy

    def _is_ours(self, kind: Kind, resource: Resource) -> bool:
        other = other_writer(resource, self._place.writer)
        if other is None:
            return True
        self._tell(
            kind,
            resource,
            "AnotherOperator",
            f"{other} writes the status of this {kind.name}, so Grass does not serve it; end the other operator, or "
            "let Grass serve another namespace. Then create the resource again",
        )
        return False

    def _serve(
        self,
        kind: Kind,
        resource: Resource,
        active: Mapping[str, JobView],
        known: Mapping[Kind, Mapping[str, Resource]],
    ) -> None:
        if kind in SCALES:
            self._serve_scale(kind, resource, active, known.get(TRAINING_JOB, {}))
        else:
            self._serve_job(kind, resource, active)

    def _serve_job(self, kind: Kind, resource: Resource, active: Mapping[str, JobView]) -> None:
        job = self._job(kind, resource, active)
        operations = self._client.operations(job.id) if job is not None and job.operation is not None else []
        why = self._why(job) if job is not None else ""
        step = jobs.decide(kind, resource, self._place.operator, self._place.serve, job, operations, why)
        match step:
            case None:
                return
            case jobs.Stop():
                self._stop(step.job)
            case jobs.Start():
                self._start(kind, resource, step)
            case Said():
                more = self._page(resource, job) if kind == MARS_JOB and job is not None else {}
                self._say(kind, resource, step, job, more)
            case _:
                assert_never(step)

    def _job(self, kind: Kind, resource: Resource, active: Mapping[str, JobView]) -> JobView | None:
        run = identity.run_of(kind, resource)
        if run.id in active:
            return active[run.id]
        with suppress(NotFoundError):
            return self._client.job(run.id, specification=False)
        return None

    def _why(self, job: JobView) -> str:
        """Return why no task of a job runs; empty: one runs, or nobody knows. It is asked for now and then."""
        if job.reason is not None or job.result is not None or any(part.ran for part in job.components.values()):
            self._reasons.pop(job.id, None)
            return ""
        known, now = self._reasons.get(job.id), clock.steady()
        if known is not None and now < known[0]:
            return known[1]
        found = next((each.reason.message for each in self._client.why(job.id).groups if each.reason is not None), "")
        self._reasons[job.id] = now + WHY, found
        return found

    def _start(self, kind: Kind, resource: Resource, step: jobs.Start) -> None:
        """Start the job. The cluster knows the id of one that was started before, and starts no second one."""
        try:
            started = self._client.start(step.document, cwd=self._home, job_id=step.run.id)
        except (InputError, ConflictError) as error:
            self._say(kind, resource, jobs.rejected(error))
            return
        log.info("%s %s: started job %s", kind.name, resource.metadata.name, started.id)
        message = ". ".join((f"job {started.name}", *started.warnings))
        self._say(kind, resource, Said("Created", f"{kind.name}Created", message))

    def _serve_scale(
        self, kind: Kind, resource: Resource, active: Mapping[str, JobView], targets: Mapping[str, Resource]
    ) -> None:
        target = scales.target_of(resource, targets.values())
        job = None if target is None else self._job(TRAINING_JOB, target, active)
        operations = [] if job is None else self._client.operations(job.id)
        step = scales.decide(kind, resource, target, job, operations)
        match step:
            case None:
                return
            case scales.File():
                step = self._file(kind, resource, step)
            case Said():
                pass
            case _:
                assert_never(step)
        own = identity.operation_of(kind, resource)
        filed = next((each for each in operations if each.id == own), None)
        self._say(kind, resource, step, more={} if filed is None else scales.pods_of(kind, resource, filed))

    def _file(self, kind: Kind, resource: Resource, step: scales.File) -> Said:
        request = step.request
        try:
            filed = self._client.scale(
                step.job,
                request.component,
                delta=request.delta,
                remove=request.remove,
                deadline=request.deadline,
                reason=f"{kind.name} {resource.metadata.name}",
                operation=step.id,
            )
        except (InputError, ConflictError, NotFoundError) as error:
            return scales.rejected(error)
        log.info("%s %s: filed operation %s of job %s", kind.name, resource.metadata.name, filed.id, step.job)
        return scales.said_of(filed)

    def _page(self, resource: Resource, job: JobView) -> Document:
        """Publish the page of a job that runs, if it is wanted, once for each start of its tasks."""
        wanted, uid = page.host_of(resource), resource.metadata.uid
        known = self._published.get(uid)
        if not wanted or job.result is not None or not job.started:
            return {} if known is None else known[1]
        if known is not None and known[0] == job.restarts:
            return known[1]
        if clock.steady() < self._page_again.get(uid, 0.0):
            return {}
        said = self._publish(resource, job)
        if said:
            self._published[uid] = (job.restarts, said)
        return said

    def _publish(self, resource: Resource, job: JobView) -> Document:
        """Return what the status says of the page; nothing: its task does not run yet."""
        specification = self._client.job(job.id).specification
        web = page.web_of(specification) if specification is not UNSET else None
        if web is None:
            return {}
        task = next((each for each in self._client.tasks(job.id, web.component) if each.ports and each.started), None)
        if task is None or task.ports is None:
            return {}
        if task.node != self._place.node:
            why = f"the page is on node {task.node}, which is not in the namespace, so webHost is not served"
            self._tell(MARS_JOB, resource, "NoPage", why)
            return {"webServiceAddresses": []}
        try:
            self._pages.publish(resource, job.id, web, task.ports[web.port])
        except (RefusedError, NotAllowedError, ConflictError) as error:
            self._tell(MARS_JOB, resource, "NoPage", f"webHost is not served: {error}")
            self._page_again[resource.metadata.uid] = clock.steady() + AGAIN
            return {}
        return {"webServiceAddresses": [page.address(resource)]}

    def _say(
        self, kind: Kind, resource: Resource, said: Said, job: JobView | None = None, more: Document | None = None
    ) -> None:
        """Write the status, if it says something else than before."""
        now, uid = status.moment(clock.wall()), resource.metadata.uid
        new = {**status.status_of(kind, resource, said, now, job), **(more or {})}
        old = resource.status or {}
        if all(old.get(key) == value for key, value in new.items()) or self._written.get(uid) == new:
            return
        path = f"{kind.path(self._place.namespace)}/{resource.metadata.name}/status?fieldManager={self._place.writer}"
        body = {"metadata": {"uid": uid}, "status": new}  # the uid: another resource of this name is refused
        try:
            self._server.patch(path, body, ANY, PLAIN_MERGE)
        except RefusedError as error:
            if error.http not in (404, 409):  # it is gone, or another one has its name
                raise
            return
        self._written[uid] = new
        if said.reason == status.REJECTED:
            self._tell(kind, resource, said.reason, said.message)

    def _stop(self, job_id: str) -> None:
        if job_id in self._stopped:
            return
        self._stopped.add(job_id)
        with suppress(ConflictError, NotFoundError):  # it has just ended
            self._client.stop(job_id)
            log.info("stopped job %s, because its resource was deleted", job_id)

    def _stop_orphans(self, known: Mapping[Kind, Mapping[str, Resource]], active: Mapping[str, JobView]) -> None:
        uids = {kind.name: frozenset(found) for kind, found in known.items()}
        for job in active.values():
            of_kind = uids.get(job.tags.get(identity.KIND, ""))
            if of_kind is not None and jobs.is_orphan(job, of_kind, job.tags.get(identity.UID, "")):
                self._stop(job.id)

    def _tell(self, kind: Kind, resource: Resource, reason: str, message: str) -> None:
        """Say something about a resource once: in the log, and as an event of it."""
        about = (resource.metadata.uid, reason)
        if self._told.get(about) == message:
            return
        self._told[about] = message
        log.warning("%s %s: %s", kind.name, resource.metadata.name, message)
        event = warning(kind, resource, reason, message, status.moment(clock.wall()))
        with suppress(RefusedError, NotAllowedError):  # no right to create events: the log has it
            self._server.post(f"/api/v1/namespaces/{self._place.namespace}/events", event, ANY)

    def _forget(self, known: Mapping[Kind, Mapping[str, Resource]], active: Mapping[str, JobView]) -> None:
        """Drop what is kept of resources that are gone, and of jobs that have ended."""
        self._stopped &= active.keys()
        self._reasons = {job: said for job, said in self._reasons.items() if job in active}
        uids = {uid for found in known.values() for uid in found}
        self._written = {uid: said for uid, said in self._written.items() if uid in uids}
        self._published = {uid: said for uid, said in self._published.items() if uid in uids}
        self._page_again = {uid: when for uid, when in self._page_again.items() if uid in uids}
        self._told = {about: said for about, said in self._told.items() if about[0] in uids}


def _oldest_first(resources: Mapping[str, Resource]) -> list[Resource]:
    return sorted(resources.values(), key=lambda each: (each.metadata.creation_timestamp or "", each.metadata.name))
