"""What the operator decides for resources: which job, which status, which operation. Pure."""

from __future__ import annotations

import json
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
import yaml

from grass.errors import ConflictError
from grass.kubernetes.crds import crds
from grass.kubernetes.custom_kinds import ELASTIC_JOB, KINDS, MARS_JOB, SCALE_IN, SCALE_OUT, TRAINING_JOB, Kind
from grass.kubernetes.custom_resources import RESOURCE, Resource, other_writer
from grass.kubernetes.rights import objects, rules
from grass.manifest import parse_job
from grass.manifest.document import Document
from grass.model.names import is_run_of, is_short_id
from grass.model.namespace import Serve
from grass.node_config import KubernetesConfig
from grass.provision.namespaces import daemons_of
from grass.wire.codec import encode
from node.operator import identity, jobs, page, scales, status
from node.operator.events import warning
from node.operator.pages import Pages
from node.operator.status import Said
from tests.doubles.kubernetes_api import kubernetes_api
from tests.support.job_views import job_view, operation_view

EXAMPLES = Path("examples/foreign")
FILES = {"TrainingJob": "training_job.yml", "MarsJob": "mars_job.yml", "ElasticJob": "elastic_job.yml"}
NOW = "2026-11-27T10:00:00Z"


def resource(kind: Kind = TRAINING_JOB, status: Document | None = None, spec: Any = None, **about: Any) -> Resource:
    """A resource as the server shows it; by default with the specification of the example."""
    if spec is None and kind.name in FILES:
        spec = yaml.safe_load((EXAMPLES / FILES[kind.name]).read_text())["spec"]
    metadata = {"name": "train", "namespace": "lab", "uid": "u-1", "generation": 1, **about}
    return RESOURCE.decode(encode({"metadata": metadata, "spec": spec, "status": status}))


def said(word: str, reason: str = "r", generation: int = 1) -> Document:
    """A status."""
    return {"conditions": [{"type": word, "reason": reason}], "observedGeneration": generation}


# identity


def test_a_job_and_its_run_are_named_after_kind_namespace_name_and_uid() -> None:
    run = identity.run_of(TRAINING_JOB, resource())
    assert run == identity.run_of(TRAINING_JOB, resource(generation=7, labels={"a": "b"}))
    assert run.name.startswith("train-") and is_run_of(run.id, run.name)
    others = (
        identity.run_of(MARS_JOB, resource()),
        identity.run_of(TRAINING_JOB, resource(namespace="other")),
        identity.run_of(TRAINING_JOB, resource(name="train2")),
        identity.run_of(TRAINING_JOB, resource(uid="u-2")),
    )
    assert len({run.name, *(each.name for each in others)}) == 5
    assert is_short_id(identity.operation_of(SCALE_IN, resource(SCALE_IN, spec={})))


@pytest.mark.parametrize("name", ["a" * 253, "a.b-c", "x" * 44 + ".-y", "0"])
def test_a_job_can_have_the_name_of_every_resource(name: str) -> None:
    found = resource(name=name)
    assert (
        parse_job(identity.document_of(TRAINING_JOB, found, "op", Serve.PODS)).job.name
        == identity.run_of(TRAINING_JOB, found).name
    )


@pytest.mark.parametrize("kind", [TRAINING_JOB, MARS_JOB, ELASTIC_JOB])
def test_the_job_of_a_resource_has_tags_by_which_it_is_found(kind: Kind) -> None:
    annotations = {"kubectl.kubernetes.io/last-applied-configuration": "{}"}
    step = jobs.decide(
        kind, resource(kind, labels={"team": "vision"}, annotations=annotations), "c.n", Serve.PODS, None
    )
    assert isinstance(step, jobs.Start)
    parsed = parse_job(step.document)
    assert parsed.job.dialect == kind.name
    assert parsed.job.tags.items() >= {
        ("team", "vision"),
        ("grass-cluster.org/operator", "c.n"),
        ("grass-cluster.org/kind", kind.name),
        ("grass-cluster.org/uid", "u-1"),
    }
    assert not any("annotation" in warning or "webHost" in warning for warning in parsed.warnings)


