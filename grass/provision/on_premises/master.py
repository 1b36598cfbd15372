"""Steps that set up a machine as the master of a cluster. Pure. Used by ``create``."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass

from grass.api.keyring import Jwk
from grass.config import ClusterConfig
from grass.files.key import marker
from grass.model.daemons import AUTOSCALER
from grass.provision.backup.restoring import INTERRUPTED
from grass.provision.on_premises import install, namespace_steps, on_host, packages, record
from grass.provision.on_premises.bundle import Bundle
from grass.provision.on_premises.design import (
    AUTHORIZED_KEYS,
    AUTOSCALER_STATE,
    AUTOSCALER_USER,
    ETC,
    STATE,
    UNIT_FOLDER,
    VENV,
    MasterDesign,
)
from grass.provision.on_premises.facts import REPLACED_BY, Facts
from grass.provision.on_premises.master_files import autoscaler_file, config_files, samba_folder, unit_files
from grass.provision.on_premises.record import Made
from grass.provision.on_premises.services import listening_step, start_step
from grass.provision.on_premises.steps import Put, Run, Step
from grass.wire.codec import encode


@dataclass(frozen=True)
class Admin:
    """The user who creates the cluster, with the public keys of that user. ``files_key``: in the format of ssh."""

    name: str
    key: Jwk
    files_key: str


def master_steps(
    design: MasterDesign,
    facts: Facts,
    bundle: Bundle,
    admin: Admin,
    samba_password: str | None,
    state: Sequence[Step] = (),
) -> list[Step]:
    """``state``: steps that put a state in place which the master begins with; none: it begins with its own."""
    config = design.config
    made = made_on_master(design, facts)
    setup = _setup(design, bundle, admin, samba_password)
    files = [*unit_files(design), *config_files(design)]
    noted = record.path(config.name)
    steps = [install.record_step(made, noted)]
    if design.packages:
        steps.insert(0, packages.fetch_step(design.packages, design.packager))
        steps.append(packages.install_step(design.packages, design.packager, noted))
    steps += [install.user_step(), install.folder_step(folders_of(design))]
    if config.samba is None:
        steps.append(_share_step(config))
    if design.fluentd_image and design.pull:
        steps.append(_image_step(design.fluentd_image))
    steps += [*install.bundle_steps(bundle, design.python), install.command_step()]
    drop_ins = Run(("mkdir", "-p", "--", UNIT_FOLDER, *_drop_ins(design)))
    steps.append(Step("write units and configuration", (drop_ins, *files, Run(("systemctl", "daemon-reload")))))
    steps += [*state, _setup_step(config, setup)]
    if config.samba:
        steps.append(_samba_step(config))
    if not design.autoscaler:
        steps.append(_without_autoscaler_step(config))
    steps += [start_step(design, _reads(design, bundle, setup)), listening_step(design)]
    steps += namespace_steps.upgrade_steps(facts, config, bundle.digest)
    return [*steps, install.old_versions_step()]


def _reads(design: MasterDesign, bundle: Bundle, setup: bytes) -> dict[str, str]:
    """Return unit → digest of all that its daemon reads when it starts.

    samba and redis read little of the settings. All others are restarted whenever anything changes.
    """
    config = design.config
    digests = {put.target: put.digest() for put in (*unit_files(design), *config_files(design))}
    own = digests.pop(autoscaler_file(config.name), "")  # its rules concern nothing else
    everything = (setup, *digests.values())
    env = digests[f"{ETC}/{config.name}.env"]
    redis: tuple[object, ...] = (env, bundle.digest, design.redis_server, repr(config.redis), config.tls)
    redis += (
        config.task_redis_server,
        *([config.standby.needed or bool(config.standby.witness)] if config.standby is not None else []),
    )
    samba = (env, digests.get(f"{ETC}/{config.name}.smb.conf"))
    few = {"grass-redis": redis, "grass-task-redis": redis, "grass-samba": samba}
    few[f"grass-{AUTOSCALER.name}"] = (env, bundle.digest, own)
    words = {}
    for unit in design.units:
        kind = unit.partition("@")[0]
        words[unit] = (digests[f"{UNIT_FOLDER}/{kind}@.service"], few.get(kind, everything))
    return {unit: hashlib.sha256(repr(word).encode()).hexdigest() for unit, word in words.items()}


def _image_step(image: str) -> Step:
    """Pull an image. Like a package, the image stays when the cluster is deleted: other containers may use it."""
    there = Run(("docker", "image", "inspect", "--format", "{{.Id}}", image))
    return Step(f"pull the image {image}", (Run(("docker", "pull", "--quiet", image)),), there)


def made_on_master(design: MasterDesign, facts: Facts) -> Made:
    """Return everything that the steps create and that did not exist before, merged with records of earlier runs."""
    config = design.config
    files = [put.target for put in (*unit_files(design), *config_files(design))]
    shared = (ETC, AUTOSCALER_STATE, f"{STATE}/clusters", "/srv/grass", *install.FOLDERS)
    folders = [path for path, _, _ in folders_of(design)[1:] if path not in shared]
    if config.samba:  # the folder of the share may have been there, with files of its owner
        folders += [f"{config.share}/{name}" for name in on_host.SHARE_FOLDERS]
    wanted = Made(
        units=(f"grass@{config.name}.target", *reversed(design.units)),
        files=(*files, install.COMMAND),
        folders=(*install.FOLDERS, *folders, *_drop_ins(design), config.runtime_dir),
        users=("grass",),
        packages=design.packages,
        details={"authorized": marker(config.name), "role": "master"},
    )
    made = record.claim(wanted, facts.there, facts.records)
    before = facts.records.get(config.name)
    return record.merged(before, made) if before else made


def folders_of(design: MasterDesign) -> list[tuple[str, int, str]]:
    """Return path, mode and owner of each folder.

    The first folder is the home of the user `grass`. A node's tasks must be able to pass through this home to their own
    folders.
    """
    config, root, own = design.config, "root:root", "grass:grass"
    folders = [
        (STATE, 0o755, own),
        (f"{STATE}/.ssh", 0o700, own),
        (f"{STATE}/clusters", 0o755, own),
        (ETC, 0o755, root),
        (install.BUNDLE, 0o755, root),
        (config.home, 0o711, own),
    ]
    if design.autoscaler:
        folders += [(AUTOSCALER_STATE, 0o700, root), (f"{AUTOSCALER_STATE}/{config.name}", 0o700, root)]
    if config.samba:
        folders += [
            # smbd, as the share's user, checks here whether other smbds live; if it cannot, it removes their locks.
            (samba_folder(config.name), 0o711, root),
            ("/srv/grass", 0o755, root),
            (str(config.share), _share_mode(config), own),
        ]
    return folders


def _drop_ins(design: MasterDesign) -> list[str]:
    return sorted({put.target.rpartition("/")[0] for put in unit_files(design) if put.target.endswith(".d/share.conf")})


def _share_mode(config: ClusterConfig) -> int:
    """Return the mode of the share's folder: accounts of isolated users belong to the group of the daemons."""
    return 0o775 if config.master.node_policy.isolate else 0o755


