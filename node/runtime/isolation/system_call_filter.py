"""Which system calls a process of an isolated user may not make, as a program that the kernel runs (seccomp).

It refuses what the engine's default profile refuses containers: what reaches objects of the whole machine (keys,
mounts, namespaces, handles of files, modules, clocks), and large parts of the kernel that programs of users seldom need
and attackers often (``bpf``, ``io_uring``, ``userfaultfd``, ``perf_event_open``). libseccomp, which systemd needs, too,
makes the program, also for the 32-bit programs of the machine. Not refused, unlike in containers: binding one's own
memory to a part of the machine (``mbind`` and the like, for ``numactl``), and looking into processes of the same user,
which ``ptrace`` allows anyway.

To load the program takes 0.7 ms, so it is loaded in advance, by what starts tasks (``starter``). That needs two of the
calls itself. A small second program refuses these, which is loaded last, in 0.08 ms. The shepherd makes both once.
Used by ``starter``, ``starters`` and ``tasks``.
"""

from __future__ import annotations

import ctypes
import errno
import os
import struct
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from typing import NamedTuple

from node.runtime.spawn import NOT_EXECUTABLE, CannotStartError
from node.runtime.system_calls import checked, number

_LIBRARY, _PACKAGE = "libseccomp.so.2", "libseccomp2 (Debian, Ubuntu) or libseccomp"
OF_STARTERS = ("keyctl", "setns")
"""Refused last."""
REFUSED = (
    *("add_key", "request_key"),
    *("bpf", "perf_event_open", "userfaultfd", "io_uring_setup", "io_uring_enter", "io_uring_register"),
    *("mount", "umount", "umount2", "pivot_root", "chroot", "move_mount", "open_tree", "open_tree_attr"),
    *("fsopen", "fsconfig", "fsmount", "fspick", "mount_setattr"),
    *("unshare", "open_by_handle_at", "lookup_dcookie", "fanotify_init", "nfsservctl", "quotactl", "quotactl_fd"),
    *("create_module", "delete_module", "init_module", "finit_module", "get_kernel_syms", "query_module"),
    *("kexec_load", "kexec_file_load", "reboot", "swapon", "swapoff", "acct", "syslog", "vhangup"),
    *("clock_settime", "clock_settime64", "clock_adjtime", "clock_adjtime64", "settimeofday", "stime"),
    *("sethostname", "setdomainname", "_sysctl", "sysfs", "uselib", "ustat"),
    *("ioperm", "iopl", "vm86", "vm86old"),
)
NAMESPACES = 0x7E020000
"""Flags of clone: a new namespace of any kind. 0x80, that of clocks, is no flag of clone."""
NEWEST = 469
"""The last system call of Linux 6.18. Nobody has judged later ones. From 424 on, the numbers of all machines agree."""
_OF_ARM = 0xF0000
"""From here on, 32-bit ARM has calls of its own."""
_VSOCK = 40
"""Sockets between a virtual machine and its host."""
X86_64, I386, AARCH64, ARM = 0xC000003E, 0x40000003, 0xC00000B7, 0x40000028
"""As in linux/audit.h."""
_WITH = {X86_64: I386, AARCH64: ARM}
_ALLOW, _ERROR = 0x7FFF0000, 0x00050000
_ON_OTHER_MACHINE, _OPTIMIZE, _AS_TREE = 2, 8, 2
_EQUAL, _MASKED_EQUAL = 4, 7
_LOAD, _IF_GREATER, _IF_NOT_LESS, _RETURN = 0x20, 0x25, 0x35, 0x06
_SET_FILTER, _NO_SLOWER = 1, 4
"""Operation of the system call, and its flag that leaves the processor's speculation as it is."""
_libc = ctypes.PyDLL(None, use_errno=True)


class _Comparison(ctypes.Structure):
    _fields_ = (
        ("argument", ctypes.c_uint),
        ("operation", ctypes.c_int),
        ("first", ctypes.c_uint64),
        ("second", ctypes.c_uint64),
    )


_Rule = tuple[str, int, Sequence[_Comparison]]
"""A system call, the error that it gets, and for which arguments."""


class _Program(ctypes.Structure):
    _fields_ = (("length", ctypes.c_ushort), ("instructions", ctypes.c_char_p))


