"""Leaving of a node: first from the cluster, so that its tasks move; then from the machine.

Used by ``grass.cli.leave``, ``delete``, ``following`` and ``node_remove``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from grass.api.join_client import JoinClient, open_join_client
from grass.errors import GrassError, InputError, NotAllowedError, NotFoundError, UnreachableError, WaitTimeoutError
from grass.hosts import Host
from grass.model.image import PROBE_IMAGE
from grass.provision.on_premises import node_accounts, node_paths, node_steps
from grass.provision.on_premises.facts import Facts, gather
from grass.provision.on_premises.join_record import Own, with_record
from grass.provision.on_premises.node_design import unit_names
from grass.provision.on_premises.node_paths import NodePaths
from grass.provision.on_premises.node_units import follow_units
from grass.provision.on_premises.record import Made
from grass.provision.on_premises.removal import removal_steps
from grass.provision.on_premises.steps import Progress, Run, Step, run_steps
from grass.system import clock

_SLICE = 10.0


def leave(
    host: Host,
    cluster: str | None,
    *,
    progress: Progress,
    force: bool = False,
    timeout: float | None = None,
    paths: NodePaths | None = None,
    may_go: Callable[[str], bool] = lambda _: True,
    packages: bool = False,
) -> str:
    """Remove this node from its cluster and return its name.

    ``cluster`` None: the only cluster that the node belongs to. ``force``: the node's tasks are placed elsewhere at
    once, and a master that does not answer is skipped. Raises NotFoundError (the machine is not a node of the cluster),
    UnreachableError, WaitTimeoutError (tasks still run after ``timeout`` seconds).
    """
    here = node_here(host, cluster, paths)
    facts, own, paths, cluster = here.facts, here.own, here.paths, here.cluster
    name = own.name or facts.hostname
    if not may_go(name):
        raise InputError("nothing was changed")
    if own.node_token:
        _say_goodbye(own, cluster, name, force, timeout, progress)
    clean(host, facts, paths, progress, label=name, packages=packages)
    return name


@dataclass(frozen=True)
class Here:
    """The node that a machine is."""

    cluster: str
    facts: Facts
    own: Own
    paths: NodePaths


def node_here(host: Host, cluster: str | None, paths: NodePaths | None) -> Here:
    """Return the node. Arguments are as in ``leave``. Raises NotFoundError; InputError: it is one of several."""
    facts = gather(host, cluster or "")
    if paths is not None:
        facts = with_record(host, facts, paths)
    cluster = cluster or _only(facts)
    paths = paths or node_paths.of_root(cluster, gather(host, cluster).config)
    if f"{cluster}+{node_steps.ROLE}" not in facts.records:
        raise NotFoundError(f"{facts.hostname} is not a node of cluster {cluster}; {_known(facts)}")
    return Here(cluster, facts, Own.from_facts(facts, paths), paths)


def clean(
    host: Host, facts: Facts, paths: NodePaths, progress: Progress, label: str, *, packages: bool = False
) -> None:
    """Remove everything that joining created on the host. Packages stay, and are named, unless ``packages``."""
    own_record = f"{paths.cluster}+{node_steps.ROLE}"
    made = facts.records.get(own_record, Made())
    if paths.rootless:
        steps = _rootless_steps(paths)
    else:
        steps = removal_steps(paths.cluster, facts.records, node_steps.ROLE, packages=packages)
        steps[1:1] = [_containers_step(paths)] if facts.docker else []  # after its daemons were stopped
        steps[1:1] = [node_accounts.remove_step(paths.cluster)]
        steps += [_group_step()] if _leaves_the_group(facts, own_record) else []
    run_steps(host, steps, progress, label)
    if made.packages and not (packages and len(facts.records) == 1):
        progress(f"{label}: packages that were installed for it stay: {', '.join(made.packages)}")


def _say_goodbye(own: Own, cluster: str, name: str, force: bool, timeout: float | None, progress: Progress) -> None:
    try:
        join_client = open_join_client(own.invitation(cluster))
        try:
            _until_gone(join_client, own, name, force, timeout, progress)
        finally:
            join_client.close()
    except (UnreachableError, NotAllowedError) as error:
        if not force:
            raise _with_advice(error, name) from error
        progress(
            f"{name}: the master could not be informed ({error}); an administrator should run "
            f"`grass node remove --force {name}`"
        )


def _with_advice(error: GrassError, name: str) -> GrassError:
    return type(error)(
        f"{error}; nothing was changed. Use --force to leave anyway; the cluster then treats {name} as lost"
    )


def _until_gone(
    join_client: JoinClient, own: Own, name: str, force: bool, timeout: float | None, progress: Progress
) -> None:
    answer = join_client.leave(name, own.node_token, force=force)
    until = None if timeout is None else clock.steady() + timeout
    said = ""
    while (view := answer.node) is not None:
        if view.tasks and (text := f"waiting for {view.tasks} task(s) to end; use --force to skip waiting") != said:
            progress(f"{name}: {text}")
            said = text
        left = _SLICE if until is None else min(_SLICE, until - clock.steady())
        if left <= 0:
            raise WaitTimeoutError(
                f"node {name} still has {view.tasks} task(s) after {timeout:g} s; it leaves when they have ended"
            )
        answer = join_client.wait(name, own.node_token, answer.mark, left)


def _only(facts: Facts) -> str:
    match _clusters(facts):
        case [only]:
            return only
        case []:
            raise NotFoundError(f"{facts.hostname} is not a node of any cluster")
        case several:
            raise InputError(f"{facts.hostname} is a node of several clusters ({', '.join(several)}); name one")


def _clusters(facts: Facts) -> list[str]:
    role = f"+{node_steps.ROLE}"
    return sorted(name.removesuffix(role) for name in facts.records if name.endswith(role))


def _known(facts: Facts) -> str:
    names = _clusters(facts)
    return f"it is a node of {', '.join(names)}" if names else "it is a node of no cluster"


_CONTAINERS = """
found=$(timeout 60 docker ps -aq --filter "label=grass.cluster=$1" 2>/dev/null) || exit 0
[ -z "$found" ] || timeout 120 docker rm -f $found >/dev/null
timeout 60 docker image rm "$2" >/dev/null 2>&1 || true
"""


_IMAGES = """
import json, subprocess, sys

