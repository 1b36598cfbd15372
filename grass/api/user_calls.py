"""Calls about users, for administrators. A part of ``Client``."""

from __future__ import annotations

from grass.api.requests import Requests, View, path_of


class UserCalls(Requests):
    """Users of the cluster."""

    def users(self) -> list[View]:
        """Return all users: ``{"name", "role", "state", "created", "by", "invited_until"}``."""
        found: list[View] = self._get("/v1/users")["users"]
        return found

    def add_user(self, name: str, role: str = "user", expires: float = 86_400.0) -> View:
        """Add a user: ``{"user", "role", "invitation": text for `grass login`, "expires": wall seconds}``."""
        return self._post("/v1/users", {"name": name, "role": role, "expires": expires})

    def set_user_role(self, name: str, role: str) -> View:
        """Change what a user may do: ``user``, ``viewer`` or ``admin``. Raises ConflictError for the last admin."""
        return self._post(path_of("users", name, "role"), {"role": role})

    def disable_user(self, name: str, stop_jobs: bool = False) -> View:
        """Refuse all calls of a user. ``stop_jobs``: also stop their jobs and schedules; otherwise these go on."""
        return self._post(path_of("users", name, "disable"), {"stop_jobs": stop_jobs})

    def enable_user(self, name: str) -> View:
        """Accept the calls of a disabled user again. Raises NotFoundError."""
        return self._post(path_of("users", name, "enable"), {})

    def rotate_user(self, name: str, expires: float = 86_400.0) -> View:
        """Make a new invitation for a user, as ``add_user``. The old key is valid until the invitation is used."""
        return self._post(path_of("users", name, "rotate"), {"expires": expires})

    def remove_user(self, name: str, stop_jobs: bool = False) -> View:
        """Remove a user. ``stop_jobs`` as for ``disable_user``."""
        return self._post(path_of("users", name, "remove"), {"stop_jobs": stop_jobs})
