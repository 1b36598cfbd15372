"""Calls about users, for administrators. A part of ``Client``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from grass.api.requests import Requests, path_of

if TYPE_CHECKING:
    from grass.wire.user_views import UserInvitation, UserView


class UserCalls(Requests):
    """Users of the cluster."""

    def users(self) -> list[UserView]:
        """Return all users. Times are seconds since the epoch. Raises NotAllowedError: not an administrator."""
        from grass.wire.user_views import USERS

        return list(self._get("/v1/users", USERS).users)

    def add_user(self, name: str, role: str = "user", expires: float = 86_400.0) -> UserInvitation:
        """Add a user; ``invitation`` of the result is the text for `grass login`. Raises ConflictError: there is one.

        ``expires``: seconds from now; in the result, seconds since the epoch.
        """
        from grass.wire.user_views import USER_INVITATION

        return self._post("/v1/users", {"name": name, "role": role, "expires": expires}, USER_INVITATION)

    def set_user_role(self, name: str, role: str) -> UserView:
        """Change what a user may do: ``user``, ``viewer`` or ``admin``. Raises ConflictError for the last admin,
        NotFoundError."""
        from grass.wire.user_views import USER

        return self._post(path_of("users", name, "role"), {"role": role}, USER)

    def disable_user(self, name: str, stop_jobs: bool = False) -> UserView:
        """Refuse all calls of a user. ``stop_jobs``: also stop their jobs and schedules; otherwise these go on.

        Raises ConflictError for the last admin, NotFoundError.
        """
        from grass.wire.user_views import USER

        return self._post(path_of("users", name, "disable"), {"stop_jobs": stop_jobs}, USER)

    def enable_user(self, name: str) -> UserView:
        """Accept the calls of a disabled user again. Raises NotFoundError."""
        from grass.wire.user_views import USER

        return self._post(path_of("users", name, "enable"), {}, USER)

    def rotate_user(self, name: str, expires: float = 86_400.0) -> UserInvitation:
        """Make a new invitation for a user, as ``add_user``. The old key is valid until the invitation is used.

        ``expires``: seconds from now. Raises NotFoundError.
        """
        from grass.wire.user_views import USER_INVITATION

        return self._post(path_of("users", name, "rotate"), {"expires": expires}, USER_INVITATION)

    def remove_user(self, name: str, stop_jobs: bool = False) -> UserView:
        """Remove a user. ``stop_jobs`` as for ``disable_user``. Raises ConflictError for the last admin,
        NotFoundError."""
        from grass.wire.user_views import USER

        return self._post(path_of("users", name, "remove"), {"stop_jobs": stop_jobs}, USER)
