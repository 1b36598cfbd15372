"""The images of the hosts, and the task images for the engines inside the hosts.

Images are kept until their recipe changes. No registry is used: debootstrap makes the root; Debian's packages provide
everything above it.
"""

from __future__ import annotations

import hashlib
import os
import re
import shlex
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from .command import LabError, attempt, docker, run, say

RECIPE = Path(__file__).parent / "recipe"


@dataclass(frozen=True)
class Variant:
    """A kind of host image. ``suite``: a release of Debian; ``kind``: a stage of the Dockerfile."""

    suite: str
    kind: str


USUAL = "bookworm"
VARIANTS = {
    "full": Variant(USUAL, "full"),
    "bare": Variant(USUAL, "bare"),
    "minimal": Variant(USUAL, "minimal"),
    "trixie": Variant("trixie", "full"),
    "trixie-minimal": Variant("trixie", "minimal"),
    "bullseye": Variant("bullseye", "minimal"),
}
"""full: docker, redis, samba, rclone, MPI; bare: redis, samba, rclone; minimal: systemd, sshd, sudo, python3.

trixie and bullseye are Debian 13 (Python 3.13) and 11 (Python 3.9). Their images are made when a host needs them.
"""
TASK_IMAGES = {"python": "lab-python:latest", "busybox": "lab-busybox:latest"}
LABEL = "grass.lab.image"
MACHINE_CA = "/etc/ssl/certs/ca-certificates.crt"


