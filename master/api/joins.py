"""`/v1/join-tokens` and `/v1/join`: how machines become nodes (docs/internals/hosts.md).

A joining machine is an unauthenticated client: its request is unsigned, and the join token in the body says what it may
do. Later it proves its identity with its node's token. Answers wait for the master-agent, so they say what it decided.
Used by ``handlers``.
"""

from __future__ import annotations

from msgspec.structs import replace

import grass
from grass.api.certificates import load_authority
from grass.api.invitation import Invitation, secret_digest
from grass.api.master_certificate import sign_for_node
from grass.api.node_token import is_node_token
from grass.config import Secrets
from grass.errors import ConflictError, InputError, NotAllowedError, NotFoundError, UnreachableError
from grass.model.event_kind import EventKind
from grass.model.lifecycle import NodeState
from grass.model.names import MAX_NAME, NAME_RULE, is_name
from grass.store.join_tokens import JoinToken, token_id
from grass.system.clock import steady
from grass.system.entropy import password
from grass.wire.calls import CertificateRequest, Join, JoinQuestion, JoinTokenRequest, NodeProof
from grass.wire.join_views import (
    CertificateView,
    JoinedView,
    JoinReach,
    JoinTerms,
    JoinTokenRow,
    JoinTokensView,
    JoinTokenView,
)
from grass.wire.node_record import NodeRecord
from grass.wire.node_views import NodeReached, NodeWaited
from grass.wire.tickets import JoinNode, RemoveNode
from master.api import enrolment
from master.api.bundle import find_bundle
from master.api.call import Api, Call, Reply
from master.api.channels import find_node
from master.api.node_wait import wait_for_node
from master.node_calls.client import node_address, why_unreachable

LONGEST = 30 * 86_400.0
"""Seconds that a token may be valid, at most."""
MOST_USES = 1000
AGENT_SECONDS = 10.0
"""Time for the master-agent to take a ticket."""


def make_token(call: Call) -> Reply:
    """Make a join token."""
    request = call.read(JoinTokenRequest)
    name, uses, seconds = request.name, request.uses, request.expires
    if name is not None:
        check_name(name)
    if not 1 <= uses <= MOST_USES:
        raise InputError(f"uses: must be a whole number from 1 to {MOST_USES}, got {uses!r}")
    if not 0 < seconds <= LONGEST:
        raise InputError(f"expires: must be more than 0 and at most 30 days, got {seconds!r} seconds")
    if name is not None and uses > 1:
        raise InputError(
            f"join token for node {name}: valid for one use only; leave out the name or the number of uses"
        )
    now = call.api.wall()
    secret = password()
    token = JoinToken(name, uses, call.user, now + seconds)
    call.api.store.join_tokens.issue(secret_digest(secret), token, now)
    invitation = _invitation(call, secret)
    what = f"join token for {name or 'any machine'}: made; {uses} use(s), valid for {seconds:.0f} s"
    call.log_event(EventKind.JOIN_TOKEN, what)
    return Reply(JoinTokenView(invitation.token(), token.expires, uses, name), 201)


def list_tokens(call: Call) -> JoinTokensView:
    """List the tokens that the store still has, those that expire last first."""
    rows = [_row(digest, token, call.api.wall()) for digest, token in call.api.store.join_tokens.all().items()]
    return JoinTokensView(tuple(sorted(rows, key=lambda row: -row.expires)))


def revoke_token(call: Call, token: str) -> JoinTokenRow:
    """Revoke a token. ``token``: its id as in the list."""
    tokens, now = call.api.store.join_tokens, call.api.wall()
    found = [digest for digest in tokens.all() if token and token_id(digest) == token]
    revoked = tokens.revoke(found[0], now) if found else None
    if revoked is None:
        raise NotFoundError(f"join token {token}: not found; `grass node token --list` lists all tokens")
    call.log_event(EventKind.JOIN_TOKEN, f"join token {token}: revoked")
    return _row(found[0], revoked, now)


