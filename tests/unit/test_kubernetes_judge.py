"""What a pod's state means for its attempt. States are those of a real 1.20, unless a test names a newer version."""

from __future__ import annotations

from typing import Any

import pytest

from grass.kubernetes.objects import Pod
from grass.model.reasons import Reason, ReasonCode
from grass.wire.codec import Form
from node.runtime.kubernetes.judge import (
    IMAGE_PATIENCE,
    START_PATIENCE,
    Ended,
    Judgement,
    Runs,
    Waits,
    judge,
    lost,
    of_deletion,
    unschedulable,
)

POD: Form[Pod] = Form(Pod)
STARTED, FINISHED = "2026-11-27T03:30:32Z", "2026-11-27T03:30:34Z"
BEGUN, OVER = 1795750232.0, 1795750234.0


def pod(container: dict[str, Any] | None = None, *, node: str = "real1", **status: Any) -> Pod:
    statuses = {} if container is None else {"containerStatuses": [{"name": "task", **container}]}
    return POD.convert(
        {"metadata": {"name": "p", "uid": "u"}, "spec": {"nodeName": node}, "status": {**statuses, **status}}
    )


def terminated(code: int, reason: str = "Error", **more: Any) -> dict[str, Any]:
    return {"terminated": {"exitCode": code, "reason": reason, "startedAt": STARTED, "finishedAt": FINISHED, **more}}


def ended(container: dict[str, Any], **status: Any) -> Ended:
    found = judge(pod(container, phase="Failed", **status), memory=64 << 20)
    assert isinstance(found, Ended)
    return found


def disrupted(reason: str) -> dict[str, Any]:
    return {"conditions": [{"type": "DisruptionTarget", "status": "True", "reason": reason}]}


def waits(found: Judgement) -> tuple[ReasonCode, float | None, str]:
    assert isinstance(found, Waits)
    return found.reason.code, found.patience, found.reason.message


@pytest.mark.parametrize("code", [0, 1, 3, 128, 160, 255])
def test_an_exit_code_is_the_end(code: int) -> None:
    assert ended({"state": terminated(code)}) == Ended(code, None, None, BEGUN, OVER)


@pytest.mark.parametrize(("code", "signal"), [(129, 1), (137, 9), (143, 15), (159, 31)])
def test_a_code_of_a_shell_is_a_signal(code: int, signal: int) -> None:
    assert ended({"state": terminated(code)}) == Ended(None, signal, None, BEGUN, OVER)


def test_only_a_kill_for_memory_is_out_of_memory() -> None:
    killed = ended({"state": terminated(137, "OOMKilled")})
    assert killed.signal == 9 and killed.reason is not None and "64MiB" in killed.reason.message
    assert ended({"state": terminated(1, "OOMKilled")}) == Ended(1, None, None, BEGUN, OVER)


def test_an_end_that_the_kubelet_does_not_know_is_not_137() -> None:
    gone = {"exitCode": 137, "reason": "ContainerStatusUnknown", "startedAt": None, "finishedAt": None}
    found = ended({"state": {"waiting": {"reason": "ContainerCreating"}}, "lastState": {"terminated": gone}})
    assert (found.code, found.signal, found.started, found.ended) == (None, None, None, None)
    assert found.reason is not None and found.reason.code is ReasonCode.EXIT_UNKNOWN


def test_dates_of_the_year_1_are_no_dates() -> None:
    never = {"startedAt": "0001-01-01T00:00:00Z", "finishedAt": "0001-01-01T00:00:00Z"}
    assert ended({"state": terminated(1, **never)}) == Ended(1, None, None, None, None)


def test_a_container_that_was_started_again_has_ended_with_its_machine() -> None:
    again = ended({"state": {"running": {"startedAt": FINISHED}}, "lastState": terminated(255), "restartCount": 1})
    assert again.reason is not None and again.reason.code is ReasonCode.NODE_REBOOTED and again.code is None


def test_a_phase_of_failed_is_no_end_while_the_container_runs() -> None:
    running = {"state": {"running": {"startedAt": STARTED}}}
    assert judge(pod(running, phase="Failed", reason="DeadlineExceeded")) == Runs(BEGUN)


