"""`/v1/join-tokens` and `/v1/join`: how machines become nodes (docs/internals/hosts.md).

A machine that joins is a guest: nobody signed its request, and the token in the body says what it may do. Later it
proves itself with its node's token. What the master-agent makes of it is waited for, so that the answer is the truth.
"""

from __future__ import annotations

import hmac
from typing import Any

from flask import Blueprint

import grass
from grass.api.invitation import Invitation, secret_digest
from grass.api.node_token import node_token
from grass.clock import steady
from grass.config import Secrets
from grass.entropy import password
from grass.errors import ConflictError, InputError, NotAllowedError, NotFoundError, UnreachableError
from grass.model.lifecycle import NodeState
from grass.model.names import MAX_NAME, NAME_RULE, is_name
from grass.store.join_tokens import JoinToken
from grass.wire.calls import Join, JoinQuestion, JoinTokenWish, NodeProof
from grass.wire.codec import builtins
from grass.wire.node_record import NodeRecord
from grass.wire.tickets import JoinNode, RemoveNode
from grass.wire.views import JoinedView, JoinReach, JoinTerms, JoinTokenView, NodeReached, NodeWaited
from master.api import enrolment
from master.api.bundle import find_bundle
from master.api.call import Api, Call, Handler, Reply
from master.api.node_client import node_place, why_unreachable
from master.api.node_wait import wait_for_node
from master.api.registry import noun_blueprint

LONGEST = 30 * 86_400.0
"""Seconds that a token may be good for."""
MOST_USES = 1000
AGENT_SECONDS = 10.0
"""For the master-agent to take a ticket."""


def blueprint(api: Api) -> Blueprint:
    handlers: dict[str, Handler] = {
        "token": make_token,
        "terms": terms,
        "check": check,
        "join": join,
        "show": show_join,
        "reach": reach,
        "leave": leave,
    }
    return noun_blueprint("joins", api, handlers)


def make_token(call: Call) -> Reply:
    wish = call.read(JoinTokenWish)
    name, uses, seconds = wish.name, wish.uses, wish.expires
    if name is not None:
        check_name(name)
    if not 1 <= uses <= MOST_USES:
        raise InputError(f"uses: must be a whole number from 1 to {MOST_USES}, got {uses!r}")
    if not 0 < seconds <= LONGEST:
        raise InputError(f"expires: must be more than 0 and at most 30 days, got {seconds!r} seconds")
    if name is not None and uses > 1:
        raise InputError(f"a token for the node {name} is good for one use; leave the name out, or the uses")
    now = call.api.wall()
    secret = password()
    token = JoinToken(name, uses, call.user, now + seconds)
    call.api.store.join_tokens.issue(secret_digest(secret), token, now)
    invitation = _invitation(call, secret)
    what = f"a join token for {name or 'any machine'}, {uses} use(s), {seconds:.0f} s"
    call.api.store.log_event("join-token", call.user, what)
    return Reply(JoinTokenView(invitation.token(), token.expires, uses, name), 201)


def _invitation(call: Call, secret: str) -> Invitation:
    config, bundle = call.api.config, find_bundle()
    digest = bundle.digest if bundle is not None else ""
    return Invitation(enrolment.api_urls(config), call.api.authenticator.key_id, secret, digest, config.name)


def terms(call: Call) -> JoinTerms:
    """For an administrator who wants to know what joining would be, and makes no token for that."""
    invitation = _invitation(call, "")
    return JoinTerms(tuple(invitation.urls), invitation.key, invitation.bundle, invitation.cluster)


def check(call: Call) -> JoinedView:
    wish = enrolment.parse({**builtins(call.read(JoinQuestion)), "secret": "none", "join_id": "0" * 16})
    check_name(wish.name)
    _check_version(wish)
    _check_free(call.api, wish)
    enrolment.check_address(call.api.config, wish)
    return _terms_of(call, wish)


def _terms_of(call: Call, wish: enrolment.Wish) -> JoinedView:
    config, bundle = call.api.config, find_bundle()
    return JoinedView(
        cluster=config.name,
        time=call.api.wall(),
        reach=tuple(JoinReach(what, host, port) for what, host, port in enrolment.reach(config, wish)),
        bundle=bundle.digest if bundle else "",
        kinds=tuple(bundle.nodes) if bundle else (),
    )


