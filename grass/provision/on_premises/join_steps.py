"""Steps of joining a node, around the one step that changes the cluster. Called by ``joining`` and ``node_plan``."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

from grass import __version__
from grass.api.invitation import Invitation
from grass.api.join_client import JoinClient
from grass.hosts import Host
from grass.manifest.join_file import Offer
from grass.provision.on_premises import install, node_steps, packages
from grass.provision.on_premises.join_record import SHARE_ACCESS, Own, ShareAccess, put_record, record_path
from grass.provision.on_premises.mount import share_steps
from grass.provision.on_premises.node_design import NodeDesign
from grass.provision.on_premises.node_paths import NodePaths
from grass.provision.on_premises.record import Made
from grass.provision.on_premises.steps import Call, Put, Step
from grass.wire.codec import builtins

if TYPE_CHECKING:
    from grass.api.client import View


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
    join_client: JoinClient,
    invitation: Invitation,
    offer: Offer,
    design: NodeDesign,
    paths: NodePaths,
    own: Own,
    made: Made,
) -> Step:
    """Return the one step that changes the cluster: it registers the node and writes the master's answer."""

    def do(host: Host) -> None:
        request = join_request(invitation, offer, own)
        request["node"]["runtimes"] = [runtime.value for runtime in design.runtimes]
        reply = join_client.join(request)
        own.node_token, own.share = reply["secrets"]["node_token"], SHARE_ACCESS.convert(reply["share"])
        mounted = None if paths.rootless else reply["config"].get("share") or paths.share
        share = offer.share or mounted  # without root: no mount, a folder of the node's own
        config = {**reply["config"], "home": paths.home, "runtime_dir": paths.runtime_dir, "share": share}
        host.put(_json(config), paths.config, 0o644, paths.owner, sudo=True)
        host.put(_json(reply["secrets"]), paths.secrets, 0o600, paths.owner, sudo=True)
        put_record(host, replace(made, details=own.details()), paths)

    return Step(claim_name(invitation, offer), (Call(claim_text(offer, paths), do),))


def claim_name(invitation: Invitation, offer: Offer) -> str:
    return f"join the cluster {invitation.cluster} as {offer.name}"


def claim_text(offer: Offer, paths: NodePaths) -> str:
    return f"ask the master to take it in as {offer.name}; write {paths.config} and {paths.secrets}"


def steps_to_claim(
    design: NodeDesign,
    paths: NodePaths,
    invitation: Invitation,
    bundle: str,
    made: Made,
    own: Own,
    claim: Step | None,
) -> Iterator[Step]:
    if design.packages:
        yield packages.fetch_step(design.packages, design.packager)
    if not paths.rootless:
        yield install.record_step(made, record_path(paths))
    yield from node_steps.before_claim(design, paths, invitation.urls, bundle)
    if paths.rootless:
        yield Step("note what it chose", (Put(record_path(paths), made.text(), 0o600, paths.owner),))
    if claim is not None:
        yield claim


def steps_after_claim(
    design: NodeDesign, paths: NodePaths, own: Own, *, again: bool, share: ShareAccess | None = None
) -> Iterator[Step]:
    """Return the steps after the claim, which tells the share. ``share``: the expected share, for a plan."""
    share = own.share or share
    if design.mount is not None and share is not None:
        yield from share_steps(paths, design.mount, builtins(share))
    yield node_steps.unit_step(paths)
    yield node_steps.start_step(paths, again=again)


def expected_share(reach: tuple[tuple[str, str, int], ...]) -> ShareAccess | None:
    """Return the share that will be mounted, without its password, which is known only after the claim."""
    for what, host, port in reach:
        if what.startswith("share"):
            return ShareAccess(host, port)
    return None


def _json(value: View) -> bytes:
    return (json.dumps(value, indent=2) + "\n").encode()