@pytest.mark.parametrize("kind", [TRAINING_JOB, MARS_JOB, ELASTIC_JOB])
def test_tasks_run_in_pods_of_the_namespace_unless_they_may_run_anywhere(kind: Kind) -> None:
    def where(serve: Serve) -> list[dict[str, tuple[str, ...]]]:
        document = identity.document_of(kind, resource(kind), "c.n", serve)
        return [dict(part.where) for part in parse_job(document).job.components.values()]

    assert all(each["kubernetes"] == ("lab",) for each in where(Serve.PODS))
    assert not any("kubernetes" in each for each in where(Serve.ANYWHERE))


@pytest.mark.parametrize(
    "role", [None, 1, {}, {"template": 1}, {"template": {"spec": []}}, {"template": {"spec": {"nodeSelector": 1}}}]
)
def test_a_role_of_a_wrong_shape_is_refused_with_its_path(role: object) -> None:
    step = jobs.decide(ELASTIC_JOB, resource(spec={"replicaSpecs": {"worker": role}}), "c.n", Serve.PODS, None)
    assert isinstance(step, Said) and step.reason == "Rejected" and "spec.replicaSpecs.worker" in step.message


# jobs


def test_a_resource_that_grass_refuses_is_rejected_until_it_is_changed() -> None:
    step = jobs.decide(TRAINING_JOB, resource(spec={"etReplicaSpecs": {}, "speed": 1}), "c.n", Serve.PODS, None)
    assert isinstance(step, Said) and (step.word, step.reason) == ("Failed", "Rejected")
    assert "spec.etReplicaSpecs.launcher" in step.message and "spec.speed" in step.message
    assert jobs.is_finished(resource(status=said("Failed", "Rejected")))
    changed = resource(status=said("Failed", "Rejected"), generation=2)
    assert not jobs.is_finished(changed)
    assert isinstance(jobs.decide(TRAINING_JOB, changed, "c.n", Serve.PODS, None), jobs.Start)


def test_a_job_that_is_gone_is_never_started_again() -> None:
    step = jobs.decide(TRAINING_JOB, resource(status=said("Running")), "c.n", Serve.PODS, None)
    assert isinstance(step, Said) and (step.word, step.reason) == ("Failed", "JobDeleted")
    assert jobs.is_finished(resource(status=said("Succeeded")))
    assert jobs.is_finished(resource(status=said("Failed", "TrainingJobFailed"), generation=3))


def test_a_resource_that_is_being_deleted_stops_its_job_and_starts_none() -> None:
    going = resource(deletionTimestamp=NOW)
    assert jobs.decide(TRAINING_JOB, going, "c.n", Serve.PODS, None) is None
    assert jobs.decide(TRAINING_JOB, going, "c.n", Serve.PODS, job_view(id="j-1")) == jobs.Stop("j-1")
    assert jobs.decide(TRAINING_JOB, going, "c.n", Serve.PODS, job_view(state="STOPPED", result="STOPPED")) is None


def test_only_a_job_that_runs_without_its_resource_is_an_orphan() -> None:
    assert jobs.is_orphan(job_view(), frozenset({"u-2"}), "u-1")
    assert jobs.is_orphan(job_view(state="STOPPING", result="SUCCEEDED"), frozenset(), "u-1")
    assert not jobs.is_orphan(job_view(), frozenset({"u-1"}), "u-1")
    assert not jobs.is_orphan(job_view(state="FAILED", result="FAILED"), frozenset(), "u-1")


def test_a_changed_specification_is_said_to_have_no_effect() -> None:
    job = job_view(dialect="TrainingJob", state="QUEUED")
    step = jobs.decide(TRAINING_JOB, resource(status=said("Created"), generation=2), "c.n", Serve.PODS, job)
    assert isinstance(step, Said) and "was changed since" in step.message
    step = jobs.decide(TRAINING_JOB, resource(status=said("Created")), "c.n", Serve.PODS, job)
    assert isinstance(step, Said) and "changed" not in step.message


