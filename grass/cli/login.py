"""Define the commands `grass login` and `grass logout`: this machine's key of a cluster. Loaded by ``main``."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

from grass.cli.command import Command
from grass.cli.invocation import Invocation, pass_invocation
from grass.cli.output import Result
from grass.cli.values import CLUSTER
from grass.errors import InputError
from grass.model.mode import SIGNED_IN
from grass.model.names import MAX_NAME, NAME_RULE, is_name
from grass.system import environment
from grass.wire.codec import builtins

if TYPE_CHECKING:
    from grass.api.login_invitation import LoginInvitation
    from grass.api.pod_tunnel import PodWay


@click.command(cls=Command)
@click.argument("invitation", required=False)
@click.option("--name", metavar="NAME", help="What to call the cluster on this machine. [default: its own name]")
@click.option("--rotate", is_flag=True, help="Replace this machine's key of the cluster by a new one.")
@click.option(
    "--kubeconfig",
    type=click.Path(exists=True, dir_okay=False),
    help="Master inside Kubernetes: your kubeconfig. [default: kubectl's]",
)
@click.option("--context", help="Master inside Kubernetes: the context in it. [default: the current one]")
@pass_invocation
def login(
    invocation: Invocation,
    invitation: str | None,
    name: str | None,
    rotate: bool,
    kubeconfig: str | None,
    context: str | None,
) -> None:
    """Log in to a cluster with an INVITATION. An administrator of the cluster makes it with `grass user add`.

    Makes a key pair on this machine; the private key never leaves it. INVITATION may be `-` to read it from stdin,
    which keeps it out of the shell's history. Run it again after an interruption.
    """
    if rotate == (invitation is not None):
        raise InputError("give either an INVITATION, or --rotate to replace this machine's key")
    if rotate:
        if kubeconfig or context:
            raise InputError("--rotate keeps the way to the cluster; it takes no --kubeconfig and no --context")
        _rotate(invocation)
        return
    from grass.api.login import log_in
    from grass.api.login_invitation import parse_invitation
    from grass.cli.cluster import select_cluster
    from grass.mode_file import write_mode

    text = sys.stdin.readline() if invitation == "-" and sys.stdin else str(invitation)
    invited = parse_invitation(text)
    own = invited.cluster if name is None else name
    if not is_name(own):
        raise InputError(f"--name {own!r}: must be at most {MAX_NAME} {NAME_RULE}")
    folder = environment.cluster_home(own)
    view = log_in(invited, folder, _way(invited, kubeconfig, context))
    write_mode(folder, SIGNED_IN)
    select_cluster(own)
    line = f"logged in to cluster {own} as {view.name} ({view.role})"
    invocation.output.show(Result({"cluster": own, **builtins(view)}, lambda _: [line], [own]))


@click.command(cls=Command)
@click.argument("of", type=CLUSTER, required=False, metavar="[CLUSTER]")
@pass_invocation
def logout(invocation: Invocation, of: str | None) -> None:
    """Remove this machine's key of a cluster that `grass login` added. The cluster and your jobs stay."""
    from grass.cli.cluster import deselect_cluster
    from grass.cli.provisioning import of_cluster
    from grass.provision.signed_in import SignedInProvisioner

    name = invocation.existing_cluster(of)
    provisioner = of_cluster(invocation, name)
    if not isinstance(provisioner, SignedInProvisioner):
        raise InputError(f"cluster {name}: was created here, not by `grass login`; `grass delete` deletes it")
    provisioner.forget()
    deselect_cluster(name)
    invocation.output.show(Result({"cluster": name}, lambda _: [f"logged out of cluster {name}"], [name]))


def _way(invited: LoginInvitation, kubeconfig: str | None, context: str | None) -> PodWay | None:
    """Return the way to a master that only Kubernetes leads to."""
    if not invited.pod:
        if kubeconfig or context:
            raise InputError("--kubeconfig and --context are for invitations to a master inside Kubernetes")
        return None
    from grass.api.pod_tunnel import PodWay
    from grass.provision.namespaces import kept_login

    found = kept_login(kubeconfig, context)
    return PodWay(invited.pod, found.kubeconfig, found.context)


def _rotate(invocation: Invocation) -> None:
    from grass.api.login import rotate_key

    name = invocation.existing_cluster()
    view = rotate_key(environment.cluster_home(name))
    line = f"cluster {name}: {view.name} has a new key; the old one is refused"
    invocation.output.show(Result({"cluster": name, **builtins(view)}, lambda _: [line], [name]))
