"""Settings files of clusters on several hosts: ours, MARO's, and what is said about a faulty one."""

from __future__ import annotations

from typing import Any

import pytest

from grass.errors import ManifestError
from grass.manifest import read_document
from grass.manifest.on_premises import ApiWay, Become, Collector, Login, OnPremisesSettings, spelled_host
from grass.manifest.settings import parse_settings
from grass.manifest.values import Wrong
from grass.model.runtime import RuntimeName

MARO = """
name: test_cluster
mode: grass/on-premises
user:
  admin_id: admin
master:
  username: root
  hostname: maro-master
  public_ip_address: 137.128.0.1
  private_ip_address: 10.0.0.4
"""


def machines(text: str) -> OnPremisesSettings:
    found = parse_settings(read_document(text))
    assert isinstance(found, OnPremisesSettings)
    return found


def faults(text: str) -> str:
    with pytest.raises(ManifestError) as told:
        parse_settings(read_document(text))
    return str(told.value)


def native(**more: Any) -> str:
    lines = [f"{key}: {value}" for key, value in more.items()]
    return "\n".join(["mode: grass/on-premises", "name: lab", "master: {address: m1}", *lines])


def test_maros_file_is_taken_as_it_is() -> None:
    found = machines(MARO)
    assert (found.admin, found.master.name, found.master.address) == ("admin", "maro-master", "137.128.0.1")
    assert (found.master.private_address, found.master.login) == ("10.0.0.4", Login(username="root"))
    assert (found.api_port, found.redis_port, found.collector_port) == (51812, 6379, 24224)


def test_maros_optional_keys_count() -> None:
    more = "  ssh: {port: 2222}\n  api_server: {port: 50000}\n  redis: {port: 6380}\n  fluentd: {port: 24225}\n"
    found = machines(MARO + more + "  samba: {password: abcdefgh123}\nconfigs: {install_node_runtime: false}\n")
    assert (found.master.login.port, found.api_port, found.redis_port, found.collector_port) == (
        2222,
        50000,
        6380,
        24225,
    )
    assert (found.samba_password, found.install_node_runtime) == ("abcdefgh123", False)


def test_a_redis_for_tasks_is_off_unless_it_is_wanted_or_the_file_is_maros() -> None:
    assert machines(native()).task_redis is None
    assert machines(native(task_redis="true")).task_redis == 6379
    found = machines(native(task_redis="{port: 19999, server_port: 7000}"))
    assert (found.task_redis, found.task_redis_port, found.redis_port) == (19999, 7000, 6379)
    assert machines(MARO).task_redis == 6379
    assert machines(MARO + "  redis: {port: 6380}\n").task_redis == 6380
    assert machines(MARO + "task_redis: false\n").task_redis is None


def test_ssh_and_become_at_the_top_count_for_every_machine_unless_it_has_its_own() -> None:
    text = native(
        ssh="{user: ops, key: /k, port: 23}", become="sudo", nodes="[n1, root@n2:24, {address: n3, become: none}]"
    )
    found = machines(text)
    assert found.master.login == Login("ops", 23, "/k", None, Become.SUDO)
    first, second, third = (node.host for node in found.nodes)
    assert (first.address, first.login) == ("n1", found.master.login)
    assert (second.address, second.login.username, second.login.port) == ("n2", "root", 24)
    assert (third.login.username, third.login.become) == ("ops", Become.NONE)


def test_a_node_says_what_it_offers() -> None:
    node = "{address: n1, name: gpu1, labels: {disk: nvme}, topology: rack1/switch2,"
    node += " resources: {cpu: 2, memory: 2GiB, gpu: 0}, runtimes: [docker], mounts: [/datasets]}"
    [found] = machines(native(nodes=f"[{node}]")).nodes
    assert (found.host.name, found.labels, found.topology) == ("gpu1", {"disk": "nvme"}, ("rack1", "switch2"))
    assert (found.cpu, found.memory, found.gpu) == (2000, 2 << 30, 0)
    assert (found.runtimes, found.mounts) == ((RuntimeName.DOCKER,), ("/datasets",))


def test_the_ways_and_places_of_services_can_be_chosen() -> None:
    found = machines(native(api="tunnel", collector="fluentd", share="{path: /mnt/nas/}", join_after_create="false"))
    assert (found.api, found.collector, found.share) == (ApiWay.TUNNEL, Collector.FLUENTD, "/mnt/nas")
    assert not found.join_after_create


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("mode: grass/on-premises\nname: x", "master: is missing"),
        (native().replace("name: lab", "name: ../x"), "name: must be a name"),
        (native().replace("address: m1", "adress: m1"), "master.adress: unknown key; did you mean `address`?"),
        (native().replace("m1", "'-oProxyCommand=x'"), "master.address: must be a host name or an IP address"),
        (native(nodes="['a b']"), "nodes[0]: must be a host name"),
        (native(nodes="[n1, n1]"), "nodes[1]: n1:22 is already nodes[0]"),
        (native(nodes="[{address: n1, resources: {gpu: many}}]"), "nodes[0].resources.gpu:"),
        (native(share="{path: data}"), "share.path: must be an absolute path"),
        (native(share="{path: /mnt/../etc}"), "share.path: must be an absolute path"),
        (native(api="ssh"), "api: must be one of direct, tunnel"),
        (native(become="su"), "become: must be one of none, sudo"),
        (native(redis="{embedded: true}"), "redis: unknown key"),
        (native(task_redis="{port: 0}"), "task_redis.port: must be"),
        (native(task_redis="{server_port: 6379}"), "task_redis.server_port: 6379 is already used by `redis`"),
        (native(ssh="{user: 'a b'}"), "ssh.user: must be a user name"),
        (
            native().replace("{address: m1}", "{address: m1, redis: {port: 51812}}"),
            "master.redis.port: 51812 is already used by `api`",
        ),
        (
            native().replace("{address: m1}", "{address: m1, samba: {password: x y}}"),
            "master.samba.password: must be 8",
        ),
    ],
)
def test_a_mistake_is_named_with_its_path(text: str, fault: str) -> None:
    assert fault in faults(text)


@pytest.mark.parametrize(
    ("text", "address", "user", "port"),
    [
        ("host", "host", "me", 22),
        ("ops@10.0.0.1", "10.0.0.1", "ops", 22),
        ("ops@host:2222", "host", "ops", 2222),
        ("fe80::1", "fe80::1", "me", 22),
        ("ops@fe80::1", "fe80::1", "ops", 22),
        ("ops@[fe80::1]:23", "fe80::1", "ops", 23),
    ],
)
def test_a_host_can_be_spelled_as_for_ssh(text: str, address: str, user: str, port: int) -> None:
    found = spelled_host(text, Login(username="me"))
    assert (found.address, found.login.username, found.login.port) == (address, user, port)


@pytest.mark.parametrize("text", ["", "@", "a@b@c", "host:99999", "host:0", "ops@", "-x", "a;b"])
def test_what_is_no_host_is_refused(text: str) -> None:
    with pytest.raises(Wrong):
        spelled_host(text, Login())


def test_passwords_are_not_shown() -> None:
    found = machines(native(ssh="{password: hunter2hunter2}"))
    assert "hunter2" not in repr(found)