# status


def training(state: str, **more: Any) -> Any:
    parts = {
        "launcher": {"replicas": 1, "ran": True, "counts": {"RUNNING": 1}},
        "worker": {"replicas": 2, "ran": True, "counts": {"RUNNING": 1, "LOST": 1}, "holes": [1]},
    }
    return job_view(dialect="TrainingJob", state=state, components=parts, started=0.0, **more)


def test_the_status_of_a_training_job_has_the_fields_of_et_operator() -> None:
    job = training("RUNNING", tries=2)
    found = status.status_of(TRAINING_JOB, resource(), status.said_of(TRAINING_JOB, job, []), NOW, job)
    assert found["phase"] == found["conditions"][-1]["type"] == "Running"
    assert found["replicaStatuses"] == {
        "Launcher": {"active": 1, "succeeded": 0, "failed": 0},
        "Worker": {"active": 1, "succeeded": 0, "failed": 1},
    }
    assert (found["restartCount"], found["startTime"]) == (2, "1970-01-01T00:00:00Z")
    assert found["currentWorkers"] == ["train-worker-0", "train-worker-2"]
    assert "completionTime" not in found


def test_the_last_condition_is_the_present_one_and_the_others_are_over() -> None:
    known: Document = {}
    for word in ("Created", "Running", "Scaling", "Running", "Succeeded"):
        known = status.status_of(TRAINING_JOB, resource(status=known), Said(word, "r"), NOW)
    shown = [(each["type"], each["status"]) for each in known["conditions"]]
    assert shown == [("Created", "True"), ("Scaling", "False"), ("Running", "False"), ("Succeeded", "True")]


def test_what_is_said_again_changes_nothing_and_a_new_message_only_the_last_condition() -> None:
    once = status.status_of(MARS_JOB, resource(MARS_JOB), Said("Running", "r", "m"), NOW)
    assert "phase" not in once
    again = status.status_of(MARS_JOB, resource(MARS_JOB, once), Said("Running", "r", "m"), "later")
    assert again == once
    other = status.status_of(MARS_JOB, resource(MARS_JOB, once), Said("Running", "r", "n"), "later")
    [condition] = other["conditions"]
    assert (condition["message"], condition["lastTransitionTime"]) == ("n", NOW)


def test_the_generation_is_that_of_the_start_or_of_the_last_refusal() -> None:
    started = status.status_of(TRAINING_JOB, resource(generation=2), Said("Created", "r"), NOW)
    assert started["observedGeneration"] == 2
    later = status.status_of(TRAINING_JOB, resource(status=started, generation=3), Said("Running", "r"), NOW)
    assert later["observedGeneration"] == 2
    refused = said("Failed", "Rejected", 2)
    again = status.status_of(TRAINING_JOB, resource(status=refused, generation=3), Said("Failed", "Rejected"), NOW)
    assert again["observedGeneration"] == 3


@pytest.mark.parametrize(
    ("manager", "fields", "found"),
    [
        ("kubedl", {"f:status": {"f:conditions": {}}}, "kubedl"),
        ("et-operator", {"f:status": {"f:phase": {}}}, "et-operator"),
        ("grass-a", {"f:status": {"f:phase": {}}}, None),
        ("kubectl", {"f:spec": {"f:status": {}}}, None),
        ("kubectl", {"f:status": {}}, None),
    ],
)
def test_another_operator_is_known_by_what_it_writes(manager: str, fields: Document, found: str | None) -> None:
    managed = [{"manager": manager, "fieldsV1": fields}]
    assert other_writer(resource(status=said("Running"), managedFields=managed), "grass-a") == found
    assert other_writer(resource(status={}, managedFields=managed), "grass-a") is None


# scaling


def scaling(kind: Kind, *operations: Any, job: Any = None, before: str = "", **spec: Any) -> Any:
    spec = {"selector": {"name": "train"}, **spec}
    found = resource(kind, said(before) if before else None, spec, uid="u-9", name="more")
    target = scales.target_of(found, [resource(name="other"), resource()])
    return scales.decide(kind, found, target, training("RUNNING") if job is None else job, operations)


