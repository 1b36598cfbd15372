"""Ends and removes pods, in threads. Used by ``runtime``.

A pod is deleted by its uid: another one with its name is never meant. Its finalizer is taken away only once the master
has noted its end, and a minute later: a request for its creation that was late would otherwise find its name free, and
run the attempt again.
"""

from __future__ import annotations

import functools
import logging
from collections.abc import Callable, Collection

from grass.errors import GrassError
from grass.kubernetes import names
from grass.kubernetes.api import ApiServer, RefusedError
from grass.kubernetes.objects import ANY, OBJECTS, PODS, Pod
from grass.kubernetes.queues import groups_path
from grass.model.reasons import Reason, ReasonCode
from grass.system import clock
from node.runtime.kubernetes.lease import delete_lease
from node.runtime.kubernetes.place import Place
from node.runtime.reactor import Reactor

TOMBSTONE = 60.0
"""Seconds for which the name of a pod stays taken, from when it was created, or first seen."""
_LEAST_GRACE = 1
"""Seconds. With 0 the server would not wait for the machine of a running pod."""
_RETRY = 2.0

log = logging.getLogger(__name__)


class Removal:
    """``release`` and ``delete`` return at once; what fails is tried again."""

    def __init__(self, api: ApiServer, place: Place, reactor: Reactor, tombstone: float) -> None:
        self._api = api
        self._place = place
        self._reactor = reactor
        self._tombstone = tombstone
        self._released: set[str] = set()
        """Uids of pods that are being removed."""
        self.trouble: Reason | None = None
        """Which right is missing, if the server refused the last request for want of one."""

    def continues(self, pod: Pod) -> bool:
        """Return whether a pod is being removed. The removal that an earlier agent began goes on."""
        if pod.metadata.uid not in self._released and names.noted(pod) is not None:
            self.release(pod, at_once=False)
        return pod.metadata.uid in self._released

    def delete(self, name: str, uid: str, grace: float) -> None:
        """Ask for the end of a pod."""
        self._reactor.errands.ask(
            functools.partial(_delete, self._api, self._path(name), uid, max(_LEAST_GRACE, round(grace))),
            functools.partial(self._after_delete, name, uid, grace),
        )

    def release(self, pod: Pod, *, at_once: bool) -> None:
        """Remove an ended pod. ``at_once``: no pod can be created in its namespace, so that its name may be free.

        The pod itself says that its end was noted, and when: a later agent goes on from there."""
        noted = names.noted(pod)
        now = self._api.wall() or clock.wall()
        left = 0.0 if at_once else self._tombstone - max(0.0, now - noted if noted is not None else 0.0)
        self._released.add(pod.metadata.uid)
        self._remove(pod.metadata.name, pod.metadata.uid, now if noted is None else noted, clock.steady() + left)

    def remove_group(self, name: str) -> None:
        """Remove the group of a gang that has no pods any more."""
        self._reactor.errands.ask(
            functools.partial(_delete_group, self._api, self._place, name),
            lambda result: self._after_group(name, result),
        )

    def _after_group(self, name: str, result: GrassError | None) -> None:
        if isinstance(result, GrassError):
            log.info("pod group %s: cannot be deleted now: %s; trying again", name, result)
            self._reactor.after(_RETRY, lambda: self.remove_group(name))

    def remove_other_groups(self, kept: Callable[[], Collection[str]]) -> None:
        """Remove groups that an earlier agent left. ``kept``: asked once they are listed, because others are made
        meanwhile."""

        def listed(result: list[str] | GrassError) -> None:
            if isinstance(result, GrassError):
                log.info("pod groups cannot be listed now: %s; trying again", result)
                self._reactor.after(_RETRY, lambda: self.remove_other_groups(kept))
                return
            for name in set(result) - set(kept()):
                self.remove_group(name)

        self._reactor.errands.ask(functools.partial(_groups, self._api, self._place), listed)

    def _remove(self, name: str, uid: str, noted: float, until: float) -> None:
        self._reactor.removers.ask(
            functools.partial(_note_and_delete, self._api, self._path(name), uid, noted),
            functools.partial(self._after_remove, name, uid, noted, until),
        )

    def _path(self, name: str) -> str:
        return f"{self._place.path}/{name}"

    def _after_delete(self, name: str, uid: str, grace: float, result: bool | GrassError) -> None:
        self._note(result)
        if isinstance(result, GrassError):
            log.info("pod %s: cannot be deleted now: %s; trying again", name, result)
            self._reactor.after(_RETRY, lambda: self.delete(name, uid, grace))

    def _after_remove(self, name: str, uid: str, noted: float, until: float, result: bool | GrassError) -> None:
        self._note(result)
        if isinstance(result, GrassError):
            self._reactor.after(_RETRY, lambda: self._remove(name, uid, noted, until))
        elif result:
            self._reactor.at(until, lambda: self._strip(name, uid))
        else:
            self._released.discard(uid)

    def _strip(self, name: str, uid: str) -> None:
        self._reactor.removers.ask(
            functools.partial(_strip, self._api, self._path(name), uid),
            functools.partial(self._after_strip, name, uid),
        )

    def _after_strip(self, name: str, uid: str, result: bool | GrassError) -> None:
        self._note(result)
        if isinstance(result, GrassError):
            log.info("pod %s: its finalizer cannot be removed now: %s; trying again", name, result)
            self._reactor.after(_RETRY, lambda: self._strip(name, uid))
        else:
            self._released.discard(uid)

    def _note(self, result: object) -> None:
        refused = isinstance(result, RefusedError) and result.http == 403
        self.trouble = Reason(ReasonCode.RUNTIME, f"Kubernetes refuses the agent: {result}") if refused else None


