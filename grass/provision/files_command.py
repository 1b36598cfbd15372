"""Forced command of files keys on the master: ``python -I -m grass.provision.files_command CONFIG USER FINGERPRINT``.

sshd runs this module as the user `grass` for each login with such a key, and puts the requested command into
``SSH_ORIGINAL_COMMAND``. What the user may do is in the user's record, which is read at each login and again while a
transfer runs: a user who is disabled or removed, or who got another key or role, is cut off within a second.

A user with the role ``user`` reaches the folders of ``grass.files.rights`` only. The kernel sees to that (Landlock).
"""

from __future__ import annotations

import os
import select
import signal
import sys
import sysconfig
import tempfile
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, NoReturn

from msgspec import structs

from grass.api.keyring import Role
from grass.api.user_files import UserRecord, files_record
from grass.config import ClusterConfig
from grass.errors import GrassError, InputError, NotAllowedError, NotFoundError
from grass.files import landlock, paths, rights, serve, share
from grass.files.key import fingerprint
from grass.files.operations import (
    AddImage,
    AnyOperation,
    DigestFiles,
    ListFiles,
    ListImages,
    MissingBlobs,
    ReadFile,
    RemoveFiles,
    RemoveImage,
    TypeOf,
)
from grass.files.pushes import note_push
from grass.files.rsync import OVER_QUOTA
from grass.model.exhaustive import assert_never
from grass.model.names import is_job_id
from grass.provision.space_left import SpaceLeft, limited
from grass.system import clock
from grass.system.environment import ssh_original_command
from grass.wire.codec import encode

if TYPE_CHECKING:
    from grass.store.records import Records

_LOOK = 0.25
"""Seconds between two checks of the user's rights. rsync takes 0.4 s to end, and all ends within a second."""
_COUNT = 0.02
"""Seconds between two checks of what a transfer under a quota has written. It may exceed the quota for so long."""
_GRACE = 0.5
"""Seconds between TERM and KILL."""
_TURN = 0.01
"""Seconds between two looks for what is left of a transfer."""
_PROGRAMS = ("/usr", "/bin", "/lib", "/lib32", "/lib64", "/etc/ld.so.cache", "/etc/passwd", "/etc/group", "/dev/null")
_OTHERS = ("/etc/nsswitch.conf", "/etc/localtime", "/dev/urandom")


class Areas(NamedTuple):
    """The folders of the share that a process may use, by Landlock. Programs come in addition."""

    write: list[Path]
    read: list[Path]


def main(asked: str, config_file: str, user: str, key: str) -> int:
    config = ClusterConfig.load(config_file)
    job = serve.asks_for_rsync(asked)
    if job is None and asked.strip() != serve.COMMAND:
        sys.stderr.write("this key is for the files of a Grass cluster only\n")
        return 2
    try:
        record = _record(config, user, key)
        if job and record.role is Role.USER:
            _check_job(config, user, job, f"{paths.JOBS}/{job}")
    except GrassError as error:
        sys.stderr.write(f"{error}\n")
        return 2
    with tempfile.TemporaryDirectory(prefix="grass-files-") as scratch:
        work = _operation(config, record) if job is None else _rsync(config, record, job, Path(scratch))
        has_quota = record.role is Role.USER and limited(config, user)
        quota = SpaceLeft(config, user) if has_quota and job is not None else None  # others write only what was sent
        try:
            return _watched(work, lambda: _may_still(config, record, key), quota)
        finally:
            if has_quota:
                note_push(config, user)


def _record(config: ClusterConfig, user: str, key: str) -> UserRecord:
    """Return the user's record. Raises NotAllowedError: the user may no longer use this key."""
    try:
        record = files_record(config.master_dir, user)
    except NotFoundError:
        record = UserRecord(user, Role.VIEWER)
    if not record.files_key or fingerprint(record.files_key) != key:
        raise NotAllowedError(f"user {user}: this key no longer reaches the files of the cluster")
    if record.disabled:
        raise NotAllowedError(f"user {user}: disabled by an administrator")
    return record


