"""Loads images from the share into the node's engine, and removes them when the disk fills.

Made by ``kind`` for ``starts``.

The share has ``images/index.json``, ``{name: {"id": "sha256:…", "config": digest, "layers": [digests]}}``, and
``images/blobs/<digest>``: layers as plain tars under their diff ids, and configurations. A digest has 64 hexadecimal
digits. ``id`` is the engine's id of the image, the digest of its configuration. An image is loaded before the first
container that needs it. The archive for `docker load` is assembled while it is sent, without a temporary copy.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
import tarfile
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import msgspec

from grass.errors import ConflictError, InputError, NotFoundError, UndecodableError, UnreachableError
from grass.model.image import MOST_INDEX, full_name
from grass.model.names import is_digest
from grass.system import clock
from grass.system.atomic_file import replace_file
from grass.system.bounded_file import UnfitFileError, read_at_most
from grass.wire.codec import Form, encode
from node.runtime.docker.engine import Engine

WATERMARK = 0.85
"""Used fraction of the engine's disk above which the least recently used images are removed."""
_PIECE = 1 << 20
_MOST_CONFIG = 16 << 20
"""Bytes of the configuration of an image."""
_SAY_EVERY = 1.0
_NO_INDEX = 0
"""Instead of the index's time stamp: no image was ever pushed."""
LOOK_AGAIN = (0.5, 1.5)
"""Seconds between searches for an image that is missing or damaged."""
USED_EVERY = 60.0
"""Seconds by which the recorded time of the last use may be late."""
_BLOCK = tarfile.BLOCKSIZE

log = logging.getLogger(__name__)


class Remembered(msgspec.Struct):
    """An image that Grass loaded. ``used``: wall time of its last use. ``id``: in the share. ``engine``: its id
    there."""

    used: float
    id: str
    engine: str


_REMEMBERED: Form[dict[str, Remembered]] = Form(dict[str, Remembered])


class Entry(NamedTuple):
    """An image in the share's index."""

    id: str
    config: str
    layers: tuple[str, ...]


