"""Which programs an image of the engine has on its PATH. Used by ``kind``.

Of an image that was pushed, the master knows this. An image that only the engine has is looked at here: a container is
made of it, which is never started, and the engine is asked for files in it.
"""

from __future__ import annotations

from collections.abc import Sequence

from grass.errors import ConflictError
from grass.files.image_programs import path_of
from node.runtime.docker.engine import Engine


def programs_of(engine: Engine, image: str, wanted: Sequence[str], container: str) -> tuple[str, ...] | None:
    """Return those of ``wanted`` that a command in the image finds. None: its entrypoint decides what a command finds.

    ``container``: a name for the container; one of this name is from a look that was killed. Raises NotFoundError: the
    engine has no such image.
    """
    settings = engine.image(image)["Config"] or {}
    if settings.get("Entrypoint"):
        return None
    folders = [folder for folder in path_of(settings.get("Env")).split(":") if folder]
    body = {"Image": image, "Cmd": ["true"], "NetworkDisabled": True}
    try:
        made = engine.create(container, body)
    except ConflictError:
        engine.remove(container)
        made = engine.create(container, body)
    try:
        return tuple(
            program for program in wanted if any(engine.has_program(made, f"{folder}/{program}") for folder in folders)
        )
    finally:
        engine.remove(made)