def _may_still(config: ClusterConfig, before: UserRecord, key: str) -> bool:
    try:
        return _record(config, before.user, key).role is before.role
    except GrassError:
        return False


def _watched(work: Callable[[], int], allowed: Callable[[], bool], quota: SpaceLeft | None) -> int:
    """Do the work in a process of its own, and end that when it is no longer allowed, or exceeds the quota."""
    child = os.fork()
    if child == 0:
        os.setpgid(0, 0)
        _do(work)
    ended = os.pidfd_open(child)
    looked = clock.steady()
    while not select.select([ended], [], [], _COUNT if quota else _LOOK)[0]:
        said, code = "", OVER_QUOTA
        if clock.steady() - looked >= _LOOK:
            looked = clock.steady()
            if not allowed():
                said, code = "the administrator changed what this user may do; the transfer ended", 1
        if quota is not None:
            said = said or quota.exceeded_by(child)
        if said:
            _end(child, ended)
            sys.stderr.write(f"{said}\n")
            return code
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) & 0xFF


def _end(child: int, ended: int) -> None:
    """End the transfer with all its processes. On TERM, rsync removes the part of a file that it was receiving: a child
    of it does, which may need longer than the first process."""
    until = clock.steady() + _GRACE
    os.killpg(child, signal.SIGTERM)
    reaped = bool(select.select([ended], [], [], _GRACE)[0] and os.waitpid(child, 0))
    with suppress(ProcessLookupError):
        while reaped and clock.steady() < until:
            os.killpg(child, 0)
            clock.sleep(_TURN)
        os.killpg(child, signal.SIGKILL)
    if not reaped:
        os.waitpid(child, 0)


def _do(work: Callable[[], int]) -> NoReturn:
    code = 1
    try:
        code = work()
        sys.stdout.flush()
    except GrassError as error:
        sys.stderr.write(f"{error}\n")
    except OSError as error:
        sys.stderr.write(f"{error.filename or 'the connection'}: {error.strerror}\n")
    finally:
        sys.stderr.flush()
        os._exit(code)


def _rsync(config: ClusterConfig, record: UserRecord, job: str, scratch: Path) -> Callable[[], int]:
    folder, restricted = config.data_dir, record.role is Role.USER
    modules = serve.MODULES
    if restricted:
        modules = {**modules, "images": share.incoming(record.user)}
        for part in (*rights.own_folders(record.user), f"{modules['images']}/blobs"):
            _make(folder / part)
    options = f"--viewer {record.user}" if record.role is Role.VIEWER else ""
    if restricted:
        options = f"--user {record.user} {job or '-'}"
    conf = scratch / "rsyncd.conf"
    text = serve.rsyncd_conf(
        str(folder), sys.executable, modules=modules, read_only=record.role is Role.VIEWER, options=options
    )
    conf.write_text(text)
    areas = _areas(config, record.user, [Path("/dev/null"), folder / modules["images"]])
    areas.write.extend([folder / paths.JOBS / job] if job else [])

    def run() -> int:
        if restricted:
            # Debian's rsync 3.2.7 opens each folder on the way from the module's to the one that was asked for
            landlock.restrict([conf, *_programs()], areas.write, read=areas.read, look=[folder])
        serve.become_rsync(conf)

    return run


def _operation(config: ClusterConfig, record: UserRecord) -> Callable[[], int]:
    """Return the work of one request. It is refused, by a reply, if the user may not do it."""
    folder, output = config.data_dir, sys.stdout.buffer

    def run() -> int:
        try:
            request = _of_caller(serve.read_request(sys.stdin.read()), record)
            areas = permitted(config, record, request)
        except GrassError as error:
            output.write(f"{encode(serve.refusal(error))}\n".encode())
            return 0
        if areas is not None:
            landlock.restrict(_programs(), areas.write, read=areas.read)
        serve.answer(folder, request, output)
        return 0

    return run


