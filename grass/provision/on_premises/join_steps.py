"""Steps of joining a node, around the one step that changes the cluster. Called by ``joining`` and ``node_plan``."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from msgspec import UNSET

from grass import __version__
from grass.api.invitation import Invitation
from grass.api.join_client import JoinClient
from grass.api.known_master import Master
from grass.errors import UndecodableError
from grass.hosts import Host
from grass.manifest.join_file import Offer
from grass.model.runtime import RuntimeName
from grass.node_config import NodeHome
from grass.provision.host_certificate import Signed
from grass.provision.on_premises import install, node_steps, packages
from grass.provision.on_premises.join_record import Own, put_record, record_path
from grass.provision.on_premises.mount import share_steps
from grass.provision.on_premises.node_design import NodeDesign
from grass.provision.on_premises.node_paths import NodePaths
from grass.provision.on_premises.pinned import Pinned
from grass.provision.on_premises.record import Made
from grass.provision.on_premises.steps import Call, Put, Run, Step
from grass.wire.calls import Join, JoinFacts, OfferedNode
from grass.wire.codec import builtins, encode, indented
from grass.wire.join_views import ShareServer

CERTIFICATE_NAME = "get a certificate of the cluster"


def join_request(
    invitation: Invitation, offer: Offer, own: Own, runtimes: Sequence[RuntimeName] = (), *, check: bool = False
) -> Join:
    """Return what the machine sends to the master. ``offer`` is complete: it has a name and an address."""
    node = OfferedNode(
        cpu=offer.cpu,
        memory=offer.memory,
        gpu=offer.gpu,
        labels=offer.labels,
        path=offer.topology,
        runtimes=tuple(runtime.value for runtime in runtimes) or OfferedNode().runtimes,
        mounts=offer.mounts,
        share=offer.share,
    )
    return Join(
        secret=invitation.secret,
        join_id=own.join_id,
        password=own.password,
        name=offer.name or "",
        facts=JoinFacts(address=offer.address or "", api_port=offer.api_port, version=__version__),
        node=node,
        check=check,
    )


def claim_step(
    join_client: JoinClient,
    invitation: Invitation,
    offer: Offer,
    design: NodeDesign,
    paths: NodePaths,
    own: Own,
    made: Made,
    new_node: Callable[[], None],
) -> Step:
    """Return the one step that changes the cluster: it registers the node and writes the master's answer.

    ``new_node``: called unless the machine was this node before, with the same isolation of users. Only then can the
    shepherd and its tasks go on."""

    def do(host: Host) -> None:
        before = host.run(["cat", paths.config], sudo=True)
        reply = join_client.join(builtins(join_request(invitation, offer, own, design.runtimes)))
        assert reply.secrets and reply.config and reply.share is not UNSET, "the reply to a join has them"
        own.node_token, own.share = reply.secrets.node_token, reply.share
        own.number, own.others = reply.number or own.number, list(reply.standby or own.others)
        share = offer.share or (None if paths.rootless else paths.share)  # without root: a folder of the node's own
        config = {**reply.config, "home": paths.home, "runtime_dir": paths.runtime_dir, "share": share}
        text = indented(config)
        if reply.already is not True or not before.ok or not _is_isolated_alike(before.out, text):
            new_node()
        host.put(text.encode(), paths.config, 0o644, paths.owner, sudo=True)
        host.put(indented(reply.secrets).encode(), paths.secrets, 0o600, paths.owner, sudo=True)
        put_record(host, replace(made, details=builtins(own)), paths)

    return Step(claim_name(invitation, offer), (Call(claim_text(offer, paths), do),))


def _is_isolated_alike(before: str, after: str) -> bool:
    """Whether the shepherd of the configuration ``before`` starts processes as the shepherd of ``after`` would."""
    try:
        return NodeHome.parse(before).node.isolate == NodeHome.parse(after).node.isolate
    except UndecodableError:
        return False


def certificate_step(join_client: JoinClient, paths: NodePaths, own: Own, installed: Callable[[], None]) -> Step:
    """Return the step that gets the node's certificate. The node makes the key, which never leaves it.

    ``installed``: called when there is a new one, so that the daemons learn of it."""
    program = (paths.python, "-m", "grass.provision.host_certificate")
    prefix = () if paths.rootless else ("runuser", "-u", paths.owner.partition(":")[0], "--")

    def do(host: Host) -> None:
        request = host.run([*prefix, *program, "request", paths.home], sudo=True).check().out
        answer = join_client.certificate(own.name or "", own.node_token, request)
        if answer.certificate:
            signed = encode(Signed(answer, Master(tuple(own.urls), own.key))).encode()
            host.run([*prefix, *program, "install", paths.home], stdin=signed, sudo=True).check()
            installed()

    check = Run((*prefix, *program, "check", paths.home))
    return Step(CERTIFICATE_NAME, (Call(certificate_text(paths), do),), check)


def certificate_text(paths: NodePaths) -> str:
    return f"make a key in {paths.home}/tls, and have the master sign its certificate"


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
    certificate: Step,
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
    yield certificate


def steps_after_claim(
    design: NodeDesign,
    paths: NodePaths,
    own: Own,
    bundle: str,
    *,
    again: bool,
    new_node: bool = True,
    share: ShareServer | None = None,
) -> Iterator[Step]:
    """Return the steps after the claim, whose answer names the share. ``share``: the expected share, for a plan.
    ``bundle``, ``again``, ``new_node``: as of ``start_step``."""
    share = own.share or share
    if design.mount is not None and share is not None:
        yield from share_steps(paths, design.mount, share)
    yield pinned_step(Pinned.of(own), paths)
    yield node_steps.unit_step(paths, isolated=design.isolate is not None, share=design.share)
    yield node_steps.start_step(paths, bundle, again=again, new_node=new_node)


def pinned_step(pinned: Pinned, paths: NodePaths) -> Step:
    owner = paths.owner if paths.rootless else "root:root"
    return Step("note which master is its own", (Put(paths.pinned, encode(pinned).encode(), 0o644, owner),))


def expected_share(reach: tuple[tuple[str, str, int], ...]) -> ShareServer | None:
    """Return the share that will be mounted, without its password, which is known only after the claim."""
    for what, host, port in reach:
        if what.startswith("share"):
            return ShareServer(host, port)
    return None
