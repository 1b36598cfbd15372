"""Settings files: Grass's own and MARO's."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path

import pytest

from grass.cli.exits import Exit
from grass.cli.main import execute
from grass.config import MasterConfig
from grass.errors import ManifestError
from grass.manifest import read_document
from grass.manifest.local_settings import LocalSettings, OfferedResources, PortSettings, RedisSettings
from grass.manifest.settings import parse_settings
from grass.node_config import own_node
from grass.provision import layout
from master.agent.step import Limits

MARO_PROCESS = """
redis_info:
  host: "localhost"
  port: 19999
redis_mode: MARO # one of MARO, customized
parallel_level: 1
keep_agent_alive: 1
agent_countdown: 5
check_interval: 60
"""


def settings_of(text: str) -> LocalSettings:
    return parse_settings(read_document(text))


def problems_of(text: str) -> list[str]:
    with pytest.raises(ManifestError) as caught:
        settings_of(text)
    return [str(problem) for problem in caught.value.problems]


def test_an_almost_empty_file_gives_the_defaults() -> None:
    assert settings_of("mode: local") == LocalSettings()


def test_the_defaults_are_those_of_the_daemons() -> None:
    assert LocalSettings().policy() == MasterConfig().policy() == Limits().policy()


def test_every_setting_of_the_policy_reaches_the_master_agent() -> None:
    said = {"parallel_level": 2, "check_interval": 1.5, "keep_agent_alive": False, "agent_countdown": 7, "keep_jobs": 9}
    said |= {"keep_days": 3.0, "silent_after": 5.0, "lost_after": 60.0, "usage_half_life": 86_400.0}
    document = {name: value for name, value in said.items() if name != "usage_half_life"}
    settings = parse_settings({"mode": "local", "quotas": {"ann": {"cpu": 2}, "default": {"gpu": 1}}, **document})
    config = MasterConfig(**json.loads(json.dumps(asdict(MasterConfig(**settings.policy(), api_port=1)))))
    quotas = {"quotas": {"ann": {"cpu": 2000}}, "default_quota": {"gpu": 1000}}
    assert Limits(**config.policy()).policy() == {**said, **quotas, "notify": None, "metrics": None}


def test_every_setting_can_be_set() -> None:
    text = """
mode: local
name: mine
redis: {host: 10.0.0.5, port: 6380, password: 123456}
parallel_level: 4
check_interval: 500ms
keep_agent_alive: false
agent_countdown: 2
resources: {cpu: 1.5, memory: 2GiB, gpu: all}
ports: {api: 8090, node_api: 8091}
keep_jobs: 10
keep_days: 0.5
silent_after: 20s
lost_after: 1h
"""
    assert settings_of(text) == LocalSettings(
        name="mine",
        redis=RedisSettings(False, "10.0.0.5", 6380, "123456"),
        parallel_level=4,
        check_interval=0.5,
        keep_agent_alive=False,
        agent_countdown=2,
        resources=OfferedResources(1500, 2 << 30, None),
        ports=PortSettings(8090, 8091),
        keep_jobs=10,
        keep_days=0.5,
        silent_after=20.0,
        lost_after=3600.0,
    )


def test_a_password_is_never_printed() -> None:
    assert "hunter2" not in repr(settings_of("{redis: {host: h, password: hunter2}}"))
    assert "hunter2" not in problems_of("{redis: {host: h, password: hunter2, prt: 1}}")[0]


def test_a_redis_of_your_own_has_the_usual_port() -> None:
    assert settings_of("{redis: {host: h}}").redis == RedisSettings(False, "h", 6379, None)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (
            "mode: grass/moon",
            "mode: must be local or grass/on-premises or grass/k8s or grass/azure or k8s/aks; this version does not",
        ),
        (
            "mode: remote",
            'mode: must be local or grass/on-premises or grass/k8s or grass/azure or k8s/aks, got "remote"',
        ),
        ("name: ../x", "name: must be a name made of"),
        ("redis: {embedded: true, host: h}", "redis.host: is for your own redis"),
        ("redis: {embedded: false}", "redis.host: is missing; it is the host of your redis"),
        ("redis: {port: 6379}", "redis.port: is for your own redis"),
        ("redis: {host: h, port: 70000}", "redis.port: must be at most 65535, got 70000"),
        ("parallel_level: 0", "parallel_level: must be at least 1, got 0"),
        ("check_interval: 0", "check_interval: must be more than 0, got 0"),
        ("check_interval: 1ms", "check_interval: must be between 0.1s and 1d"),
        ("keep_agent_alive: 1", "keep_agent_alive: must be true or false, got 1"),
        ("resources: {cpu: some}", "resources.cpu: must be a number of cores such as 1 or 0.5"),
        ("ports: {api: 80, node_api: 80}", "ports.node_api: 80 is already used by `api`"),
        ("silent_after: 1s", 'silent_after: must be at least 4s (two heartbeats), got "1s"'),
        ("silent_after: 10s\nlost_after: 10s", "lost_after: must be more than silent_after (10s), got 10s"),
        ("keep_days: -1", "keep_days: must be more than 0 and at most 36500 days, got -1"),
        ("paralel_level: 3", "paralel_level: unknown key; did you mean `parallel_level`?"),
        ("components: {}", "components: belongs to a job; start this file with `grass job start`"),
        ("keep_jobs:", "keep_jobs: has no value; leave the key out for its default"),
    ],
)
def test_a_mistake_is_named_with_its_path(text: str, problem: str) -> None:
    found = problems_of(text)
    assert len(found) == 1
    assert found[0].startswith(problem)


def test_maros_process_settings_are_taken_as_they_are() -> None:
    settings = settings_of(MARO_PROCESS)
    assert settings == LocalSettings(
        name="process",
        parallel_level=1,
        check_interval=60.0,
        task_redis=19999,
    )


def test_maros_customized_redis_is_your_own() -> None:
    settings = settings_of(MARO_PROCESS.replace("MARO #", "customized #").replace("alive: 1", "alive: 0"))
    assert settings.redis == RedisSettings(False, "localhost", 19999, None)
    assert settings.keep_agent_alive is False
    assert settings.warnings == ()


def test_what_maro_fills_in_is_filled_in() -> None:
    settings = settings_of("mode: process")
    assert (settings.parallel_level, settings.check_interval, settings.agent_countdown) == (1, 60.0, 5)


def test_maros_local_cluster_is_taken_as_it_is() -> None:
    text = """
