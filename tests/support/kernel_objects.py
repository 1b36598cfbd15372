"""What one user's program can reach of another's through the kernel. A program for tasks, also in containers.

``plant`` makes an object of each kind, open to everybody, prints what reaches them, and waits. ``attack FOUND GROUP``
tries to reach these and prints the names of what succeeded. ``exhaust`` uses up the watches of files of its user.
``refused`` prints which system calls are not refused as they should be. ``limits BYTES`` prints whether that much
shared memory can be had. All values are JSON.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import json
import mmap
import os
import platform
import signal
import socket
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

ON_X86_64 = platform.machine() == "x86_64"
LIBC = ctypes.CDLL(None, use_errno=True)
_OF_OLD = {
    "add_key": (248, 217),
    "request_key": (249, 218),
    "keyctl": (250, 219),
    "bpf": (321, 280),
    "perf_event_open": (298, 241),
    "userfaultfd": (323, 282),
    "mount": (165, 40),
    "umount2": (166, 39),
    "pivot_root": (155, 41),
    "chroot": (161, 51),
    "unshare": (272, 97),
    "setns": (308, 268),
    "open_by_handle_at": (304, 265),
    "init_module": (175, 105),
    "finit_module": (313, 273),
    "delete_module": (176, 106),
    "kexec_load": (246, 104),
    "swapon": (167, 224),
    "swapoff": (168, 225),
    "reboot": (169, 142),
    "acct": (163, 89),
    "syslog": (103, 116),
    "quotactl": (179, 60),
    "fanotify_init": (300, 262),
    "sethostname": (170, 161),
    "clock_settime": (227, 112),
    "settimeofday": (164, 170),
}
REFUSED = {name: numbers[0 if ON_X86_64 else 1] for name, numbers in _OF_OLD.items()}
REFUSED |= {"io_uring_setup": 425, "io_uring_enter": 426, "io_uring_register": 427}
REFUSED |= {"open_tree": 428, "move_mount": 429, "fsopen": 430, "fsconfig": 431, "fsmount": 432, "fspick": 433}
REFUSED |= {"mount_setattr": 442}
_OTHERS = {
    "clone": (56, 220),
    "ptrace": (101, 117),
    "process_vm_readv": (310, 270),
    "shmget": (29, 194),
    "shmat": (30, 196),
    "shmctl": (31, 195),
    "semget": (64, 190),
    "semctl": (66, 191),
    "msgget": (68, 186),
    "msgsnd": (69, 189),
    "msgrcv": (70, 188),
    "mq_open": (240, 180),
    "mq_timedsend": (242, 182),
    "mq_timedreceive": (243, 183),
    "prlimit64": (302, 261),
    "ioprio_set": (251, 30),
    "migrate_pages": (256, 238),
}
OTHERS = {name: numbers[0 if ON_X86_64 else 1] for name, numbers in _OTHERS.items()}
CLONE3, PIDFD_OPEN, PIDFD_GETFD = 435, 434, 438
LATER = 900
"""A system call that no kernel has yet."""
KEY, NAME, SECRET = 0x6772, "grass-test-planted", b"the secret of ann"
CREATE, OPEN_TO_ALL, PRIVATE, REMOVE, COUNT, NO_WAIT = 0o1000, 0o666, 0, 0, 12, 0o4000
SESSION, USER, USER_SESSION = -3, -4, -5
JOIN, READ, REVOKE, PERSISTENT, SEARCH = 1, 11, 3, 22, 10


class Refused(Exception):
    """The kernel refused. The argument is its error number."""


def call(number: int, *arguments: object) -> int:
    """Make a system call. Raises Refused."""
    words = [ctypes.c_long(each) if isinstance(each, int) else each for each in arguments]
    LIBC.syscall.restype = ctypes.c_long
    result: int = LIBC.syscall(ctypes.c_long(number), *words)
    if result == -1:
        raise Refused(ctypes.get_errno())
    return result


def not_refused() -> dict[str, str]:
    """Return the calls that fail in another way than by EPERM, or not at all, with arguments that nothing accepts."""
    wrong = {}
    for name, number in REFUSED.items():
        try:
            call(number, -1, -1, -1, -1, -1)
            wrong[name] = "accepted"
        except Refused as error:
            if error.args[0] != errno.EPERM:
                wrong[name] = errno.errorcode[error.args[0]]
    for name, number in {"clone3": CLONE3, "later": LATER}.items():
        with contextlib.suppress(Refused):
            call(number, None, 0)
        if ctypes.get_errno() != errno.ENOSYS:
            wrong[name] = errno.errorcode[ctypes.get_errno()]
    if ON_X86_64 and (answer := from_32_bit_code(288)) not in (-errno.EPERM, -errno.ENOSYS):
        wrong["keyctl of 32-bit code"] = str(answer)
    with contextlib.suppress(Refused):
        call(0x40000000 | REFUSED["keyctl"], JOIN, None)
        wrong["keyctl of x32 code"] = "accepted"
    with contextlib.suppress(OSError):
        socket.socket(socket.AF_VSOCK, socket.SOCK_STREAM).close()
        wrong["sockets to the host of this machine"] = "accepted"
    return wrong


def from_32_bit_code(number: int) -> int:
    """Make a system call, with 1 and 0, as a 32-bit program does. Return the result; such a kernel may kill this."""
    child = os.fork()
    if child == 0:
        code = b"\x53\xb8" + number.to_bytes(4, "little") + b"\xbb\x01\x00\x00\x00\x31\xc9\xcd\x80\x5b\xc3"
        memory = mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
        memory.write(code)
        function = ctypes.CFUNCTYPE(ctypes.c_int)(ctypes.addressof(ctypes.c_char.from_buffer(memory)))
        os._exit(min(255, max(0, -function())))
    status = os.waitpid(child, 0)[1]
    return -os.waitstatus_to_exitcode(status) if os.WIFEXITED(status) else -errno.ENOSYS


def plant() -> dict[str, Any]:
    """Make objects; return what is needed to reach them."""
    segment = call(OTHERS["shmget"], KEY, 4096, CREATE | OPEN_TO_ALL)
    LIBC.shmat.restype = ctypes.c_void_p
    address = LIBC.shmat(segment, None, 0)
    ctypes.memmove(address, SECRET, len(SECRET))
    semaphore = call(OTHERS["semget"], KEY, 1, CREATE | OPEN_TO_ALL)
    queue = call(OTHERS["msgget"], KEY, CREATE | OPEN_TO_ALL)
    message = ctypes.create_string_buffer((1).to_bytes(ctypes.sizeof(ctypes.c_long), sys.byteorder) + SECRET)
    call(OTHERS["msgsnd"], queue, message, len(SECRET), 0)
    os.umask(0)
    posix = call(OTHERS["mq_open"], NAME.encode(), os.O_CREAT | os.O_RDWR, OPEN_TO_ALL, None)
    call(OTHERS["mq_timedsend"], posix, SECRET, len(SECRET), 0, None)
    Path("/dev/shm", NAME).write_bytes(SECRET)
    return {
        "pid": os.getpid(),
        "address": address,
        "segment": segment,
        "semaphore": semaphore,
        "queue": queue,
        "pipe": os.pipe()[0],
        "socket": f"{NAME}-{os.getpid()}",
    }


def attacks(found: dict[str, Any], group: str) -> Iterator[tuple[str, Callable[[], object]]]:
    """Yield ways to reach what ``plant`` made. Each succeeds if it raises nothing. ``group``: a control group."""
    pid = found["pid"]
    yield "shared memory of System V", lambda: seen(call(OTHERS["shmget"], KEY, 0, 0))
    yield "its number", lambda: seen(call(OTHERS["shmat"], found["segment"], None, 0))
    yield "its removal", lambda: call(OTHERS["shmctl"], found["segment"], REMOVE, None)
    yield "semaphores", lambda: call(OTHERS["semget"], KEY, 1, 0)
    yield "the number of semaphores", lambda: call(OTHERS["semctl"], found["semaphore"], 0, COUNT, None)
    yield "message queues", lambda: call(OTHERS["msgget"], KEY, 0)
    room = ctypes.create_string_buffer(8192)
    yield "a message", lambda: call(OTHERS["msgrcv"], found["queue"], room, 8000, 0, NO_WAIT)
    yield "message queues of POSIX", lambda: call(OTHERS["mq_open"], NAME.encode(), os.O_RDWR, 0, None)
    yield "their file", lambda: os.stat(f"/dev/mqueue/{NAME}")
    yield "shared memory of POSIX", lambda: Path("/dev/shm", NAME).read_bytes()
    yield "lists", listed
    if pid:
        yield "signal", lambda: os.kill(pid, 0)
        yield "process", lambda: call(PIDFD_GETFD, os.pidfd_open(pid), found["pipe"], 0)
        yield "signal by descriptor", lambda: signal.pidfd_send_signal(os.pidfd_open(pid), signal.SIGCONT)
        yield "trace", lambda: call(OTHERS["ptrace"], 0x4206, pid, None, None)
        yield "memory", lambda: read_memory(pid, found["address"])
        yield "limits", lambda: call(OTHERS["prlimit64"], pid, 7, None, ctypes.create_string_buffer(16))
        yield "cores", lambda: os.sched_setaffinity(pid, {0})
        yield "priority", lambda: call(OTHERS["ioprio_set"], 1, pid, 0)
        yield "nice", lambda: os.setpriority(os.PRIO_PROCESS, pid, 5)
        nodes = ctypes.byref(ctypes.c_ulong(1))
        yield "pages", lambda: call(OTHERS["migrate_pages"], pid, 64, nodes, nodes)
        for name in ("mem", "environ", "maps", "cmdline", "stack", "syscall", "fd", "root", "ns/ipc", "status"):
            yield f"/proc/PID/{name}", lambda name=name: os.stat(f"/proc/{pid}/{name}")
    for ring, number in {"session": SESSION, "user": USER, "user session": USER_SESSION}.items():
        yield f"key in the {ring} keyring", lambda number=number: keys(number)
    yield "persistent keyring", lambda: call(REFUSED["keyctl"], PERSISTENT, -1, SESSION)
    yield "key by search", lambda: call(REFUSED["request_key"], b"user", NAME.encode(), None, 0)
    yield "keys of others", lambda: Path("/proc/keys").read_text().index(NAME)
    yield "namespace of users", lambda: call(REFUSED["unshare"], 0x10000000)
    yield "clone into a namespace", lambda: cloned(0x10000000 | signal.SIGCHLD)
    for kind in ("mnt", "ipc", "net", "user"):
        yield f"{kind} of init", lambda kind=kind: call(REFUSED["setns"], os.open(f"/proc/1/ns/{kind}", os.O_RDONLY), 0)
    for name in ("cgroup.procs", "tasks", "memory.max", "memory.limit_in_bytes", "pids.max"):
        for folder in (group, *own_groups()):
            yield f"{name} in {folder}", lambda path=f"{folder}/{name}": changed(path)
    for folder in (group, *own_groups(), "/sys/fs/cgroup"):
        yield f"a group in {folder}", lambda folder=folder: os.mkdir(f"{folder}/mine")
    yield "packets", lambda: socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
    yield "raw", lambda: socket.socket(socket.AF_INET, socket.SOCK_RAW, 1)
    for path in ("/dev/kmsg", "/dev/mem", "/proc/kcore", "/proc/sysrq-trigger", "/proc/sys/kernel/core_pattern"):
        yield path, lambda path=path: os.close(os.open(path, os.O_RDONLY if "kmsg" in path else os.O_RDWR))
    for path in ("shmall", "msgmni", "sem"):
        yield path, lambda path=path: changed(f"/proc/sys/kernel/{path}")
    yield "device", lambda: os.mknod("device", 0o020666, os.makedev(1, 1))
    yield "abstract socket", lambda: connect(found["socket"])


def seen(result: int) -> None:
    """Read what is attached at an address, or what a number of a segment leads to."""
    if result < 1 << 20:
        call(OTHERS["shmat"], result, None, 0)


def read_memory(pid: int, address: int) -> None:
    room = ctypes.create_string_buffer(len(SECRET))
    mine = (ctypes.c_void_p * 2)(ctypes.addressof(room), len(SECRET))
    theirs = (ctypes.c_void_p * 2)(address, len(SECRET))
    call(OTHERS["process_vm_readv"], pid, mine, 1, theirs, 1, 0)


def listed() -> None:
    lists = [Path(f"/proc/sysvipc/{kind}").read_text().splitlines()[1:] for kind in ("shm", "sem", "msg")]
    if not any(lists):
        raise Refused(errno.ENOENT)


def keys(ring: int) -> None:
    found = call(REFUSED["keyctl"], SEARCH, ring, b"user", NAME.encode(), 0)
    call(REFUSED["keyctl"], READ, found, ctypes.create_string_buffer(100), 100)
    call(REFUSED["keyctl"], REVOKE, found)


def cloned(flags: int) -> None:
    child = call(OTHERS["clone"], flags, None, None, None, None)
    if child == 0:
        os._exit(0)
    os.waitpid(child, 0)


def own_groups() -> list[str]:
    lines = Path("/proc/self/cgroup").read_text().splitlines()
    fields = [line.split(":", 2) for line in lines]
    return sorted(f"/sys/fs/cgroup/{names.removeprefix('name=')}{path}".rstrip("/") for _, names, path in fields)


def changed(path: str) -> None:
    with open(path, "wb", buffering=0) as file:
        file.write(b"0" if path.endswith(("procs", "tasks")) else b"1000000000")


def connect(name: str) -> None:
    with socket.socket(socket.AF_UNIX) as client:
        client.connect(f"\0{name}")


def memory(size: int) -> list[bool]:
    """Return whether a segment of this size can be made, and a file in memory."""
    found = []
    try:
        call(OTHERS["shmctl"], call(OTHERS["shmget"], PRIVATE, size, CREATE), REMOVE, None)
        found.append(True)
    except Refused:
        found.append(False)
    file = Path("/dev/shm/large")
    try:
        with file.open("wb") as opened:
            os.posix_fallocate(opened.fileno(), 0, size)
        found.append(True)
    except OSError:
        found.append(False)
    file.unlink()
    return found


def exhausted() -> int:
    """Use up the watches of files that this user may have; return how many there were."""
    count = 0
    while LIBC.inotify_init1(0) >= 0 and count < 100_000:
        count += 1
    return count


def main(words: list[str]) -> None:
    if words[0] == "refused":
        print(json.dumps(not_refused()), flush=True)
    elif words[0] == "exhaust":
        print(exhausted(), flush=True)
        time.sleep(100)
    elif words[0] == "limits":
        print(json.dumps(memory(int(words[1]))))
    elif words[0] == "plant":
        listener = socket.socket(socket.AF_UNIX)
        listener.bind(f"\0{NAME}-{os.getpid()}")
        listener.listen()
        print(json.dumps(plant()), flush=True)
        time.sleep(100)
    else:
        done = []
        for name, attack in attacks(json.loads(words[1]), words[2]):
            with contextlib.suppress(Refused, OSError, ValueError):
                attack()
                done.append(name)
        print(json.dumps(done), flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
