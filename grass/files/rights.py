"""Folders of the share that a user reaches with their own key. Pure.

Administrators reach the whole share, and viewers read it. A user reaches ``data/<user>/``, ``data/shared/`` and the
output folders of their own jobs. Who owns a job is in the store, so the caller of this module checks it. Used by
``grass`` and ``master``.
"""

from __future__ import annotations

from grass.files import paths

DATA, SHARED = "data", "shared"
OF_ALL = f"{DATA}/{SHARED}"
"""The folder in which all users may write."""
NOT_ALLOWED = "not allowed: "
"""How the check before a transfer begins a refusal, so that the other side of rsync knows what it is."""


def own_folders(user: str) -> tuple[str, ...]:
    """Return the folders in which the user may write."""
    return f"{DATA}/{user}", OF_ALL


def refusal(user: str, path: str) -> str:
    """Return why the user may not reach the path of the share; empty: they may, if a job folder is of their own job."""
    if any(path == folder or path.startswith(f"{folder}/") for folder in own_folders(user)) or job_of(path):
        return ""
    own, shared = own_folders(user)
    return (
        f"{path or 'the whole share'}: user {user} reaches {own}/, {shared}/ and the {paths.JOBS}/ folders of their "
        "own jobs only"
    )


def job_of(path: str) -> str:
    """Return the id of the job whose folder holds the path; empty: none does."""
    first, _, rest = path.partition("/")
    return rest.partition("/")[0] if first == paths.JOBS else ""