def test_a_scale_out_files_one_operation_on_the_job_of_its_training_job() -> None:
    step = scaling(SCALE_OUT, toAdd={"count": 2})
    assert isinstance(step, scales.File)
    assert step.job == identity.run_of(TRAINING_JOB, resource()).id
    assert (step.request.delta, step.request.component) == (2, "worker")


def test_a_scale_in_names_workers_by_the_name_of_their_training_job() -> None:
    step = scaling(SCALE_IN, toDelete={"podNames": ["train-worker-1"]}, timeout=5)
    assert isinstance(step, scales.File)
    assert (step.request.delta, step.request.remove, step.request.deadline) == (-1, ("worker.1",), 5.0)


def own(kind: Kind, **more: Any) -> Any:
    """The operation of the resource of ``scaling``."""
    found = identity.operation_of(kind, resource(kind, spec={}, uid="u-9", name="more"))
    return operation_view(id=found, kind="scale", **more)


@pytest.mark.parametrize(
    ("operation", "word"),
    [
        ({"state": "STARTING"}, "Scaling"),
        ({"state": "ENDED", "outcome": "DONE"}, "ScaleSucceeded"),
        ({"state": "ENDED", "outcome": "PARTIALLY_DONE"}, "ScaleFailed"),
        ({"state": "ENDED", "outcome": "TIMED_OUT"}, "ScaleFailed"),
        ({"state": "ENDED", "outcome": "REJECTED"}, "ScaleFailed"),
    ],
)
def test_the_words_of_an_operation_are_those_of_et_operator(operation: Document, word: str) -> None:
    step = scaling(SCALE_IN, own(SCALE_IN, **operation), toDelete={"count": 1})
    assert step.word == word


def test_a_scale_in_waits_for_its_job_and_fails_when_that_has_ended() -> None:
    count = {"toDelete": {"count": 1}}
    waits = scales.decide(SCALE_IN, resource(SCALE_IN, spec={"selector": {"name": "x"}, **count}), None, None, [])
    assert isinstance(waits, Said) and (waits.word, waits.reason) == ("Created", "WaitsForJob")
    assert scaling(SCALE_IN, job=training("QUEUED"), **count).word == "Created"
    ended = scaling(SCALE_IN, job=training("SUCCEEDED", result="SUCCEEDED"), **count)
    assert (ended.word, ended.reason) == ("ScaleFailed", "JobEnded")


def test_an_operation_that_was_filed_and_forgotten_is_not_filed_again() -> None:
    step = scaling(SCALE_IN, before="Scaling", toDelete={"count": 1})
    assert (step.word, step.reason) == ("ScaleFailed", "OperationGone")


def test_a_scale_in_that_grass_refuses_is_rejected_with_the_path() -> None:
    step = scaling(SCALE_IN, toDelete={"podNames": ["other-worker-1"]})
    assert (step.word, step.reason) == ("ScaleFailed", "Rejected")
    assert "spec.toDelete.podNames" in step.message


# webHost


def test_the_page_of_a_mars_job_gets_a_service_and_an_ingress_that_go_with_the_resource() -> None:
    found = resource(MARS_JOB, spec={"webHost": "mars.example.org"})
    service, ingress = page.service(found, "j-1", "supervisor", 4242), page.ingress(found)
    name = page.name_of(found)
    assert service["metadata"]["name"] == ingress["metadata"]["name"] == name
    assert service["spec"]["selector"]["grass-cluster.org/component"] == "supervisor"
    assert service["spec"]["ports"][0]["targetPort"] == 4242
    [rule] = ingress["spec"]["rules"]
    assert rule["host"] == "mars.example.org"
    assert rule["http"]["paths"][0]["path"] == f"/mars/lab/{name}(/|$)(.*)"
    assert page.address(found) == f"http://mars.example.org/mars/lab/{name}/"
    assert [each["uid"] for body in (service, ingress) for each in body["metadata"]["ownerReferences"]] == ["u-1"] * 2