mode: grass/local
name: test_cluster
master:
  resource: {cpu: 4, memory: 2048, gpu: 0}
  redis: {port: 6379}
  agents: {check_interval: 30}
"""
    assert settings_of(text) == LocalSettings(
        name="test_cluster",
        resources=OfferedResources(4000, 2 << 30, 0),
        check_interval=30.0,
        task_redis=6379,
    )


@pytest.mark.parametrize(
    ("mode", "host", "told"), [("MARO", "h2", 1), ("MARO", "127.0.0.1", 0), ("customized", "h2", 0)]
)
def test_create_warns_of_a_redis_of_maro_that_it_does_not_use(
    mode: str, host: str, told: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "settings.yml"
    file.write_text(f"mode: process\nredis_mode: {mode}\nredis_info: {{host: {host}, port: 1}}\n")
    assert execute(["create", str(file), "--plan"]) == Exit.OK
    warning = 'warning: redis_info.host: "h2" is ignored; with redis_mode MARO, Grass runs the redis for tasks on this'
    assert capsys.readouterr().err.count(warning) == told


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("redis_mode: other", 'redis_mode: must be one of MARO, customized; got "other"'),
        ("{redis_mode: MARO, keep_agent_alive: 2}", "keep_agent_alive: must be 1 or 0, got 2"),
        ("{redis_info: {hots: a}}", "redis_info.hots: unknown key; did you mean `host`?"),
        ("{mode: grass/local}", "name: is missing"),
        (
            "{mode: grass/local, name: a, master: {resource: {cpu: -1}}}",
            "master.resource.cpu: must not be negative, got -1",
        ),
    ],
)
def test_a_mistake_in_maros_files_is_named_too(text: str, problem: str) -> None:
    assert problems_of(text) == [problem]


def test_a_machine_offers_no_pods() -> None:
    assert problems_of("{runtimes: [process, kubernetes]}") == [
        'runtimes[1]: must be one of process, docker; got "kubernetes"; `grass node add --kubernetes` adds a namespace'
    ]
    assert problems_of("{runtimes: [podman]}") == ['runtimes[0]: must be one of process, docker; got "podman"']


def test_the_command_for_the_topology_reaches_the_own_node_and_those_that_join(tmp_path: Path) -> None:
    settings = settings_of("{mode: local, topology_command: [/opt/lab/where, 7]}")
    config = layout.design(settings, tmp_path / "home" / "clusters" / "lab", None)
    own = own_node(config)
    assert own is not None
    assert own.node.topology_command == config.master.node_policy.topology_command == ("/opt/lab/where", "7")


def test_a_command_or_a_label_for_the_topology_that_cannot_work_is_refused_with_its_path() -> None:
    assert problems_of("{mode: local, topology_command: where -a}") == [
        "topology_command: must be a list: the program and its arguments"
    ]
    assert problems_of("{mode: local, topology_command: []}") == ["topology_command: must not be empty"]
    assert problems_of("{mode: local, labels: {topology: r1//s1}}") == [
        'labels.topology: must be names separated by /, such as rack1/switch3; got "r1//s1"'
    ]
