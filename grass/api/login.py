"""Log in to a cluster: make key pairs on this machine and register their public halves. Called by `grass login`.

One key is for the API, the other one for files over SSH. The private halves never leave this machine. A login or
rotation that was interrupted is finished by the same command: the master accepts the same keys again, and new keys are
kept in ``client/rotating`` until the master has taken them.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from grass.api.invitation import Invitation
from grass.api.join_client import open_join_client
from grass.api.keyring import ClientKeys, load_client, load_profile, save_profile, user_key
from grass.api.login_invitation import LoginInvitation
from grass.api.pod_tunnel import PodWay
from grass.api.transport import Transport
from grass.errors import ConflictError, NotAllowedError
from grass.files.access import FilesAccess
from grass.files.key import FILES_KEY, files_key
from grass.hosts.ssh import KNOWN_HOSTS, host_id
from grass.wire.status_views import STATUS
from grass.wire.user_views import OWN_KEY, FilesOffer, OwnKeyView

_ROTATING = "rotating"


def log_in(invitation: LoginInvitation, folder: Path, way: PodWay | None = None) -> OwnKeyView:
    """Register this machine's key with an invitation, and write the files of ``client``. Return the user's view.

    ``folder``: the cluster's, which has no client yet. ``way``: to the pod that the invitation names.
    Raises NotAllowedError (invitation used or expired, or another master), UnreachableError, ConflictError.
    """
    client = folder / "client"
    if (client / "profile.json").exists():
        raise ConflictError(
            f"{client} has a key already; replace it with `grass login --rotate`, or choose another --name"
        )
    made = not folder.exists()
    access = open_join_client(Invitation(invitation.urls, invitation.key, "", "", invitation.cluster), way=way)
    try:
        jwk = user_key(client)
        body = {"user": invitation.user, "secret": invitation.secret, "key": jwk, "files_key": files_key(client)}
        view = access.log_in(body)
        _save_files_access(client, view.files)
        save_profile(client, replace(access.profile, user=invitation.user, key_id=str(jwk["kid"])), access.master)
    except (NotAllowedError, ConflictError):
        if made:
            shutil.rmtree(folder)
        raise
    finally:
        access.close()
    return view


@dataclass(frozen=True)
class Accepted:
    """What is known of the caller whose new key the master had accepted before."""

    name: str
    role: str
    state: str = "active"


def rotate_key(folder: Path) -> OwnKeyView | Accepted:
    """Replace this user's keys by new ones, and return the user's view. Raises the errors of a call."""
    client = folder / "client"
    draft = client / _ROTATING
    if draft.exists() and (found := _accepted(draft)) is not None:
        _adopt(client, draft)
        return found
    shutil.rmtree(draft, ignore_errors=True)
    jwk = user_key(draft)
    body = {"key": jwk, "files_key": files_key(draft)}
    profile = replace(load_profile(client), key_id=str(jwk["kid"]))
    save_profile(draft, profile, json.loads((client / "master.pub.json").read_text()))
    try:
        view = OWN_KEY.convert(
            _exchange(load_client(client), lambda transport: transport.call("POST", "/v1/own-key", body))
        )
    except NotAllowedError:
        # A reply may have been lost: the master has the new key then, and refuses the old one.
        if (found := _accepted(draft)) is None:
            shutil.rmtree(draft)
            raise
        _adopt(client, draft)
        return found
    _save_files_access(client, view.files)
    _adopt(client, draft)
    return view


def _save_files_access(client: Path, offer: FilesOffer | None) -> None:
    """Note how this machine reaches the files of the cluster. A cluster on one machine has no files over SSH."""
    if offer is None:
        return
    known = client / KNOWN_HOSTS
    line = f"{host_id(offer.address, offer.port)} {offer.host_key}\n"
    if not known.exists() or line not in known.read_text():
        with known.open("a") as file:
            file.write(line)
    FilesAccess(offer.address, offer.port, offer.user, str(client / FILES_KEY), str(known)).save(client)


def _accepted(draft: Path) -> Accepted | None:
    """Return the user if the master knows the new key."""
    try:
        status = STATUS.convert(_exchange(load_client(draft), lambda transport: transport.call("GET", "/v1/status")))
    except NotAllowedError:
        return None
    return Accepted(status.user, status.role)


def _exchange(keys: ClientKeys, call: Callable[[Transport], object]) -> object:
    transport = Transport(keys)
    try:
        return call(transport)
    finally:
        transport.close()


def _adopt(client: Path, draft: Path) -> None:
    """Move the new files into place. The draft goes last, so that a repeated command finishes an interrupted move."""
    for name in ("user.pem", FILES_KEY, "profile.json"):
        if not (draft / name).exists():
            continue  # of a version without keys for files
        moving = client / f"{name}.new"
        shutil.copyfile(draft / name, moving)
        moving.chmod(0o600)
        moving.replace(client / name)
    (client / "session.json").unlink(missing_ok=True)
    shutil.rmtree(draft)
