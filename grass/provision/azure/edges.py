"""How this package reaches Azure, the clock and the new machine, in one value; tests have their own.

Used by this package.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from grass.azure.arm import Arm, Clock, Send
from grass.azure.pipeline import open_pipeline
from grass.errors import UnreachableError
from grass.hosts import AccessRefusedError, HostKeyError, HostUnreachableError
from grass.manifest.azure import AzureSettings
from grass.manifest.on_premises import HostSettings
from grass.model.amounts import show_span
from grass.provision.azure.look import Region, Subscription, region_of
from grass.provision.azure.record import Record
from grass.provision.on_premises import create as on_premises
from grass.provision.on_premises.machines import open_host
from grass.provision.provisioner import Created, Session
from grass.system import clock, entropy
from grass.system.clock import wall

SSH_PATIENCE = 600.0
_FIRST_BOOT_SECONDS = 900.0
_RETRY_SECONDS = 5.0


def reach(host: HostSettings, session: Session) -> None:
    """Wait until a new machine answers SSH and has done its first boot. Raises UnreachableError, AccessRefusedError."""
    until = clock.steady() + SSH_PATIENCE
    session.progress(f"machine at {host.address}: waiting for SSH (usually about 1m)")
    while True:
        try:
            with open_host(host, session.client_dir, session.ask) as machine:
                machine.connect()
                # packages of the first boot hold apt's lock; a machine without cloud-init has nothing to wait for
                machine.run(["cloud-init", "status", "--wait"], timeout=_FIRST_BOOT_SECONDS)
                return
        except HostKeyError:
            raise
        except (HostUnreachableError, AccessRefusedError) as error:
            # a login is refused until the first boot has made the user
            if clock.steady() > until:
                if isinstance(error, AccessRefusedError):
                    raise
                raise UnreachableError(f"{error}; waited {show_span(SSH_PATIENCE)}") from error
        clock.sleep(_RETRY_SECONDS)


def _region(arm: Arm, record: Record) -> Region:
    return region_of(arm, Subscription(record.subscription, ""), record.location)


_CLOCK = Clock(clock.steady, clock.sleep)


@dataclass(frozen=True)
class Edges:
    """Ways to the world.

    ``send``: from the endpoint, how requests are sent. ``mark``: makes the id of a new cluster. ``install``: makes a
    machine that answers the cluster's master. ``wall``: for what it costs. ``region``: sizes and quotas where a cluster
    is."""

    send: Callable[[str], Send] = open_pipeline
    clock: Clock = _CLOCK
    mark: Callable[[], str] = entropy.mark
    reach: Callable[[HostSettings, Session], None] = reach
    install: Callable[[AzureSettings, Session], Created] = on_premises.create
    wall: Callable[[], float] = wall
    region: Callable[[Arm, Record], Region] = _region

    def arm(self, endpoint: str, session: Session) -> Arm:
        return Arm(self.send(endpoint), endpoint, self.clock, session.progress)