def join(call: Call) -> Reply:
    """With ``check``: says whether it could join, and what it must be able to reach; uses nothing up."""
    wish = enrolment.parse(builtins(call.read(Join)))
    check_name(wish.name)
    api, now = call.api, call.api.wall()
    digest = secret_digest(wish.secret)
    token = api.store.join_tokens.check(digest, wish.join_id, wish.name, now)
    _check_version(wish)
    if token.taken.get(wish.join_id) != wish.name:
        _check_free(api, wish)
    enrolment.check_address(api.config, wish)
    bundle = find_bundle()
    if wish.check:
        return Reply(_terms_of(call, wish))
    ticket = JoinNode(wish.name, secret_digest(wish.password), token.by, wish.node())
    api.store.join_tokens.use(digest, wish.join_id, ticket, now)
    _wait_until_known(api, wish)
    api.store.join_tokens.joined(wish.join_id, wish.name)
    secrets = Secrets.load(api.config.home)
    return Reply(enrolment.node_files(api.config, secrets, wish, now, bundle.digest if bundle else ""), 201)


def show_join(call: Call, node: str) -> NodeWaited:
    _check_node_token(call, node)
    return wait_for_node(call, node)


def reach(call: Call, node: str) -> NodeReached:
    """Looked at once, now. The node may just be starting, so whoever asks asks again."""
    _check_node_token(call, node)
    record = call.api.store.node(node)
    if record is None:
        raise NotFoundError(f"node {node} is no part of the cluster any more")
    return NodeReached(node_place(record), why_unreachable(call.api.config, record))


def leave(call: Call, node: str) -> NodeWaited:
    """Of a node that goes by itself. Its tasks are placed elsewhere."""
    _check_node_token(call, node)
    record = call.api.store.node(node)
    if record is not None and record.state is not NodeState.LEFT:
        call.api.store.ticket(RemoveNode(node, f"node {node}", call.read(NodeProof).force))
    return wait_for_node(call, node)


def check_name(name: Any) -> None:
    if not is_name(name):
        raise InputError(f"node name {name!r}: must be at most {MAX_NAME} {NAME_RULE}")


def _check_node_token(call: Call, node: str) -> None:
    check_name(node)
    given = call.read(NodeProof).token
    expected = node_token(Secrets.load(call.api.config.home).node_token, node)
    if not hmac.compare_digest(given.encode(), expected.encode()):
        raise NotAllowedError(f"this is not the token of the node {node} in cluster {call.api.config.name}")


def _check_version(wish: enrolment.Wish) -> None:
    if wish.version != grass.__version__:
        raise ConflictError(
            f"{wish.name} has Grass {wish.version}, this cluster {grass.__version__}; install the cluster's there: "
            "`curl MASTER/v1/join.py | sudo python3 - --token …` does"
        )


def _check_free(api: Api, wish: enrolment.Wish) -> None:
    """A machine that was interrupted when the master had taken it in comes again, with the password it chose."""
    record = api.store.node(wish.name)
    if record is None or record.state is NodeState.LEFT:
        return
    if record.state is NodeState.JOINING and _made_for(record, wish):
        return
    raise ConflictError(
        f"a node {wish.name} exists ({record.state.value}, at {record.address or 'no address'}); choose another "
        f"name, or remove that one first with `grass node remove {wish.name}`"
    )


def _made_for(record: NodeRecord, wish: enrolment.Wish) -> bool:
    """A node that never joined (that of a local cluster) has no digest."""
    return record.digest == secret_digest(wish.password)


def _wait_until_known(api: Api, wish: enrolment.Wish) -> None:
    """Until the master-agent has made the node and its redis user: the user comes first."""
    until = steady() + AGENT_SECONDS
    with api.feed.listen() as changed:
        while not api.feed.closed and steady() < until:
            changed.clear()
            record = api.store.node(wish.name)
            if record is not None:
                if not _made_for(record, wish):
                    raise ConflictError(f"another machine has joined as {wish.name} meanwhile; choose another name")
                return
            changed.wait(0.1)
    raise UnreachableError(
        f"the master-agent has not taken {wish.name} in after {AGENT_SECONDS:g} s; the same command again goes on from "
        "here, and `grass status` says how the daemons are"
    )