def _row(digest: str, token: JoinToken, now: float) -> JoinTokenRow:
    nodes = tuple(sorted(set(token.taken.values())))
    return JoinTokenRow(token_id(digest), token.name, token.uses, token.by, token.expires, token.state(now), nodes)


def _invitation(call: Call, secret: str) -> Invitation:
    config, bundle = call.api.config, find_bundle()
    digest = bundle.digest if bundle is not None else ""
    return Invitation(config.api_urls, call.api.authenticator.key_id, secret, digest, config.name)


def terms(call: Call) -> JoinTerms:
    """Answer what a join token would contain, without making one (`grass node add --plan`)."""
    invitation = _invitation(call, "")
    return JoinTerms(tuple(invitation.urls), invitation.key, invitation.bundle, invitation.cluster)


def check(call: Call) -> JoinedView:
    """Check, for an administrator, whether a machine could join. Changes nothing."""
    request = call.read(JoinQuestion)
    enrolment.check_offer(request.node)
    check_name(request.name)
    _check_version(request)
    _check_free(call.api, request)
    enrolment.check_address(call.api.config, request)
    return _terms_of(call, request)


def _terms_of(call: Call, request: enrolment.JoinRequest) -> JoinedView:
    config, bundle = call.api.config, find_bundle()
    if config.tls:
        load_authority(config.tls_files.folder)  # a machine that gets no certificate would join in vain
    return JoinedView(
        cluster=config.name,
        time=call.api.wall(),
        reach=tuple(JoinReach(what, host, port) for what, host, port in enrolment.reach(config, request)),
        bundle=bundle.digest if bundle else "",
        kinds=tuple(bundle.nodes) if bundle else (),
        isolate=config.master.node_policy.isolate,
        number=call.api.notices.number(),
    )


def join(call: Call) -> Reply:
    """Make a machine a node. With ``check`` only answer whether it could join, and what it must be able to reach."""
    request = call.read(Join)
    enrolment.check_offer(request.node)
    check_name(request.name)
    api, now = call.api, call.api.wall()
    digest = secret_digest(request.secret)
    already = _is_node_already(record := api.store.node(request.name), request)
    by = ""
    if not request.secret and not (already and _may_follow(record)):
        raise NotAllowedError(f"node {request.name}: no such node is known here; a machine needs a join token")
    if request.secret:
        token = api.store.join_tokens.check(digest, request.join_id, request.name, now)
        by = token.by
        _check_version(request)
        if token.taken.get(request.join_id) != request.name:
            _check_free(api, request)
    _check_version(request)
    enrolment.check_address(api.config, request)
    bundle = find_bundle()
    if request.check:
        return Reply(_terms_of(call, request))
    if not already:
        offer = enrolment.node_offer(request)
        ticket = JoinNode(request.name, secret_digest(request.password), by, offer, address=call.address)
        api.store.join_tokens.use(digest, request.join_id, ticket, now)
        _wait_until_known(api, request)
        api.store.join_tokens.joined(request.join_id, request.name)
    secrets = Secrets.load(api.config.home)
    files = enrolment.node_files(api.config, secrets, request, now, bundle.digest if bundle else "")
    standby = (api.config.standby.url,) if api.config.standby is not None else ()
    return Reply(replace(files, already=already, number=api.notices.number(), standby=standby), 201)


def show_join(call: Call, node: str) -> NodeWaited:
    """Wait for a change of the node, on behalf of the node itself."""
    _check_node_token(call, node)
    return wait_for_node(call, node)


def reach(call: Call, node: str) -> NodeReached:
    """Answer whether the master reaches the node's API now. The node may just be starting, so the client retries."""
    _check_node_token(call, node)
    record = find_node(call, node)
    return NodeReached(node_address(record), why_unreachable(call.api.config, record))


