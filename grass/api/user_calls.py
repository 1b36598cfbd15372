"""Calls about users, for administrators. A part of ``ApiClient``."""

from __future__ import annotations

from grass.api.requests import Requests, path_of
from grass.api.transport import View


class UserCalls(Requests):
    """Users of the cluster."""

    def users(self) -> list[View]:
        """Return all users. Times are seconds since the epoch. Raises NotAllowedError: not an administrator."""
        found: list[View] = self._get("/v1/users")["users"]
        return found

    def add_user(self, name: str, role: str = "user", expires: float = 86_400.0) -> View:
        """Add a user; ``invitation`` of the result is the text for `grass login`. Raises ConflictError: there is one.

        ``expires``: seconds from now; in the result, seconds since the epoch.
        """
        return self._post("/v1/users", {"name": name, "role": role, "expires": expires})

    def set_user_role(self, name: str, role: str) -> View:
        """Change what a user may do: ``user``, ``viewer`` or ``admin``. Raises ConflictError for the last admin,
        NotFoundError."""
        return self._post(path_of("users", name, "role"), {"role": role})

    def disable_user(self, name: str, stop_jobs: bool = False) -> View:
        """Refuse all calls of a user. ``stop_jobs``: also stop their jobs and schedules; otherwise these go on.

        Raises ConflictError for the last admin, NotFoundError.
        """
        return self._post(path_of("users", name, "disable"), {"stop_jobs": stop_jobs})

    def enable_user(self, name: str) -> View:
        """Accept the calls of a disabled user again. Raises NotFoundError."""
        return self._post(path_of("users", name, "enable"), {})

    def rotate_user(self, name: str, expires: float = 86_400.0) -> View:
        """Make a new invitation for a user, as ``add_user``. The old key is valid until the invitation is used.

        ``expires``: seconds from now. Raises NotFoundError.
        """
        return self._post(path_of("users", name, "rotate"), {"expires": expires})

    def remove_user(self, name: str, stop_jobs: bool = False) -> View:
        """Remove a user. ``stop_jobs`` as for ``disable_user``. Raises ConflictError for the last admin,
        NotFoundError."""
        return self._post(path_of("users", name, "remove"), {"stop_jobs": stop_jobs})
