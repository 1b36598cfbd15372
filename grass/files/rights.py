"""Folders of the share that a user reaches with their own key. Pure.

Administrators reach the whole share, and viewers read it. A user changes files in ``data/<user>/``,
``data/shared/<user>/`` and the output folders of their own jobs, and reads besides all of ``data/shared/``. Who owns a
job is in the store, so the caller of this module checks it. Used by ``grass``, ``master`` and ``node``.
"""

from __future__ import annotations

from grass.files import paths

DATA, SHARED = "data", "shared"
OF_ALL = f"{DATA}/{SHARED}"
"""The folder that all users read. Each user writes in a folder of it."""
NOT_ALLOWED = "not allowed: "
"""How the check before a transfer begins a refusal, so that the other side of rsync knows what it is."""


def own_folders(user: str) -> tuple[str, ...]:
    """Return the folders in which the user may write, and whose files count for the user's quota."""
    return f"{DATA}/{user}", f"{OF_ALL}/{user}"


def read_refusal(user: str, path: str) -> str:
    """Return why the user may not read the path of the share; empty: they may, if a job folder is of their own job."""
    if _is_in(path, f"{DATA}/{user}") or _is_in(path, OF_ALL) or job_of(path):
        return ""
    return (
        f"{path or 'the whole share'}: user {user} reads {DATA}/{user}/, {OF_ALL}/ and the {paths.JOBS}/ folders of "
        "their own jobs only"
    )


def write_refusal(user: str, path: str) -> str:
    """Return why the user may not change the path of the share, as ``read_refusal``."""
    own, shared = own_folders(user)
    if _is_in(path, own) or _is_in(path, shared) or job_of(path):
        return ""
    return (
        f"{path or 'the whole share'}: user {user} changes files in {own}/, {shared}/ and the {paths.JOBS}/ folders of "
        "their own jobs only"
    )


def job_of(path: str) -> str:
    """Return the id of the job whose folder holds the path; empty: none does."""
    first, _, rest = path.partition("/")
    return rest.partition("/")[0] if first == paths.JOBS else ""


def _is_in(path: str, folder: str) -> bool:
    return path == folder or path.startswith(f"{folder}/")
