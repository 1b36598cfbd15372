"""How this package reaches Azure, the clock, this machine's part of the cluster, and Kubernetes; tests have their own.

Used by this package.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from grass.azure.arm import Arm, Clock, Send
from grass.azure.pipeline import open_pipeline
from grass.manifest.local_settings import KubernetesSettings
from grass.provision.aks.machines import Emptying, empty, reopen
from grass.provision.aks.objects import Wanted, provide
from grass.provision.provisioner import Created, Session
from grass.system import clock, entropy
from grass.system.clock import wall

_CLOCK = Clock(clock.steady, clock.sleep)


@dataclass(frozen=True)
class Local:
    """The part of a cluster that is on this machine.

    ``create``: starts the master, and makes the namespaces of the settings nodes. ``start``: as it was before.
    ``stop``: ends tasks and daemons; ``end_daemons``: leaves what runs in Kubernetes. ``delete``: the folder as well.
    """

    create: Callable[[KubernetesSettings], Created]
    start: Callable[[], Created]
    stop: Callable[[], bool]
    end_daemons: Callable[[], None]
    delete: Callable[[], None]


@dataclass(frozen=True)
class Edges:
    """Ways to the world. ``provide``: makes objects in the Kubernetes of a kubeconfig; ``empty``: lets tasks end on
    machines that go; ``reopen``: ends what a killed command left of that. The rest as for machines."""

    local: Local
    send: Callable[[str], Send] = open_pipeline
    clock: Clock = _CLOCK
    mark: Callable[[], str] = entropy.mark
    provide: Callable[[Path, Wanted, Callable[[str], None]], None] = provide
    wall: Callable[[], float] = wall
    empty: Callable[[Path, Emptying, Callable[[str], None]], list[str]] = empty
    reopen: Callable[[Path, str], None] = reopen

    def arm(self, endpoint: str, session: Session) -> Arm:
        return Arm(self.send(endpoint), endpoint, self.clock, session.progress)
