"""Plan of the nodes of a settings file for `grass create --plan`, when there is no master to ask.

Called by ``create``. Inspects the machines; must change nothing on them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from grass.api.invitation import Invitation
from grass.config import ClusterConfig
from grass.errors import GrassError
from grass.hosts import Host
from grass.hosts.ssh import SshHost
from grass.manifest.join_file import Offer
from grass.manifest.on_premises import HostSettings
from grass.provision.on_premises import node_design, node_paths, node_steps
from grass.provision.on_premises.bundle import UNKNOWN
from grass.provision.on_premises.facts import gather
from grass.provision.on_premises.join_record import Own
from grass.provision.on_premises.join_steps import (
    CERTIFICATE_NAME,
    certificate_text,
    claim_name,
    claim_text,
    steps_after_claim,
    steps_to_claim,
)
from grass.provision.on_premises.machines import open_host
from grass.provision.on_premises.node_upgrade import is_outdated, upgrade_of
from grass.provision.on_premises.steps import Call, Step, plan_lines
from grass.provision.provisioner import Session
from grass.wire.join_views import ShareServer


@dataclass(frozen=True)
class PlannedMaster:
    """The planned master. ``kinds``: kinds of machines that its bundle supports. ``bundle``: its digest, or
    ``UNKNOWN``."""

    config: ClusterConfig
    settings: HostSettings
    url: str
    bundle: str
    kinds: tuple[str, ...]


def plan_node(session: Session, master: PlannedMaster, settings: HostSettings, offer: Offer | None) -> Iterator[str]:
    """Yield the plan of one machine, or the reason why it cannot be inspected or cannot become a node.

    ``offer`` None: a node that the settings do not name; it is upgraded only.
    """
    host = open_host(settings, session.client_dir, session.ask)
    label = f"node {host.name}"
    try:
        with host:
            session.progress(f"{label}: connecting to {host.access}")
            yield from _lines(session, host, label, master, offer)
    except GrassError as error:
        yield f"{label}: cannot {'join' if offer else 'be upgraded'}: {error}"


def _lines(session: Session, host: SshHost, label: str, master: PlannedMaster, offer: Offer | None) -> Iterator[str]:
    host.become_root()
    facts = gather(host, session.name)
    own_config = master.config if host.access.address == master.settings.address else None
    paths = node_paths.of_root(session.name, facts.config or own_config)
    own = Own.from_facts(facts, paths)
    if offer is None and not own.node_token:
        return
    yield f"{label} ({host.access}): {facts.os_name}, {facts.machine}"
    if own.node_token:
        if master.bundle == UNKNOWN:
            upgrade = "; it is upgraded if it runs another Grass, and its tasks go on"
        else:
            old = is_outdated(host, session.name, master.bundle)
            upgrade = f"; {upgrade_of(facts.config, master.config)}" if old else ""
        yield f"{label}: joined before, as {own.name}{upgrade}"
        return
    assert offer is not None
    offer = replace(offer, name=offer.name or facts.hostname, address=offer.address or host.server_address())
    samba = master.config.samba
    design = node_design.design(
        node_design.fitting(facts, master.kinds),
        offer,
        paths,
        served=samba is not None,
        joined=False,
        isolate=master.config.master.node_policy.isolate,
    )
    invitation = Invitation((master.url,), "", "", master.bundle, session.name)
    share = ShareServer(samba.host, samba.port, samba.share, samba.user) if samba else None
    made = node_steps.made(facts, design, paths)
    claim = Step(claim_name(invitation, offer), (Call(claim_text(offer, paths), _refuse),))
    certificate = Step(CERTIFICATE_NAME, (Call(certificate_text(paths), _refuse),))
    steps = [
        *steps_to_claim(design, paths, invitation, master.bundle, made, own, claim, certificate),
        *steps_after_claim(design, paths, own, master.bundle, again=True, share=share),
    ]
    yield from plan_lines(steps, label)


def _refuse(_: Host) -> None:
    raise AssertionError("a plan is not carried out")
