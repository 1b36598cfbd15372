"""The replies of the API about images. Sent by the API server."""

from __future__ import annotations

import msgspec

from grass.wire.codec import Form


class ImageView(msgspec.Struct, frozen=True):
    """An image that was signed off."""

    name: str
    digest: str
    user: str
    """Who pushed it."""


IMAGE: Form[ImageView] = Form(ImageView)
