"""Push and pull of data and images, for the CLI and the client.

Each can be repeated; files that are already there are not resent. Used by ``grass.api.file_calls``,
``grass.api.output_files``, ``grass.cli.data`` and ``grass.cli.image``.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path, PurePosixPath
from typing import IO, cast

from grass.errors import ConflictError, InputError, NotFoundError
from grass.files import links, paths, rsync
from grass.files.access import ShareAccess, rsync_program
from grass.files.image_archive import Image, blobs_of, unpack
from grass.files.operations import AddImage, FileType, MissingBlobs, TypeOf
from grass.files.pulled import Pulled, stamp_of
from grass.lines import lines_of
from grass.model.amounts import show_memory
from grass.model.image import full_name
from grass.system import clock

OnProgress = Callable[[rsync.Progress], object]
_NAMED = 10
"""Maximum number of links that an error names."""
_JUST_MADE = 60.0
"""Maximum seconds between a push's creation of its folder and its lock on the folder."""


def push(access: ShareAccess, local: Path, remote: str, on_progress: OnProgress, *, copy_links: bool = False) -> int:
    """Push a folder's content into the folder ``remote``, or a file to ``remote`` or into ``remote/``.

    Symbolic links stay links; with ``copy_links``, the content of their targets is sent instead. Returns the number of
    bytes examined, once all nodes see the files: a job that is submitted then finds them. Raises NotFoundError;
    InputError, also for a link that leads out of the folder, because rsync's daemon would change its target;
    UnreachableError: the same call continues where it stopped.
    """
    if not local.exists():
        raise NotFoundError(f"{local}: not found on this machine")
    target = paths.to_write(remote)
    source = str(local.resolve())
    if local.is_dir():
        if not copy_links:
            _refuse_outward_links(local)
        source, target = f"{source}/", f"{target}/"
    elif remote.endswith("/"):
        target = f"{target}/{local.name}"
    options = [*access.rsync_options(target), *(["--copy-links"] if copy_links else [])]
    argv = rsync.command(rsync_program(), options, [source], access.rsync_path("data", target))
    examined = rsync.transfer(argv, f"push of {local}", on_progress)
    clock.sleep(access.seen_after)
    return examined


def _refuse_outward_links(folder: Path) -> None:
    outward = links.outward(folder)
    if outward:
        named = "; ".join(f"{link} -> {target}" for link, target in outward[:_NAMED])
        more = f"; and {len(outward) - _NAMED} more" if len(outward) > _NAMED else ""
        raise InputError(
            f"push of {folder}: symbolic links in it point outside of it, and would be broken in the share: {named}"
            f"{more}; --copy-links sends the content of what links point to, or remove these"
        )


_NO_WRITING_FOR_OTHERS = ["--chmod=Dgo-w"]
"""In the share, containers of other users may write into a job's folder. Nothing else protects a copy of it."""


