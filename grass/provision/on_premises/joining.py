"""Joining of a machine: facts, checks, questions to the master, steps, and the wait until the node is READY.

A node whose master has another address than when it joined joins again, and gets all that names the master anew.

All ways of joining use this module: `grass join` works on this machine, `grass node add` works over SSH. ``Host`` is
the only difference. The same call continues an interrupted one: the machine's record holds its earlier choices. Used by
``grass.cli.join`` and ``node_add``.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from msgspec import structs

from grass.api.invitation import Invitation
from grass.api.join_client import JoinClient
from grass.errors import ConflictError, GrassError, InputError, NotAllowedError, UnreachableError
from grass.hosts import Host
from grass.manifest.join_file import Offer
from grass.model.isolation import UidRange
from grass.model.lifecycle import NodeState
from grass.model.reasons import ReasonCode
from grass.network_address import network_address
from grass.provision.on_premises import install, node_design, node_paths, node_steps, offers, packages
from grass.provision.on_premises.facts import Facts, gather
from grass.provision.on_premises.join_record import Own, record_path, with_record
from grass.provision.on_premises.join_steps import (
    certificate_step,
    claim_step,
    expected_share,
    join_request,
    steps_after_claim,
    steps_to_claim,
)
from grass.provision.on_premises.node_design import NodeDesign
from grass.provision.on_premises.node_paths import NodePaths
from grass.provision.on_premises.steps import Progress, plan_lines, run_steps
from grass.system import clock
from grass.wire.calls import Join
from grass.wire.codec import builtins

READY_SECONDS = 120.0
REACH_SECONDS = 5.0
"""Seconds in which the node's API must answer the master; the API may still be starting."""
_NOT_YET = (NodeState.JOINING, NodeState.SILENT, NodeState.LOST)
"""States of a node whose node-agent has not reported since it was started."""
SHARE_SECONDS = 30.0
"""Seconds in which the share must answer: the node-agent may still report that of the address before."""
_SLICE = 10.0
_PAUSE = 0.25

if TYPE_CHECKING:
    from grass.wire.join_views import JoinedView
    from grass.wire.node_views import NodeView


class NotReadyError(InputError):
    """The machine is set up, but its probe reports an error. The same command checks again."""

    code = "not-ready"


class NotReachedError(GrassError):
    """The node is READY, ``view`` shows it, but the master cannot reach its API."""

    code = "not-reached"

    def __init__(self, message: str, view: NodeView) -> None:
        super().__init__(message)
        self.view = view


@dataclass(frozen=True)
class Asked:
    """Answers of the master before any change."""

    cluster: str
    bundle: str
    served: bool
    reach: tuple[tuple[str, str, int], ...]
    clock_ahead: float
    kinds: tuple[str, ...] = ()
    """Kinds of machines that the bundle supports; empty: unknown."""
    isolate: UidRange | None = None
    """Ids for accounts of users, if the cluster isolates them."""
    granted: bool = False
    """The master already knows this node, so no grant is requested."""


def join(
    host: Host,
    join_client: JoinClient,
    invitation: Invitation,
    offer: Offer | None,
    *,
    progress: Progress,
    paths: NodePaths | None = None,
    plan: Callable[[str], None] | None = None,
    taken_in: Callable[[str], None] = lambda _: None,
    check: Callable[[Join], JoinedView] | None = None,
) -> NodeView | None:
    """Join a machine and return the node's view once the node is READY.

    ``offer`` None: the one with which it joined before. ``plan`` takes the lines of the steps; then nothing is changed,
    and the result is None. ``check`` asks the master whether the machine could join; None: the machine asks with the
    invitation's secret. ``taken_in`` is called with the node's name once the cluster knows the node, even if later
    steps fail. ``paths`` None: the system's paths, as root.

    Raises errors of ``grass.errors`` and ``grass.hosts``. NotReachedError: the node is READY, but the master cannot
    reach its API. Nothing is changed before all checks have passed.
    """
    found = _checked(host, join_client, invitation, offer, progress, paths, check)
    label, own, asked, design, paths = found.label, found.own, found.asked, found.design, found.paths
    made = replace(node_steps.made(found.facts, design, paths), details=builtins(found.noted))
    new: list[str] = []
    claim = None
    if not asked.granted:
        claim = claim_step(
            join_client, invitation, found.offer, design, paths, own, made, new_node=lambda: new.append("node")
        )
    certificate = certificate_step(join_client, paths, own, lambda: new.append("certificate"))
    steps = list(steps_to_claim(design, paths, invitation, asked.bundle, made, own, claim, certificate))
    share = own.share or expected_share(asked.reach)
    expected = list(steps_after_claim(design, paths, own, asked.bundle, again=True, share=share))
    if plan is not None:
        for line in plan_lines([*steps, *expected], label):
            plan(line)
        return None
    run_steps(host, steps, progress, label, after=len(expected))
    taken_in(label)
    again = claim is not None or bool(new)
    rest = list(steps_after_claim(design, paths, own, asked.bundle, again=again, new_node="node" in new))
    run_steps(host, rest, progress, label, before=len(steps))
    view = wait_until_ready(join_client, label, own, progress)
    if view.state == NodeState.READY:
        check_reached(join_client, label, own, view)
    return view