def test_a_page_is_made_and_changed_but_nothing_that_belongs_to_somebody_else() -> None:
    found, web = resource(MARS_JOB, spec={"webHost": "mars.example.org"}), page.Web("supervisor", "web")
    services, name = page.SERVICES.format("lab"), page.name_of(found)
    with kubernetes_api() as server, closing(server.api()) as api:
        pages = Pages(api, "lab")
        for port in (4242, 4243):
            pages.publish(found, "j-1", web, port)
        ingress = f"{page.INGRESSES.format('lab')}/{name}"
        assert server.objects[f"{services}/{name}"]["spec"]["ports"][0]["targetPort"] == 4243
        assert server.objects[ingress]["spec"]["rules"][0]["host"] == "mars.example.org"
        server.objects[ingress]["metadata"]["ownerReferences"] = [{"uid": "another"}]
        before = json.dumps(server.objects[ingress]["spec"])
        with pytest.raises(ConflictError, match=r"Ingress g-train-web-.* belongs to somebody else"):
            pages.publish(found, "j-1", web, 4242)
        assert json.dumps(server.objects[ingress]["spec"]) == before


# CRDs


def test_the_crds_of_the_repository_are_those_that_the_command_prints() -> None:
    text = Path("deploy/kubernetes/crds/crds.yaml").read_text()
    assert list(yaml.safe_load_all(text)) == crds()
    assert "&" not in text


def test_the_crds_keep_every_field_and_show_the_columns_of_the_systems() -> None:
    found = {each["spec"]["names"]["kind"]: each["spec"] for each in crds()}
    assert set(found) == {kind.name for kind in KINDS}
    columns = {
        name: [each["name"] for each in spec["versions"][0]["additionalPrinterColumns"]] for name, spec in found.items()
    }
    assert columns["TrainingJob"] == columns["ScaleIn"] == ["Phase", "Age"]
    assert columns["MarsJob"] == ["State", "Age", "Finished-TTL", "Max-Lifetime"]
    for spec in found.values():
        [version] = spec["versions"]
        assert version["subresources"] == {"status": {}}
        schema = version["schema"]["openAPIV3Schema"]["properties"]
        assert schema["spec"]["x-kubernetes-preserve-unknown-fields"]


# rights and daemons


def test_serving_adds_rights_in_the_namespace_and_one_daemon() -> None:
    plain, serving = KubernetesConfig("lab"), KubernetesConfig("lab", serve=Serve.PODS)
    added = [rule for rule in rules(serving) if rule not in rules(plain)]
    reference = Path("docs/reference/operator.md").read_text()
    names = {rule.resource for rule in added}
    assert {f"{kind.plural}/status" for kind in KINDS} < names
    assert [name for name in names if f"`{name.partition('/')[0]}`" not in reference] == []
    assert [rule.verbs for rule in added if rule.resource.endswith("/status")] == [("patch",)] * len(KINDS)
    assert {each["kind"] for each in objects(serving)} == {"Role", "RoleBinding"}
    assert [each.name for each in daemons_of(serving)] == [*(each.name for each in daemons_of(plain)), "operator"]


@pytest.mark.parametrize("kind", KINDS)
def test_the_reference_names_every_kind_with_its_version(kind: Kind) -> None:
    reference = Path("docs/reference/operator.md").read_text()
    assert f"`{kind.name}`" in reference and f"`{kind.api_version}`" in reference


def test_an_event_has_a_name_of_its_own_so_that_it_is_kept_once() -> None:
    one = warning(TRAINING_JOB, resource(), "Rejected", "m" * 2000, NOW)
    assert one == warning(TRAINING_JOB, resource(), "Rejected", "m" * 2000, NOW)
    assert len(one["message"]) <= 1024 and one["involvedObject"]["uid"] == "u-1"
    assert one["metadata"]["name"] != warning(TRAINING_JOB, resource(), "Rejected", "n", NOW)["metadata"]["name"]