class Images:
    """The images that Grass has loaded into the engine.

    ``folder``: the images in the share. ``state``: file of the images that Grass loaded, with the time of their last
    use. ``share_is_mounted``: without the mount, the folder is empty and says nothing about images. ``signed_off``: the
    digest with which the master lets an image be loaded; None: it has no record of the image.

    Safe for several threads. One image is loaded at a time, and only once if several threads ask for it.
    """

    def __init__(
        self,
        engine: Engine,
        folder: Path,
        state: Path,
        usage: Callable[[], float] | None = None,
        share_is_mounted: Callable[[], bool] = lambda: True,
        look_again: Sequence[float] = LOOK_AGAIN,
        used_every: float = USED_EVERY,
        signed_off: Callable[[str], str | None] = lambda _: None,
    ) -> None:
        self._engine = engine
        self._folder = folder
        self._state = state
        self._usage = usage or self._disk_usage
        self._share_is_mounted = share_is_mounted
        self._look_again = look_again
        self._used_every = used_every
        self._signed_off = signed_off
        self._lock = threading.Lock()
        self._loading = threading.Lock()
        self._current: dict[str, int] = {}
        """Image → time stamp of the index when the engine's image was last found equal to the share's."""

    def prepare(self, image: str, say: Callable[[str], None]) -> None:
        """Make ``image`` available before its container is created: load it from the share if the engine lacks it.

        ``say`` is called with messages for users who wait. An image that only the engine has is used as it is. A
        missing or damaged image is searched for again, because a mount may show a just pushed image a second later, and
        the index before the blobs. Raises GrassError; UnreachableError: the share or the engine does not answer.
        """
        for pause in self._look_again:
            try:
                if self._prepared(image, say):
                    return
            except InputError as error:
                log.info("%s; trying again", error)
            clock.sleep(pause)
        self._prepared(image, say)

    def _prepared(self, image: str, say: Callable[[str], None]) -> bool:
        stamp = self._stamp(image)
        if self._current.get(image) != stamp:
            entry = None if stamp == _NO_INDEX else self._entry(image)
            if entry is not None:
                self._check(image, entry)
                self._load(image, entry, say)
            elif not self._in_engine(image):
                return False
            self._current[image] = stamp
        self._used(image)
        return True

    def _check(self, image: str, entry: Entry) -> None:
        """Raise InputError unless this is the image that its user pushed: tasks and other nodes may write to the
        share. The engine checks the layers against the configuration."""
        expected = self._signed_off(full_name(image))
        if expected is None:
            return
        with _share_asked(image):
            found = _digest(self._folder / "blobs" / entry.config)
        if not found == entry.config == expected or entry.id != f"sha256:{expected}":
            raise InputError(
                f"image {image} in the share is not the one that was pushed, so it is not loaded; push it again"
            )

    def _stamp(self, image: str) -> int:
        index = self._folder / "index.json"
        with _share_asked(image):
            try:
                return index.stat().st_mtime_ns
            except FileNotFoundError:
                if not self._share_is_mounted():
                    raise UnreachableError(f"image {image}: the share is not mounted") from None
                return _NO_INDEX

    def _in_engine(self, image: str) -> bool:
        try:
            self._engine.image(image)
        except NotFoundError:
            return False
        return True

    def gone(self, image: str) -> bool:
        """Note that the engine lacks the image. Return whether it was there before; then ``prepare`` loads it again.

        Somebody has removed it, or the load of another image has, because the disk is nearly full."""
        return self._current.pop(image, None) is not None

    def missing(self, image: str) -> NotFoundError:
        """Return the error for an image that neither the engine nor the share has."""
        message = f"image {image} is neither on this node nor in the share; run `grass image push {image}`"
        return NotFoundError(message)

    def _load(self, image: str, entry: Entry, say: Callable[[str], None]) -> None:
        if self._loading.locked():
            say(f"waits until another image is loaded; image {image} is next")
        with self._loading:
            if self._is_there(image, entry):
                return
            self._free_space(keep=image)
            self._engine.load(_archive(self._folder / "blobs", image, entry, _Progress(image, say)))
            try:
                found = self._engine.image(image)["Id"]
            except NotFoundError as error:
                raise InputError(f"image {image} of the share is damaged; push it again") from error
            with self._lock:
                known = self._remembered()
                known[image] = Remembered(clock.wall(), entry.id, found)
                self._remember(known)
            log.info("loaded image %s", image)

    def _is_there(self, image: str, entry: Entry) -> bool:
        """Return whether the engine has the share's image. Not every engine uses the configuration's digest as the id,
        so both ids of a loaded image are recorded."""
        try:
            found = self._engine.image(image)["Id"]
        except NotFoundError:
            return False
        known = self._remembered().get(image)
        return found == entry.id or (known is not None and (known.id, known.engine) == (entry.id, found))

    def _used(self, image: str) -> None:
        """Record the use of an image that Grass loaded; only those are ever removed."""
        with self._lock:
            known = self._remembered()
            if image in known and clock.wall() - known[image].used > self._used_every:
                known[image].used = clock.wall()
                self._remember(known)

    def _free_space(self, keep: str) -> None:
        with self._lock:
            known = self._remembered()
            for image in sorted((each for each in known if each != keep), key=lambda each: known[each].used):
                if self._usage() <= WATERMARK:
                    break
                try:
                    self._engine.remove_image(image)
                    log.info(
                        "removed image %s: the disk is nearly full, and the image was the least recently used", image
                    )
                except ConflictError:
                    continue  # a container uses it
                except NotFoundError:
                    log.info("image %s was already removed by another program", image)
                del known[image]
                self._current.pop(image, None)
            self._remember(known)

    def _disk_usage(self) -> float:
        disk = os.statvfs(self._engine.facts()["DockerRootDir"])
        return 1 - disk.f_bavail / disk.f_blocks

    def _entry(self, image: str) -> Entry | None:
        """Return the image's entry in the share's index. None: there is none."""
        try:
            with _share_asked(image):
                text = read_at_most(self._folder / "index.json", MOST_INDEX)
            found = json.loads(text).get(full_name(image))
            entry = None if found is None else Entry(str(found["id"]), found["config"], tuple(found["layers"]))
            if entry is not None and not all(map(is_digest, (entry.config, *entry.layers))):
                raise ValueError("not a digest")
        except (ValueError, TypeError, LookupError, AttributeError) as error:  # any job may write there
            message = f"the share's list of images is damaged at {image} ({error}); push the image again"
            raise InputError(message) from error
        return entry

    def _remembered(self) -> dict[str, Remembered]:
        try:
            return _REMEMBERED.decode(self._state.read_bytes())
        except (OSError, UndecodableError):
            return {}

    def _remember(self, known: dict[str, Remembered]) -> None:
        """Write the record. If that fails (full disk), an image may be loaded again or stay for longer."""
        try:
            self._state.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            replace_file(self._state, encode(known))
        except OSError as error:
            log.warning("the record of loaded images cannot be written: %s", error)