def pull(
    access: ShareAccess,
    remote: str,
    local: Path,
    on_progress: OnProgress,
    pulled: Pulled,
    *,
    force: bool = False,
    absent: bool = False,
) -> int:
    """Pull the file ``remote``, or the content of the folder ``remote``, to ``local``.

    A file goes into ``local`` if that is a folder. Links stay unchanged. rsync gets absolute paths: since 3.5, rsync
    creates no folder whose path contains ``..``. ``pulled``: what was pulled to this machine before. Raises
    ConflictError if a file would be overwritten that is not as a pull left it; not with ``force``. ``absent``: only
    what is not here yet.
    """
    path = paths.to_read(remote)
    is_folder = not path or access.ask(TypeOf(path)) is FileType.FOLDER
    source = access.rsync_path("data", f"{path}/" if is_folder and path else path)
    becomes = local.parent.resolve() / local.name  # an existing link at this path is replaced
    target = f"{local.resolve()}/" if is_folder or local.is_dir() else str(becomes)
    root = Path(target) / PurePosixPath(path).name if local.is_dir() and not is_folder else Path(target)
    options = [*access.rsync_options(path), *(_NO_WRITING_FOR_OTHERS if path.startswith(f"{paths.JOBS}/") else ())]
    options += ["--ignore-existing"] if absent else []
    what = f"pull of {remote or 'the share'}"

    def replaced(*looks: str) -> dict[Path, bool]:
        items = rsync.items(rsync_program(), [*options, *looks], [source], target, what)
        return {root / item.path if is_folder else root: item.replaces for item in items}

    is_new = not os.path.lexists(root)
    files = {} if is_new else replaced()
    before = {file: stamp_of(file) for file, replaces in files.items() if replaces}
    if not force and pulled.edited(before):
        different = replaced("--checksum")  # reads all files: a file that was only copied or touched is the same
        refuse_edited(what, pulled.edited([file for file in before if different.get(file)]))
    try:
        return rsync.transfer(rsync.command(rsync_program(), options, [source], target), what, on_progress)
    finally:  # after an interruption, too: the next pull goes on
        arrived = (file for file in files if file not in before or stamp_of(file) != before[file])
        pulled.note(root, _files_of(root) if is_new else arrived)


def pull_runs(
    access: ShareAccess,
    remotes: Sequence[str],
    local: Path,
    on_progress: OnProgress,
    pulled: Pulled,
    *,
    force: bool = False,
) -> int:
    """Pull the output of a run, and from those after it in ``remotes``, which are earlier, what is not here yet.

    As ``pull``. What one of them does not have is left out. Raises NotFoundError if none has it.
    """
    sizes: list[int] = []
    missing: NotFoundError | None = None
    for remote in remotes:
        try:
            absent = remote != remotes[0]
            sizes.append(pull(access, remote, local, on_progress, pulled, force=force, absent=absent))
        except NotFoundError as error:
            missing = missing or error
    if not sizes and missing is not None:
        raise missing
    return sum(sizes)


def names(access: ShareAccess, remote: str, empty: Path) -> list[str]:
    """Return the paths of the files and links below a folder of the share (none: it is not there).

    ``empty``: an empty folder here, which stays empty."""
    path = paths.to_read(remote)
    try:
        access.ask(TypeOf(path))
    except NotFoundError:
        return []
    source = access.rsync_path("data", f"{path}/")
    found = rsync.items(rsync_program(), access.rsync_options(path), [source], f"{empty}/", f"look at {remote}")
    return [item.path for item in found]


def _files_of(root: Path) -> Iterator[Path]:
    """Yield the files and links of a folder that a pull made; or the one that it is."""
    if root.is_symlink() or not root.is_dir():
        yield root
    for folder, folders, names in os.walk(root):
        folders[:] = [name for name in folders if name != rsync.PARTIAL]
        yield from (Path(folder) / name for name in (*folders, *names))


def refuse_edited(what: str, edited: list[Path]) -> None:
    """Raise ConflictError if there are such files."""
    if edited:
        named = ", ".join(str(file) for file in edited[:_NAMED])
        more = f" and {len(edited) - _NAMED} more" if len(edited) > _NAMED else ""
        raise ConflictError(
            f"{what}: it would overwrite what was edited or made here: {named}{more}; nothing was changed; "
            "--force overwrites, another target keeps both"
        )


