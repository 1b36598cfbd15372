"""Define the commands `grass user …`, by which administrators manage users. Loaded by ``main``."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

import click

from grass.cli.amounts import NOTHING, show_instant
from grass.cli.command import Group
from grass.cli.invocation import Invocation, pass_invocation
from grass.cli.output import Result
from grass.cli.table import Column, table
from grass.cli.values import DURATION, USER
from grass.model.amounts import show_span
from grass.system import clock

if TYPE_CHECKING:
    from grass.wire.user_views import UserInvitation, UserView

_LIST = (Column("USER"), Column("ROLE"), Column("STATE"), Column("ADDED"), Column("BY", drop=1))
_ROLES = click.Choice(["user", "viewer", "admin"])
_EXPIRES = click.option(
    "--expires", type=DURATION, default="1d", show_default=True, help="How long the invitation is valid."
)
_STOP_JOBS = click.option(
    "--stop-jobs", is_flag=True, help="Also stop their jobs and schedules. Otherwise these go on."
)


@click.group(cls=Group)
def user() -> None:
    """Manage the users of the cluster. For administrators."""


@user.command("add")
@click.argument("name")
@click.option("--role", type=_ROLES, default="user", show_default=True, help="What the user may do.")
@_EXPIRES
@pass_invocation
def add(invocation: Invocation, name: str, role: str, expires: float) -> None:
    """Add a user and print an invitation; the person runs `grass login INVITATION`.

    A `user` has their own jobs and schedules. A `viewer` sees everything and changes nothing. An `admin` may do
    everything.
    """
    _show_invitation(invocation, invocation.client().add_user(name, role, expires))


@user.command("list")
@pass_invocation
def list_users(invocation: Invocation) -> None:
    """List the users."""
    users = invocation.client().users()
    invocation.output.show(Result(users, partial(user_list, users), [one.name for one in users]))


@user.command("role")
@click.argument("name", type=USER)
@click.argument("role", type=_ROLES)
@pass_invocation
def role(invocation: Invocation, name: str, role: str) -> None:
    """Change what a user may do."""
    _show(invocation, invocation.client().set_user_role(name, role), f"has role {role}")


@user.command("disable")
@click.argument("name", type=USER)
@_STOP_JOBS
@pass_invocation
def disable(invocation: Invocation, name: str, stop_jobs: bool) -> None:
    """Refuse all calls of a user, at once; `grass user enable` ends this."""
    view = invocation.client().disable_user(name, stop_jobs)
    _show(invocation, view, f"disabled; {_fate(view, stop_jobs)}")


@user.command("enable")
@click.argument("name", type=USER)
@pass_invocation
def enable(invocation: Invocation, name: str) -> None:
    """Accept calls of a disabled user again."""
    _show(invocation, invocation.client().enable_user(name), "enabled")


@user.command("rotate")
@click.argument("name", type=USER)
@_EXPIRES
@pass_invocation
def rotate(invocation: Invocation, name: str, expires: float) -> None:
    """Print an invitation with which a user replaces their key. The old key is valid until then.

    For a lost machine, disable the user first, and enable it before the login.
    """
    _show_invitation(invocation, invocation.client().rotate_user(name, expires))


@user.command("remove")
@click.argument("name", type=USER)
@_STOP_JOBS
@pass_invocation
def remove(invocation: Invocation, name: str, stop_jobs: bool) -> None:
    """Remove a user. Finished jobs and logs stay."""
    view = invocation.client().remove_user(name, stop_jobs)
    _show(invocation, view, f"removed; {_fate(view, stop_jobs)}")


def user_list(users: Sequence[UserView], width: int | None) -> list[str]:
    return table(_LIST, [_row(one) for one in users], width)


def _row(view: UserView) -> list[str]:
    created = show_instant(view.created) if view.created else NOTHING
    return [view.name, view.role, _state(view), created, view.by or NOTHING]


def _state(view: UserView) -> str:
    if view.state == "invited" and view.invited_until is None:
        return "invitation expired"
    return view.state


def _fate(view: UserView, stop_jobs: bool) -> str:
    return f"{view.jobs_stopped} job(s) are being stopped" if stop_jobs else "their jobs go on"


def _show(invocation: Invocation, view: UserView, what: str) -> None:
    invocation.output.show(Result(view, lambda _: [f"user {view.name}: {what}"], [view.name]))


def _show_invitation(invocation: Invocation, made: UserInvitation) -> None:
    from grass.api.login_invitation import parse_invitation

    text = made.invitation
    invocation.output.show(Result(made, lambda _: [text], [text]))
    left = show_span(made.expires - clock.wall() + 0.5)
    invocation.output.note(f"valid once, for {left}; give it to {made.user} over a private channel")
    invocation.output.note("on that person's machine: grass login INVITATION")
    if (pod := parse_invitation(text).pod) != "":
        _, _, namespace, _, name = pod.removeprefix("/api/").split("/")
        need = f"they need a kubeconfig that may `create` and `get` pods/portforward of {name} in namespace {namespace}"
        invocation.output.note(f"the master is a pod: {need}")
