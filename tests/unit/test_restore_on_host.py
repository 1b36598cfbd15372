"""A new master from a backup on another machine: what is decided before anything is changed, and how it differs."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from grass.config import RedisConfig
from grass.errors import ConflictError, InputError
from grass.manifest.on_premises import HostSettings
from grass.manifest.settings import parse_settings
from grass.provision.on_premises.design import design
from grass.provision.on_premises.facts import Facts, Python
from grass.provision.on_premises.machines import Machines
from grass.provision.on_premises.old_master import Found
from grass.provision.on_premises.restore import check_target, config_as_before, settings_as_before
from grass.wire.backup import BackupHeader

OLD, NEW, KEY = "10.0.0.10", "10.0.0.20", "ssh-ed25519 AAAA"
FACTS = Facts(
    hostname="m1",
    machine="x86_64",
    libc=("glibc", (2, 36)),
    pythons=(Python((3, 11, 2), "/usr/bin/python3.11"),),
    systemd=True,
    programs={"smbd": "/usr/sbin/smbd", "rsync": "/usr/bin/rsync"},
    tls_servers=(("/usr/bin/redis-server", (7, 0, 15)),),
    disk_free=50 << 30,
    addresses=(("eth0", OLD),),
)
THERE = replace(FACTS, hostname="m2", addresses=(("eth0", NEW),))
HEADER = BackupHeader("lab", "grass/on-premises", "key", 1.0, "1", ("state",), "5a" * 16, 2)


@pytest.mark.parametrize(
    "more",
    [
        {},
        {"api": "tunnel", "isolation": "none", "lost_after": "20m", "quotas": {"ann": {"cpu": 4}}},
        {"share": {"path": "/mnt/nas"}, "task_redis": {"port": 7000, "server_port": 7001}, "reserve": {"cpu": 1}},
        {"data": "ro", "containers": {"user": "image"}, "uids": "70000-70100"},
    ],
)
def test_a_new_master_is_as_the_one_before_but_for_its_addresses(more: dict[str, Any]) -> None:
    master = {"address": OLD, "redis": {"port": 7379}, "api": {"port": 8000}, "fluentd": {"port": 8001}}
    wanted = parse_settings({"mode": "grass/on-premises", "name": "lab", "master": master, **more})
    before = design(wanted, FACTS, OLD, KEY).config
    machines = Machines(HostSettings(OLD))
    settings = settings_as_before(before, machines, HostSettings(NEW), "ann")
    now = config_as_before(before, design(settings, THERE, NEW, KEY).config)
    elsewhere = replace(wanted, master=HostSettings(NEW))
    assert now == design(elsewhere, THERE, NEW, KEY).config
    assert str(now).count(OLD) == 0 and settings.admin == "ann"


def test_the_machine_of_the_old_master_keeps_its_login_and_address() -> None:
    before = design(
        parse_settings({"mode": "grass/on-premises", "name": "lab", "master": {"address": OLD}}), FACTS, OLD, KEY
    ).config
    machines = Machines(HostSettings(OLD, name="master", private_address=OLD))
    assert settings_as_before(before, machines, HostSettings(OLD), None).master == machines.master
    assert settings_as_before(before, machines, HostSettings(NEW), None).master == HostSettings(NEW)


def check(found: Found, facts: Facts = FACTS, *, replaced: bool = False) -> None:
    check_target("m2", facts, found, HEADER, replaced=replaced)


def test_a_machine_that_cannot_become_the_master_is_refused() -> None:
    node = replace(
        design(
            parse_settings({"mode": "grass/on-premises", "name": "lab", "master": {"address": OLD}}), FACTS, OLD, KEY
        ).config,
        redis=RedisConfig(embedded=False),
    )
    with pytest.raises(InputError, match="m2: is a node of cluster lab"):
        check(Found(), replace(FACTS, config=node))
    with pytest.raises(ConflictError, match="is the master of another cluster lab"):
        check(Found(key="other"), replaced=True)
    with pytest.raises(ConflictError, match="its master on m2 lives"):
        check(Found(lives=True, state=True, key="key"), replaced=True)
    with pytest.raises(ConflictError, match="`grass create FILE` starts it again, and `grass restore --replace`"):
        check(Found(state=True, key="key"))
    with pytest.raises(ConflictError, match=r"10\.0\.0\.9 took over from it, and `grass restore --replace`"):
        check(Found(state=True, key="key", replaced_by="10.0.0.9"))


def test_a_restore_goes_on_where_it_was_interrupted_and_replaces_only_what_is_dead() -> None:
    check(Found())
    check(Found(state=True, key="key"), replaced=True)
    check(Found(interrupted=True, state=True, key="key"))
    check(Found(lives=True, state=True, key="key", restored_from=HEADER.salt))
    with pytest.raises(ConflictError, match="lives"):
        check(Found(lives=True, state=True, key="key", restored_from="another"))
