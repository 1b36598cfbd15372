"""The autoscaler on the master: what it is given, and the folder in which it works as a client of its own cluster.

It runs as root, because Azure's metadata service answers nobody else. Nothing secret of it is on a disk: the token of
the identity is in memory, its keys for the API and for SSH to new nodes are in a folder of memory (tmpfs), and are made
anew after a boot. Used by
``grass.cli.autoscale_on_master``.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from grass.api import keyring
from grass.azure.faults import AzureForbiddenError, AzureLoginError
from grass.config import ClusterConfig
from grass.errors import GrassError
from grass.files.key import key_pair
from grass.manifest.on_premises import Become, HostSettings, Login
from grass.mode_file import write_mode
from grass.model.mode import AZURE
from grass.provision.azure.autoscaler import AFTER_AN_ERROR
from grass.provision.azure.nodes import HERE
from grass.provision.azure.record import Record, load_record
from grass.provision.azure.setup import SETUP, Setup
from grass.provision.on_premises import on_host
from grass.provision.on_premises.design import AUTOSCALER_USER, ETC
from grass.provision.on_premises.machines import Machines

HOLDER = "the master"
_KEY = "azure_key"
_AS_GRASS = ("setpriv", "--reuid=grass", "--regid=grass", "--clear-groups")


def load_setup(name: str, folder: Path = Path(ETC)) -> Setup:
    return SETUP.decode((folder / f"{name}.autoscaler.json").read_bytes())


def prepare(config: ClusterConfig, setup: Setup, home: Path, memory: Path, admit: Callable[[str], None]) -> None:
    """Make the folder of the cluster in ``home``, its GRASS_HOME. ``memory``: where its keys are. ``admit``: takes the
    public key with which it calls the API, as JSON."""
    folder = home / "clusters" / config.name
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    write_mode(folder, AZURE)
    client = folder / "client"
    if not client.is_symlink():
        client.symlink_to(memory)
    memory.mkdir(mode=0o700, parents=True, exist_ok=True)
    user = keyring.user_key(memory)
    master = json.loads((Path(config.home) / on_host.PUBLIC_KEY).read_text())
    keyring.save_profile(
        memory, keyring.Profile(config.name, config.api_urls[0], AUTOSCALER_USER, str(user["kid"])), master
    )
    admit(json.dumps(user))
    key = key_pair(memory / _KEY)
    assert setup.record.terms is not None, "create has them"
    login = Login(username=setup.record.terms.user, key=str(memory / _KEY), become=Become.SUDO)
    Machines(HostSettings(HERE, login, "master")).save(memory)
    _record(setup, folder, key).save(folder)


def _record(setup: Setup, folder: Path, key: str) -> Record:
    """Return the record, with what is known of machines since the last start."""
    record = setup.record
    assert record.terms is not None
    before = load_record(folder)
    known = before.machines if before is not None and before.id == record.id else {}
    return replace(record, machines=known, terms=replace(record.terms, more_keys=(key,)))


def admit_as_grass(config: ClusterConfig) -> Callable[[str], None]:
    """Return how its key is registered: as user `grass`, to whom the files of users belong."""

    def admit(key: str) -> None:
        run = [*_AS_GRASS, sys.executable, "-m", "grass.provision.azure.admit", str(config.path)]
        done = subprocess.run(run, input=key, capture_output=True, text=True, timeout=60, check=False)
        if done.returncode:
            raise GrassError(f"the autoscaler's key cannot be registered: {done.stderr.strip()[-500:]}")

    return admit


def go_on(
    look: Callable[[], None], problem: Callable[[str], None], setup: Setup, sleep: Callable[[float], None]
) -> None:
    """Call ``look``, which goes on by itself, and again after whatever ends it. ``problem`` is told why."""
    while True:
        try:
            look()
        except AzureForbiddenError as error:
            what = str(error).partition("; ask an owner")[0]  # the command below is that advice, for this identity
            problem(f"{what}; an owner of the subscription or the group runs this once: {setup.command}")
        except AzureLoginError as error:
            problem(f"the identity of its machine gives no token: {str(error).partition('; ')[0]}")
        except GrassError as error:
            problem(str(error))
        sleep(AFTER_AN_ERROR)
