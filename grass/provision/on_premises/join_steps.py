"""The steps with which a machine becomes a node, around the one that changes the cluster. Called by ``joining`` and
``node_plan``."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from grass import __version__
from grass.api.guest import Guest
from grass.api.invitation import Invitation
from grass.hosts import Host
from grass.manifest.join_file import Offer
from grass.provision.on_premises import install, node_steps, packages
from grass.provision.on_premises.join_record import Own, put_record, record_path
from grass.provision.on_premises.mount import share_steps
from grass.provision.on_premises.node_design import NodeDesign
from grass.provision.on_premises.node_places import Places
from grass.provision.on_premises.record import Made
from grass.provision.on_premises.steps import Call, Put, Step

View = dict[str, Any]


def join_request(invitation: Invitation, offer: Offer, own: Own) -> View:
    facts = {"address": offer.address, "api_port": offer.api_port, "version": __version__}
    return {
        "secret": invitation.secret,
        "join_id": own.join_id,
        "password": own.password,
        "name": offer.name,
        "facts": facts,
        "node": {
            "cpu": offer.cpu,
            "memory": offer.memory,
            "gpu": offer.gpu,
            "labels": offer.labels,
            "path": list(offer.topology),
            "mounts": list(offer.mounts),
            "share": offer.share,
        },
    }


def claim_step(
    guest: Guest, invitation: Invitation, offer: Offer, design: NodeDesign, places: Places, own: Own, made: Made
) -> Step:
    """The one step that changes the cluster: it makes the node known and writes what the master answers."""

    def do(host: Host) -> None:
        request = join_request(invitation, offer, own)
        request["node"]["runtimes"] = [runtime.value for runtime in design.runtimes]
        reply = guest.join(request)
        own.node_token, own.share = reply["secrets"]["node_token"], reply["share"]
        mounted = None if places.rootless else reply["config"].get("share") or places.share
        share = offer.share or mounted  # without root nothing is mounted: its tasks have a folder of its own
        config = {**reply["config"], "home": places.home, "runtime_dir": places.runtime_dir, "share": share}
        host.put(_json(config), places.config, 0o644, places.owner, sudo=True)
        host.put(_json(reply["secrets"]), places.secrets, 0o600, places.owner, sudo=True)
        put_record(host, replace(made, details=own.details()), places)

    return Step(claim_name(invitation, offer), (Call(claim_text(offer, places), do),))


def claim_name(invitation: Invitation, offer: Offer) -> str:
    return f"join the cluster {invitation.cluster} as {offer.name}"


def claim_text(offer: Offer, places: Places) -> str:
    return f"ask the master to take it in as {offer.name}; write {places.config} and {places.secrets}"


def steps_to_claim(
    design: NodeDesign,
    places: Places,
    invitation: Invitation,
    bundle: str,
    made: Made,
    own: Own,
    claim: Step | None,
) -> Iterator[Step]:
    if design.packages:
        yield packages.fetch_step(design.packages, design.packager)
    if not places.rootless:
        yield install.record_step(made, record_path(places))
    yield from node_steps.before_claim(design, places, invitation.urls, bundle)
    if places.rootless:
        yield Step("note what it chose", (Put(record_path(places), made.text(), 0o600, places.owner),))
    if claim is not None:
        yield claim


def steps_after_claim(
    design: NodeDesign, places: Places, own: Own, *, again: bool, share: dict[str, Any] | None = None
) -> Iterator[Step]:
    """What there is to mount is known only now; ``share`` says what is expected."""
    share = own.share or share
    if design.mount is not None and share is not None:
        yield from share_steps(places, design.mount, share)
    yield node_steps.unit_step(places)
    yield node_steps.start_step(places, again=again)


def expected_share(reach: tuple[tuple[str, str, int], ...]) -> dict[str, Any] | None:
    """What will be mounted, as far as it is known before; not with which password."""
    for what, host, port in reach:
        if what.startswith("share"):
            return {"host": host, "port": port, "share": "grass", "user": "grass", "password": ""}
    return None


def _json(value: View) -> bytes:
    return (json.dumps(value, indent=2) + "\n").encode()
