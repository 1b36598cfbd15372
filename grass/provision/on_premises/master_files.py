"""Files of a master outside its own folder: units and the files they read. Pure; templates are in ``deploy/``.

Used by ``master``.
"""

from __future__ import annotations

import re

from grass.assets import asset
from grass.config import ClusterConfig
from grass.lines import lines_of
from grass.network_address import host_and_port
from grass.provision.on_premises.design import ETC, STATE, UNIT_FOLDER, VENV, MasterDesign
from grass.provision.on_premises.steps import Put
from grass.store.embedded import TASK_REDIS_CONF


def samba_folder(name: str) -> str:
    return f"{STATE}/samba/{name}"


def autoscaler_file(name: str) -> str:
    """Return where root's autoscaler finds what it reads. User `grass` must not write there: it names the endpoint to
    which the token of the machine's identity goes."""
    return f"{ETC}/{name}.autoscaler.json"


def unit_files(design: MasterDesign, *more: str) -> list[Put]:
    """``more``: other daemons whose units are written, too."""
    own = {re.sub("@[^.]*", "@", unit) for unit in design.units}
    names = sorted(own | {"grass@.target"} | {f"grass-{name}@.service" for name in more})
    puts = [Put(f"{UNIT_FOLDER}/{name}", asset(f"deploy/systemd/{name}").read_bytes()) for name in names]
    if design.config.samba is None:  # the units' sandbox includes only /srv/grass
        text = f"[Service]\nReadWritePaths={design.config.share}\n".encode()
        puts += [Put(f"{UNIT_FOLDER}/{unit}.d/share.conf", text) for unit in design.units if "redis" not in unit]
    return puts


def config_files(design: MasterDesign) -> list[Put]:
    config, name = design.config, design.config.name
    env = {
        "GRASS_PYTHON": f"{VENV}/bin/python",
        "CLUSTER_JSON": str(config.path),
        "REDIS_SERVER": design.redis_server,
        "REDIS_CONF": f"{config.home}/redis/redis.conf",
    }
    if config.task_redis_server:
        env["TASK_REDIS_CONF"] = f"{config.home}/redis/{TASK_REDIS_CONF}"
    puts = []
    if config.samba:
        env |= {"SMBD": design.smbd, "SMB_CONF": f"{ETC}/{name}.smb.conf"}
        puts.append(Put(f"{ETC}/{name}.smb.conf", smb_conf(config).encode()))
    if design.fluentd or design.fluentd_image:
        host, port = host_and_port(config.collector or ":0")
        env |= {
            **_program(design),
            "FLUENT_CONF": f"{ETC}/{name}.fluent.conf",
            "GRASS_LOGS": str(config.logs_dir),
            "GRASS_BUFFERS": f"{config.home}/fluentd",
            "GRASS_COLLECTOR_BIND": host,
            "GRASS_COLLECTOR_PORT": str(port),
            "GRASS_TLS": str(config.tls_files.folder),
        }
        puts.append(Put(f"{ETC}/{name}.fluent.conf", asset("deploy/fluentd/fluent.conf").read_bytes()))
    if design.autoscaler:
        puts.append(Put(autoscaler_file(name), design.autoscaler.encode(), 0o600))
    text = "".join(f"{key}={value}\n" for key, value in env.items())
    return [Put(f"{ETC}/{name}.env", text.encode(), 0o640, "root:grass"), *puts]


def _program(design: MasterDesign) -> dict[str, str]:
    if design.fluentd:
        return {"FLUENTD": design.fluentd}
    return {"FLUENTD_IMAGE": design.fluentd_image or "", "FLUENTD_CONTAINER": f"grass-fluentd-{design.config.name}"}


def smb_conf(config: ClusterConfig) -> str:
    assert config.samba is not None
    words = {
        "port": str(config.samba.port),
        "address": config.samba.host,
        "folder": samba_folder(config.name),
        "share": config.samba.share,
        "path": str(config.share),
        "user": config.samba.user,
        "group": "grass",
        "links": "no" if config.master.node_policy.isolate else "yes",
    }
    template = asset("deploy/samba/smb.conf").read_text()
    lines = (line for line in lines_of(template) if line.strip() and not line.strip().startswith("#"))
    return "".join(re.sub(r"\{(\w+)\}", lambda word: words[word[1]], line) + "\n" for line in lines)