def docker(*words):
    return subprocess.run(["docker", "image", *words], capture_output=True, text=True, timeout=120)

try:
    with open(sys.argv[1]) as file:
        loaded = [(str(name), str(known["engine"])) for name, known in json.load(file).items()]
    for name, engine in loaded:
        if docker("inspect", "--format", "{{.Id}}", "--", name).stdout.strip() == engine:
            docker("rm", "--", name)  # refused while somebody else's container uses it
except (OSError, ValueError, TypeError, LookupError, AttributeError, subprocess.SubprocessError) as error:
    print(f"images that Grass loaded may stay: {error!r}", file=sys.stderr)  # no reason not to leave
"""
_MEMBER = 'getent group docker | cut -d: -f4 | tr , "\\n" | grep -qx grass'


def _leaves_the_group(facts: Facts, own_record: str) -> bool:
    """Whether the user leaves the group docker: with the last node of the host, unless its owner had put it there."""
    others = [made for name, made in facts.records.items() if name != own_record]
    if any(name.endswith(f"+{node_steps.ROLE}") for name in facts.records if name != own_record):
        return False
    own = facts.records.get(own_record, Made())
    mine = any("grass" in made.users for made in (own, *others))  # records of earlier versions name no groups
    return mine or node_steps.DOCKER_GROUP in own.groups


def _group_step() -> Step:
    """Remove the user from the group docker. The user stays if a master needs it."""
    return Step(
        "take the user grass out of the group docker",
        (Run(("gpasswd", "--delete", "grass", "docker")),),
        Run(("sh", "-c", f"! {{ {_MEMBER}; }}")),
    )


def _containers_step(paths: NodePaths) -> Step:
    """Remove containers and images: the probe's, and those that ``node.runtime.docker`` loaded."""
    containers = ("sh", "-c", _CONTAINERS, "remove", paths.cluster, PROBE_IMAGE)
    images = ("python3", "-c", _IMAGES, f"{paths.home}/node/images.json")
    return Step("remove its containers, and the images that it loaded", (Run(containers), Run(images)))


_REMOVE = """
cluster=$1; home=$2; units=$3; runtime=$4; shift 4
rm -rf -- "$home" "$runtime"
rmdir --ignore-fail-on-non-empty "$(dirname "$runtime")" "$(dirname "$home")" 2>/dev/null
if [ ! -d "$HOME/.grass/nodes" ]; then
  for unit in "$@"; do rm -f -- "$units/${unit%%@*}@.${unit##*.}"; done
  rm -rf -- "$HOME/.grass/venv" "$HOME/.grass/venvs"
  rmdir --ignore-fail-on-non-empty "$HOME/.grass" "$units" "$(dirname "$units")" 2>/dev/null
fi
systemctl --user daemon-reload; :
"""


def _rootless_steps(paths: NodePaths) -> list[Step]:
    units = [*follow_units(paths), *unit_names(paths)]
    words = (paths.cluster, paths.home, paths.units, paths.runtime_dir, *units)
    return [
        Step("stop and disable its units", (Run(("systemctl", "--user", "disable", "--now", "--quiet", *units)),)),
        Step("remove its files", (Run(("sh", "-c", _REMOVE, "remove", *words)),)),
    ]
