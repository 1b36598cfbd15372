"""Makes a standby the master: ``python -m grass.provision.on_premises.takeover_on_host CLUSTER_JSON``, as root.

``grass-takeover@.service`` runs it once the witness gave its vote. Its steps are those of `grass cluster failover`,
with what ``grass create`` left there for them. It may be repeated at any point.
"""

from __future__ import annotations

import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import msgspec

from grass.config import ClusterConfig
from grass.errors import GrassError, InputError
from grass.model.names import is_name
from grass.provision.on_premises.install import AS_GRASS
from grass.provision.on_premises.on_host import MasterSetup
from grass.provision.on_premises.restore import config_as_before
from grass.provision.on_premises.standby_on_host import STAGED, TAKEOVER, Promotion
from grass.supervision.candidate import ELECTED
from grass.supervision.new_address import UNTOLD
from grass.supervision.standby import FOLLOWING, MARK
from grass.wire.codec import encode

_PACKAGE = "grass.provision.on_premises"


def take_over(config: ClusterConfig) -> None:
    """Raises CalledProcessError, GrassError, OSError: it is started again."""
    home, name = Path(config.home), config.name
    plan = TAKEOVER.decode((home / "standby" / "takeover.json").read_bytes())
    check_units(name, plan.units)
    _run("systemctl", "disable", "--now", "--quiet", f"grass-standby@{name}.service")
    before = ClusterConfig.load(home / STAGED / "cluster.json")
    if (home / MARK).exists():
        old = FOLLOWING.decode((home / MARK).read_bytes()).redis
        _as_grass("standby_on_host", "promote", content=Promotion(str(config.path), (old,), 0, 0.0))
    setup = plan.setup
    now = config_as_before(replace(before, standby=None), setup.config)
    _run(*AS_GRASS, "touch", str(home / UNTOLD))
    _as_grass("on_host", content=msgspec.structs.replace(setup, config=now))
    _run("systemctl", "enable", "--quiet", f"grass@{name}.target", *plan.units)
    _run("systemctl", "restart", *plan.units)
    _run("systemctl", "start", f"grass@{name}.target")
    _run("systemctl", "disable", "--quiet", f"grass-takeover@{name}.path")
    (home / ELECTED).unlink()


def check_units(name: str, units: tuple[str, ...]) -> None:
    """The user grass wrote these names: a path in their place would have root enable any program. Raises InputError."""
    for unit in units:
        if not is_name(name) or not re.fullmatch(rf"grass-[a-z-]+@{re.escape(name)}\.service", unit):
            raise InputError(
                f"standby/takeover.json: {unit!r} is no unit of cluster {name}; repeat `grass create FILE`"
            )


def _as_grass(module: str, *arguments: str, content: Promotion | MasterSetup) -> None:
    _run(*AS_GRASS, sys.executable, "-m", f"{_PACKAGE}.{module}", *arguments, stdin=encode(content))


def _run(*command: str, stdin: str = "") -> None:
    subprocess.run(command, input=stdin, text=True, check=True)


if __name__ == "__main__":
    try:
        take_over(ClusterConfig.load(sys.argv[1]))
    except (subprocess.CalledProcessError, GrassError, OSError) as error:
        sys.exit(f"the takeover failed; trying again: {error}")