def _of_caller(request: AnyOperation | ReadFile, record: UserRecord) -> AnyOperation | ReadFile:
    """Return the request. An image is that of the caller, whatever the client says."""
    if not isinstance(request, AddImage):
        return request
    user = "" if record.role is Role.ADMIN else record.user
    return structs.replace(request, entry=structs.replace(request.entry, user=user))


def permitted(config: ClusterConfig, record: UserRecord, request: AnyOperation | ReadFile) -> Areas | None:
    """Return the folders within which the request is carried out; None: the share. Raises NotAllowedError."""
    if record.role is Role.ADMIN:
        return None
    match request:
        case ListImages() | MissingBlobs():
            return None
        case ListFiles(path) | TypeOf(path) | DigestFiles(path) | ReadFile(path):
            return None if record.role is Role.VIEWER else _own(config, record.user, path, removes=False)
        case _ if record.role is Role.VIEWER:
            raise NotAllowedError(f"user {record.user}: a viewer changes no files")
        case RemoveFiles(path):
            return _own(config, record.user, path, removes=True)
        case AddImage(name) | RemoveImage(name):
            _check_image(config, record.user, name)
            return None
        case _:
            assert_never(request)


def _own(config: ClusterConfig, user: str, text: str, *, removes: bool) -> Areas | None:
    """Return the folders for a request that names the path. Raises NotAllowedError: the user may not reach it."""
    path = paths.to_read(text)
    for part in rights.own_folders(user):
        _make(config.data_dir / part)
    if said := rights.write_refusal(user, path) if removes else rights.read_refusal(user, path):
        raise NotAllowedError(said)
    job = rights.job_of(path)
    if job:
        _check_job(config, user, job, path)
        if removes and path == f"{paths.JOBS}/{job}":
            return None  # the folder goes, too; above it is nothing that a task could change
        return Areas([config.data_dir / paths.JOBS / job], [])
    if removes and path in rights.own_folders(user):
        raise InputError(f"{path}: this folder stays; name what to remove in it")
    return _areas(config, user, [])


def _areas(config: ClusterConfig, user: str, more: list[Path]) -> Areas:
    """Return the folders of the share that the user reaches without naming a job. ``more``: to write in, besides."""
    own = [config.data_dir / part for part in rights.own_folders(user)]
    return Areas([*own, *more], [config.data_dir / rights.OF_ALL])


def _check_job(config: ClusterConfig, user: str, job: str, path: str) -> None:
    known = _store(config).run(job) if is_job_id(job) else None
    if known is None or known.user != user:
        raise NotAllowedError(f"{path}: is not an output of a job of user {user}")


def _check_image(config: ClusterConfig, user: str, name: str) -> None:
    """Raise NotAllowedError for an image that another user pushed."""
    known = _store(config).images.find(name)
    owner = known.user if known else "an administrator" if name in share.read_index(config.data_dir) else user
    if owner != user:
        raise NotAllowedError(f"image {name}: belongs to {owner}; choose another name")


def _store(config: ClusterConfig) -> Records:
    from grass.store.records import open_records  # not every login needs the client of redis, and it takes long to load

    return open_records(config)


def _make(folder: Path) -> None:
    """Make a folder in which accounts of isolated tasks may write, too: they belong to the group of the daemons."""
    if not folder.is_dir():
        folder.mkdir(parents=True, exist_ok=True)
        folder.chmod(0o2775)


def _programs() -> list[Path]:
    """Return what rsync and ``path_check`` need to run."""
    python = (sys.prefix, sys.base_prefix, sysconfig.get_path("stdlib"), *sys.path)
    return [Path(path) for path in (*_PROGRAMS, *_OTHERS, *python) if path]


if __name__ == "__main__":
    sys.exit(main(ssh_original_command(), *sys.argv[1:4]))
