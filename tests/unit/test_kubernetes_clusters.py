"""Clusters whose nodes are namespaces: their settings file, and what `grass create` decides and looks at."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
import yaml

from grass.cli.exits import Exit
from grass.cli.main import execute
from grass.config import ClusterConfig
from grass.errors import InputError, ManifestError
from grass.manifest import read_document
from grass.manifest.local_settings import KubernetesSettings, LocalSettings, PortSettings
from grass.manifest.namespaces import NamespaceSettings
from grass.manifest.settings import parse_settings
from grass.model.daemons import NODE_DAEMONS
from grass.model.namespace import Serve
from grass.node_config import own_node
from grass.provision import daemons, layout
from grass.provision.file_namespaces import differences, looked_at, notes, requests
from grass.provision.namespaces import node_config, requested
from tests.doubles.kubernetes_api import KubernetesApi, kubernetes_api

FULL = """
mode: grass/k8s
name: uni
parallel_level: 4
ports: {api: 8090}
namespaces:
  - namespace: vision
    name: v1
    context: site/blue
    kubeconfig: ~/.kube/uni
    image: python:3.12
    resources: {cpu: 1.5, memory: 2GiB, gpu: 4}
    labels: {zone: campus}
    claim: team-data
    queue: kueue/vision
    pull_secrets: [one, two, one]
    registry: registry.example.org/team
    registry_user: ann
    serve: anywhere
  - site/blue/speech
  - sound