class Images:
    """All images. ``folder`` keeps the tar files of the task images."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._tasks = _digest(_base(USUAL), "task-image")

    def host_image(self, variant: str) -> str:
        return f"grass-lab-{variant}:{_digest(_base(VARIANTS[variant].suite), 'Dockerfile', 'lab-init')}"

    def task_tar(self, kind: str = "python") -> Path:
        """Return a file for ``docker load`` inside a host, with the image TASK_IMAGES[kind]."""
        return self.folder / f"{kind}-{self._tasks}.tar"

    def task_tar_with(self, name: str, requirements: Sequence[str]) -> Path:
        """Return a file like ``task_tar`` for the image ``NAME:latest`` with packages of PyPI.

        The file is kept as well.
        """
        if not re.fullmatch(r"[a-z][a-z0-9-]{0,60}", name):
            raise LabError(
                f"{name!r} is not a name for an image: lower-case letters, digits and dashes, a letter first"
            )
        tar = self.folder / f"{name}-{_digest(self._tasks + chr(0).join(requirements))}.tar"
        if not tar.exists():
            say(f"making the task image {name} with {', '.join(requirements)}")
            self._make_task(tar, f"{name}:latest", "python", *requirements)
        return tar

    def build(self, more: Iterable[str] = ()) -> None:
        """Make the missing images: the usual variants and the variants ``more``."""
        started = time.monotonic()
        variants = [name for name, variant in VARIANTS.items() if variant.suite == USUAL or name in set(more)]
        made = [self._build_base(suite) for suite in sorted({VARIANTS[name].suite for name in variants})]
        made += [self._build_host(variant) for variant in variants]
        made += [self._build_task(kind) for kind in TASK_IMAGES]
        if any(made):
            say(f"images built in {time.monotonic() - started:.0f} s; they are kept")
            self._remove_outdated()

    def remove(self) -> None:
        """Remove every image of the lab, also images of other versions of the recipe, and the tar files."""
        for name in _labelled_images():
            attempt(["docker", "rmi", "--force", name])
        for tar in self.folder.glob("*.tar"):
            tar.unlink()

    def _build_base(self, suite: str) -> bool:
        base = _base(suite)
        if _exists(base):
            return False
        say(f"building the base image of {suite} with debootstrap, about a minute")
        packages = ",".join((RECIPE / "base.packages").read_text().split())
        with tempfile.TemporaryDirectory(prefix="grass-lab-base-", dir="/var/tmp") as place:
            root = f"{place}/root"
            # The mounts vanish with the mount namespace, however it ends, so everything below `place` may be removed.
            alone = ["nice", "unshare", "--mount", "--fork", "--kill-child"]
            bootstrap = ["debootstrap", "--variant=minbase", f"--include={packages}", suite, root]
            run([*alone, *bootstrap], seconds=900)
            shutil.rmtree(f"{root}/var/cache/apt/archives", ignore_errors=True)
            command = ["tar", "-C", root, "--numeric-owner", "-c", "."]
            _import(command, base)
        return True

    def _build_host(self, variant: str) -> bool:
        name = self.host_image(variant)
        if _exists(name):
            return False
        say(f"building the host image {name}")
        suite, kind = VARIANTS[variant].suite, VARIANTS[variant].kind
        arguments = ["--build-arg", f"BASE={_base(suite)}", "--build-arg", f"VARIANT={kind}"]
        command = ["nice", "docker", "build", "--network", "host", "--tag", name, *arguments, str(RECIPE)]
        run(command, seconds=900, environment={"DOCKER_BUILDKIT": "0"})
        return True

    def _build_task(self, kind: str) -> bool:
        tar = self.task_tar(kind)
        if tar.exists():
            return False
        say(f"making the task image {TASK_IMAGES[kind]}")
        self._make_task(tar, TASK_IMAGES[kind], kind)
        return True

    def _make_task(self, tar: Path, image: str, kind: str, *requirements: str) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        options = ["--volume", f"{RECIPE}/task-image:/task-image:ro", "--network", "none"]
        if requirements:
            options[-1] = "host"
            if Path(MACHINE_CA).exists():  # PyPI may be behind a proxy that this machine trusts
                options += ["--volume", f"{MACHINE_CA}:/ca.crt:ro", "--env", "PIP_CERT=/ca.crt"]
            for variable in ("PIP_INDEX_URL", "HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy"):
                options += ["--env", variable] if variable in os.environ else []
        _import(["docker", "run", "--rm", *options, _base(USUAL), "nice", "/task-image", kind, *requirements], image)
        partial = tar.with_suffix(".partial")
        docker("save", "--output", str(partial), image)
        partial.rename(tar)
        docker("rmi", image)

    def _remove_outdated(self) -> None:
        current = {*map(self.host_image, VARIANTS), *(_base(variant.suite) for variant in VARIANTS.values())}
        for name in _labelled_images():
            if name not in current:
                attempt(["docker", "rmi", name])  # fails while a host still uses the image; a later call removes it
        keep = {self.task_tar(kind) for kind in TASK_IMAGES}
        for tar in self.folder.glob("*.tar"):
            if tar not in keep:
                tar.unlink()


def _base(suite: str) -> str:
    return f"grass-lab-base:{_digest(suite + LABEL, 'base.packages')}"


def _digest(first: str, *files: str) -> str:
    digest = hashlib.sha256(first.encode())
    for name in files:
        digest.update((RECIPE / name).read_bytes())
    return digest.hexdigest()[:12]


def _exists(image: str) -> bool:
    return attempt(["docker", "image", "inspect", "--format", "{{.Id}}", image]).code == 0


def _labelled_images() -> list[str]:
    listed = docker("images", "--filter", f"label={LABEL}", "--format", "{{.Repository}}:{{.Tag}}")
    return [name for name in listed.splitlines() if "<none>" not in name]


def _import(tar_command: list[str], image: str) -> None:
    """Make ``image`` from the tar stream that ``tar_command`` writes."""
    with subprocess.Popen(tar_command, stdout=subprocess.PIPE) as source:
        taken = subprocess.run(
            ["docker", "import", "--change", f"LABEL {LABEL}=base", "-", image],
            stdin=source.stdout,
            capture_output=True,
            text=True,
        )
    if taken.returncode or source.returncode:
        attempt(["docker", "rmi", image])
        why = taken.stderr.strip() or f"exit code {source.returncode}, what it wrote is above"
        raise LabError(f"making {image} with `{shlex.join(tar_command)}` failed: {why}")
