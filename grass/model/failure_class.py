"""Whose fault the end of an attempt is: of the program, of its memory, of the machine, of the network, of nobody. Pure.

A row of the table in ``docs/guide/failures.md`` is a row here. Used by ``master.agent.failures``.
"""

from __future__ import annotations

import re

from grass.model.reasons import FailureClass, Reason, ReasonCode

_SHELL_SIGNAL = 128
_KILLED = frozenset({1, 2, 9, 10, 12, 15})
"""Signals that somebody else sends: HUP, INT, KILL, USR1, USR2, TERM. A program ends itself by the others."""
_CHILD_KILLED = 256 - 9
"""Exit code of a launcher in Python whose child was ended by KILL."""
_BY_CODE = {
    ReasonCode.PREEMPTED: FailureClass.PREEMPTED,
    ReasonCode.DRAINED: FailureClass.PREEMPTED,
    ReasonCode.EVICTED: FailureClass.PREEMPTED,
    ReasonCode.GANG_INCOMPLETE: FailureClass.PREEMPTED,
    ReasonCode.BELOW_MINIMUM: FailureClass.PREEMPTED,
    ReasonCode.NODE_LOST: FailureClass.NODE,
    ReasonCode.NODE_REBOOTED: FailureClass.NODE,
    ReasonCode.NODE_STOPPED: FailureClass.NODE,
    ReasonCode.PORT_TAKEN: FailureClass.NODE,
    ReasonCode.SHARE: FailureClass.NODE,
    ReasonCode.UNRECORDED: FailureClass.NODE,
    ReasonCode.CANNOT_START: FailureClass.USER_ERROR,
    ReasonCode.STOP_CODE: FailureClass.USER_ERROR,
    ReasonCode.TIMEOUT: FailureClass.TIMEOUT,
    ReasonCode.EXIT_UNKNOWN: FailureClass.UNKNOWN,
}
_MEMORY = re.compile(
    r"\bMemoryError\b|\bOutOfMemoryError\b|\bstd::bad_alloc\b|\bout of memory\b|\bcannot allocate memory\b"
    r"|\bRESOURCE_EXHAUSTED\b|\bcudaErrorMemoryAllocation\b",
    re.IGNORECASE,
)
_HARDWARE = re.compile(
    r"\buncorrect(?:able|ed) (?:ECC|NVLink)\b|\bNVLink error\b|\bNVRM: Xid\b|\bXid \(|\bfallen off the bus\b"
    r"|\bGPU is lost\b"
    r"|\bcudaError(?:ECCUncorrectable|NvlinkUncorrectable|HardwareStackError)\b|\bhardware stack error\b"
    r"|\bCUDA_ERROR_(?:ECC_UNCORRECTABLE|NVLINK_UNCORRECTABLE|HARDWARE_STACK_ERROR)\b",
    re.IGNORECASE,
)
_NETWORK = re.compile(
    r"\bConnection(?:Reset|Refused|Aborted)Error\b|\bConnection (?:reset|refused|timed out|closed by)\b"
    r"|\bNo route to host\b|\bNetwork is (?:unreachable|down)\b|\bHost is (?:unreachable|down)\b"
    r"|\bTemporary failure in name resolution\b|\bnccl(?:Remote|System)Error\b|\bthere was a network error\b"
    r"|\bconnectFullMesh failed\b|\bDist(?:Network|Store)Error\b|\bRendezvous(?:Connection|Timeout)Error\b"
    r"|\bsocketProgress\b|\bcollective operation timeout\b|\bBroken pipe\b|\bBrokenPipeError\b"
    r"|\blost (?:connection|communication)\b|\bsocket closed\b",
    re.IGNORECASE,
)


def failure_class(reason: Reason, *, at_fault: bool = False) -> FailureClass | None:
    """Return the class of an end that was no success; None: it is no failure, but what somebody wanted.

    ``at_fault``: the node itself measures a fault of a device of the attempt, or a check found one of the node."""
    if reason.code not in (ReasonCode.EXIT_CODE, ReasonCode.SIGNAL):
        return _BY_CODE.get(reason.code)
    details, error = reason.details, reason.details.get("error", "")
    if "limit" in details:  # the kernel says so
        return FailureClass.OUT_OF_MEMORY
    if _HARDWARE.search(error):
        return FailureClass.HARDWARE
    if _NETWORK.search(error):
        return FailureClass.NETWORK
    if at_fault:
        return FailureClass.HARDWARE
    if _MEMORY.search(error):
        return FailureClass.OUT_OF_MEMORY
    code = details.get("code", 0)
    if details.get("signal", code - _SHELL_SIGNAL) in _KILLED or code == _CHILD_KILLED:
        return FailureClass.KILLED
    return FailureClass.USER_ERROR
