"""One cluster on the double of Azure's Kubernetes, in this process and on a clock of its own; the part of it that is on
this machine is a folder.

Used by ``tests/unit/test_aks_*``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from grass.azure.arm import Clock, Reply
from grass.errors import GrassError, WaitTimeoutError
from grass.manifest.aks import AksSettings
from grass.manifest.local_settings import KubernetesSettings
from grass.manifest.settings import parse_settings
from grass.mode_file import write_mode
from grass.provision.aks import cost, create, delete, power, scale
from grass.provision.aks.edges import Edges, Local
from grass.provision.aks.machines import Emptying
from grass.provision.aks.objects import Wanted
from grass.provision.provisioner import Created, RunsAlreadyError, Scaled, ScaleRequest, Session
from grass.system.tree_removal import remove_tree
from grass.wire.cloud import CloudCosts
from tests.doubles.azure_aks import Aks
from tests.doubles.azure_arm import NOT_OFFERED, TYPES, Azure, sku
from tests.support.azure_world import EPOCH, ID, FaultyWorld
from tests.support.needs import require

SKUS = (
    sku("Standard_D4s_v5", "standardDSv5Family", 4, 16),
    sku("Standard_D2s_v5", "standardDSv5Family", 2, 8),
    sku("Standard_D8s_v5", "standardDSv5Family", 8, 32),
    sku("Standard_E4s_v5", "standardESv5Family", 4, 32),
    sku("Standard_E8s_v5", "standardESv5Family", 8, 64, restrictions=NOT_OFFERED),
)


@dataclass
class World(FaultyWorld):
    """``runs``: whether the daemons run here. ``joined``: settings with namespaces that became nodes. ``provided``:
    what was made in Kubernetes, with the kubeconfig that led there."""

    home: Path
    now: float = 0.0
    said: list[str] = field(default_factory=list)
    runs: bool = False
    joined: list[KubernetesSettings] = field(default_factory=list)
    provided: list[tuple[str, Wanted]] = field(default_factory=list)
    broken: GrassError | None = None
    """Why the master cannot be started here."""
    emptied: list[Emptying] = field(default_factory=list)
    reopened: list[str] = field(default_factory=list)
    busy: bool = False
    """Whether tasks on machines that are to go never end."""
    known_machines: int = 100
    """How many machines of a pool Kubernetes knows."""
    fault: Callable[[str, str, Callable[[], Reply]], Reply] = lambda method, url, go: go()
    token: str = "good"
    ids: Iterator[str] = field(default_factory=lambda: iter([ID, "f" * 16, "e" * 16, "d" * 16, "c" * 16]))

    def __post_init__(self) -> None:
        require((TYPES / "validate.py").exists(), "types of Azure", f"they are not in {TYPES}")
        self.azure = Azure(lambda: self.now)
        self.azure.skus += SKUS
        self.azure.prices |= {"Standard_D4s_v5": 0.23, "Standard_D8s_v5": 0.46, "Standard_E4s_v5": 0.3}
        self.azure.limits |= {"cores": 20, "standardDSv5Family": 20}
        self.aks = Aks(self.azure)
        local = Local(self._create, self._start, self._stop, self._end, self._remove)
        clock = Clock(lambda: self.now, self._sleep)
        self.edges = Edges(
            *(local, lambda _: self._send, clock, lambda: next(self.ids), self._provide),
            *(lambda: EPOCH + self.now, self._empty, self._reopen),
        )
        self.session = Session("lab", self.home, self.said.append)

    def plan(self, **keys: object) -> list[str]:
        return create.plan(settings(**keys), self.session, self.edges)

    def create(self, **keys: object) -> Created:
        return create.create(settings(**keys), self.session, self.edges)

    def delete(self) -> None:
        delete.delete(self.session, self.edges)

    def scale(self, zone: str | None = None, **wanted: int) -> Scaled:
        return scale.scale(self.session, self.edges, ScaleRequest(wanted, zone))

    def scale_plan(self, **wanted: int) -> str:
        lines: list[str] = []
        scale.scale(self.session, self.edges, ScaleRequest(wanted, None, lines.append))
        return "\n".join(lines)

    def stop(self) -> bool:
        return power.stop(self.session, self.edges)

    def start(self) -> Created:
        return power.start(self.session, self.edges)

    def costs(self) -> CloudCosts:
        return cost.costs(self.session, self.edges)

    def _create(self, settings: KubernetesSettings) -> Created:
        if self.broken is not None:
            raise self.broken
        if self.runs and not settings.namespaces:
            raise RunsAlreadyError("it runs")
        self.session.folder.mkdir(parents=True, exist_ok=True)
        write_mode(self.session.folder, settings.mode)
        self.runs = True
        self.joined += [settings] if settings.namespaces else []
        return Created(settings.name, settings.mode, str(self.session.folder), "http://127.0.0.1:1")

    def _start(self) -> Created:
        if self.runs:
            raise RunsAlreadyError("it runs")
        self.runs = True
        return Created(self.session.name, AksSettings.mode, str(self.session.folder), "http://127.0.0.1:1")

    def _stop(self) -> bool:
        ran, self.runs = self.runs, False
        return ran

    def _end(self) -> None:
        self.runs = False

    def _remove(self) -> None:
        self.runs = False
        remove_tree(self.session.folder)

    def _empty(self, kubeconfig: Path, wanted: Emptying, say: Callable[[str], None]) -> list[str]:
        self.emptied.append(wanted)
        if self.busy:
            raise WaitTimeoutError(f"pool {wanted.pool}: tasks have not ended")
        return [f"aks-{wanted.pool}-{number}" for number in range(wanted.count)][: self.known_machines]

    def _reopen(self, kubeconfig: Path, pool: str) -> None:
        self.reopened.append(pool)

    def _provide(self, kubeconfig: Path, wanted: Wanted, say: Callable[[str], None]) -> None:
        self.provided.append((kubeconfig.read_text(), wanted))


def settings(**keys: object) -> AksSettings:
    document = {"mode": "k8s/aks", "name": "lab", "cloud": {"location": "westeurope"}, **keys}
    found = parse_settings(document)
    assert isinstance(found, AksSettings)
    return found
