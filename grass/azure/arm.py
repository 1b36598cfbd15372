"""Client of Azure's resource manager: repeats what may pass, waits for long operations, and says what it waits for.

All requests are idempotent, so whoever does not know whether one arrived sends it again. Used by this package and
``grass.provision.azure``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from grass.azure.faults import AzureError, AzureForbiddenError, AzureSlowError, Fault, Refusal, as_error, refusal_of
from grass.azure.resources import RESOURCES, Kind
from grass.backoff import Backoff
from grass.errors import NotFoundError, UnreachableError
from grass.manifest.document import Document
from grass.model.amounts import show_span

PATIENCE = 20 * 60.0
"""Seconds that one request, and one long operation, may take in all."""
LINK_PATIENCE = 120.0
"""Seconds without any reply."""
HELD_PATIENCE = 210.0
"""Seconds until what another resource uses is given up. Azure keeps a card for its machine for 180."""
_POLL_SECONDS = 5.0
"""Azure allows 15 looks a minute at one operation."""
_TELL_EVERY = 60.0
_DELETE_SECONDS = {Kind.GROUP: 120, Kind.MACHINE: 60, Kind.KUBERNETES: 360}
ENDED = ("Succeeded", "Failed", "Canceled")


@dataclass(frozen=True)
class Reply:
    """Reply to one request. ``headers``: with names in lower case."""

    status: int
    content: Document
    headers: Mapping[str, str] = field(default_factory=dict)


class LinkError(UnreachableError):
    """No reply came. Whether the request arrived is not known."""


class Send(Protocol):
    def __call__(self, method: str, url: str, body: Document | None) -> Reply:
        """Make one try. Raises LinkError, AzureLoginError."""


@dataclass(frozen=True)
class Clock:
    steady: Callable[[], float]
    sleep: Callable[[float], None]


class Arm:
    """The resource manager at ``endpoint``. ``progress`` takes lines for the user."""

    def __init__(self, send: Send, endpoint: str, clock: Clock, progress: Callable[[str], None]) -> None:
        self._send = send
        self._endpoint = endpoint
        self.clock = clock
        self.progress = progress

    def get(self, path: str, version: str, what: str, query: str = "") -> Document:
        """Raises NotFoundError."""
        return self.request("GET", self.url(path, version, query), what).content

    def find(self, path: str, version: str, what: str, query: str = "") -> Document | None:
        try:
            return self.get(path, version, what, query)
        except NotFoundError:
            return None

    def list(self, path: str, version: str, what: str, query: str = "") -> list[Document]:
        return list(self.pages(self.url(path, version, query), what))

    def pages(
        self, url: str, what: str, items: str = "value", following: str = "nextLink", patience: float = LINK_PATIENCE
    ) -> Iterator[Document]:
        """Yield the items of a list that comes in pages."""
        while url:
            content = self.request("GET", url, what, patience=patience).content
            found = content.get(items)
            yield from (item for item in found if isinstance(item, dict)) if isinstance(found, list) else ()
            url = str(content.get(following) or "")

    def url(self, path: str, version: str, query: str = "") -> str:
        return f"{self._endpoint}{path}?api-version={version}" + (f"&{query}" if query else "")

    def request(
        self,
        method: str,
        url: str,
        what: str,
        body: Document | None = None,
        *,
        patience: float = LINK_PATIENCE,
        held: float = HELD_PATIENCE,
        most: float = PATIENCE,
        seen: Callable[[], bool] | None = None,
    ) -> Reply:
        """Send until Azure accepts it. ``patience``: seconds to go on without any reply, 0: one try; ``held``: while
        something else uses it; ``most``: in all. ``seen`` is asked before it is sent again, and returns whether the
        first one arrived after all.

        Raises NotFoundError, and what ``as_error`` returns; AzureSlowError and UnreachableError after too long.
        """
        begin, waits, registered = self.clock.steady(), Backoff(1.0, 30.0), False
        while True:
            limit, asked = most if patience else 0.0, None
            try:
                reply = self._send(method, url, body)
            except LinkError as error:
                why, limit = str(error), patience
            else:
                if reply.status < 400:
                    return reply
                refusal = refusal_of(reply.content, reply.status)
                if refusal.fault is Fault.REGISTER and not registered:
                    registered = True
                    self.register_of(url, what)
                    continue
                if refusal.fault is Fault.GONE:
                    raise NotFoundError(f"{what}: does not exist on Azure ({refusal.code})")
                late = self.clock.steady() - begin >= held
                if refusal.fault not in (Fault.WAIT, Fault.HELD) or (refusal.fault is Fault.HELD and late):
                    raise as_error(refusal, what)
                why, asked = str(refusal), _seconds(reply.headers.get("retry-after"))
            wait = max(waits.next(), asked or 0.0)
            if self.clock.steady() + wait - begin > limit:
                self._give_up(what, why, wait, reached=limit == most)
            self.progress(f"{what}: {why}; trying again in {show_span(max(1, wait))}")
            self.clock.sleep(wait)
            if seen is not None and seen():
                return Reply(200, {})

    def _give_up(self, what: str, why: str, wait: float, *, reached: bool) -> None:
        if reached:
            raise AzureSlowError(f"{what}: {why}; repeat the command in {show_span(max(60, wait))}")
        raise UnreachableError(f"{what}: {why}; repeat the command")

    def patch(self, kind: Kind, path: str, body: Document, what: str) -> Reply:
        return self.request("PATCH", self.url(path, kind.version), what, body)

    def put(self, kind: Kind, path: str, body: Document, what: str) -> Reply:
        return self.request("PUT", self.url(path, kind.version), what, body)

    def put_new(self, kind: Kind, path: str, body: Document, what: str) -> Reply:
        """Make what does not exist, and never change it: the body of a machine is for its first time only."""
        url = self.url(path, kind.version)
        return self.request("PUT", url, what, body, seen=lambda: self.find(path, kind.version, what) is not None)

    def delete(self, kind: Kind, path: str, what: str, query: str = "", held: float = HELD_PATIENCE) -> None:
        """Delete something, and wait until it is gone. What is not there is gone. ``held``: as for ``request``."""
        accepted = self.ask_to_delete(kind, path, what, query, held)
        if accepted is not None:
            self.until_deleted(kind, accepted, what)

    def ask_to_delete(
        self, kind: Kind, path: str, what: str, query: str = "", held: float = HELD_PATIENCE
    ) -> Reply | None:
        """Begin to delete something. Return the reply, for ``until_deleted``; None: it is gone already."""
        try:
            return self.request("DELETE", self.url(path, kind.version, query), what, held=held)
        except NotFoundError:
            return None

    def until_deleted(self, kind: Kind, accepted: Reply, what: str) -> None:
        self.finish(accepted, f"deleting {what}", usual=_DELETE_SECONDS.get(kind, kind.usual))

    def act(self, kind: Kind, path: str, verb: str, what: str, seen: Callable[[], bool] | None = None) -> Reply:
        """Begin an action on a resource, such as to deallocate it. Return the reply, for ``finish``. ``seen``: as for
        ``request``."""
        return self.request("POST", self.url(f"{path}/{verb}", kind.version), what, seen=seen)

    def finish(self, accepted: Reply, what: str, *, usual: float) -> None:
        """Wait for the end of a long operation of either style. Raises what ``as_error`` returns, AzureSlowError."""
        if url := operation_url(accepted):
            self.follow(url, what, usual=usual)

    def follow(self, url: str, what: str, *, usual: float, since: float | None = None) -> None:
        """Wait for the end of an operation whose address is known, possibly from an earlier command. ``since``: when
        waiting for it began; None: now."""
        told = self.clock.steady()
        begin = told if since is None else since
        while True:
            try:
                reply = self.request("GET", url, what)
            except NotFoundError:
                return  # forgotten by Azure: the resource itself says how it ended
            state = reply.content.get("status")
            if state in ("Failed", "Canceled"):
                # the error of the operation itself; its reply has the status 200
                raise as_error(refusal_of(reply.content.get("error") or {"code": state}), what)
            if reply.status != 202 and (not isinstance(state, str) or state == "Succeeded"):
                return
            told = self._wait(reply, what, begin, told, usual)

    def until_settled(self, path: str, kind: Kind, what: str) -> Document | None:
        """Wait until Azure does not work on a resource any more. Return it; None: it is gone."""
        begin = told = self.clock.steady()
        while (found := self.find(path, kind.version, what)) is not None and state_of(found) not in ENDED:
            told = self._wait(Reply(200, {}), what, begin, told, kind.usual)
        return found

    def _wait(self, reply: Reply, what: str, begin: float, told: float, usual: float) -> float:
        now = self.clock.steady()
        if now == told == begin:
            self.progress(f"{what}: waiting for Azure (usually about {show_span(usual)})")
        elif now - told >= _TELL_EVERY:
            self.progress(f"{what}: Azure is still working, after {show_span(now - begin)}")
            told = now
        if now - begin > PATIENCE:
            raise AzureSlowError(
                f"{what}: Azure has not finished after {show_span(PATIENCE)}; it goes on there, and the same command "
                "looks again"
            )
        asked = _seconds(reply.headers.get("retry-after"))
        self.clock.sleep(_POLL_SECONDS if asked is None else max(1.0, asked))
        return told

    def register_of(self, url: str, what: str) -> None:
        """Register the provider that a request needs."""
        head, _, rest = url.partition("/providers/")
        subscription = head.partition("/resourceGroups")[0].removeprefix(self._endpoint)
        self.register(subscription, rest.partition("/")[0], what)

    def register(self, subscription: str, namespace: str, what: str) -> None:
        path = f"{subscription}/providers/{namespace}"
        try:
            self.request("POST", self.url(f"{path}/register", RESOURCES), f"registering {namespace}")
        except AzureForbiddenError as error:
            raise AzureForbiddenError(f"{error}, or to run `az provider register -n {namespace}` once") from error
        begin = told = self.clock.steady()
        while self.get(path, RESOURCES, what).get("registrationState") != "Registered":
            told = self._wait(Reply(200, {}), f"registering {namespace}", begin, told, 120)


def operation_url(accepted: Reply) -> str:
    """Return where the operation of an accepted request is followed; empty: it has ended."""
    if accepted.status not in (200, 201, 202):
        return ""
    return accepted.headers.get("azure-asyncoperation") or (
        accepted.headers.get("location", "") if accepted.status == 202 else ""
    )


def state_of(resource: Document) -> str:
    """Return ``provisioningState``; resources without one are ready."""
    properties = resource.get("properties")
    return str(properties.get("provisioningState", "Succeeded")) if isinstance(properties, dict) else "Succeeded"


def failed(what: str) -> AzureError:
    """Return the error for a resource whose operation failed before this command looked."""
    return AzureError(f"{what}: Azure failed to make it", Refusal("Failed", ""))


def _seconds(text: str | None) -> float | None:
    return float(text) if text is not None and text.isdecimal() else None
