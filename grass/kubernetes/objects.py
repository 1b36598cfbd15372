"""The fields of Kubernetes objects that Grass reads. Pure.

Names are those of the API in snake case; https://kubernetes.io/docs/reference/kubernetes-api/ explains them. A field
that is missing in an answer has its default. Used by this package and ``node.runtime.kubernetes``.
"""

from __future__ import annotations

from typing import Any, Generic, Literal, Protocol, TypeVar

import msgspec

from grass.wire.codec import Form


class Fields(msgspec.Struct, frozen=True, rename="camel"):
    """The base class: fields are spelled in camel case, and unknown ones are ignored."""


class Metadata(Fields, frozen=True, rename="camel"):
    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    generation: int = 0
    creation_timestamp: str | None = None
    deletion_timestamp: str | None = None
    deletion_grace_period_seconds: int | None = None
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}
    finalizers: list[str] = []


class KubernetesObject(Protocol):
    """What every object of the API has."""

    @property
    def metadata(self) -> Metadata: ...


Object = TypeVar("Object", bound=KubernetesObject)


class ListMetadata(Fields, frozen=True, rename="camel"):
    resource_version: str = ""
    continue_: str = msgspec.field(default="", name="continue")


class ListOf(msgspec.Struct, Generic[Object], frozen=True):
    """One page of a list."""

    metadata: ListMetadata
    items: list[Object]


class WatchEvent(msgspec.Struct, Generic[Object], frozen=True):
    """One line of a watch. ``type``: ``ADDED``, ``MODIFIED`` or ``DELETED``; ``BOOKMARK``: only the version of the
    object counts, up to which the watch was read; ``ERROR``: the object is a ``Status``, see ``WatchError``."""

    type: str
    object: Object


class Cause(Fields, frozen=True, rename="camel"):
    reason: str = ""
    message: str = ""
    field: str = ""


class StatusDetails(Fields, frozen=True, rename="camel"):
    name: str = ""
    kind: str = ""
    causes: list[Cause] = []
    retry_after_seconds: int = 0


class Status(Fields, frozen=True, rename="camel"):
    """What the API answers when it refuses."""

    status: str = ""
    message: str = ""
    reason: str = ""
    code: int = 0
    details: StatusDetails | None = None


class WatchError(msgspec.Struct, frozen=True):
    """The last line of a watch that the server ends with an error."""

    type: Literal["ERROR"]
    object: Status


class WaitingState(Fields, frozen=True, rename="camel"):
    reason: str = ""
    message: str = ""


class RunningState(Fields, frozen=True, rename="camel"):
    started_at: str | None = None


class TerminatedState(Fields, frozen=True, rename="camel"):
    exit_code: int
    signal: int = 0
    reason: str = ""
    message: str = ""
    started_at: str | None = None
    finished_at: str | None = None


class ContainerState(Fields, frozen=True, rename="camel"):
    """At most one of its fields is set."""

    waiting: WaitingState | None = None
    running: RunningState | None = None
    terminated: TerminatedState | None = None


class ContainerStatus(Fields, frozen=True, rename="camel"):
    name: str
    state: ContainerState = ContainerState()
    last_state: ContainerState = ContainerState()
    restart_count: int = 0
    image_id: str = msgspec.field(default="", name="imageID")
    container_id: str = msgspec.field(default="", name="containerID")


class Condition(Fields, frozen=True, rename="camel"):
    type: str
    status: str = ""
    reason: str = ""
    message: str = ""


class PodStatus(Fields, frozen=True, rename="camel"):
    phase: str = ""
    reason: str = ""
    message: str = ""
    start_time: str | None = None
    conditions: list[Condition] = []
    container_statuses: list[ContainerStatus] | None = None
    init_container_statuses: list[ContainerStatus] | None = None
    pod_ip: str = msgspec.field(default="", name="podIP")


class PodSpec(Fields, frozen=True, rename="camel"):
    node_name: str = ""
    scheduler_name: str = ""


class Pod(Fields, frozen=True, rename="camel"):
    metadata: Metadata
    spec: PodSpec = PodSpec()
    status: PodStatus = PodStatus()


class Event(Fields, frozen=True, rename="camel"):
    metadata: Metadata
    reason: str = ""
    message: str = ""
    type: str = ""
    last_timestamp: str | None = None
    event_time: str | None = None


class LeaseSpec(Fields, frozen=True, rename="camel"):
    holder_identity: str | None = None
    lease_duration_seconds: int | None = None
    renew_time: str | None = None
    lease_transitions: int | None = None


