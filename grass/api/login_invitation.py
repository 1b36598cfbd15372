"""Invitations of users: the text for `grass login`, ``grass-login1.<base64url of JSON>``. Pure.

It contains the cluster's name, the user's name, the URLs of the API, the thumbprint of the master's key (RFC 7638), and
a secret that is valid once, until it expires. The master stores only the secret's digest. The key pair is made on the
user's machine; the invitation contains none. It contains the path of the master's pod if only Kubernetes leads there.
Used by ``login``, ``grass.cli.login``, ``grass.cli.user`` and ``master.api.users``.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field

from grass.api.invitation import pack_text, unpack_text, url_of
from grass.errors import InputError
from grass.model.names import is_name

_KIND = "grass-login1"
_POD = re.compile(r"/api/v1/namespaces/[a-z0-9-]{1,63}/pods/[a-z0-9.-]{1,253}")


@dataclass(frozen=True)
class LoginInvitation:
    """The content of an invitation.

    ``urls``: the API's, in the order to try. ``key``: thumbprint of the master's key. ``pod``: path of the master's pod
    in the API of Kubernetes, where the URLs are; empty: they lead to the master.
    """

    cluster: str
    user: str
    urls: tuple[str, ...]
    key: str
    secret: str = field(repr=False)
    pod: str = ""

    def text(self) -> str:
        wire = {"cluster": self.cluster, "user": self.user, "api": list(self.urls)}
        wire |= {"pod": self.pod} if self.pod else {}
        return pack_text(_KIND, json.dumps({**wire, "key": self.key, "secret": self.secret}, separators=(",", ":")))


def parse_invitation(text: str) -> LoginInvitation:
    """Decode an invitation. Raises InputError, whose message never contains the text."""
    if not text.strip().startswith(_KIND + "."):
        raise InputError(
            f"this is not an invitation: one begins with `{_KIND}.`; an administrator makes it with `grass user add`"
        )
    try:
        wire = json.loads(unpack_text(_KIND, text))
        words = [wire["key"], wire["secret"], wire.get("pod", "")]
        invitation = LoginInvitation(wire["cluster"], wire["user"], tuple(map(url_of, wire["api"])), *words)
        sound = all(isinstance(word, str) for word in (invitation.user, *words)) and is_name(invitation.cluster)
        sound = sound and (not invitation.pod or _POD.fullmatch(invitation.pod) is not None)
    except (ValueError, KeyError, TypeError):
        sound = False
    if not sound or not invitation.urls:
        raise InputError("this invitation is damaged (was it copied whole?); `grass user rotate` makes another")
    return invitation
