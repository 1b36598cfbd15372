"""Digests of images that users pushed, so that a node loads nothing else under their names. Part of ``Records``.

The share itself cannot be believed: every task may write there.
"""

from __future__ import annotations

import msgspec

from grass.errors import ConflictError
from grass.store.backend import Backend
from grass.store.keys import MOST_IMAGES, Keys
from grass.wire.codec import Form, encode


class SignedImage(msgspec.Struct, frozen=True):
    """What was recorded of one pushed image.

    ``digest``: of the image's configuration, which names its layers. ``user``: who pushed it. ``programs``: those of
    frameworks on its PATH; None: not known.
    """

    digest: str
    user: str
    programs: tuple[str, ...] | None = None


SIGNED_IMAGE: Form[SignedImage] = Form(SignedImage)


class SignedImages:
    """Images that users signed off, by name."""

    def __init__(self, backend: Backend, keys: Keys) -> None:
        self._backend = backend
        self._keys = keys

    def find(self, name: str) -> SignedImage | None:
        text = self._backend.hget(self._keys.images, name)
        return None if text is None else SIGNED_IMAGE.decode(text)

    def write(self, name: str, image: SignedImage) -> None:
        """Record an image. Raises ConflictError if there are too many."""
        known = self._backend.hgetall(self._keys.images)
        if name not in known and len(known) >= MOST_IMAGES:
            raise ConflictError(f"image {name}: the cluster has {MOST_IMAGES} images already; remove some")
        self._backend.apply([("HSET", self._keys.images, name, encode(image))])

    def forget(self, name: str) -> None:
        self._backend.apply([("HDEL", self._keys.images, name)])