def test_a_deadline_is_a_time_limit() -> None:
    found = ended({"state": terminated(143)}, reason="DeadlineExceeded")
    assert found.reason is not None and found.reason.code is ReasonCode.TIMEOUT


@pytest.mark.parametrize("reason", ["ContainerCannotRun", "StartError"])
def test_a_command_that_the_image_lacks_cannot_start(reason: str) -> None:
    found = ended({"state": terminated(128, reason, message='exec: "nope":\n not found')})
    assert found.reason is not None and found.reason.code is ReasonCode.CANNOT_START
    assert 'exec: "nope": not found' in found.reason.message and not found.begun and found.code == 128


@pytest.mark.parametrize(
    ("reason", "said"),
    [
        ("PreemptionByScheduler", "preempted"),
        ("PreemptionByKubeScheduler", "preempted"),
        ("DeletionByTaintManager", "tainted"),
        ("EvictionByEvictionAPI", "evicted"),
        ("DeletionByPodGC", "gone"),
        ("TerminationByKubelet", "lack of resources"),
    ],
)
def test_what_kubernetes_did_is_not_the_task_s(reason: str, said: str) -> None:
    """Conditions of 1.26 and later."""
    found = ended({"state": terminated(143)}, **disrupted(reason))
    assert found.reason is not None and found.reason.code is ReasonCode.EVICTED and said in found.reason.message
    assert (found.code, found.signal) == (None, None)


def test_a_task_that_ended_well_while_it_was_evicted_has_succeeded() -> None:
    assert ended({"state": terminated(0)}, **disrupted("EvictionByEvictionAPI")) == Ended(0, None, None, BEGUN, OVER)


def test_an_eviction_by_the_kubelet_says_why() -> None:
    found = judge(pod(phase="Failed", reason="Evicted", message="The node was low on\nresource: memory."))
    assert isinstance(found, Ended) and not found.begun and found.reason is not None
    assert found.reason.code is ReasonCode.EVICTED and "low on resource: memory." in found.reason.message


@pytest.mark.parametrize(
    "reason", ["OutOfcpu", "OutOfmemory", "OutOfnvidia.com/gpu", "NodeAffinity", "UnexpectedAdmissionError"]
)
def test_a_pod_that_its_machine_refuses_starts_again(reason: str) -> None:
    found = judge(pod(phase="Failed", reason=reason, message="Pod was rejected"))
    assert isinstance(found, Ended) and not found.begun and found.reason is not None
    assert found.reason.code is ReasonCode.EVICTED and reason in found.reason.message


def test_the_words_of_the_scheduler_are_the_reason() -> None:
    scheduled = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}
    message = "0/3 nodes are available: 1 Insufficient memory, 2 Insufficient cpu."
    found = judge(pod(node="", phase="Pending", conditions=[{**scheduled, "message": message}]))
    code, patience, said = waits(found)
    assert (code, patience) == (ReasonCode.UNSCHEDULABLE, START_PATIENCE)
    assert said == (
        "kube-scheduler finds no machine: 0/3 nodes are available: 1 Insufficient memory, 2 Insufficient cpu; "
        "ask for less memory, or ask for less cpu"
    )


@pytest.mark.parametrize(
    ("said", "help"),
    [
        ("0/2 nodes are available: 2 Insufficient nvidia.com/gpu.", "ask for fewer nvidia.com/gpu"),
        ("0/1 nodes are available: 1 node(s) had taint {a: b}, that the pod didn't tolerate.", "tolerate that taint"),
        ("0/1 nodes are available: 1 node(s) had untolerated taint {a: b}.", "tolerate that taint"),
        ("0/1 nodes are available: 1 Too many pods.", "wait until other pods end"),
        ("0/1 nodes are available: 1 node(s) didn't match node selector.", "labels that a machine has"),
        ("0/1 nodes are available: 1 node(s) didn't match Pod's node affinity/selector.", "labels that a machine has"),
        ("pod has unbound immediate PersistentVolumeClaims.", "volume claims"),
    ],
)
def test_what_would_help_is_said_with_the_scheduler_s_words(said: str, help: str) -> None:
    assert help in unschedulable(said)


