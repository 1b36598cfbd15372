"""Design of a node from a machine's facts and an offer. Pure. Reports all problems at once. Used by this package."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace

from grass.errors import ConflictError, InputError
from grass.manifest.join_file import Offer
from grass.model.amounts import show_memory
from grass.model.daemons import NODE_DAEMONS
from grass.model.isolation import UidRange
from grass.model.runtime import RuntimeName
from grass.provision.on_premises import mount, node_accounts, offers
from grass.provision.on_premises.facts import OLDEST_PYTHON, REPLACED_BY, Facts
from grass.provision.on_premises.mount import ShareMount
from grass.provision.on_premises.node_paths import NodePaths
from grass.provision.on_premises.requirements import Target

_LEAST_DISK = 512 << 20
_PACKAGERS = ("apt-get", "dnf", "yum")
_CLIENT_APART = 13
"""First release of Debian in which docker's client is a separate package."""
CLOCK_ERROR, CLOCK_WARNING = 3600.0, 30.0
"""Limits for a clock's error, in seconds: above the first, the machine is refused; above the second, warned about."""


@dataclass(frozen=True)
class NodeDesign:
    """Design of a node. ``mount``: None if there is nothing to mount. ``packages``: to install with ``packager``.
    ``share``: where the share is mounted already; None: Grass mounts it."""

    name: str
    python: str
    runtimes: tuple[RuntimeName, ...]
    mount: ShareMount | None
    packages: tuple[str, ...]
    packager: str
    isolate: UidRange | None = None
    share: str | None = None


def design(
    facts: Facts,
    offer: Offer,
    paths: NodePaths,
    *,
    served: bool,
    joined: bool,
    granted: bool = False,
    isolate: UidRange | None = None,
) -> NodeDesign:
    """Design a node.

    ``served``: the master serves its share. ``joined``: the machine is this node already. ``granted``: the master also
    knows the node, with its offer. ``isolate``: ids for accounts of users, if the cluster isolates them.

    Raises InputError with all problems.
    """
    left = f"/var/lib/grass/clusters/{paths.cluster}/{REPLACED_BY}"  # by a master that is on another machine now
    on_master = not paths.rootless and paths.home.startswith("/var/lib/grass/nodes/") and left not in facts.paths
    share = mount.choose(facts) if served and not (offer.share or on_master or paths.rootless) else None
    runtimes, docker = _runtimes(facts, offer, paths)
    packages = (*(share.packages if share else ()), *docker, *node_accounts.packages(facts, isolate))
    packager = next((name for name in _PACKAGERS if name in facts.packagers), "")
    problems = [*_problems(facts, offer, paths, joined), *_not_installable(packages, packager, offer, paths)]
    problems += _no_docker(facts, offer, paths)
    problems += [] if granted else offers.beyond(facts, offer)
    problems += node_accounts.problems(facts, isolate, rootless=paths.rootless)
    if problems:
        what = "cannot become a node; nothing was changed"
        raise InputError("\n".join([f"{facts.hostname} {what}:", *(f"  - {problem}" for problem in problems)]))
    assert facts.python is not None
    name = offer.name or facts.hostname
    there = offer.share
    return NodeDesign(name, facts.python.path, runtimes, share, packages, packager, isolate, there)


def fitting(facts: Facts, kinds: Collection[str]) -> Facts:
    """Return ``facts`` with only the Pythons for which the cluster has packages.

    ``kinds``: values of ``Target.kind``; empty: unknown. Raises InputError if there is no such Python.
    """
    if not kinds or facts.python is None:
        return facts
    of = {python: Target(python.short, facts.machine, facts.libc).kind for python in facts.pythons}
    fit = tuple(python for python in facts.pythons if of[python] in kinds)
    if any(python.version[:2] >= OLDEST_PYTHON for python in fit):
        return replace(facts, pythons=fit)
    what = f"it has Python {facts.python.short} on {facts.machine} ({facts.libc[0]})"
    if any(kind.endswith(f"-{facts.machine}-{facts.libc[0]}") for kind in kinds):
        cure = "install one of these Pythons"
    else:
        cure = f"`bundle: {{machines: [{facts.machine}]}}` in the settings, and `grass create` again, brings them"
    raise InputError(
        f"{facts.hostname} cannot become a node; nothing was changed:\n"
        f"  - {what}, and the cluster has packages for {', '.join(sorted(kinds))}; {cure}"
    )