def _without_autoscaler_step(config: ClusterConfig) -> Step:
    """End the autoscaler of earlier settings. Its user goes: an administrator whose key nobody has."""
    unit = f"grass-{AUTOSCALER.name}@{config.name}.service"
    left = (
        autoscaler_file(config.name),
        f"{AUTOSCALER_STATE}/{config.name}",
        f"{config.home}/master/users/{AUTOSCALER_USER}.json",
    )
    check = 'for each; do [ ! -e "$each" ] || exit 1; done'
    return Step(
        "end the autoscaler",
        (Run(("systemctl", "disable", "--quiet", "--now", unit)), Run(("rm", "-rf", "--", *left))),
        Run(("sh", "-c", check, "check", *left)),
    )


def _share_step(config: ClusterConfig) -> Step:
    """Use a share that Grass does not serve. The user `grass`, not only root, must be able to write there."""
    folder = str(config.share)
    mount = folder.rpartition("/")[0]
    make = '[ -d "$2" ] || { echo "$2 is not there; mount it on every machine first" >&2; exit 1; }; '
    make += 'mkdir -p -- "$1" && { chown grass:grass -- "$1" 2>/dev/null || true; } && chmod "$3" -- "$1"'
    writable = Run(
        (*install.AS_GRASS, "sh", "-c", 'touch -- "$1/.grass-write" && rm -f -- "$1/.grass-write"', "check", folder)
    )
    return Step(
        f"use the share {folder}",
        (Run(("sh", "-c", make, "make", folder, mount, f"{_share_mode(config):o}")), writable),
        writable,
        f"the user grass must be able to write in {mount}",
    )


def _setup(design: MasterDesign, bundle: Bundle, admin: Admin, samba_password: str | None) -> bytes:
    setup = on_host.MasterSetup(
        design.config, admin.name, admin.key, design.redis_server, samba_password, bundle.digest, admin.files_key
    )
    return encode(setup).encode()


def _setup_step(config: ClusterConfig, setup: bytes) -> Step:
    """Set up the master's own files. Unchanged if the last run had identical input and its results still exist. A
    master that must not start is never unchanged: the setup refuses it."""
    home, digest = config.home, hashlib.sha256(setup).hexdigest()
    made = ("cluster.json", "secrets.json", "redis/redis.conf", "redis/users.acl", on_host.PUBLIC_KEY)
    keys = ("master/key.pem", "tls/ca.pem", "tls/ca.key", "tls/host.pem")
    there = f'for f in {" ".join((*made, *keys))}; do [ -s "$1/$f" ] || exit 1; done; '
    there += f'for f in {REPLACED_BY} {INTERRUPTED}; do [ ! -e "$1/$f" ] || exit 1; done'
    accepted = 'grep -q -- " $3\\$" "$4" 2>/dev/null'
    check = f'{there}; {accepted} && [ "$(cat "$1/made" 2>/dev/null)" = "$2" ]'
    run = (*install.AS_GRASS, f"{VENV}/bin/python", "-m", "grass.provision.on_premises.on_host")
    return Step(
        "make keys, secrets and the configuration of redis, and accept keys for files",
        (Run(run, stdin=setup), Put(f"{home}/made", f"{digest}\n".encode(), 0o600, "grass:grass")),
        Run(("sh", "-c", check, "check", home, digest, marker(config.name), AUTHORIZED_KEYS)),
    )


def _samba_step(config: ClusterConfig) -> Step:
    """Set the samba password. The password goes from one file of the master to another, never on a command line."""
    assert config.samba is not None
    user, conf = config.samba.user, f"{ETC}/{config.name}.smb.conf"
    say = 'import json, sys; word = json.load(open(sys.argv[1]))["samba"]; print(word); print(word)'
    script = (
        'umask 077; "$1" -c "$2" "$3/secrets.json" | smbpasswd -c "$4" -s -a "$5" &&'
        ' sha256sum < "$3/secrets.json" > "$6/known"'
    )
    folder = samba_folder(config.name)
    check = '[ "$(sha256sum < "$1/secrets.json")" = "$(cat "$2/known" 2>/dev/null)" ] && [ -s "$2/passdb.tdb" ]'
    return Step(
        "set the password of the share in samba",
        (Run(("sh", "-c", script, "samba", f"{VENV}/bin/python", say, config.home, conf, user, folder)),),
        Run(("sh", "-c", check, "check", config.home, folder)),
    )
