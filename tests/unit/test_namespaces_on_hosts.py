"""A namespace of Kubernetes as a node of a cluster of several hosts: its steps on the master, and whose credentials."""

from __future__ import annotations

import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from grass.config import MasterConfig, RedisConfig
from grass.errors import ConflictError, InputError
from grass.kubernetes.capacity import Most
from grass.kubernetes.credentials import Credentials, Login
from grass.node_config import KubernetesConfig, NodeConfig, NodeHome
from grass.provision import namespaces
from grass.provision.namespaces import NamespaceRequest
from grass.provision.on_premises import namespace_steps, node_paths
from grass.provision.on_premises.facts import Facts, Listener
from grass.provision.on_premises.record import Made
from grass.provision.on_premises.status import parse
from grass.provision.on_premises.steps import Put, Run, Step, plan_lines
from grass.wire.codec import builtins, indented

MASTER = NodeHome(
    name="lab",
    mode="grass/on-premises",
    home="/var/lib/grass/clusters/lab",
    runtime_dir="/run/grass/lab",
    redis=RedisConfig(host="10.0.0.1", port=6379, tls=True),
    master=MasterConfig(api_host="0.0.0.0", api_port=51812),
    node=NodeConfig(name="", address="10.0.0.1"),
    share="/srv/grass/lab",
    task_redis_server="10.0.0.1:6380",
    tls=True,
)
PATHS = node_paths.of_namespace("lab", "pods")
SERVER = "https://k8s.example:6443"
REQUEST = NamespaceRequest("pods", KubernetesConfig("team", kubeconfig="/home/ann/config", context="prod"), Most())
WIRE = {
    "name": "lab",
    "mode": "grass/on-premises",
    "redis": {"embedded": False, "host": "10.0.0.1", "port": 6379},
    "node": builtins(NodeConfig(name="pods", probe=True)),
    "collector": "10.0.0.1:24224",
    "task_redis": 6390,
    "task_redis_server": "10.0.0.1:6380",
}


def facts_with(**nodes: namespace_steps.OwnNamespace) -> Facts:
    """Facts of a master that has these namespaces."""
    records = {f"{name}@lab+namespace": Made(details=builtins(own)) for name, own in nodes.items()}
    return Facts(records={"lab": Made(), "lab+node": Made(), **records})


def added() -> namespace_steps.OwnNamespace:
    return namespace_steps.own(facts_with(), MASTER, REQUEST, SERVER)


OWN = added()


def steps() -> list[Step]:
    credentials = Credentials(SERVER, token="hidden-token")
    made = replace(namespace_steps.made(Facts(), PATHS), details=builtins(OWN))
    return [
        *namespace_steps.steps_to_claim(made, PATHS, credentials),
        *namespace_steps.steps_after_claim(PATHS, MASTER, "abc"),
    ]


def test_its_steps_write_what_its_agent_needs_and_a_plan_shows_no_secret() -> None:
    lines = "\n".join(plan_lines(steps(), "pods"))
    assert "hidden-token" not in lines and OWN.password not in lines
    puts = {put.target: put for step in steps() for put in step.actions if isinstance(put, Put)}
    credentials = puts["/var/lib/grass/nodes/pods@lab/credentials.json"]
    assert (credentials.mode, credentials.owner) == (0o600, "grass:grass")
    assert puts["/var/lib/grass/installed/pods@lab+namespace.json"].mode == 0o600
    environment = puts["/etc/grass/pods@lab.node.env"].content
    assert b'CLUSTER_JSON="/var/lib/grass/nodes/pods@lab/cluster.json"' in bytes(environment)  # type: ignore[arg-type]
    units = ["grass-node-agent@pods@lab.service", "grass-node-api-server@pods@lab.service"]
    assert f"start {', '.join(units)}" in lines
    for unit in units:
        text = bytes(puts[f"/etc/systemd/system/{unit}.d/cluster.conf"].content).decode()  # type: ignore[arg-type]
        assert "PartOf=grass@lab.target" in text and "WantedBy=grass@lab.target" in text
        assert "ReadWritePaths" not in text
    assert "ReadWritePaths=/mnt/all/lab" in namespace_steps.addition(replace(MASTER, share="/mnt/all/lab"))