def push_image(
    access: ShareAccess,
    name: str,
    archive: Path | None,
    scratch: Path,
    say: Callable[[str], object],
    on_progress: OnProgress,
) -> dict[str, Image]:
    """Push the image ``name`` of this machine's engine, or the images of the file ``archive``.

    Return each by its name, for the master to sign off.

    ``name`` also names an archive's image that has no name of its own. ``scratch``: a folder with enough space for the
    image.
    """
    scratch.mkdir(parents=True, exist_ok=True)
    with _folder(scratch) as folder:
        say(f"reading {archive or name}")
        images = _from_file(archive, Path(folder)) if archive else _from_engine(name, Path(folder))
        if archive and name and len(images) > 1:
            raise InputError(f"{archive} holds {len(images)} images; push it without a NAME")
        named = {full_name(each): image for image in images for each in (image.names or (name,)) if each}
        if archive and name:
            named = {full_name(name): images[0]}
        if not named:
            raise InputError(f"the image in {archive} has no name; give one: `grass image push NAME --file {archive}`")
        missing = access.ask(MissingBlobs(blobs_of(images)))
        there = len(blobs_of(images)) - len(missing)
        if missing:
            size = sum((Path(folder) / digest).stat().st_size for digest in missing)
            say(f"sending {_parts(len(missing))}, {show_memory(size)}; {_parts(there)} there already")
            begun = clock.steady()
            _send_blobs(access, Path(folder), missing, on_progress)
            seconds = max(clock.steady() - begun, 1e-3)
            say(f"sent {show_memory(size)} in {seconds:.1f} s ({show_memory(int(size / seconds))}/s)")
        else:
            say(f"nothing to send: {_parts(there)} there already")
        for each, image in named.items():
            access.ask(AddImage(each, image.entry(clock.wall())))
    return dict(sorted(named.items()))


@contextmanager
def _folder(scratch: Path) -> Iterator[str]:
    """Create a folder for one push. Remove folders that killed pushes left, which no process locks any more."""
    for left in scratch.glob("image-*"):
        with suppress(OSError), _held(left):  # otherwise another push has locked it, or has just ended
            if left.stat().st_mtime < clock.wall() - _JUST_MADE:
                shutil.rmtree(left)
    with tempfile.TemporaryDirectory(dir=scratch, prefix="image-") as folder, _held(Path(folder)):
        yield folder


@contextmanager
def _held(folder: Path) -> Iterator[None]:
    """Lock the folder. Raises OSError: another process has locked it."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    finally:
        os.close(descriptor)


def _parts(count: int) -> str:
    return "1 part" if count == 1 else f"{count} parts"


def _send_blobs(access: ShareAccess, folder: Path, missing: list[str], on_progress: OnProgress) -> None:
    argv = rsync.command(
        rsync_program(),
        [*access.rsync_options(), "--no-perms", "--chmod=F644"],
        [str(folder / digest) for digest in missing],
        access.rsync_path("images", "blobs/"),
    )
    rsync.transfer(argv, "push of the image", on_progress)


def _from_file(archive: Path, folder: Path) -> list[Image]:
    try:
        with archive.open("rb") as file:
            return unpack(file, folder, str(archive))
    except FileNotFoundError:
        raise NotFoundError(f"{archive}: not found on this machine") from None
    except IsADirectoryError:
        raise InputError(f"{archive} is a folder, not an image archive") from None


def _from_engine(name: str, folder: Path) -> list[Image]:
    docker = shutil.which("docker")
    if docker is None:
        raise InputError("there is no docker on this machine; save the image elsewhere and use --file image.tar")
    if name.startswith("-"):
        raise InputError(f"{name!r} is not the name of an image")
    with tempfile.TemporaryFile() as errors:
        process = subprocess.Popen([docker, "image", "save", name], stdout=subprocess.PIPE, stderr=errors)
        try:
            images = unpack(cast(IO[bytes], process.stdout), folder, name)
        except InputError:
            process.wait()
            raise _engine_error(name, errors, process.returncode) from None
        finally:
            process.terminate()
            process.wait()
            if process.stdout:
                process.stdout.close()
    return [Image((full_name(name),), image.config, image.layers, image.size) for image in images[:1]]


def _engine_error(name: str, errors: IO[bytes], code: int) -> Exception:
    errors.seek(0)
    said = errors.read().decode(errors="replace").strip()
    if code == 0:
        return InputError(f"the output of `docker image save {name}` cannot be read")
    return NotFoundError(f"image {name}: {lines_of(said)[-1] if said else f'docker ended with {code}'}")