def sweep(api: ApiServer, place: Place, *, remove: bool, groups: bool = False) -> None:
    """End all pods of a node. With ``remove`` nothing of it stays; otherwise their ends can still be reported.

    ``groups``: whether gangs have groups there."""
    page = api.get(place.path, PODS, {"labelSelector": names.selector(place.cluster, place.node)})
    for each in page.items:
        path = f"{place.path}/{each.metadata.name}"
        _delete(api, path, each.metadata.uid)
        if remove:
            _strip(api, path, each.metadata.uid)
    for name in _groups(api, place) if groups else ():
        _delete_group(api, place, name)
    if remove:
        delete_lease(api, place)


def _groups(api: ApiServer, place: Place) -> list[str]:
    query = {"labelSelector": names.selector(place.cluster, place.node)}
    return [each.metadata.name for each in api.get(groups_path(place.namespace), OBJECTS, query).items]


def _delete_group(api: ApiServer, place: Place, name: str) -> None:
    _is_there(lambda: api.delete(f"{groups_path(place.namespace)}/{name}", ANY))


def _note_and_delete(api: ApiServer, path: str, uid: str, noted: float) -> bool:
    """Say in a pod that its end was noted, then delete it; return whether it is still there."""
    body = {"metadata": {"uid": uid, "annotations": {names.NOTED: f"{noted:.0f}"}}}
    return _is_there(lambda: api.patch(path, body, ANY)) and _delete(api, path, uid, 0)


def _delete(api: ApiServer, path: str, uid: str, grace: int | None = None) -> bool:
    """Ask for the end of a pod; return whether it is still there. ``grace`` None: its own."""
    options: dict[str, object] = {} if grace is None else {"gracePeriodSeconds": grace}
    return _is_there(lambda: api.delete(path, ANY, {**options, "preconditions": {"uid": uid}}))


def _strip(api: ApiServer, path: str, uid: str) -> bool:
    """Take our finalizer away, by a patch of one value: no other change can conflict with it."""
    body = {"metadata": {"uid": uid, "$deleteFromPrimitiveList/finalizers": [names.FINALIZER]}}
    return _is_there(lambda: api.patch(path, body, ANY))


def _is_there(request: Callable[[], object]) -> bool:
    """Make a request for one pod. Return False if it is gone, or another pod has its name: a DELETE is a conflict then,
    and a patch would change the uid, which is invalid. From a pod that is ending and has no finalizer none can be
    removed: servers take that for an addition."""
    try:
        request()
    except RefusedError as error:
        details = error.status.details
        invalid = {each.field for each in details.causes} if details is not None else set()
        if error.http in (404, 409) or (error.http == 422 and "metadata.uid" in invalid):
            return False
        if error.http == 422 and "metadata.finalizers" in invalid:
            return True
        raise
    return True