"""
VISION = NamespaceSettings(
    "vision",
    "v1",
    "namespaces[0]",
    context="site/blue",
    kubeconfig="~/.kube/uni",
    image="python:3.12",
    cpu=1500,
    memory=2 << 30,
    gpu=4000,
    claim="team-data",
    queue="vision",
    queue_kind="kueue",
    pull_secrets=("one", "two"),
    registry="registry.example.org/team",
    registry_user="ann",
    serve=Serve.ANYWHERE,
    labels={"zone": "campus"},
)


def problems_of(text: str) -> list[str]:
    with pytest.raises(ManifestError) as caught:
        parse_settings(read_document(text))
    return [str(problem) for problem in caught.value.problems]


# the file


def test_a_file_names_namespaces_with_all_that_options_say_of_one() -> None:
    speech = NamespaceSettings("speech", "speech", "namespaces[1]", context="site/blue")
    assert parse_settings(read_document(FULL)) == KubernetesSettings(
        name="uni",
        parallel_level=4,
        ports=PortSettings(8090),
        namespaces=(VISION, speech, NamespaceSettings("sound", "sound", "namespaces[2]")),
    )


def test_the_short_name_of_the_mode_means_the_same() -> None:
    assert parse_settings(read_document(FULL.replace("grass/k8s", "k8s"))) == parse_settings(read_document(FULL))


def test_a_cluster_with_this_machine_may_have_namespaces_too() -> None:
    settings = parse_settings({"mode": "local", "namespaces": ["lab"]})
    assert settings == LocalSettings(namespaces=(NamespaceSettings("lab", "lab", "namespaces[0]"),))
    assert problems_of("{namespaces: [local]}") == [
        "namespaces[0]: local is the name of this machine already; choose another `name`"
    ]


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("[]", "namespaces: is missing; it lists the namespaces"),
        ("lab", "namespaces: must be a list"),
        ("[4]", "namespaces[0]: must be a mapping"),
        ("[c/]", "namespaces[0].namespace: must be the name of a namespace"),
        ("[/lab]", "namespaces[0].context: must not be empty"),
        ("[Lab]", "namespaces[0].namespace: must be the name of a namespace"),
        (f"[{'n' * 64}]", "namespaces[0].namespace: must be the name of a namespace, at most 63"),
        ("[{name: a}]", "namespaces[0].namespace: is missing"),
        ("[{namespace: lab, name: ../x}]", "namespaces[0].name: must be a name made of"),
        ("[a, b/a]", "namespaces[1]: a is the name of namespaces[0] already; choose another `name`"),
        ("[{namespace: lab, kubeconfig: config}]", "namespaces[0].kubeconfig: must be an absolute path, or begin with"),
        ("[{namespace: lab, claim: ../pods}]", "namespaces[0].claim: must be the name of an object of Kubernetes"),
        ("[{namespace: lab, queue: slurm/team}]", "namespaces[0].queue: must be NAME, kueue/NAME or volcano/NAME"),
        ("[{namespace: lab, pull_secrets: [a, A]}]", "namespaces[0].pull_secrets[1]: must be the name of an object"),
        ("[{namespace: lab, registry: team}]", "namespaces[0].registry: must be HOST[:PORT][/PATH]"),
        ("[{namespace: lab, registry_user: ann}]", "namespaces[0].registry_user: requires `registry`"),
        ("[{namespace: lab, registry: a.b, registry_user: 'a:b'}]", "namespaces[0].registry_user: must be the name"),
        ("[{namespace: lab, serve: all}]", "namespaces[0].serve: must be one of pods, anywhere"),
        ("[{namespace: lab, image: '-x'}]", "namespaces[0].image: must be the name of a container image"),
        ("[{namespace: lab, resources: {cpu: -1}}]", "namespaces[0].resources.cpu: must"),
        ("[{namespace: lab, resources: {gpu: 0.5}}]", "namespaces[0].resources.gpu: must be a whole number of devices"),
        ("[{namespace: lab, cpu: 4}]", "namespaces[0].cpu: unknown key"),
    ],
)
def test_what_is_wrong_with_a_namespace_is_said_with_its_path(text: str, problem: str) -> None:
    [found] = problems_of(f"{{mode: k8s, name: a, namespaces: {text}}}")
    assert found.startswith(problem), found


@pytest.mark.parametrize(
    ("more", "problem"),
    [
        ("resources: {cpu: 4}", "resources: is of this machine, which is no node here"),
        ("mounts: [/x]", "mounts: is of this machine"),
        ("low_disk: 1GiB", "low_disk: is of this machine"),
        ("topology_command: [/where]", "topology_command: is of this machine"),
        ("ports: {node_api: 1}", "ports.node_api: this machine is no node here"),
        ("task_redis: true", "task_redis: is for tasks on this machine"),
        ("isolation: user", "isolation: is for a cluster on several hosts"),
        ("cloud: {location: eastus}", "cloud: is for `mode: k8s/aks`"),
        ("master: {node_size: Standard_D2s_v3}", "master: must be outside or inside"),
    ],
)
def test_what_has_no_meaning_without_a_machine_is_refused(more: str, problem: str) -> None:
    [found] = problems_of(f"{{mode: k8s, name: a, namespaces: [lab], {more}}}")
    assert found.startswith(problem), found


def test_a_kubernetes_that_grass_does_not_make_names_what_there_is() -> None:
    [found] = problems_of("{mode: k8s/eks, name: a, cloud: {location: eastus}, master: {node_size: x}}")
    assert found.startswith(
        "mode: must be local or grass/on-premises or grass/k8s or grass/azure or k8s/aks: Grass makes no cluster"
    )
    assert "k8s/aks makes one on Azure, and grass/k8s uses namespaces of a cluster that exists" in found


def test_a_cluster_in_namespaces_needs_a_name() -> None:
    assert problems_of("{mode: k8s, namespaces: [lab]}") == ["name: is missing"]


# the cluster


def design(tmp_path: Path, settings: LocalSettings, before: ClusterConfig | None = None) -> ClusterConfig:
    return layout.design(settings, tmp_path, before)


@pytest.mark.parametrize(("kind", "own"), [(LocalSettings, True), (KubernetesSettings, False)])
def test_this_machine_is_a_node_only_if_the_mode_says_so(tmp_path: Path, kind: type[LocalSettings], own: bool) -> None:
    config = design(tmp_path, kind(name="a"))
    assert (config.master.own_node, config.master.nodes_on_client) == (("local", True) if own else (None, False))
    there = own_node(config)
    assert there.node.name == "local" and there.node.api_port != 0 if there is not None else not own
    names = daemons.names(config)
    assert [name in names for name in NODE_DAEMONS] == [own] * len(NODE_DAEMONS)
    conf = daemons.supervisord_conf(config, ["redis-server"], 0o22)
    assert [f"[program:{name}]" in conf for name in names] == [True] * len(names)
    assert conf.count("[program:") == len(names)
    layout.check_ports(config)


@pytest.mark.parametrize("kind", [LocalSettings, KubernetesSettings])
def test_a_cluster_with_the_same_settings_is_the_same(tmp_path: Path, kind: type[LocalSettings]) -> None:
    """Or `grass create` would say again and again that settings have changed."""
    settings = kind(name="a", quotas={"ann": {"cpu": 1}}, ports=PortSettings(8090))
    design(tmp_path, settings).save()
    before = layout.existing(tmp_path)
    assert design(tmp_path, settings, before) == before
    assert design(tmp_path, replace(settings, parallel_level=2), before) != before


# namespaces that are nodes already


def node(wanted: NamespaceSettings) -> object:
    request = requested(replace(wanted, context=wanted.context or "kept"))
    return node_config(request, request.settings, address="127.0.0.1", api_port=1)


@pytest.mark.parametrize("wanted", [VISION, NamespaceSettings("lab", "lab")])
def test_a_node_that_is_as_the_file_says_has_no_differences(
    wanted: NamespaceSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = node(wanted)
    assert differences(made, wanted) == []
    monkeypatch.setenv("KUBECONFIG", "/another")  # it is kept, as the context is
    assert differences(made, wanted) == []


def test_all_that_differs_is_named() -> None:
    other = NamespaceSettings("lab", "v1", context="c", kubeconfig="/k")
    assert differences(node(VISION), other) == [
        *("namespace", "context", "kubeconfig", "image", "resources.cpu", "resources.memory", "resources.gpu", "claim"),
        *("queue", "pull_secrets", "registry", "registry_user", "serve", "labels"),
    ]


def test_nothing_is_removed_or_changed_without_a_word() -> None:
    there = [node(VISION), node(NamespaceSettings("lab", "gone")), node(NamespaceSettings("lab", "same"))]
    said = list(notes(there, [replace(VISION, image="b", gpu=None), NamespaceSettings("lab", "same")]))
    assert [each.partition(";")[0] for each in said] == [
        "warning: node v1: stays as it is",
        "node gone: is not in the file",
    ]
    assert "other values of image, resources.gpu; to change that, use `grass node remove v1`" in said[0]


# looks


@pytest.fixture
def server() -> Iterator[KubernetesApi]:
    with kubernetes_api() as made:
        yield made


class Files:
    """A settings file beside a kubeconfig for the double, and a GRASS_HOME."""

    def __init__(self, server: KubernetesApi, folder: Path) -> None:
        self.home = folder / "home"
        self.kubeconfig = folder / "config"
        self.kubeconfig.write_text(
            "apiVersion: v1\nkind: Config\ncurrent-context: now\n"
            "contexts: [{name: now, context: {cluster: c, user: u}}]\n"
            f"clusters: [{{name: c, cluster: {{server: '{server.url}'}}}}]\nusers: [{{name: u, user: {{token: t}}}}]\n"
        )
        self._file = folder / "cluster.yml"

    def create(self, *namespaces: str, plan: bool = False) -> int:
        lines = [f"  - {{kubeconfig: {self.kubeconfig}, {each}}}\n" for each in namespaces]
        self._file.write_text(f"mode: k8s\nname: uni\nnamespaces:\n{''.join(lines)}")
        return execute(["create", str(self._file), *(["--plan"] if plan else [])])

    def nothing_is_there(self) -> bool:
        return not [path for path in self.home.rglob("*") if path.is_file()]


@pytest.fixture
def files(server: KubernetesApi, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Files:
    made = Files(server, tmp_path)
    monkeypatch.setenv("GRASS_HOME", str(made.home))
    monkeypatch.delenv("GRASS_REGISTRY_PASSWORD", raising=False)
    return made


SIZE = "resources: {cpu: 1, memory: 1GiB}"
GOOD = f"namespace: lab, context: now, {SIZE}"


@pytest.mark.parametrize(
    ("namespaces", "code", "said"),
    [
        (
            [GOOD, f"namespace: none, context: now, {SIZE}"],
            2,
            'namespaces[1]: namespace none: namespaces "',
        ),
        ([f"namespace: lab, context: old, {SIZE}"], 2, "namespaces[0]: context old of "),
        ([GOOD + ", claim: none"], 2, "namespaces[0]: claim none in namespace lab: not found"),
        (
            ["namespace: lab, context: now, resources: {cpu: 1}"],
            2,
            "say how much Grass may use with namespaces[0].resources.memory",
        ),
        ([GOOD + ", registry: r.org/a, registry_user: ann"], 2, "namespaces[0]: no terminal to ask for the password"),
    ],
)
def test_a_look_that_fails_says_where_and_leaves_nothing_behind(
    files: Files, server: KubernetesApi, capsys: pytest.CaptureFixture[str], namespaces: list[str], code: int, said: str
) -> None:
    before = dict(server.objects)
    assert files.create(*namespaces) == code
    assert said in capsys.readouterr().err
    assert files.nothing_is_there() and server.objects == before


def test_missing_rights_and_a_server_that_is_away_have_their_exit_codes(
    files: Files, server: KubernetesApi, capsys: pytest.CaptureFixture[str]
) -> None:
    server.denied = {("create", "pods")}
    assert files.create(GOOD) == Exit.NOT_ALLOWED
    assert "namespaces[0]: namespace lab: these rights are missing:\n  create pods" in capsys.readouterr().err
    server.close()
    assert files.create(GOOD) == Exit.UNREACHABLE
    assert "namespaces[0]: " in capsys.readouterr().err and files.nothing_is_there()


def test_a_plan_has_the_role_of_each_namespace_and_asks_nobody(
    files: Files, server: KubernetesApi, capsys: pytest.CaptureFixture[str]
) -> None:
    second = "namespace: two, name: b, claim: data, registry: r.org/a, registry_user: ann"
    assert files.create(GOOD, second, plan=True) == Exit.OK
    said = capsys.readouterr().out
    objects = [(each["kind"], each["metadata"]["namespace"]) for each in yaml.safe_load_all(said)]
    assert objects == [("Role", "lab"), ("RoleBinding", "lab"), ("Role", "two"), ("RoleBinding", "two")]
    assert "this machine is no node" in said and "persistentvolumeclaims" in said and "node b of the cluster" in said
    assert files.nothing_is_there() and not server.asked


def test_a_good_look_remembers_which_context_was_current(files: Files) -> None:
    wanted = NamespaceSettings("lab", "n", "namespaces[0]", kubeconfig=str(files.kubeconfig), cpu=1, memory=1)
    assert looked_at([wanted], None)["n"].settings.context == "now"


TEAM = NamespaceSettings("lab", "a", "namespaces[0]", context="now", registry="r.org/a", registry_user="ann")
OTHER = replace(TEAM, name="b", path="namespaces[1]", registry="s.org")


def test_one_password_never_goes_to_two_registries(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GRASS_REGISTRY_PASSWORD", "secret")
    with pytest.raises(InputError, match=r"have several logins \(ann at r\.org, ann at s\.org\)"):
        requests([TEAM, OTHER], None)
    found = requests([TEAM, replace(TEAM, name="c")], None)
    assert [each.login.password for each in found if each.login is not None] == ["secret", "secret"]


def test_a_password_is_asked_for_once_and_an_error_if_nobody_knows_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("GRASS_REGISTRY_PASSWORD", raising=False)
    asked: list[str] = []
    found = requests([TEAM, OTHER, replace(TEAM, name="c")], lambda question: asked.append(question) or "typed")
    assert asked == ["password of ann for r.org: ", "password of ann for s.org: "]
    assert {each.login.password for each in found if each.login is not None} == {"typed"}
    with pytest.raises(InputError, match=r"^namespaces\[0\]: no terminal to ask"):
        requests([TEAM], lambda _: None)