class _Progress:
    """Reports the progress of a load, about once a second."""

    def __init__(self, image: str, say: Callable[[str], None]) -> None:
        self._image = image
        self._say = say
        self._next = 0.0
        self._done = 0
        self.total = 1

    def add(self, size: int) -> None:
        self._done += size
        now = clock.steady()
        if now >= self._next:
            self._next = now + _SAY_EVERY
            self._say(f"loading image {self._image} ({100 * self._done // max(1, self.total)} %)")


@contextmanager
def _share_asked(image: str) -> Iterator[None]:
    """Translate errors of the share: they are temporary, and not the image's fault."""
    try:
        yield
    except OSError as error:
        raise UnreachableError(f"image {image} cannot be read from the share: {error}") from error


def _digest(config: Path) -> str:
    """Return the digest of an image's configuration; empty: there is no such file, or it cannot be one."""
    try:
        return hashlib.sha256(read_at_most(config, _MOST_CONFIG)).hexdigest()
    except (FileNotFoundError, UnfitFileError):
        return ""


def _archive(blobs: Path, image: str, entry: Entry, progress: _Progress) -> Iterator[bytes]:
    """Yield the archive for `docker load`: manifest, configuration, layers. InputError: a blob is missing."""
    files = [(f"{entry.config}.json", blobs / entry.config)]
    files += [(f"{digest}/layer.tar", blobs / digest) for digest in dict.fromkeys(entry.layers)]
    with _share_asked(image):
        try:
            sizes = {name: path.stat().st_size for name, path in files}
        except FileNotFoundError as error:
            raise InputError(f"a part of image {image} is missing in the share ({error}); push it again") from error
    progress.total = sum(sizes.values())
    yield from _member("manifest.json", _manifest(image, entry))
    for name, path in files:
        yield _header(name, sizes[name])
        with _share_asked(image):
            yield from _content(path, sizes[name], progress)
        yield _padding(sizes[name])
    yield bytes(2 * _BLOCK)


def _manifest(image: str, entry: Entry) -> bytes:
    name = full_name(image)
    layers = [f"{digest}/layer.tar" for digest in entry.layers]
    manifest = [{"Config": f"{entry.config}.json", "RepoTags": [name], "Layers": layers}]
    return json.dumps(manifest).encode()


def _content(path: Path, size: int, progress: _Progress) -> Iterator[bytes]:
    left = size
    with path.open("rb") as file:
        while left and (piece := file.read(min(_PIECE, left))):
            left -= len(piece)
            progress.add(len(piece))
            yield piece
    if left:
        raise InputError(f"{path} became shorter while it was read")


def _member(name: str, data: bytes) -> Iterator[bytes]:
    yield _header(name, len(data))
    yield data
    yield _padding(len(data))


def _header(name: str, size: int) -> bytes:
    entry = tarfile.TarInfo(name)
    entry.size = size
    return entry.tobuf(tarfile.PAX_FORMAT)


def _padding(size: int) -> bytes:
    return bytes(-size % _BLOCK)
