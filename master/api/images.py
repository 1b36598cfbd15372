"""`/v1/images`: users sign off what they pushed, so that nodes load no other image of that name.

The image itself goes to the share. Its name belongs to the user who pushed it first; administrators may replace it.
Used by ``handlers``.
"""

from __future__ import annotations

from grass.api.keyring import Role
from grass.errors import InputError, NotAllowedError, NotFoundError
from grass.frameworks.programs import KNOWN
from grass.model.event_kind import EventKind
from grass.model.image import full_name
from grass.model.names import is_digest
from grass.store.signed_images import SignedImage
from grass.wire.calls import ImageName, ImageSignOff
from grass.wire.image_views import ImageView
from master.api.call import Call, Reply

_LONGEST = 512
"""Characters of a name."""


def sign(call: Call) -> Reply:
    request = call.read(ImageSignOff)
    name = full_name(request.name)
    if not request.name or len(name) > _LONGEST or not name.isprintable():
        raise InputError(f"name: must be the name of an image, got {request.name[:80]!r}")
    if not is_digest(request.digest):
        raise InputError(f"digest: must be 64 hexadecimal digits, got {request.digest[:80]!r}")
    _check_owner(call, name)
    known = None if request.programs is None else tuple(each for each in KNOWN if each in request.programs)
    call.api.store.images.write(name, SignedImage(request.digest, call.user, known))
    call.log_event(EventKind.IMAGE_PUSHED, f"image {name}: pushed, digest {request.digest[:12]}")
    return Reply(ImageView(name, request.digest, call.user), 201)


def forget(call: Call) -> ImageView:
    name = full_name(call.read(ImageName).name)
    known = _check_owner(call, name)
    if known is None:
        raise NotFoundError(f"image {name}: not found; `grass image list` lists all images")
    call.api.store.images.forget(name)
    call.log_event(EventKind.IMAGE_REMOVED, f"image {name}: removed")
    return ImageView(name, known.digest, known.user)


def _check_owner(call: Call, name: str) -> SignedImage | None:
    known = call.api.store.images.find(name)
    if known is not None and known.user != call.user and call.role is not Role.ADMIN:
        raise NotAllowedError(f"image {name}: belongs to {known.user}; choose another name")
    return known