def test_a_long_sentence_of_the_scheduler_is_shortened_and_still_says_what_helps() -> None:
    parts = ", ".join(f"1 node(s) had taint {{team: {each}}}, that the pod didn't tolerate" for each in range(40))
    found = unschedulable(f"0/40 nodes are available: {parts}. preemption: 0/40 nodes are available: {parts}.")
    assert len(found) < 400 and " …; let its pods tolerate" in found and "preemption" not in found


def test_a_task_that_was_killed_with_its_deleted_pod_was_evicted_and_one_that_ended_by_itself_was_not() -> None:
    killed = Ended(None, 15, None, BEGUN, OVER)
    found = of_deletion(killed, "gone").reason
    assert found is not None and (found.code, found.message) == (ReasonCode.EVICTED, "gone")
    unknown = lost(pod({"state": {"running": {"startedAt": STARTED}}}))
    found = of_deletion(unknown, "gone").reason
    assert found is not None and found.code is ReasonCode.EVICTED
    memory = Reason(ReasonCode.EXIT_CODE, "out of memory")
    for end in (
        Ended(0, None, None, BEGUN, OVER),
        Ended(3, None, None, BEGUN, OVER),
        Ended(None, 11, None, None, None),
    ):
        assert of_deletion(end, "gone") == end
    assert of_deletion(killed._replace(signal=9, reason=memory), "gone").reason == memory


@pytest.mark.parametrize(
    ("reason", "code", "patience"),
    [
        ("InvalidImageName", ReasonCode.IMAGE, 0.0),
        ("ErrImageNeverPull", ReasonCode.IMAGE, 0.0),
        ("ErrImagePull", ReasonCode.IMAGE, IMAGE_PATIENCE),
        ("ImagePullBackOff", ReasonCode.IMAGE, IMAGE_PATIENCE),
        ("CreateContainerConfigError", ReasonCode.NOT_STARTED, START_PATIENCE),
        ("CrashLoopBackOff", ReasonCode.NOT_STARTED, START_PATIENCE),
    ],
)
def test_each_reason_to_wait_has_its_patience(reason: str, code: ReasonCode, patience: float) -> None:
    found = judge(pod({"state": {"waiting": {"reason": reason, "message": "no\nsuch"}}}, phase="Pending"))
    said = waits(found)
    assert said[:2] == (code, patience) and reason in said[2] and said[2].endswith("no such")


def test_a_pod_that_is_being_started_names_its_machine() -> None:
    creating = {"state": {"waiting": {"reason": "ContainerCreating"}}}
    assert "real1" in waits(judge(pod(creating, phase="Pending")))[2]
    assert "kube-scheduler" in waits(judge(pod(node="", phase="Pending")))[2]


def test_another_container_of_the_pod_does_not_count() -> None:
    statuses = [
        {"name": "istio-proxy", "state": terminated(1)},
        {"name": "task", "state": {"running": {"startedAt": STARTED}}},
    ]
    assert judge(pod(phase="Running", containerStatuses=statuses)) == Runs(BEGUN)


def test_a_pod_that_is_gone_has_an_unknown_end_if_it_ran() -> None:
    found = lost(pod({"state": {"running": {"startedAt": STARTED}}}, phase="Running"))
    assert found.begun and found.started == BEGUN and found.reason is not None
    assert found.reason.code is ReasonCode.EXIT_UNKNOWN


def test_a_pod_that_is_gone_before_it_began_starts_again() -> None:
    found = lost(pod(node="", phase="Pending"))
    assert not found.begun and found.reason is not None and found.reason.code is ReasonCode.EVICTED


def first(state: dict[str, Any], **status: Any) -> Judgement:
    """Judge a pod whose first container, which waits for addresses, is in this state."""
    waiting = {"state": {"waiting": {"reason": "PodInitializing"}}}
    return judge(pod(waiting, initContainerStatuses=[{"name": "addresses", "state": state}], **status))


def test_a_pod_that_waits_for_addresses_is_given_up_like_one_that_does_not_start() -> None:
    found = waits(first({"running": {"startedAt": STARTED}}, phase="Pending"))
    assert found == (ReasonCode.NOT_STARTED, START_PATIENCE, "its pod waits for addresses of others")


