"""Each shipped example is what it says it is, and the reference names every key that the examples' readers know."""

from __future__ import annotations

import re
from dataclasses import fields, replace
from pathlib import Path

import pytest

from grass.assets import asset
from grass.cli import templates
from grass.errors import NotFoundError
from grass.manifest import parse_job, read_document
from grass.manifest.aks import AksSettings
from grass.manifest.azure import AzureSettings
from grass.manifest.azure_autoscale import Autoscale, Rule
from grass.manifest.azure_images import start_of
from grass.manifest.fields import Fields, Problems
from grass.manifest.job import read_job
from grass.manifest.local_settings import KubernetesSettings, LocalSettings
from grass.manifest.namespaces import NamespaceSettings
from grass.manifest.on_premises import OnPremisesSettings
from grass.manifest.schedule import parse_schedule
from grass.manifest.settings import parse_settings
from grass.model.job import Policy

REFERENCE = Path(__file__).parents[2] / "docs" / "reference"


def test_the_templates_are_known_by_name() -> None:
    assert templates.names() == (
        "aks",
        "azure",
        "cron-schedule",
        "job",
        "kubernetes",
        "maro-job",
        "maro-schedule",
        "on-premises",
        "schedule",
        "settings",
    )
    with pytest.raises(NotFoundError, match="unknown template 'x'; use one of aks, azure, cron-schedule, job"):
        templates.text("x")


@pytest.mark.parametrize("name", ["job", "maro-job"])
def test_a_job_template_is_a_job(name: str) -> None:
    parsed = parse_job(read_document(templates.text(name)))
    assert parsed.warnings == ()


@pytest.mark.parametrize("name", ["schedule", "cron-schedule", "maro-schedule"])
def test_a_schedule_template_is_a_schedule(name: str) -> None:
    parsed = parse_schedule(read_document(templates.text(name)))
    assert parsed.warnings == ()


def test_the_settings_template_shows_the_defaults() -> None:
    assert parse_settings(read_document(templates.text("settings"))) == LocalSettings()


def test_the_template_of_a_cluster_on_several_hosts_shows_the_defaults_in_its_comments() -> None:
    text = templates.text("on-premises")
    machines = parse_settings(read_document(text))
    assert isinstance(machines, OnPremisesSettings) and machines.nodes == ()
    optional = re.sub(r"^# (share|private_address|key|bundle): .*\n", "", text, flags=re.MULTILINE)
    optional = re.sub(r"^# (?=(api: \{|redis|fluentd|samba|port))", "  ", optional, flags=re.MULTILINE)
    optional = re.sub(r"^# (?=(api: d|collector|install|join))", "", optional, flags=re.MULTILINE)
    shown = parse_settings(read_document(optional))
    assert isinstance(shown, OnPremisesSettings) and shown.api_bind == "0.0.0.0"
    assert replace(shown, api_bind=None) == machines
    named = parse_settings(read_document(re.sub(r"^# (?=nodes|  -)", "", text, flags=re.MULTILINE)))
    assert named is not None and len(named.nodes) == 2


def test_the_template_of_a_cluster_on_azure_shows_the_defaults_in_its_comments() -> None:
    text = templates.text("azure")
    few = parse_settings(read_document(text))
    assert isinstance(few, AzureSettings) and few.cloud.location == "westeurope"
    shown = re.sub(r"^# (?=(  |master|ssh|network|api))", "", text, flags=re.MULTILINE)
    shown = re.sub(r"^# (?=(resource|use_|endpoint))", "  ", shown, flags=re.MULTILINE)
    shown = re.sub(r"^  (zone|key|public_key|from): .*\n", "", shown, flags=re.MULTILINE)
    assert parse_settings(read_document(shown)) == few
    scaled = parse_settings(read_document(text.replace("# autoscale:", "autoscale:")))
    assert isinstance(scaled, AzureSettings) and scaled.autoscale == Autoscale((Rule("Standard_D2s_v3", 4),), 5.0)
    sized = parse_settings(read_document(text.replace("# sizes:", "sizes:")))
    assert isinstance(sized, AzureSettings)
    assert sized.sizes == {"standard_nc4as_t4_v3": start_of("Standard_NC4as_T4_v3")}


def test_the_template_of_a_kubernetes_on_azure_shows_the_defaults_in_its_comments() -> None:
    text = templates.text("aks")
    few = parse_settings(read_document(text))
    assert isinstance(few, AksSettings) and few.cloud.location == "westeurope"
    shown = re.sub(r"^# (?=(  |system|kubernetes|registry|share|namespace))", "", text, flags=re.MULTILINE)
    shown = re.sub(r"^# (?=(resource|use_))", "  ", shown, flags=re.MULTILINE)
    shown = re.sub(r"^  (version|from|image|resources): .*\n", "", shown, flags=re.MULTILINE)
    again = parse_settings(read_document(shown))
    assert again == few and "system:" in shown and "\nshare: 100GiB" in shown
    whole = re.sub(r"^# (?=(  |kubernetes|namespace))", "", text, flags=re.MULTILINE)
    said = parse_settings(read_document(whole))
    assert isinstance(said, AksSettings) and (said.version, said.node.image, said.node.cpu) == (
        "1.33",
        "python:3.12",
        64000,
    )