def test_all_that_its_steps_make_is_in_its_record() -> None:
    made = namespace_steps.made(Facts(), PATHS)
    assert Made.parse(made.text()) == made
    for step in steps()[1:]:
        for put in step.actions:
            if isinstance(put, Put):
                kept = (*made.files, *made.folders)
                assert any(put.target == each or put.target.startswith(f"{each}/") for each in kept), put


def test_it_leaves_in_order_its_daemons_its_pods_its_files() -> None:
    records = {"lab": Made(files=("/etc/grass/lab.env",)), "pods@lab+namespace": namespace_steps.made(Facts(), PATHS)}
    lines = list(plan_lines(namespace_steps.leave_steps(PATHS, records, None), "pods"))
    names = [line.partition("] ")[2] for line in lines if line.startswith("pods: [")]
    assert names[:4] == ["stop and disable its units", "remove its pods", "remove its files", "remove its folders"]
    assert names[-1] == "remove the record of what was made"
    assert not any("lab.env" in line for line in lines)
    assert namespace_steps.leave_steps(PATHS, {"lab": Made()}, None) == []


def test_templates_that_a_node_on_the_same_machine_uses_stay_when_it_leaves() -> None:
    template = "/etc/systemd/system/grass-node-agent@.service"
    own = namespace_steps.made(Facts(), PATHS)
    assert template in own.files
    records = {"pods@lab+namespace": own, "lab+node": Made(files=(template,))}
    lines = "\n".join(plan_lines(namespace_steps.leave_steps(PATHS, records, None), "pods"))
    assert template not in lines and "grass-node-api-server@.service" in lines


def test_its_configuration_has_its_own_folders_and_the_masters_share() -> None:
    own = added()
    assert own.kubernetes is not None
    node = namespaces.node_config(REQUEST, own.kubernetes, address="10.0.0.1", api_port=51820)
    made = namespace_steps.cluster_config(WIRE, PATHS, node, MASTER, None)
    assert (made.home, made.data_dir) == ("/var/lib/grass/nodes/pods@lab", Path("/srv/grass/lab"))
    assert (made.task_redis, made.task_redis_server, made.tls) == (0, None, False)
    assert made.node.isolate is None and not made.node.probe
    assert NodeHome.parse(indented(made)) == made, "otherwise the next call would start its daemons again"
    settings = made.node.kubernetes
    assert settings is not None and settings.cluster_id
    assert (settings.kubeconfig, settings.context) == (None, None)
    assert settings.credentials == "/var/lib/grass/nodes/pods@lab/credentials.json"
    ready = replace(made, tls=True, redis=replace(made.redis, tls=True))  # as `host_certificate install` does
    assert namespace_steps.cluster_config(WIRE, PATHS, node, MASTER, ready) == ready


def test_the_quotas_of_the_day_are_not_in_its_configuration() -> None:
    own = added()
    assert own.kubernetes is not None
    request = replace(REQUEST, most=Most(cpu=2000))
    node = namespaces.node_config(request, own.kubernetes, address="10.0.0.1", api_port=51820)
    assert (node.cpu, node.memory, node.gpu) == (2000, None, None)


def test_the_same_command_goes_on_as_the_same_node_and_another_namespace_is_refused() -> None:
    first = added()
    found = namespace_steps.own(facts_with(pods=first), MASTER, REQUEST, SERVER)
    assert (found.join_id, found.password, found.api_port) == (first.join_id, first.password, first.api_port)
    assert found.kubernetes == first.kubernetes
    other = replace(REQUEST, settings=KubernetesConfig("other"))
    for request, server in ((other, SERVER), (REQUEST, "https://elsewhere")):
        with pytest.raises(ConflictError, match="node pods: exists already, as the namespace team of https://k8s"):
            namespace_steps.own(facts_with(pods=first), MASTER, request, server)


def test_each_namespace_has_a_port_of_its_own_and_all_have_the_clusters_id() -> None:
    first = added()
    facts = replace(facts_with(pods=first), listeners=(Listener("0.0.0.0", 51821, ""),))
    second = namespace_steps.own(facts, MASTER, replace(REQUEST, name="more"), SERVER)
    assert (first.api_port, second.api_port) == (51820, 51822)
    assert first.kubernetes is not None and second.kubernetes is not None
    assert first.kubernetes.cluster_id == second.kubernetes.cluster_id