class Filter(NamedTuple):
    """Instructions of both programs."""

    early: bytes
    late: bytes


@cache
def make(machine: int = 0, file: str = _LIBRARY) -> Filter:
    """Return the programs for this machine. ``machine``: another one, as in linux/audit.h. ``file``: of libseccomp.

    Raises CannotStartError.
    """
    try:
        library = ctypes.CDLL(file)
    except OSError as error:
        message = f"cannot start: {file} is missing on this node; install the package {_PACKAGE}"
        raise CannotStartError(NOT_EXECUTABLE, message) from error
    try:
        machine = machine or _native(library)
        early = _of_later_calls() + _compiled(library, machine, _rules())
        late = _compiled(library, machine, ((name, errno.EPERM, ()) for name in OF_STARTERS))
        return Filter(early, late)
    except OSError as error:
        message = f"cannot start: the filter of system calls cannot be made: {error}"
        raise CannotStartError(NOT_EXECUTABLE, message) from error


def apply(instructions: bytes) -> None:
    """Refuse these calls to this process and all that it starts. It must have given up new rights. Raises OSError."""
    loaded = _Program(len(instructions) // 8, instructions)
    checked(_libc.syscall(number("seccomp"), _SET_FILTER, _NO_SLOWER, ctypes.byref(loaded)), "filter system calls")


def _of_later_calls() -> bytes:
    """Return instructions, to come before others, that answer as a kernel would that lacks these calls."""
    return b"".join(
        struct.pack("=HBBI", *each)
        for each in (
            (_LOAD, 0, 0, 0),
            (_IF_GREATER, 0, 2, NEWEST),
            (_IF_NOT_LESS, 1, 0, _OF_ARM),
            (_RETURN, 0, 0, _ERROR | errno.ENOSYS),
        )
    )


def _native(library: ctypes.CDLL) -> int:
    machine: int = library.seccomp_arch_native()
    return machine & 0xFFFFFFFF  # ctypes takes it for a signed number


def _compiled(library: ctypes.CDLL, machine: int, rules: Iterable[_Rule]) -> bytes:
    library.seccomp_init.restype = ctypes.c_void_p
    filtered = ctypes.c_void_p(library.seccomp_init(ctypes.c_uint32(_ALLOW)))
    try:
        library.seccomp_attr_set(filtered, _OPTIMIZE, ctypes.c_uint32(_AS_TREE))  # libseccomp 2.5
        _done(library.seccomp_attr_set(filtered, _ON_OTHER_MACHINE, ctypes.c_uint32(_ERROR | errno.EPERM)))
        if machine != _native(library):
            _done(library.seccomp_arch_remove(filtered, ctypes.c_uint32(_native(library))))
            _done(library.seccomp_arch_add(filtered, ctypes.c_uint32(machine)))
        if machine in _WITH:
            _done(library.seccomp_arch_add(filtered, ctypes.c_uint32(_WITH[machine])))
        for name, error, comparisons in rules:
            call = library.seccomp_syscall_resolve_name(name.encode())
            if call == -1:  # newer than this libseccomp
                continue
            action = ctypes.c_uint32(_ERROR | error)
            array = (_Comparison * len(comparisons))(*comparisons)
            _done(library.seccomp_rule_add_array(filtered, action, call, len(comparisons), array))
        written = os.memfd_create("filter", os.MFD_CLOEXEC)
        try:
            _done(library.seccomp_export_bpf(filtered, written))
            return os.pread(written, os.fstat(written).st_size, 0)
        finally:
            os.close(written)
    finally:
        library.seccomp_release(filtered)


def _rules() -> Iterator[_Rule]:
    for name in REFUSED:
        yield name, errno.EPERM, ()
    for bit in range(32):
        if NAMESPACES >> bit & 1:
            yield "clone", errno.EPERM, (_Comparison(0, _MASKED_EQUAL, 1 << bit, 1 << bit),)
    yield "clone3", errno.ENOSYS, ()  # its flags are in memory, where no filter sees them; libc then takes clone
    yield "socket", errno.EPERM, (_Comparison(0, _EQUAL, _VSOCK),)


def _done(result: int) -> None:
    """Raise OSError if a function of libseccomp failed: it returns a negative error number."""
    if result < 0:
        raise OSError(-result, os.strerror(-result))
