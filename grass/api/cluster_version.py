"""What a cluster speaks, and what a client of another version makes of it. Used by ``transport``.

A call works if both versions know it. A call that one of them does not know ends with one line that names both.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from grass.errors import InputError, ManifestError, Problem, UndecodableError
from grass.release import __version__
from grass.wire.calls import LEFT_OUT
from grass.wire.version import SPEAKS, Speaks, difference, is_older, spoken

OWN = spoken(__version__)


class ClusterVersion:
    """What the cluster said last of its version. ``ask``: asks it; None: it does not answer."""

    def __init__(self, ask: Callable[[], Speaks | None]) -> None:
        self._ask = ask
        self._known: Speaks | None = None

    def note(self, error: Mapping[str, Any]) -> None:  # Any: decoded JSON
        """Take what a refusal says. A server of before revision 1 says nothing, and has to be asked."""
        said = error.get("speaks")
        self._known = SPEAKS.convert(said) if said else None  # a newer one may say more

    def speaks(self) -> Speaks | None:
        self._known = self._known or self._ask()
        return self._known

    def difference(self) -> str:
        """Return what the two versions mean for a call that failed. Empty: they do not differ, or nobody knows."""
        return difference(OWN, self.speaks() or OWN)

    def explained(self, error: InputError) -> InputError:
        """Return the error of a call, with the versions if they may be its reason."""
        if type(error) not in (InputError, ManifestError) or not (text := self.difference()):
            return error
        if isinstance(error, ManifestError):
            return ManifestError([*error.problems, Problem("", text)])
        return InputError(f"{error}; {text}")

    def unread(self, error: UndecodableError) -> UndecodableError:
        """Return the error of a reply that this client cannot read, with the versions if they may be its reason."""
        text = self.difference()
        return UndecodableError(error.path, f"{error.problem} in the cluster's answer; {text}") if text else error

    def left_out(self, body: Mapping[str, object]) -> dict[str, str]:
        """Return which fields of a refused body an older cluster can do without, and what it then does not do."""
        found = {name: lost for name, lost in LEFT_OUT.items() if body.get(name)}
        return found if found and is_older(self.speaks() or OWN, OWN) else {}