def certificate(call: Call, node: str) -> CertificateView:
    """Sign a certificate for a node of the cluster. One that left gets none, so what it has soon expires."""
    request = call.read(CertificateRequest)
    _check_token(call, node, request.token)
    record, config = find_node(call, node), call.api.config
    if record.state is NodeState.LEFT:
        raise NotFoundError(f"node {node}: it left the cluster, so it gets no certificate; let it join again")
    if not config.tls:
        return CertificateView("", "", False)
    signed, authority = sign_for_node(config, record.name, request.request, call.api.wall())
    return CertificateView(signed, authority, config.redis.tls)


def leave(call: Call, node: str) -> NodeWaited:
    """Remove the node that asks for it. Its tasks are placed elsewhere."""
    _check_node_token(call, node)
    record = call.api.store.node(node)
    if record is not None and record.state is not NodeState.LEFT:
        call.ticket(RemoveNode(node, f"node {node}", call.read(NodeProof).force))
    return wait_for_node(call, node)


def check_name(name: object) -> None:
    """Raise InputError unless this may be the name of a node."""
    if not is_name(name):
        raise InputError(f"node name {name!r}: must be at most {MAX_NAME} {NAME_RULE}")


def _check_node_token(call: Call, node: str) -> None:
    _check_token(call, node, call.read(NodeProof).token)


def _check_token(call: Call, node: str, given: str) -> None:
    check_name(node)
    record = call.api.store.node(node)
    joined = None if record is None or record.state is NodeState.LEFT else record.digest
    if not is_node_token(given, Secrets.load(call.api.config.home).node_token, node, joined):
        raise NotAllowedError(f"node {node}: wrong node token for cluster {call.api.config.name}")


def _check_version(request: enrolment.JoinRequest) -> None:
    if request.facts.version != grass.__version__:
        raise ConflictError(
            f"node {request.name}: runs Grass {request.facts.version}, this cluster {grass.__version__}; install the "
            "cluster's version there with `curl MASTER/v1/join.py | sudo python3 - --token …`"
        )


def _check_free(api: Api, request: enrolment.JoinRequest) -> None:
    """Raise ConflictError if the name is taken by another machine.

    A machine may come again with the same password: it was interrupted while it joined, or it is a node that has to get
    its files again."""
    record = api.store.node(request.name)
    if record is None or record.state is NodeState.LEFT or _made_for(record, request):
        return
    raise ConflictError(
        f"node {request.name}: exists already ({record.state.value}, at {record.address or 'no address'}); choose "
        f"another name, or remove that node first with `grass node remove {request.name}`"
    )


def _is_node_already(record: NodeRecord | None, request: enrolment.JoinRequest) -> bool:
    """Return whether this machine has joined before, and only gets its files again. The token keeps its uses."""
    if record is None or record.state in (NodeState.LEFT, NodeState.JOINING):
        return False
    return _made_for(record, request)


def _may_follow(record: NodeRecord | None) -> bool:
    """Return whether a node that comes without a token gets its files again: its master was moved or replaced. It has
    all secrets that it gets. One in quarantine may be stolen, and needs a token."""
    return record is not None and record.state is not NodeState.QUARANTINED


def _made_for(record: NodeRecord, request: enrolment.JoinRequest) -> bool:
    """Return whether the record was made for this machine. A node that never joined (local cluster) has no digest."""
    return record.digest == secret_digest(request.password)


def _wait_until_known(api: Api, request: enrolment.JoinRequest) -> None:
    """Wait until the master-agent has made the node's redis user and its record, in this order."""
    until = steady() + AGENT_SECONDS
    with api.feed.listen() as changed:
        while not api.feed.closed and steady() < until:
            changed.clear()
            record = api.store.node(request.name)
            if record is not None:
                if not _made_for(record, request):
                    raise ConflictError(
                        f"node {request.name}: another machine joined under this name; choose another name"
                    )
                return
            changed.wait(0.1)
    raise UnreachableError(
        f"node {request.name}: the master-agent did not answer within {AGENT_SECONDS:g} s; see `grass status`, then "
        "run the same command again"
    )
