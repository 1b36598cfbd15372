"""One call of `grass`: the state that all commands share.

``main`` creates the invocation, the shared options fill it, and each command receives it. Used by this package.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import click

from grass.cli.output import Output
from grass.errors import NotFoundError
from grass.system import environment

if TYPE_CHECKING:
    from grass.api.client import Client


@dataclass
class Invocation:
    """One run of `grass`: the global options, and the client that commands share."""

    output: Output
    named_cluster: str | None = None
    debug: bool = False
    _client: Client | None = None

    @property
    def cluster(self) -> str:
        """Return the name of the cluster that the command applies to."""
        return environment.current_cluster() if self.named_cluster is None else self.named_cluster

    def existing_cluster(self, name: str | None = None) -> str:
        """Return ``name``, or the command's cluster. Raise NotFoundError if this machine has no such cluster."""
        name = self.cluster if name is None else name
        if "/" in name or name in ("", ".", "..") or not environment.cluster_home(name).is_dir():
            raise NotFoundError(f"no cluster {name!r} in {environment.grass_home()}; `grass create` creates one")
        return name

    def client(self) -> Client:
        """Return the connection to the cluster; every call returns the same connection."""
        if self._client is None:
            self._client = self._connect()
        return self._client

    def close(self) -> None:
        if self._client is not None:
            self._client.close()

    def _connect(self) -> Client:
        name = self.existing_cluster()
        from grass.api.client import Client

        client = Client(name)
        client.on_away(self.output.note)
        return client


pass_invocation = click.make_pass_decorator(Invocation)
