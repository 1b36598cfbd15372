"""Decides who may use the page: by the link's secret, the cookie that replaces it, and the origin of a request. Pure.

A page on another site can send requests to this server, and a name on the internet can point to 127.0.0.1. So the
``Host`` must be ours, a request of another site is refused, and browsers send the cookie only from our own pages. Used
by ``app`` and ``server``.
"""

from __future__ import annotations

import hmac
from collections.abc import Mapping
from dataclasses import dataclass, field

LOOPBACK = "127.0.0.1"
OPEN = "/open/"
"""Path of the link: followed by the secret."""
PUBLIC = ("/assets/",)
"""Paths that need no cookie. These files of the package contain nothing of the cluster."""


class RefusedError(Exception):
    """The request is refused. ``status``: the HTTP status of the answer."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


@dataclass(frozen=True)
class PageAccess:
    """The rules of one page.

    ``host``: HOST:PORT as the browser must name it. ``secret``, ``cookie``: random. ``expires``: steady
    seconds after which nothing is served; None: never.
    """

    host: str
    secret: str = field(repr=False)
    cookie: str = field(repr=False)
    expires: float | None = None
    aliases: tuple[str, ...] = ()
    """Other names of ``host``."""

    @property
    def cookie_name(self) -> str:
        """Cookies are shared by all ports of a host, so each server uses another name."""
        return f"grass-{self.host.rpartition(':')[2]}"

    @property
    def link(self) -> str:
        return f"http://{self.host}{OPEN}{self.secret}"

    def expired(self, now: float) -> bool:
        return self.expires is not None and now >= self.expires

    def accepts(self, secret: str) -> bool:
        return hmac.compare_digest(secret.encode(), self.secret.encode())

    def check(self, method: str, path: str, headers: Mapping[str, str], cookie: str, now: float) -> None:
        """Raise RefusedError if the request must not be answered. ``headers``: with names as in HTTP."""
        host = headers.get("Host", "")
        if host not in (self.host, *self.aliases):
            raise RefusedError(421, f"this server is {self.host}, not {host!r}; use the link that it printed")
        self._check_origin(method, path, headers, host)
        if self.expired(now):
            raise RefusedError(401, "this shared page has expired; run `grass dashboard --share` again")
        if path.startswith((OPEN, *PUBLIC)):
            return
        if not hmac.compare_digest(cookie.encode(), self.cookie.encode()):
            raise RefusedError(401, "this browser has not opened the dashboard; use the link that it printed")

    def _check_origin(self, method: str, path: str, headers: Mapping[str, str], host: str) -> None:
        origin, site = headers.get("Origin"), headers.get("Sec-Fetch-Site")
        if origin is not None and origin != f"http://{host}":
            raise RefusedError(403, "requests of other sites are refused")
        if site not in (None, "same-origin", "none") and not path.startswith(OPEN):
            raise RefusedError(403, "requests of other sites are refused")
        if method == "POST" and origin is None:
            raise RefusedError(403, "a change must come from the page itself")
