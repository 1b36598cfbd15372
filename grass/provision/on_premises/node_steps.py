"""Steps that make a machine a node, built from its design. Pure. ``joining`` runs the steps. Used by this package."""

from __future__ import annotations

from collections.abc import Sequence

from grass.assets import asset
from grass.model.daemons import NODE_DAEMONS
from grass.model.runtime import RuntimeName
from grass.provision.on_premises import install, node_units, packages, record
from grass.provision.on_premises.facts import Facts
from grass.provision.on_premises.node_design import NodeDesign, unit_names
from grass.provision.on_premises.node_paths import NodePaths
from grass.provision.on_premises.record import Made
from grass.provision.on_premises.steps import Put, Run, Step

ROLE = "node"
DOCKER_GROUP = "docker"


def made(facts: Facts, design: NodeDesign, paths: NodePaths) -> Made:
    """Return everything that joining creates on this host and that did not exist there before Grass."""
    units = (*node_units.follow_units(paths), *unit_names(paths), f"grass@{paths.cluster}.target")
    files = [put.target for put in node_units.unit_puts(paths, share=design.share)]
    files += [paths.env, paths.pinned, install.COMMAND]
    mounts: tuple[str, ...] = ()
    folders: tuple[str, ...] = (node_units.drop_in(paths),) if design.isolate else ()
    if design.share and not paths.rootless:
        folders = (*folders, node_units.agent_drop_in(paths))
    if design.mount is not None:
        units = (*units, design.mount.unit(paths.cluster))
        files += [paths.share_env, paths.credentials, f"{paths.units}/{design.mount.unit_file}"]
        mounts = (paths.share,)
    wanted = Made(
        units=units,
        mounts=mounts,
        files=tuple(files),
        folders=(paths.home, paths.runtime_dir, *folders, *mounts, *install.FOLDERS),
        users=("grass",),
        packages=design.packages,
        groups=(DOCKER_GROUP,) if RuntimeName.DOCKER in design.runtimes else (),
    )
    before = facts.records.get(f"{paths.cluster}+{ROLE}", Made())
    return record.merged(before, record.claim(wanted, facts.there, facts.records))


def before_claim(design: NodeDesign, paths: NodePaths, urls: Sequence[str], bundle: str) -> list[Step]:
    """Return the steps that run before the cluster knows the node."""
    steps = [bundle_step(design.python, paths, urls, bundle)] if bundle else []
    if paths.rootless:
        return [*steps, _user_folders(paths)]
    noted = record.path(paths.cluster, ROLE)
    wanted = [packages.install_step(design.packages, design.packager, noted)] if design.packages else []
    docker = [docker_group_step()] if RuntimeName.DOCKER in design.runtimes else []
    folders = [("/var/lib/grass", 0o755, "grass:grass"), ("/etc/grass", 0o755, "root:root")]
    parent = paths.home.rpartition("/")[0]
    folders += [(parent, 0o755, "root:root"), (paths.home, 0o711, paths.owner)]
    return [*wanted, install.user_step(), *docker, install.folder_step(folders), *steps, install.command_step()]


def _user_folders(paths: NodePaths) -> Step:
    folders = (paths.home, paths.share, paths.units)
    check = 'for folder in "$@"; do [ -d "$folder" ] || exit 1; done'
    return Step(
        "make its folders", (Run(("mkdir", "-p", "-m", "0700", *folders)),), Run(("sh", "-c", check, "check", *folders))
    )


def bundle_step(python: str, paths: NodePaths, urls: Sequence[str], digest: str) -> Step:
    """Fetch the wheels from the master itself, so that the machine gets the master's version."""
    words = [python, "-", "--install-only", "--bundle", digest, "--url", urls[0]]
    if paths.rootless:
        words.append("--rootless")
    check = f'[ "$(cat {paths.venv}/bundle 2>/dev/null)" = "$1" ] && {paths.python} -c "import grass, node"'
    return Step(
        f"install Grass in {paths.venv}",
        (Run(tuple(words), stdin=asset("on_premises/join.py").read_bytes()),),
        Run(("sh", "-c", check, "check", digest)),
        hint=f"the machine has to reach the master's API at {urls[0]}",
    )


def docker_group_step() -> Step:
    return Step(
        "let the user grass use docker",
        (Run(("usermod", "--append", "--groups", DOCKER_GROUP, "grass")),),
        Run(("sh", "-c", 'id -n -G grass | tr " " "\n" | grep -qx "$1"', "check", DOCKER_GROUP)),
    )


def unit_step(paths: NodePaths, *, isolated: bool, share: str | None = None) -> Step:
    env = Put(paths.env, node_units.environment(paths), 0o644, paths.owner if paths.rootless else "root:root")
    wanted = [node_units.drop_in(paths)] if isolated else []
    wanted += [node_units.agent_drop_in(paths)] if share and not paths.rootless else []
    folders = [Run(("install", "-d", "-m", "0755", folder)) for folder in wanted]
    units = node_units.unit_puts(paths, isolated=isolated, share=share)
    return Step("write its units", (env, *folders, *units, Run((*systemctl(paths), "daemon-reload"))))


def start_step(paths: NodePaths, bundle: str, *, again: bool, new_node: bool = True) -> Step:
    """Start the node's daemons. Running daemons are restarted if they were started from another bundle.

    ``bundle``: the digest of the installed one. ``again``: the configuration is new, so they are restarted in any case.
    ``new_node``: also the shepherd, with which its tasks end. It reads nothing of a new certificate, or of a new
    configuration but whether users are isolated, and speaks with a node-agent of another version.
    """
    units = unit_names(paths)
    restarted = units if new_node else [unit for unit in units if unit != paths.unit("shepherd")]
    control = systemctl(paths)
    target = () if paths.rootless else (f"grass@{paths.cluster}.target",)
    waiting = node_units.follow_units(paths)[0]
    active = (*control, "is-active", "--quiet", waiting, *units)
    note = 'printf "%s\n" "$2" > "$1"'
    check = '[ "$(cat "$1" 2>/dev/null)" = "$2" ] && shift 2 && exec "$@"'
    journal = "journalctl --user" if paths.rootless else "journalctl"
    return Step(
        f"start {', '.join(NODE_DAEMONS)}",
        (
            Run((*control, "enable", "--quiet", waiting, *units, *target)),
            Run((*control, "restart", *restarted), timeout=150),
            Run((*control, "start", waiting, *units), timeout=150),
            Run(active),
            Run(("sh", "-c", note, "note", paths.started, bundle)),
        ),
        check=None if again else Run(("sh", "-c", check, "check", paths.started, bundle, *active)),
        hint=f"on that host, `{journal} -u {paths.unit('node-agent')}` says why",
    )


def systemctl(paths: NodePaths) -> tuple[str, ...]:
    return ("systemctl", "--user") if paths.rootless else ("systemctl",)
