"""A way to the API of a master in a pod, through the API server of Kubernetes. Used by ``transport``."""

from __future__ import annotations

import socket
import threading
from typing import TYPE_CHECKING

import msgspec

from grass.errors import ConflictError, NotFoundError, UnreachableError
from grass.wire.codec import Form, builtins

if TYPE_CHECKING:
    from grass.api.keyring import Profile
    from grass.kubernetes.api import ApiServer


class PodWay(msgspec.Struct, frozen=True):
    """``tunnel`` of a profile. ``kubeconfig`` and ``context`` None: as kubectl finds them."""

    pod: str
    """Its path in the API."""
    kubeconfig: str | None = None
    context: str | None = None


_WAY: Form[PodWay] = Form(PodWay)


def tunnel_of(way: PodWay) -> dict[str, object]:
    found: dict[str, object] = builtins(way)
    return found


class PodTunnel:
    """One way; credentials are read with the first socket. Safe for several threads."""

    def __init__(self, profile: Profile) -> None:
        self._way = _WAY.convert(profile.tunnel)
        self._lock = threading.Lock()
        self._server: ApiServer | None = None

    def close(self) -> None:
        server, self._server = self._server, None
        if server is not None:
            server.close()

    def open(self, host: str, port: int) -> socket.socket:
        """Open a socket to a port of the pod. Raises UnreachableError and what ``Login.read`` raises."""
        from grass.kubernetes import ports

        try:
            return ports.connect(self._api(), self._way.pod, port, 0.0)  # a refusal is seen by the request
        except (NotFoundError, ConflictError, UnreachableError, OSError) as error:  # it may be starting again
            raise UnreachableError(f"its pod {self._way.pod.rpartition('/')[2]} does not answer: {error}") from error

    def _api(self) -> ApiServer:
        from grass.kubernetes.api import ApiServer
        from grass.kubernetes.credentials import Login, shared_credential

        with self._lock:
            if self._server is None:
                self._server = ApiServer(shared_credential(Login(self._way.kubeconfig, self._way.context)))
            return self._server