def test_another_bundle_restarts_the_daemons_of_this_cluster_and_leaves_an_incomplete_node_alone(
    tmp_path: Path,
) -> None:
    facts = facts_with(pods=added())
    facts.records["pods@other+namespace"] = Made()
    found = list(namespace_steps.upgrade_steps(facts, MASTER, "abc"))
    assert [step.name.partition(":")[0] for step in found] == ["pods", "pods"]
    check = found[-1].check
    assert check is not None and check.argv[4] == "/var/lib/grass/nodes/pods@lab/node.started"
    started = tmp_path / "started"

    def ends(step: Step) -> int:
        assert isinstance(step.check, Run)
        words = [str(started) if word.endswith("/node.started") else word for word in step.check.argv]
        return subprocess.run(words, check=False, capture_output=True).returncode

    [*_, anew] = namespace_steps.steps_after_claim(PATHS, MASTER, "abc")
    assert (ends(found[-1]), ends(anew)) == (0, 1)
    started.write_text("another\n")
    assert (ends(found[-1]), ends(anew)) == (1, 1)


def test_the_daemons_of_a_namespace_are_in_the_status_under_its_name() -> None:
    unit = "Id=grass-{}.service\nLoadState=loaded\nActiveState=active\nMainPID=7\nActiveEnterTimestampMonotonic=1\n"
    units = ("redis@lab", "node-agent@lab", "node-agent@pods@lab", "redis@pods@lab", "shepherd@pods@lab")
    found = parse("100\n50\n" + "\n".join(unit.format(each) for each in units))
    assert [each.name for each in found] == ["redis", "node-agent", "node-agent@pods"]


def kubeconfig(folder: Path, user: dict[str, Any], cluster: dict[str, Any] | None = None) -> Login:
    text = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "other",
        "contexts": [
            {"name": "prod", "context": {"cluster": "c", "user": "u"}},
            {"name": "other", "context": {"cluster": "missing", "user": "missing"}},
        ],
        "clusters": [{"name": "c", "cluster": {"server": SERVER, **(cluster or {})}}],
        "users": [{"name": "u", "user": user}],
    }
    path = folder / "config"
    path.write_text(yaml.safe_dump(text))
    return Login(str(path), "prod")


def test_what_another_machine_gets_of_a_kubeconfig_is_one_context_with_its_files_in_it(tmp_path: Path) -> None:
    for name in ("ca", "certificate", "key"):
        (tmp_path / name).write_text(f"the {name}\n")
    files = {"client-certificate": str(tmp_path / "certificate"), "client-key": str(tmp_path / "key")}
    login = kubeconfig(
        tmp_path, files, {"certificate-authority": str(tmp_path / "ca"), "tls-server-name": "kubernetes"}
    )
    found = login.read_to_keep()
    assert (found.server, found.context, found.server_name) == (SERVER, "prod", "kubernetes")
    assert (found.ca, found.certificate, found.key) == ("the ca\n", "the certificate\n", "the key\n")
    assert found.fetched_by is found.token_file is None


@pytest.mark.parametrize(
    ("user", "named"),
    [
        (
            {
                "exec": {
                    "apiVersion": "client.authentication.k8s.io/v1",
                    "command": "echo",
                    "args": [
                        '{"apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential", '
                        '"status": {"token": "t"}}'
                    ],
                    "interactiveMode": "Never",
                }
            },
            "come from the program echo",
        ),
        ({"tokenFile": "token"}, "come from the file "),
    ],
)
def test_credentials_that_this_machine_fetches_anew_are_refused(
    tmp_path: Path, user: dict[str, Any], named: str
) -> None:
    (tmp_path / "token").write_text("t")
    login = kubeconfig(tmp_path, {**user, **({"tokenFile": str(tmp_path / "token")} if "tokenFile" in user else {})})
    assert login.read().token == "t"
    with pytest.raises(InputError, match=f"context prod of .*config: its credentials {named}"):
        login.read_to_keep()