def prepare(
    host: Host,
    join_client: JoinClient,
    invitation: Invitation,
    name: str,
    *,
    progress: Progress,
    check: Callable[[Join], JoinedView] | None = None,
) -> None:
    """Install on a machine what a node of the cluster needs, and no more: the cluster does not know it. Arguments and
    errors are those of ``join``. What then joins from an image of the machine finds all of it."""
    found = _checked(host, join_client, invitation, Offer(name=name), progress, None, check)
    paths, design, bundle = found.paths, found.design, found.asked.bundle
    steps = [
        *([packages.fetch_step(design.packages, design.packager)] if design.packages else []),
        install.record_step(node_steps.made(found.facts, design, paths), record_path(paths)),
        *node_steps.before_claim(design, paths, invitation.urls, bundle),
    ]
    run_steps(host, steps, progress, found.label)


@dataclass(frozen=True)
class _Checked:
    """What is known of a machine once all checks have passed. ``label``: its name in messages. ``noted``: what its
    record says of its own until it has joined."""

    label: str
    facts: Facts
    offer: Offer
    own: Own
    noted: Own
    asked: Asked
    design: NodeDesign
    paths: NodePaths


def _checked(
    host: Host,
    join_client: JoinClient,
    invitation: Invitation,
    offer: Offer | None,
    progress: Progress,
    paths: NodePaths | None,
    check: Callable[[Join], JoinedView] | None,
) -> _Checked:
    """Ask the machine and the master, and check everything. Changes nothing. Arguments are as in ``join``."""
    facts, since = gather(host, invitation.cluster), clock.steady()
    paths = paths or node_paths.of_root(invitation.cluster, facts.config)
    facts = with_record(host, facts, paths)
    own = Own.from_facts(facts, paths)
    before = own.urls
    moved = bool(before) and before != list(invitation.urls)
    chosen = offer or own.offer or Offer()
    offer = _complete(host, facts, chosen, invitation, own)
    label = offer.name or facts.hostname
    ask = check or (lambda request: join_client.join(builtins(request)))
    asked = _ask(join_client, ask, invitation, offer, own, facts, since, moved=moved)
    if not asked.granted:
        own.offer = offer
    elif own.offer is not None:
        offers.check_same(label, own.offer, offer, address_chosen=chosen.address is not None)
    facts = node_design.fitting(facts, asked.kinds)
    if warning := node_design.clock_warning(label, asked.clock_ahead):
        progress(f"{label}: warning: {warning}")
    joined = bool(own.node_token)
    design = node_design.design(
        facts, offer, paths, served=asked.served, joined=joined, granted=asked.granted, isolate=asked.isolate
    )
    _check_reach(host, facts, label, asked.reach)
    noted = structs.replace(own, urls=before) if moved else own  # until it has the new addresses, it joins again
    return _Checked(label, facts, offer, own, noted, asked, design, paths)


def _complete(host: Host, facts: Facts, offer: Offer, invitation: Invitation, own: Own) -> Offer:
    name = offer.name or own.name or facts.hostname
    if own.node_token and own.name and offer.name not in (None, own.name):
        raise ConflictError(
            f"{facts.hostname} is the node {own.name} of cluster {invitation.cluster} already; run `grass leave` "
            "there first"
        )
    own.name, own.urls, own.key = name, list(invitation.urls), invitation.key
    address = offer.address or _way_to(host, facts, name, invitation)
    return replace(offer, name=name, address=address)


_LOOK = """
import json, socket, sys
answers = []
for what, host, port in json.load(sys.stdin):
    try:
        with socket.create_connection((host, port), timeout=5) as there:
            answers.append([True, there.getsockname()[0]])
    except OSError as error:
        answers.append([False, str(error)])
print(json.dumps(answers))
"""


def _look(host: Host, facts: Facts, targets: list[tuple[str, str, int]]) -> list[tuple[bool, str]]:
    """Connect from the machine to each target. Return success and its own address on that route, or the error."""
    if facts.python is None:
        raise InputError(f"{facts.hostname} cannot become a node; nothing was changed:\n  - {facts.no_python()}")
    done = host.run([facts.python.path, "-c", _LOOK], stdin=json.dumps(targets).encode(), timeout=60).check()
    return [(bool(good), str(text)) for good, text in json.loads(done.out)]


