"""Files and images of the share, by rsync from this machine. A part of ``Client``."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, cast

from grass.api.requests import Requests

if TYPE_CHECKING:
    from grass.api.client import Client
    from grass.wire.image_views import ImageView


class FileCalls(Requests):
    """Files and images of the share."""

    folder: Path

    def push(self, local: str | Path, remote: str, *, copy_links: bool = False) -> int:
        """Send a file or folder to the share, as ``remote``; return the number of bytes that were compared.

        As `grass data push`: unchanged files are skipped, and the same call goes on after an interruption.
        ``copy_links``: send the content of what symbolic links point to. Raises InputError, NotFoundError,
        UnreachableError.
        """
        from grass.files import transfers
        from grass.files.access import access_in

        return transfers.push(access_in(self.folder), Path(local), remote, _silent, copy_links=copy_links)

    def pull(self, remote: str, local: str | Path = ".", *, force: bool = False) -> int:
        """Fetch a file, or the content of a folder, from the share to ``local``; return the number of bytes compared.

        As `grass data pull`. Raises InputError, NotFoundError, UnreachableError; ConflictError if it would overwrite
        files that were edited here, without ``force``.
        """
        from grass.files import transfers
        from grass.files.access import access_in
        from grass.files.pulled import FOLDER, Pulled

        pulled = Pulled(self.folder / FOLDER)
        return transfers.pull(access_in(self.folder), remote, Path(local), _silent, pulled, force=force)

    def pull_job(self, job: str, path: str = "", local: str | Path | None = None, *, force: bool = False) -> int:
        """Fetch the output of a job, or ``path`` of it, to ``local`` (default: ``./JOB``), as `grass job pull`.

        Of a rerun of failed tasks, also what the earlier runs wrote, unless it wrote a file of that name itself. The
        files of `output: {file: …}` are made of the log. Raises as ``pull``; ConflictError, once all else was pulled:
        a task has written a file of such a name itself.
        """
        from grass.api.output_files import pull_output
        from grass.files.access import access_in
        from grass.files.pulled import FOLDER, Pulled

        access, pulled, target = access_in(self.folder), Pulled(self.folder / FOLDER), Path(local or job)
        return pull_output(cast("Client", self), access, job, path, target, _silent, pulled, force=force).size

    def sign_off_image(self, name: str, digest: str, programs: Sequence[str] | None = None) -> ImageView:
        """Let nodes load the image ``name`` only with this digest (64 hexadecimal digits, of its configuration).

        ``programs``: those of frameworks on its PATH, so that a job that needs others is refused; None: not known.
        Raises InputError, NotAllowedError.
        """
        from grass.wire.image_views import IMAGE

        known = None if programs is None else [*programs]
        return self._post("/v1/images", {"name": name, "digest": digest, "programs": known}, IMAGE)

    def forget_image(self, name: str) -> ImageView:
        """Forget the digest of a removed image. Raises NotFoundError."""
        from grass.wire.image_views import IMAGE

        return self._post("/v1/images/forget", {"name": name}, IMAGE)


def _silent(progress: object) -> None:
    """Show no progress: a Python program has no terminal to show it on."""
