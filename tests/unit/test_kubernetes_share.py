"""What a pod sees of the claim that is the share of its namespace: what an isolated task on a machine sees."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from grass.errors import InputError
from grass.model.job import Container, Mount
from grass.model.namespace import refused
from grass.model.runtime import RuntimeName
from grass.node_config import KubernetesConfig, NodeConfig, NodeHome
from node.agent import environment
from node.runtime.kubernetes import carrier, keeper
from node.runtime.kubernetes.pods import pod
from node.runtime.kubernetes.share import mounts
from node.runtime.protocol import Launch, Start
from tests.support.templates import template

SETTINGS = KubernetesConfig("lab", claim="team-data", image="i:1")
LAUNCH = Launch(["/train"], {}, None, 5.0, runtime=RuntimeName.KUBERNETES, image="i:1", user="ann")
OWN = [
    ("data/ann", "/grass/share/data/ann", False),
    ("data/shared", "/grass/share/data/shared", True),
    ("data/shared/ann", "/grass/share/data/shared/ann", False),
    ("jobs/j-1", "/grass/share/jobs/j-1", False),
]


def seen(launch: Launch) -> list[tuple[str, str, bool]]:
    return [(each["subPath"], each["mountPath"], each.get("readOnly", False)) for each in mounts(launch, "j-1")]


def named(source: str, **more: Any) -> list[tuple[str, str, bool]]:
    """Return what a mount adds."""
    mount = Mount(source, "/x", shared=True, **more)
    return seen(LAUNCH._replace(container=Container(mounts=(mount,))))[len(OWN) :]


def test_a_task_sees_its_users_folders_and_its_jobs_folder_and_what_it_waited_for() -> None:
    assert seen(LAUNCH) == OWN
    waited = LAUNCH._replace(awaited=("first-1", "j-1"))
    assert seen(waited) == [*OWN, ("jobs/first-1", "/grass/share/jobs/first-1", True)]


def test_read_only_data_leaves_the_jobs_own_folder_writable() -> None:
    found = seen(LAUNCH._replace(read_only_data=True))
    assert found == [(OWN[0][0], OWN[0][1], True), OWN[1], OWN[3]]


@pytest.mark.parametrize("user", ["", "shared", "..", "a/b"])
def test_who_has_no_folder_of_a_user_gets_none(user: str) -> None:
    assert seen(LAUNCH._replace(user=user)) == [OWN[1], OWN[3]]


def test_every_mount_is_a_part_of_the_claim_and_has_a_place_of_its_own() -> None:
    everything = Container(data="/d", mounts=(Mount("/", "/all", shared=True), Mount("/sets", "/s", shared=True)))
    made = mounts(LAUNCH._replace(container=everything, cwd="/d/code/src", awaited=("first-1",)), "j-1")
    assert all(each["subPath"] for each in made)  # without one, a pod would see the whole claim
    assert len({each["mountPath"] for each in made}) == len(made)


def test_a_relative_cwd_shows_the_folder_that_it_begins_with() -> None:
    shown = seen(LAUNCH._replace(cwd="/grass/share/code/src"))[len(OWN) :]
    assert shown == [("code", "/grass/share/code", True)]
    for inside in ("/grass/share", "/grass/share/data/ann/x", "/grass/share/jobs/j-2", "/work"):
        assert seen(LAUNCH._replace(cwd=inside)) == OWN


@pytest.mark.parametrize(
    ("source", "shown"),
    [
        ("/", [(folder, at.replace("/grass/share", "/x"), read_only) for folder, at, read_only in OWN]),
        (
            "/data",
            [
                ("data/ann", "/x/ann", False),
                ("data/shared", "/x/shared", True),
                ("data/shared/ann", "/x/shared/ann", False),
            ],
        ),
        ("/data/ann", [("data/ann", "/x", False)]),
        ("/data/shared", [("data/shared", "/x", True), ("data/shared/ann", "/x/ann", False)]),
        ("/data/shared/ann", [("data/shared/ann", "/x", False)]),
        ("/jobs/j-1", [("jobs/j-1", "/x", False)]),
        ("/sets/mnist", [("sets/mnist", "/x", True)]),
    ],
)
def test_a_job_mounts_folders_of_the_share_that_nobody_could_replace(source: str, shown: list[Any]) -> None:
    assert named(source) == shown
    assert all(
        read_only for folder, _, read_only in named(source, read_only=True) if folder != "jobs/j-1" or source != "/"
    )


@pytest.mark.parametrize("source", ["/jobs/j-2", "/jobs", "/logs", "/images/x", "/data/bob", "/data/bob/x"])
def test_what_belongs_to_others_is_not_mounted(source: str) -> None:
    with pytest.raises(InputError, match="is not for tasks"):
        named(source)


@pytest.mark.parametrize("source", ["/data/ann/link", "/data/shared/ann/link", "/data/shared/bob", "/jobs/j-1/link"])
def test_what_a_task_could_replace_by_a_link_is_not_mounted(source: str) -> None:
    with pytest.raises(InputError, match="a task could put a link in its place"):
        named(source)


def test_a_mount_of_a_machine_or_one_that_leads_out_is_refused() -> None:
    for mount in (Mount("/etc", "/x"), Mount("/data/../jobs", "/x", shared=True)):
        with pytest.raises(InputError, match="leads out of the share"):
            seen(LAUNCH._replace(container=Container(mounts=(mount,))))
    with pytest.raises(InputError, match="leads out of the share"):
        seen(LAUNCH._replace(cwd="/grass/share/code/../jobs"))


def of_job(tmp_path: Path, settings: KubernetesConfig, **component: Any) -> tuple[Launch, dict[str, Any]]:
    """Return the launch and the pod of a task of ann, who waited for the job `first`."""
    node = NodeConfig("n1", runtimes=(RuntimeName.KUBERNETES.value,), kubernetes=settings)
    config = NodeHome("c1", "local", str(tmp_path), str(tmp_path), node=node)
    of = template(image="image:1", user="ann", awaited={"first": "first-1"}, **component)
    launch = environment.launch(config, of, {})
    return launch, pod("c1", "n1", Start(f"{of.job_id}/w.0/1", "l", {}), launch, settings)


def test_the_variables_name_the_share_as_the_pod_sees_it(tmp_path: Path) -> None:
    launch, body = of_job(tmp_path, SETTINGS, cwd="code", container=Container(data="/d"))
    task = body["spec"]["containers"][-1]
    env = {each["name"]: each["value"] for each in task["env"]}
    job = env["GRASS_JOB_ID"]
    assert (env["GRASS_DATA"], env["GRASS_OUTPUT"]) == ("/d", f"/d/jobs/{job}")
    assert env["GRASS_AFTER_FIRST_OUTPUT"] == "/d/jobs/first-1"
    assert task["workingDir"] == "/d/code" and launch.user == "ann"
    assert {"mountPath": "/d/data/ann", "name": "share", "subPath": "data/ann"} in task["volumeMounts"]
    assert {"name": "share", "persistentVolumeClaim": {"claimName": "team-data"}} in body["spec"]["volumes"]
    assert str(tmp_path) not in json.dumps(body)


def test_what_runs_an_image_of_a_user_never_sees_the_whole_claim(tmp_path: Path) -> None:
    _, body = of_job(tmp_path, SETTINGS)
    helper, task = body["spec"]["containers"]
    assert helper["name"] == keeper.KEEPER and "volumeMounts" not in helper
    assert all(each.get("subPath") for each in task["volumeMounts"] if each["name"] == "share")
    assert [each["name"] for each in body["spec"]["volumes"]] == ["scratch", "share", "shm"]


def test_without_a_claim_nothing_of_a_share_is_seen(tmp_path: Path) -> None:
    launch, body = of_job(tmp_path, replace(SETTINGS, claim=None))
    task = body["spec"]["containers"][-1]
    names = {each["name"] for each in task["env"]}
    assert "GRASS_DATA" not in names and "GRASS_AFTER_FIRST_OUTPUT" not in names and launch.user == ""
    assert {"name": "output", "mountPath": "/grass/output"} in task["volumeMounts"]


def test_a_share_lets_a_namespace_run_what_names_one(tmp_path: Path) -> None:
    of_share = Container(mounts=(Mount("/sets", "/sets", shared=True),), data="/d")
    component = template(image="i", cwd="code", container=of_share).component
    assert refused(component, share=True) == ""
    assert refused(component, share=False) == (
        "a relative `cwd` is in the share, which pods there do not have, and its mounts are of the share, which pods "
        "there do not have (`container.mounts`), and it names the share, which pods there do not have "
        "(`container.data`)"
    )
    machine = template(image="i", container=Container(mounts=(Mount("/a", "/a"),))).component
    assert refused(machine, share=True) == "pods mount no folders of machines (`container.mounts`)"


@pytest.mark.parametrize(
    ("folder", "mounted", "below"),
    [
        ("", "", ""),
        ("sets/mnist/train", "sets", "mnist/train"),
        ("data/ann/x/y", "data/ann", "x/y"),
        ("data/shared/ann/x", "data/shared/ann", "x"),
        ("jobs/j-1/x", "jobs/j-1", "x"),
    ],
)
def test_files_are_sent_by_a_pod_that_sees_no_folder_of_another_user(folder: str, mounted: str, below: str) -> None:
    found = carrier.to_send(folder)
    assert (found.folder, found.below) == (mounted, below)
    [mount] = carrier.pod("c1", "n1", "grass-files-x", SETTINGS, found)["spec"]["containers"][0]["volumeMounts"]
    assert mount.get("subPath", "") == mounted and "readOnly" not in mount


@pytest.mark.parametrize("folder", ["data", "data/shared"])
def test_files_are_sent_to_the_folder_of_one_user(folder: str) -> None:
    with pytest.raises(InputError, match="name one, such as"):
        carrier.to_send(folder)


def test_files_are_fetched_by_a_pod_that_changes_nothing() -> None:
    body = carrier.pod("c1", "n1", "grass-files-x", replace(SETTINGS, pull_policy="Never"), None)
    [container] = body["spec"]["containers"]
    assert container["volumeMounts"] == [{"name": "share", "mountPath": "/grass/share", "readOnly": True}]
    assert container["image"] == "i:1" and container["imagePullPolicy"] == "Never"
    assert container["resources"]["limits"] and container["securityContext"]["allowPrivilegeEscalation"] is False
    assert "finalizers" not in body["metadata"] and body["spec"]["activeDeadlineSeconds"]