def _way_to(host: Host, facts: Facts, label: str, invitation: Invitation) -> str:
    """Return the machine's own address on the route to the master; other hosts can use this address, too."""
    wanted = []
    for url in invitation.urls:
        parts = urlsplit(url)
        wanted.append(("API", parts.hostname or "", parts.port or 0))
    answers = _look(host, facts, wanted)
    for good, address in answers:
        if good:
            return address
    raise UnreachableError(
        f"{label} cannot reach the master's API at {invitation.urls[0]} ({answers[0][1]}); nothing was changed. "
        "Check for a firewall between the two, and that the master is up"
    )


def _ask(
    join_client: JoinClient,
    check: Callable[[Join], JoinedView],
    invitation: Invitation,
    offer: Offer,
    own: Own,
    facts: Facts,
    since: float,
    *,
    moved: bool,
) -> Asked:
    if own.node_token and not moved and _is_known(join_client, own):
        isolate = facts.config.master.node_policy.isolate if facts.config else None
        served, bundle = own.share is not None, invitation.bundle
        return Asked(invitation.cluster, bundle, served, (), 0.0, isolate=isolate, granted=True)
    answer = check(join_request(invitation, offer, own, check=True))
    if answer.number and answer.number < own.number:
        raise ConflictError(
            f"{facts.hostname} cannot join at {invitation.urls[0]}: an earlier master of cluster {invitation.cluster} "
            "answers there, which another one has replaced; nothing was changed"
        )
    reach = tuple((each.what, each.host, each.port) for each in answer.reach or ())
    ahead = facts.time + (clock.steady() - since) - answer.time
    served = any(what.startswith("share") for what, _, _ in reach)
    isolate = UidRange(*answer.isolate) if answer.isolate else None
    return Asked(answer.cluster, answer.bundle or "", served, reach, ahead, answer.kinds or (), isolate)


def _is_known(join_client: JoinClient, own: Own) -> bool:
    """Return whether the master knows this node by its token. Earlier versions of Grass made another kind of token."""
    try:
        return join_client.wait(own.name or "", own.node_token, None, 0.0).node is not None
    except NotAllowedError:
        return False


def _check_reach(host: Host, facts: Facts, label: str, reach: tuple[tuple[str, str, int], ...]) -> None:
    answers = _look(host, facts, list(reach)) if reach else []
    closed = [
        f"  - {what} at {network_address(there, port)}: {said}"
        for (what, there, port), (good, said) in zip(reach, answers, strict=True)
        if not good
    ]
    if closed:
        raise UnreachableError(
            "\n".join([f"{label} cannot reach all that a node needs of the master; nothing was changed:", *closed])
            + "\n  open these ports, then try again"
        )


def check_reached(join_client: JoinClient, name: str, own: Own, view: NodeView, seconds: float = REACH_SECONDS) -> None:
    """Check that the master reaches the node; so far only the node has reached the master. Raises NotReachedError."""
    until = clock.steady() + seconds
    while (answer := join_client.reach(own.name or name, own.node_token)).error is not None:
        if clock.steady() >= until:
            master = urlsplit(own.urls[0]).hostname
            raise NotReachedError(
                f"{name} joined, but the master cannot reach it at {answer.address} ({answer.error}): open this "
                f"TCP port for {master} on {name}; until then `grass job exec` does not work there.\n"
                "  `grass node add` or `grass join`, as before, checks it again",
                view,
            )
        clock.sleep(_PAUSE)


def _lacks_share(view: NodeView) -> bool:
    return view.state is NodeState.QUARANTINED and view.reason is not None and view.reason.code is ReasonCode.SHARE


def wait_until_ready(
    join_client: JoinClient, name: str, own: Own, progress: Progress, share_seconds: float = SHARE_SECONDS
) -> NodeView:
    """Wait until the self-test has passed, and the share answers or ``share_seconds`` are over.

    Raises NotReadyError with the failure and the next action."""
    until, mark, said = clock.steady() + READY_SECONDS, None, ""
    view: NodeView | None = None
    while (left := until - clock.steady()) > 0:
        answer = join_client.wait(own.name or name, own.node_token, mark, min(_SLICE, left))
        view, mark = answer.node, answer.mark
        if view is None:
            raise ConflictError(f"node {name} was removed from the cluster while it was joining")
        if view.state not in _NOT_YET and (not _lacks_share(view) or left <= READY_SECONDS - share_seconds):
            progress(f"{name}: {view.state}")
            return view
        reason = view.reason
        failed = [check for check in reason.details.get("checks", ()) if not check["ok"]] if reason else []
        if failed:
            lines = [f"  - {check['name']}: {check['message']}" for check in failed]
            raise NotReadyError(
                "\n".join([f"node {name} was set up, but its self-test failed, so it takes no tasks:", *lines])
                + "\n  fix this, then run the same command again to continue"
            )
        if (text := str(reason or "")) != said:
            progress(f"{name}: {text}")
            said = text
    raise NotReadyError(
        f"node {name} was set up, but is not READY after {READY_SECONDS:g} s ("
        f"{(view and view.reason) or 'its node-agent has not reported'}); on it, `journalctl -u 'grass-node-agent@*'` "
        "shows more"
    )
