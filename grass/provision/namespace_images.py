"""Sends images to the registry of a namespace of Kubernetes, from this machine's docker engine. Used by ``grass.cli``.

docker itself pushes, with a configuration of its own that has the login of the registry and is removed afterwards.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path

from grass.errors import GrassError, InputError, NotAllowedError, NotFoundError, UnreachableError
from grass.kubernetes.api import RefusedError
from grass.kubernetes.registry import image_in, login_of
from grass.kubernetes.trial import server_of
from grass.lines import lines_of
from grass.model.image import full_name
from grass.node_config import NodeHome

_REFUSED = re.compile(r"unauthorized|denied|authentication required|no basic auth|forbidden", re.IGNORECASE)
_ABSENT = re.compile(r"no such image|does not exist locally|image not known", re.IGNORECASE)
_LOADED = re.compile(r"Loaded image(?: ID)?: (\S+)")


def push(node: NodeHome, name: str, archive: Path | None, say: Callable[[str], object]) -> str:
    """Push the image ``name`` of this machine's engine, or that of a file written by `docker save`, which ``name`` may
    rename. Return its name in the registry.

    Raises InputError, NotFoundError; NotAllowedError: the registry refuses the login; UnreachableError."""
    settings = node.node.kubernetes
    if settings is None or settings.registry is None:
        raise InputError(f"node {node.node.name}: has no registry; add it with --registry HOST/PATH")
    if shutil.which("docker") is None:
        raise InputError("there is no docker on this machine; it sends images to a registry")
    wanted = image_in(settings.registry, full_name(name)) if name else ""
    try:
        with closing(server_of(settings)) as server:
            login = login_of(server, settings)
    except RefusedError as error:
        raise NotAllowedError(f"the login of {settings.registry} cannot be read: {error}") from error
    with tempfile.TemporaryDirectory(prefix="grass-registry-") as folder:
        if login is not None:
            (Path(folder) / "config.json").write_text(login)  # the folder is private
        source = _loaded(archive, say) if archive is not None else full_name(name)
        if not wanted and source.startswith("sha256:"):
            raise InputError(f"the image in {archive} has no name; give one: `grass image push NAME --file {archive}`")
        target = wanted or image_in(settings.registry, source)
        say(f"sending {target}")
        _docker("tag", source, target)
        try:
            _docker("--config", folder, "push", "--quiet", target)
        finally:
            if target != source:
                subprocess.run(["docker", "image", "rm", "--no-prune", target], capture_output=True, check=False)
    return target


def _loaded(archive: Path, say: Callable[[str], object]) -> str:
    """Load an archive into the engine. Return the name, or the id, of its image."""
    if not archive.is_file():
        raise InputError(f"{archive}: no such file")
    say(f"reading {archive}")
    loaded: list[str] = _LOADED.findall(_docker("image", "load", "--input", str(archive.absolute())))
    if len(loaded) != 1:
        raise InputError(f"{archive} holds {len(loaded)} images; save one with `docker save`")
    return loaded[0]


def _docker(*words: str) -> str:
    """Run docker. Return what it printed."""
    done = subprocess.run(["docker", *words], stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    if done.returncode:
        raise _error(words, (lines_of(done.stderr.strip()) or [f"docker ended with {done.returncode}"])[-1])
    return done.stdout


def _error(words: Sequence[str], said: str) -> GrassError:
    """Return what a failure of docker means; only its words tell."""
    text = f"image {words[-1]}: {said}"
    if _ABSENT.search(said):
        return NotFoundError(text)
    if "push" not in words:
        return InputError(text)
    return NotAllowedError(text) if _REFUSED.search(said) else UnreachableError(text)