def _problems(facts: Facts, offer: Offer, paths: NodePaths, joined: bool) -> Iterator[str]:
    if not facts.systemd:
        yield f"systemd does not run there ({facts.os_name}); the daemons of a node are its services"
    if facts.python is None:
        yield facts.no_python()
    if 0 < facts.disk_free < _LEAST_DISK:
        yield f"only {show_memory(facts.disk_free)} are free in /opt, /var/lib or /srv; at least 512MiB are needed"
    listener = facts.listens(offer.address or "", offer.api_port)
    if listener is not None and not joined:
        who = listener.program or "another program"
        yield f"port {offer.api_port}, where its API would be, is taken by {who}; end that, or say --api-port NUMBER"
    own = {address for _, address in facts.addresses}
    if offer.address is not None and own and offer.address not in own:
        yield f"it has no address {offer.address}; it has {', '.join(sorted(own))}"
    if paths.rootless and facts.user == "root":
        yield "--rootless is for users who are not root; leave it out"


def _runtimes(facts: Facts, offer: Offer, paths: NodePaths) -> tuple[tuple[RuntimeName, ...], tuple[str, ...]]:
    """Return the runtimes that the node will offer, and their missing packages."""
    if paths.rootless:
        return (RuntimeName.PROCESS,), ()
    if not offer.runtimes:
        return (RuntimeName.PROCESS, RuntimeName.DOCKER) if facts.docker else (RuntimeName.PROCESS,), ()
    if RuntimeName.DOCKER not in offer.runtimes or facts.docker:
        return offer.runtimes, ()
    return offer.runtimes, () if "docker" in facts.programs else _docker(facts)


def _docker(facts: Facts) -> tuple[str, ...]:
    if "apt-get" not in facts.packagers:
        return ("docker",)
    release = int(facts.os_version) if facts.os_version.isdigit() else _CLIENT_APART
    apart = facts.os_id == "debian" and release >= _CLIENT_APART
    return ("docker.io", "docker-cli") if apart else ("docker.io",)


def _no_docker(facts: Facts, offer: Offer, paths: NodePaths) -> Iterator[str]:
    if RuntimeName.DOCKER not in offer.runtimes or facts.docker:
        return
    if paths.rootless:
        yield "without root there are only processes, no containers"
    elif "docker" in facts.programs:
        yield "docker is installed, but no engine answers (`systemctl status docker` says why)"


def _not_installable(packages: tuple[str, ...], packager: str, offer: Offer, paths: NodePaths) -> Iterator[str]:
    if packages and paths.rootless:
        yield f"missing: {', '.join(packages)}; who is not root cannot install it"
    elif packages and not offer.install:
        yield f"missing: {', '.join(packages)}; and installing is forbidden (--no-install, install_node_runtime)"
    elif packages and not packager:
        yield f"missing: {', '.join(packages)}; its package manager is unknown: install that by hand"


def clock_warning(name: str, ahead: float) -> str | None:
    """Return a warning about the node's clock, or None. ``ahead``: seconds ahead of the master's clock.

    Raises ConflictError for more than an hour.
    """
    if abs(ahead) <= CLOCK_WARNING:
        return None
    text = f"the clock of {name} is {_span(abs(ahead))} {'ahead of' if ahead > 0 else 'behind'} the master's"
    cure = "set it: `timedatectl set-ntp true`, or `date --set …`"
    if abs(ahead) > CLOCK_ERROR:
        raise ConflictError(f"{text}; {cure}, then join again. Nothing was changed")
    return f"{text}; {cure}: times in its logs will be wrong"


def _span(seconds: float) -> str:
    return (
        f"{seconds / 3600:.1f} h"
        if seconds >= 3600
        else f"{seconds / 60:.1f} min"
        if seconds >= 60
        else f"{seconds:.0f} s"
    )


def unit_names(paths: NodePaths) -> list[str]:
    return [paths.unit(name) for name in NODE_DAEMONS]
