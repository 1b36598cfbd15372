"""Errors of Azure are told apart by their code alone: never by status, class or text, which say other things."""

from __future__ import annotations

import pytest

from grass.azure.faults import (
    AzureCapacityError,
    AzureForbiddenError,
    AzureLoginError,
    AzureQuotaError,
    AzureSizeError,
    Fault,
    Refusal,
    as_error,
    refusal_of,
)
from grass.errors import GrassError

CODES = {
    "QuotaExceeded": Fault.QUOTA,
    "OperationNotAllowed": Fault.QUOTA,
    "SkuNotAvailable": Fault.SIZE,
    "AllocationFailed": Fault.CAPACITY,
    "ZonalAllocationFailed": Fault.CAPACITY,
    "OverconstrainedZonalAllocationRequest": Fault.CAPACITY,
    "PublicIPCountLimitReached": Fault.QUOTA,
    "RequestDisallowedByPolicy": Fault.PERMANENT,
    "AuthorizationFailed": Fault.FORBIDDEN,
    "MissingSubscriptionRegistration": Fault.REGISTER,
    "ResourceGroupBeingDeleted": Fault.WAIT,
    "AnotherOperationInProgress": Fault.WAIT,
    "ScopeLocked": Fault.PERMANENT,
    "NicReservedForAnotherVm": Fault.HELD,
    "InUseSubnetCannotBeDeleted": Fault.HELD,
    "ExpiredAuthenticationToken": Fault.LOGIN,
    "SubscriptionNotFound": Fault.LOGIN,
    "TooManyRequests": Fault.WAIT,
    "OSProvisioningTimedOut": Fault.UNSURE,
    "PrincipalNotFound": Fault.WAIT,
    "ResourceNotFound": Fault.GONE,
    "SomethingNew": Fault.PERMANENT,
}


@pytest.mark.parametrize("code", CODES)
@pytest.mark.parametrize("status", [0, 200, 400, 409])
def test_a_code_means_the_same_with_any_status_and_text(code: str, status: int) -> None:
    body = {"error": {"code": code, "message": "QuotaExceeded ScopeLocked 429"}}
    assert refusal_of(body, status).fault is CODES[code]


@pytest.mark.parametrize(
    ("status", "fault"),
    [
        (401, Fault.LOGIN),
        (403, Fault.FORBIDDEN),
        (404, Fault.GONE),
        (429, Fault.WAIT),
        (502, Fault.WAIT),
        (400, Fault.PERMANENT),
    ],
)
def test_without_a_code_the_status_counts(status: int, fault: Fault) -> None:
    assert refusal_of({}, status).fault is fault
    assert refusal_of("<html>", status).code == f"HTTP {status}"


@pytest.mark.parametrize(
    ("code", "kind", "exit_code"),
    [
        ("QuotaExceeded", AzureQuotaError, 1),
        ("SkuNotAvailable", AzureSizeError, 1),
        ("AllocationFailed", AzureCapacityError, 1),
        ("AuthorizationFailed", AzureForbiddenError, 4),
        ("InvalidAuthenticationToken", AzureLoginError, 4),
    ],
)
def test_an_error_says_what_the_caller_can_do(code: str, kind: type[GrassError], exit_code: int) -> None:
    error = as_error(Refusal(code, "said by Azure"), "machine m")
    assert type(error) is kind and error.exit_code == exit_code
    assert str(error).startswith(f"machine m: {code}: said by Azure; ")
