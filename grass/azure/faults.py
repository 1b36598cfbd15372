"""What Azure's errors mean, decided by ``error.code`` alone: statuses and texts say different things for one fault.

The text of an error is shown, never read. Pure. Used by this package and ``grass.provision.azure``.

GrassError
├── AzureError               Azure refused it: see ``kind``                    (exit 1)
│   ├── AzureCapacityError   … because it has no such machine left there
│   ├── AzureQuotaError      … because the subscription may not have so much
│   └── AzureSizeError       … because the subscription may not have this size there
├── AzureLoginError          (NotAllowedError) nobody is signed in, or not for this     (exit 4)
├── AzureForbiddenError      (NotAllowedError) the login lacks a right         (exit 4)
└── AzureSlowError           (WaitTimeoutError) Azure still works on it        (exit 124)
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum

from grass.errors import GrassError, NotAllowedError, WaitTimeoutError
from grass.manifest.document import Document


class Fault(Enum):
    """What helps."""

    PERMANENT = "permanent"
    CAPACITY = "capacity"
    QUOTA = "quota"
    SIZE = "size"
    WAIT = "wait"
    HELD = "held"
    """Something uses it, maybe for minutes only."""
    REGISTER = "register"
    LOGIN = "login"
    FORBIDDEN = "forbidden"
    GONE = "gone"
    THERE = "there"
    """What was asked for is there under another name."""
    UNSURE = "unsure"
    """The machine may start after all."""


@dataclass(frozen=True)
class Refusal:
    """An error of Azure. ``code`` and ``text`` are Azure's. ``status``: of HTTP, for replies without a known code."""

    code: str
    text: str
    status: int = 0

    @property
    def fault(self) -> Fault:
        return _meaning(self)[0]

    def __str__(self) -> str:
        advice = _meaning(self)[1]
        said = f"{self.code}: {self.text}" if self.text else self.code
        return f"{said}{'' if said.endswith('.') else ';'} {advice}" if advice else said


class AzureError(GrassError):
    code = "azure"

    def __init__(self, message: str, refusal: Refusal) -> None:
        self.refusal = refusal
        super().__init__(message)


class AzureCapacityError(AzureError):
    code = "azure-capacity"


class AzureQuotaError(AzureError):
    code = "azure-quota"


class AzureSizeError(AzureError):
    code = "azure-size"


class AzureDriverError(GrassError):
    """A machine was made, and does not see its GPUs."""

    code = "azure-driver"


class AzureLoginError(NotAllowedError):
    code = "azure-login"


class AzureForbiddenError(NotAllowedError):
    code = "azure-forbidden"


class AzureSlowError(WaitTimeoutError):
    """It goes on at Azure; the same command looks again."""

    code = "azure-slow"


LOGIN = "sign in with `az login` (to a tenant of your choice: `az login --tenant TENANT`), then repeat the command"
_QUOTA = "machines that are stopped count as well; --plan of the same command names sizes that fit"
_OTHER_SIZE = "--plan of the same command names sizes that fit"
_BUSY = "Azure is still working on it"