def test_trouble_with_the_image_is_seen_in_the_first_container() -> None:
    found = waits(first({"waiting": {"reason": "ErrImagePull", "message": "no such image"}}, phase="Pending"))
    assert found == (ReasonCode.IMAGE, IMAGE_PATIENCE, "its image cannot be pulled (ErrImagePull): no such image")


def test_an_image_without_a_shell_cannot_wait_for_addresses() -> None:
    found = first(terminated(127, "ContainerCannotRun", message="no such file"), phase="Failed")
    assert isinstance(found, Ended) and found.reason is not None and not found.begun
    assert found.reason.code is ReasonCode.CANNOT_START and "has no /bin/sh" in found.reason.message


def test_after_the_first_container_the_task_counts() -> None:
    done = {"name": "addresses", "state": terminated(0, "Completed")}
    found = judge(pod({"state": {"running": {"startedAt": STARTED}}}, phase="Running", initContainerStatuses=[done]))
    assert found == Runs(BEGUN)


def queued(spec: dict[str, Any], condition: dict[str, Any] | None, **metadata: Any) -> Judgement:
    conditions = [] if condition is None else [{"type": "PodScheduled", **condition}]
    wire = {
        "metadata": {"name": "p", **metadata},
        "spec": spec,
        "status": {"phase": "Pending", "conditions": conditions},
    }
    return judge(POD.convert(wire))


def test_a_pod_that_kueue_keeps_back_waits_without_a_limit() -> None:
    """Recorded words of 1.27 and later."""
    gated = {"status": "False", "reason": "SchedulingGated", "message": "Scheduling is blocked due to non-empty gates"}
    labels = {"kueue.x-k8s.io/queue-name": "team"}
    assert waits(queued({}, gated, labels=labels)) == (
        ReasonCode.NAMESPACE_QUEUE,
        None,
        "its pod waits for queue team of Kueue",
    )
    code, patience, message = waits(queued({}, gated))
    assert (code, patience) == (ReasonCode.NAMESPACE_QUEUE, None) and "a scheduling gate" in message
    let_go = {"status": "False", "reason": "Unschedulable", "message": "0/1 nodes are available"}
    assert waits(queued({}, let_go, labels=labels))[:2] == (ReasonCode.UNSCHEDULABLE, START_PATIENCE)


def test_a_pod_that_volcano_has_not_scheduled_waits_without_a_limit() -> None:
    """Recorded words of Volcano."""
    spec = {"schedulerName": "volcano"}
    notes = {"scheduling.volcano.sh/queue-name": "team"}
    said = {
        "status": "False",
        "reason": "Unschedulable",
        "message": "pod group is not ready, 1 Pending, 2 minAvailable",
    }
    assert waits(queued(spec, said, annotations=notes)) == (
        ReasonCode.NAMESPACE_QUEUE,
        None,
        "its pod waits for queue team of Volcano: pod group is not ready, 1 Pending, 2 minAvailable",
    )
    assert waits(queued(spec, None, annotations=notes))[2] == "its pod waits for queue team of Volcano"
    assert waits(queued({**spec, "nodeName": "m1"}, {"status": "True"}))[:2] == (ReasonCode.NOT_STARTED, START_PATIENCE)


def test_kueue_says_why_it_ends_a_pod_of_its_queue() -> None:
    said = {
        "type": "TerminationTarget",
        "status": "True",
        "reason": "WorkloadEvicted",
        "message": "Preempted by team b",
    }
    status = {
        "phase": "Failed",
        "conditions": [said],
        "containerStatuses": [{"name": "task", "state": terminated(143)}],
    }
    for labels, expected in (
        ({"kueue.x-k8s.io/queue-name": "a"}, "Kueue ended its pod: Preempted by team b"),
        ({}, None),
    ):
        found = judge(POD.convert({"metadata": {"name": "p", "uid": "u", "labels": labels}, "status": status}))
        assert isinstance(found, Ended) and (found.reason and found.reason.message) == expected
        assert found.reason is None or found.reason.code is ReasonCode.EVICTED
