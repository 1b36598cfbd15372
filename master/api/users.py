"""`/v1/users`, `/v1/login`, `/v1/own-key`: who may use the cluster (docs/guide/users.md).

Users are files of the master (``grass.api.user_files``). Each change is in the event log, with who made it and from
which address. An invitation is used by an unauthenticated client: its request is unsigned and must contain the secret.
"""

from __future__ import annotations

import logging
from pathlib import Path

from grass.api import user_files
from grass.api.invitation import secret_digest
from grass.api.keyring import Role
from grass.api.login_invitation import LoginInvitation
from grass.api.user_files import LoginOffer, UserRecord
from grass.errors import InputError
from grass.model.event_kind import EventKind
from grass.store.job_index import BEGUN, WAITING
from grass.system.entropy import password
from grass.wire.calls import Login, UserEnd, UserKey, UserRequest, UserRole, UserRotation
from grass.wire.codec import builtins
from grass.wire.schedule_record import ScheduleState
from grass.wire.tickets import StopJob, StopSchedule
from grass.wire.user_views import FilesOffer, OwnKeyView, UserInvitation, UsersView, UserView
from master.api.call import Call, Reply
from master.api.channels import end_opened

log = logging.getLogger("master.api")

LONGEST = 30 * 86_400.0
"""Seconds that an invitation may be valid, at most."""
_MOST_STOPPED = 100_000
"""Jobs that one call stops."""


def list_users(call: Call) -> UsersView:
    return UsersView(tuple(_view(call, record) for record in user_files.records(_folder(call))))


def add_user(call: Call) -> Reply:
    request = call.read(UserRequest)
    user_files.check_user_name(request.name)
    secret, offer = _offer(call, request.expires)
    record = UserRecord(request.name, Role(request.role), None, False, offer, call.api.wall(), call.user)
    user_files.invite(_folder(call), record)
    _log(call, EventKind.USER_ADDED, request.name, f"added with role {request.role}; invited")
    return Reply(_invitation(call, record, secret, offer), 201)


def set_role(call: Call, user: str) -> UserView:
    role = Role(call.read(UserRole).role)
    record = user_files.change_user(_folder(call), user, role=role)
    _log(call, EventKind.USER_ROLE, user, f"has role {role.value} now")
    return _view(call, record)


def disable_user(call: Call, user: str) -> UserView:
    """Refuse all calls of the user from now on."""
    record = user_files.change_user(_folder(call), user, disabled=True)
    end_opened(call, user)
    _accept_files_keys(call)
    _revoke_tokens(call, user)
    stopped = _stop_work(call, user)
    _log(call, EventKind.USER_DISABLED, user, f"disabled; {_fate(call, stopped)}")
    return _view(call, record, stopped)


def enable_user(call: Call, user: str) -> UserView:
    record = user_files.change_user(_folder(call), user, disabled=False)
    _accept_files_keys(call)
    _log(call, EventKind.USER_ENABLED, user, "enabled")
    return _view(call, record)


def rotate_key(call: Call, user: str) -> Reply:
    """Make a new invitation for a user. It replaces an earlier one, used or not."""
    secret, offer = _offer(call, call.read(UserRotation).expires)
    record = user_files.change_user(_folder(call), user, invitation=offer)
    _log(call, EventKind.USER_INVITED, user, "invited to make a new key")
    return Reply(_invitation(call, record, secret, offer), 201)


def remove_user(call: Call, user: str) -> UserView:
    record = user_files.find_user(_folder(call), user)
    user_files.change_user(_folder(call), user, disabled=True)  # the file goes last, so that this can be repeated
    end_opened(call, user)
    _revoke_tokens(call, user)
    stopped = _stop_work(call, user)
    user_files.remove_user(_folder(call), user)
    _accept_files_keys(call)
    _log(call, EventKind.USER_REMOVED, user, f"removed; {_fate(call, stopped)}")
    return _view(call, record, stopped)


def change_own_key(call: Call) -> OwnKeyView:
    """Replace the caller's keys. All sessions of the old key end."""
    request = call.read(UserKey)
    record = user_files.replace_key(_folder(call), call.user, request.key, request.files_key)
    _accept_files_keys(call)
    _log(call, EventKind.USER_KEY, call.user, "replaced its key")
    return _own_view(call, record)


def log_in(call: Call) -> OwnKeyView:
    """Use an invitation. The caller is unauthenticated: the secret says what it may do."""
    request = call.read(Login)
    digest = secret_digest(request.secret)
    record = user_files.enrol(_folder(call), request.user, digest, request.key, call.api.wall(), request.files_key)
    _accept_files_keys(call)
    _log(call, EventKind.USER_LOGIN, record.user, "used its invitation; its key is registered")
    return _own_view(call, record)


def _accept_files_keys(call: Call) -> None:
    """Let sshd know. Who may do what does not depend on it: the forced command reads the user's record."""
    try:
        user_files.accept_files_keys(call.api.config)
    except OSError as error:
        log.error("files keys of users: %s cannot be written (%s)", error.filename, error.strerror)


def _offer(call: Call, seconds: float) -> tuple[str, LoginOffer]:
    if not 0 < seconds <= LONGEST:
        raise InputError(f"expires: must be more than 0 and at most 30 days, got {seconds!r} seconds")
    secret = password()
    return secret, LoginOffer(secret_digest(secret), call.api.wall() + seconds)


def _invitation(call: Call, record: UserRecord, secret: str, offer: LoginOffer) -> UserInvitation:
    config = call.api.config
    urls, key = config.api_urls, call.api.authenticator.key_id
    text = LoginInvitation(config.name, record.user, urls, key, secret, config.master.pod).text()
    return UserInvitation(record.user, record.role.value, text, offer.expires)


def _revoke_tokens(call: Call, user: str) -> None:
    """Revoke the join tokens that the user made: whoever still has one could join a machine."""
    tokens = call.api.store.join_tokens
    for digest, token in tokens.all().items():
        if token.by == user:
            tokens.revoke(digest, call.api.wall())


def _stop_work(call: Call, user: str) -> int:
    """Stop the user's schedules and jobs, if the caller asked for it. Schedules first: they would start new jobs."""
    if not call.read(UserEnd).stop_jobs:
        return 0
    store = call.api.store
    for schedule in store.schedules():
        if schedule.user == user and schedule.state is ScheduleState.ACTIVE:
            call.ticket(StopSchedule(schedule.name, call.user))
    jobs = store.job_index.newest([(*BEGUN, *WAITING)], user, _MOST_STOPPED, None)
    for job in jobs:
        call.ticket(StopJob(job, call.user, None))
    return len(jobs)


def _fate(call: Call, stopped: int) -> str:
    return f"{stopped} job(s) stopped" if call.read(UserEnd).stop_jobs else "its jobs go on"


def _log(call: Call, kind: EventKind, user: str, what: str) -> None:
    call.log_event(kind, f"user {user}: {what}", user=user)


def _view(call: Call, record: UserRecord, stopped: int = 0) -> UserView:
    offer = record.invitation
    open_until = offer.expires if offer and not offer.used_by and offer.expires > call.api.wall() else None
    state = "disabled" if record.disabled else "invited" if record.key is None else "active"
    return UserView(record.user, record.role.value, state, record.created, record.by, open_until, stopped)


def _own_view(call: Call, record: UserRecord) -> OwnKeyView:
    files = call.api.config.files
    offer = FilesOffer(files.address, files.port, files.user, files.host_key) if files and record.files_key else None
    return OwnKeyView(**builtins(_view(call, record)), files=offer)


def _folder(call: Call) -> Path:
    return call.api.config.master_dir