def test_the_commented_lines_of_the_template_of_a_cluster_in_namespaces_are_right_as_well() -> None:
    text = templates.text("kubernetes")
    few = parse_settings(read_document(text))
    assert isinstance(few, KubernetesSettings) and few == KubernetesSettings(name="lab", namespaces=few.namespaces)
    assert [(each.name, each.image, each.gpu) for each in few.namespaces] == [("team-vision", "python:3.12", 4000)]
    text = re.sub(r"^# (?=quotas|parallel|lost)", "", re.sub(r"^#(?=   [a-z])", " ", text, flags=re.M), flags=re.M)
    text = text.replace("# - university", "  - university")
    many = parse_settings(read_document(text))
    assert isinstance(many, KubernetesSettings) and many.parallel_level == 4
    one, other = many.namespaces
    names = {each.name for each in fields(NamespaceSettings)} - {"path", "cluster_id"}
    assert [name for name in names if not getattr(one, name)] == []
    assert (other.context, other.namespace) == ("university", "team-speech")


def test_the_example_beside_the_role_is_a_cluster_in_its_namespace() -> None:
    folder = asset("deploy/kubernetes")
    [one] = parse_settings(read_document((folder / "cluster.yml").read_text(encoding="utf-8"))).namespaces
    assert f"namespace: {one.namespace}}}" in (folder / "role.yaml").read_text(encoding="utf-8")


def test_the_commented_lines_of_the_settings_template_are_right_as_well() -> None:
    keys = "parallel_level|ports|reserve|quotas|labels|topology"
    text = re.sub(rf"^# (?={keys})", "", templates.text("settings"), flags=re.MULTILINE)
    settings = parse_settings(read_document(text))
    assert settings.quotas == {"ann": {"gpu": 2000, "cpu": 8000}}
    assert (settings.default_quota, settings.labels["zone"], settings.topology[0]) == ({"cpu": 4000}, "cellar", "rack1")
    assert settings.reserve == {"cpu": 500, "memory": 1 << 30}
    assert (settings.parallel_level, settings.ports.api, settings.ports.node_api) == (4, 8090, 8091)


def test_the_commented_lines_of_the_job_template_are_right_as_well() -> None:
    keys = "fail_fast|cwd|preemptible|after|place"
    text = re.sub(rf"^( *)# (?={keys}|gang)", r"\1", templates.text("job"), flags=re.MULTILINE)
    assert parse_job(read_document(text)).job.gang == ("worker",)
    text = re.sub(rf"^( *)# (?={keys}|parallelism)", r"\1", templates.text("job"), flags=re.MULTILINE)
    job = parse_job(read_document(text)).job
    assert (job.components["worker"].parallelism, job.components["worker"].cwd) == (2, "/path")
    assert (job.preemptible, job.after[0].job) == (True, "prepare")
    assert job.policy is Policy.BALANCED
    lines = re.findall(r"^#   ((?:resources|where|avoid|spread|matrix): .*?)(?:   .*)?$", text, flags=re.MULTILINE)
    assert len(lines) == 6
    for line in [*lines, "\n    ".join(re.findall(r"^#   ((?:image|container): .*)$", text, flags=re.MULTILINE))]:
        parse_job(read_document(f"name: a\ncomponents:\n  x:\n    command: c\n    {line}\n"))
    for line in re.findall(r"^#   (ready: .*?})", templates.text("job"), flags=re.MULTILINE):
        parse_job(read_document(f"name: a\ncomponents:\n  x:\n    command: c\n    ports: [params]\n    {line}\n"))


def test_the_reference_names_every_key_of_a_job_file() -> None:
    page = (REFERENCE / "job-file.md").read_text(encoding="utf-8")
    known = _known_keys({"name": "a", "components": {"x": {"command": "c"}}})
    assert {"timeout", "success", "replicas", "grace"} <= known
    assert [key for key in sorted(known - {"mode"}) if f"`{key}`" not in page] == []


def test_the_reference_names_every_setting() -> None:
    page = (REFERENCE / "settings-file.md").read_text(encoding="utf-8")
    for key in (each.name for each in fields(LocalSettings)):
        assert key in ("warnings", "default_quota", "usage_half_life") or f"`{key}`" in page, key
    section = page.partition("## Namespaces of Kubernetes")[2].partition("\n## ")[0]
    for key in (each.name for each in fields(NamespaceSettings)):
        assert key in ("path", "cpu", "memory", "gpu", "queue_kind", "cluster_id") or f"`{key}`" in section, key


def _known_keys(document: dict[str, object]) -> set[str]:
    """The keys that the reader asks for, as its own message about an unknown one lists them."""
    problems = Problems()
    fields = Fields({**document, "?": 1, "components": {"x": {"command": "c", "?": 1}}}, "", problems)
    read_job(fields, [])
    fields.done()
    known: set[str] = set()
    for problem in problems.found:
        known.update(problem.message.partition("use one of ")[2].split(", "))
    return known