class Lease(Fields, frozen=True, rename="camel"):
    metadata: Metadata
    spec: LeaseSpec = LeaseSpec()


class QuotaStatus(Fields, frozen=True, rename="camel"):
    hard: dict[str, str] = {}
    used: dict[str, str] = {}


class QuotaSpec(Fields, frozen=True, rename="camel"):
    hard: dict[str, str] = {}
    scopes: list[str] = []
    scope_selector: dict[str, Any] | None = None  # Any: only whether there is one matters


class ResourceQuota(Fields, frozen=True, rename="camel"):
    metadata: Metadata
    spec: QuotaSpec = QuotaSpec()
    status: QuotaStatus = QuotaStatus()


class ClaimSpec(Fields, frozen=True, rename="camel"):
    access_modes: list[str] = []


class ClaimStatus(Fields, frozen=True, rename="camel"):
    phase: str = ""


class PersistentVolumeClaim(Fields, frozen=True, rename="camel"):
    metadata: Metadata
    spec: ClaimSpec = ClaimSpec()
    status: ClaimStatus = ClaimStatus()


IMAGE_LOGIN = "kubernetes.io/dockerconfigjson"
"""Type of Secrets with which images are pulled."""


class Secret(Fields, frozen=True, rename="camel"):
    """A Secret. ``data``: base64."""

    metadata: Metadata
    type: str = ""
    data: dict[str, str] = {}


class Taint(Fields, frozen=True, rename="camel"):
    key: str = ""
    value: str = ""
    effect: str = ""


class KubernetesNodeSpec(Fields, frozen=True, rename="camel"):
    unschedulable: bool = False
    taints: list[Taint] = []


class KubernetesNodeStatus(Fields, frozen=True, rename="camel"):
    allocatable: dict[str, str] = {}
    conditions: list[Condition] = []


class KubernetesNode(Fields, frozen=True, rename="camel"):
    """A machine of the Kubernetes cluster."""

    metadata: Metadata
    spec: KubernetesNodeSpec = KubernetesNodeSpec()
    status: KubernetesNodeStatus = KubernetesNodeStatus()


class AnyObject(Fields, frozen=True, rename="camel"):
    """An object of any kind."""

    metadata: Metadata


class StatefulSetStatus(Fields, frozen=True, rename="camel"):
    observed_generation: int = 0
    update_revision: str = ""


class StatefulSet(Fields, frozen=True, rename="camel"):
    metadata: Metadata
    status: StatefulSetStatus = StatefulSetStatus()


class ApiGroup(Fields, frozen=True, rename="camel"):
    name: str = ""


class ApiGroups(Fields, frozen=True, rename="camel"):
    """The answer of ``/apis``."""

    groups: list[ApiGroup] = []


class AccessStatus(Fields, frozen=True, rename="camel"):
    allowed: bool = False
    reason: str = ""


class AccessReview(Fields, frozen=True, rename="camel"):
    """A SelfSubjectAccessReview, as it is answered."""

    status: AccessStatus = AccessStatus()


class Version(Fields, frozen=True, rename="camel"):
    """The answer of ``/version``. ``minor`` may end with ``+``."""

    major: str = ""
    minor: str = ""
    git_version: str = ""


POD: Form[Pod] = Form(Pod)
PODS: Form[ListOf[Pod]] = Form(ListOf[Pod])
POD_EVENT: Form[WatchEvent[Pod]] = Form(WatchEvent[Pod])
WATCH_ERROR: Form[WatchError] = Form(WatchError)
EVENTS: Form[ListOf[Event]] = Form(ListOf[Event])
QUOTAS: Form[ListOf[ResourceQuota]] = Form(ListOf[ResourceQuota])
CLAIM: Form[PersistentVolumeClaim] = Form(PersistentVolumeClaim)
SECRET: Form[Secret] = Form(Secret)
API_GROUPS: Form[ApiGroups] = Form(ApiGroups)
NODES: Form[ListOf[KubernetesNode]] = Form(ListOf[KubernetesNode])
LEASE: Form[Lease] = Form(Lease)
STATUS: Form[Status] = Form(Status)
STATEFUL_SET: Form[StatefulSet] = Form(StatefulSet)
OBJECT: Form[AnyObject] = Form(AnyObject)
OBJECTS: Form[ListOf[AnyObject]] = Form(ListOf[AnyObject])
ANY: Form[object] = Form(object)
"""An answer that nobody reads."""