_TABLE: Mapping[str, tuple[Fault, str]] = {
    "QuotaExceeded": (Fault.QUOTA, _QUOTA),
    "OperationNotAllowed": (Fault.QUOTA, _QUOTA),
    "SpotPriceGreaterThanProvidedMaxPrice": (Fault.SIZE, "raise --max-price, or leave it out"),
    "AzureSpotFeatureNotEnabledForSubscription": (
        Fault.SIZE,
        "this kind of subscription has no Spot, as those of students and trials; without --spot, it is regular",
    ),
    "ErrCode_InsufficientVCPUQuota": (Fault.QUOTA, _QUOTA),
    "InsufficientVCPUQuota": (Fault.QUOTA, _QUOTA),
    "SkuNotAvailable": (Fault.SIZE, _OTHER_SIZE),
    "AllocationFailed": (Fault.CAPACITY, "Azure has no such machine left there now; try another size, zone or region"),
    "PublicIPCountLimitReached": (Fault.QUOTA, "free a public address, or ask for more in the portal (Quotas)"),
    "RequestDisallowedByPolicy": (
        Fault.PERMANENT,
        "a policy of the subscription forbids it; it may list allowed regions",
    ),
    "RequestDisallowedByAzure": (
        Fault.PERMANENT,
        "Azure allows this subscription some regions only; choose one of them",
    ),
    "AuthorizationFailed": (Fault.FORBIDDEN, "ask an owner of the subscription for the role Contributor there"),
    "LinkedAuthorizationFailed": (Fault.FORBIDDEN, "ask an owner of the subscription for the role Contributor there"),
    "MissingSubscriptionRegistration": (Fault.REGISTER, ""),
    "ResourceGroupBeingDeleted": (Fault.WAIT, "the group is being deleted"),
    "AnotherOperationInProgress": (Fault.WAIT, _BUSY),
    "OperationPreempted": (Fault.WAIT, _BUSY),
    "RetryableError": (Fault.WAIT, _BUSY),
    "ScopeLocked": (
        Fault.PERMANENT,
        "Grass leaves locks alone; remove the lock if it is yours, then repeat the command",
    ),
    "NicReservedForAnotherVm": (Fault.HELD, "Azure keeps a card for its machine for 180 s"),
    "ExpiredAuthenticationToken": (Fault.LOGIN, LOGIN),
    "InvalidAuthenticationToken": (Fault.LOGIN, LOGIN),
    "InvalidAuthenticationTokenTenant": (Fault.LOGIN, LOGIN),
    "AuthenticationFailed": (Fault.LOGIN, LOGIN),
    "SubscriptionNotFound": (Fault.LOGIN, "this login does not see the subscription; " + LOGIN),
    "InvalidSubscriptionId": (Fault.LOGIN, "this login does not see the subscription; " + LOGIN),
    "TooManyRequests": (Fault.WAIT, "too many requests"),
    "SubscriptionRequestsThrottled": (Fault.WAIT, "too many requests of this subscription"),
    "MarketplacePurchaseEligibilityFailed": (Fault.PERMANENT, "choose another `image`, without a purchase plan"),
    "OSProvisioningTimedOut": (Fault.UNSURE, "the machine may start after all"),
    "PrincipalNotFound": (Fault.WAIT, "the new identity is not known everywhere yet"),
    "RoleAssignmentExists": (Fault.THERE, ""),
    "K8sVersionNotSupported": (Fault.PERMANENT, "--plan of the same command names the versions that are offered"),
    "AlreadyInUse": (Fault.PERMANENT, "the name is taken by somebody on Azure; choose another one"),
    "PropertyChangeNotAllowed": (Fault.PERMANENT, "delete the cluster first, or keep what it has"),
    "ResourceNotFound": (Fault.GONE, ""),
    "ResourceGroupNotFound": (Fault.GONE, ""),
    "NotFound": (Fault.GONE, ""),
}
_FAMILIES: tuple[tuple[str, tuple[Fault, str]], ...] = (
    ("InUse", (Fault.HELD, "something still uses it")),
    ("ZonalAllocation", _TABLE["AllocationFailed"]),
    ("Overconstrained", _TABLE["AllocationFailed"]),
    ("NicReserved", _TABLE["NicReservedForAnotherVm"]),
)
_BY_STATUS: Mapping[int, tuple[Fault, str]] = {
    401: (Fault.LOGIN, LOGIN),
    403: (Fault.FORBIDDEN, ""),
    404: (Fault.GONE, ""),
    408: (Fault.WAIT, _BUSY),
    429: (Fault.WAIT, "too many requests"),
}
"""For replies without a known code, such as those of something between Azure and here."""


def refusal_of(content: object, status: int = 0) -> Refusal:
    """Return the error in the body of a reply, or of an operation that failed."""
    error = content.get("error", content) if isinstance(content, dict) else None
    found: Document = error if isinstance(error, dict) else {}
    code, text = found.get("code"), found.get("message")
    return Refusal(str(code or f"HTTP {status}"), " ".join(str(text or "").split()), status)


def as_error(refusal: Refusal, what: str) -> GrassError:
    """Return the error for the user. ``what``: the object that Azure refused."""
    message = f"{what}: {refusal}"
    match refusal.fault:
        case Fault.LOGIN:
            return AzureLoginError(message)
        case Fault.FORBIDDEN:
            return AzureForbiddenError(message)
        case Fault.CAPACITY:
            return AzureCapacityError(message, refusal)
        case Fault.QUOTA:
            return AzureQuotaError(message, refusal)
        case Fault.SIZE:
            return AzureSizeError(message, refusal)
    return AzureError(message, refusal)


def _meaning(refusal: Refusal) -> tuple[Fault, str]:
    known = _TABLE.get(refusal.code)
    if known is not None:
        return known
    for beginning, meaning in _FAMILIES:
        if refusal.code.startswith(beginning):
            return meaning
    if refusal.status >= 500:
        return Fault.WAIT, "Azure failed"
    return _BY_STATUS.get(refusal.status, (Fault.PERMANENT, ""))
