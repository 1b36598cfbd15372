"""The filter of system calls for isolated tasks, run here as the kernel runs it, for each kind of machine."""

from __future__ import annotations

import errno
import struct
import subprocess
import sys

import pytest

from node.runtime.isolation import system_call_filter
from node.runtime.isolation.system_call_filter import AARCH64, ARM, I386, NAMESPACES, NEWEST, REFUSED, X86_64
from node.runtime.spawn import CannotStartError
from tests.support.needs import require

ALLOWED = 0x7FFF0000
THREAD = 0x3D0F00
"""Flags with which libc makes threads."""
KNOWN = {
    X86_64: {"keyctl": 250, "bpf": 321, "mount": 165, "unshare": 272, "setns": 308, "ptrace": 101, "mbind": 237},
    I386: {"keyctl": 288, "bpf": 357, "mount": 21, "unshare": 310, "setns": 346, "ptrace": 26, "mbind": 274},
    AARCH64: {"keyctl": 219, "bpf": 280, "mount": 40, "unshare": 97, "setns": 268, "ptrace": 117, "mbind": 235},
    ARM: {"keyctl": 311, "bpf": 386, "mount": 21, "unshare": 337, "setns": 375, "ptrace": 26, "mbind": 319},
}
CLONE = {X86_64: 56, I386: 120, AARCH64: 220, ARM: 120}
SOCKET = {X86_64: 41, I386: 359, AARCH64: 198, ARM: 281}
MACHINES = {X86_64: X86_64, I386: X86_64, AARCH64: AARCH64, ARM: AARCH64}


def answers(machine: int, number: int, first: int = 0) -> int:
    """Return the error number that a program gets for a call with this first argument; 0: the call is made."""
    try:
        filters = system_call_filter.make(MACHINES[machine])
    except CannotStartError as error:
        require(False, "libseccomp", str(error))
        raise
    data = struct.pack("=IIQ6Q", number, machine, 0, first, *[0] * 5)
    for action in (run(instructions, data) for instructions in filters):
        assert action == ALLOWED or action >> 16 == 5
        if action != ALLOWED:
            return action & 0xFFFF
    return 0


def run(instructions: bytes, data: bytes) -> int:
    """Interpret a program of classic BPF."""
    program = list(struct.iter_unpack("=HBBI", instructions))
    accumulator = at = 0
    while True:
        code, if_true, if_false, operand = program[at]
        at += 1
        if code == 0x20:
            [accumulator] = struct.unpack_from("=I", data, operand)
        elif code == 0x06:
            return int(operand)
        elif code == 0x05:
            at += operand
        elif code == 0x54:
            accumulator &= operand
        else:
            holds = {0x15: accumulator == operand, 0x25: accumulator > operand, 0x35: accumulator >= operand}
            at += if_true if holds[code] else if_false


@pytest.mark.parametrize("machine", list(MACHINES))
def test_the_same_calls_are_refused_on_each_machine_and_to_its_32_bit_programs(machine: int) -> None:
    allowed = {name for name, number in KNOWN[machine].items() if answers(machine, number) != errno.EPERM}
    assert allowed == {"ptrace", "mbind"} == {name for name in allowed if answers(machine, KNOWN[machine][name]) == 0}


@pytest.mark.parametrize("machine", list(MACHINES))
def test_threads_and_processes_are_made_but_no_namespaces(machine: int) -> None:
    assert answers(machine, CLONE[machine], THREAD) == 0
    assert answers(machine, CLONE[machine], 17) == 0
    bits = [1 << bit for bit in range(32) if NAMESPACES >> bit & 1]
    assert len(bits) == 7
    assert {answers(machine, CLONE[machine], bit | 17) for bit in bits} == {errno.EPERM}
    assert answers(machine, 435) == errno.ENOSYS, "clone3: libc takes clone then"
    assert [answers(machine, SOCKET[machine], family) for family in (1, 2, 10, 16, 40)] == [0, 0, 0, 0, errno.EPERM]


@pytest.mark.parametrize("machine", list(MACHINES))
def test_calls_that_no_kernel_had_when_this_was_written_are_not_there(machine: int) -> None:
    assert answers(machine, NEWEST) == 0
    assert answers(machine, NEWEST + 1) == answers(machine, 0x1000) == errno.ENOSYS
    assert [answers(machine, number) for number in (425, 426, 427, 442)] == [errno.EPERM] * 4  # io_uring, mount_setattr


def test_the_calls_of_another_kind_of_machine_are_refused() -> None:
    assert answers(X86_64, 0x40000000 | 39) != 0, "x32"
    assert run(system_call_filter.make(X86_64).early, struct.pack("=IIQ6Q", 39, AARCH64, *[0] * 7)) >> 16 == 5
    assert answers(ARM, 0xF0005) == 0, "set_tls, which every 32-bit program of ARM calls"


def test_no_call_is_named_twice() -> None:
    assert len(set(REFUSED)) == len(REFUSED)


def test_a_node_without_libseccomp_names_the_package() -> None:
    with pytest.raises(CannotStartError, match=r"libseccomp\.so\.none is missing on this node; install the package"):
        system_call_filter.make(file="libseccomp.so.none")


def test_common_programs_run_with_it() -> None:
    script = """
import ctypes, multiprocessing, subprocess, sys, threading
from node.runtime.isolation import system_call_filter
ctypes.CDLL(None).prctl(38, 1, 0, 0, 0)
for instructions in system_call_filter.make():
    system_call_filter.apply(instructions)
thread = threading.Thread(target=print, args=("thread",))
thread.start(); thread.join()
subprocess.run(["sh", "-c", "echo $(echo shell)"], check=True)
with multiprocessing.get_context("fork").Pool(2) as pool:
    print(pool.map(abs, [-1, -2]))
"""
    done = subprocess.run([sys.executable, "-uc", script], capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr) == ("thread\nshell\n[1, 2]\n", "")
