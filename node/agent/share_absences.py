"""When the share was away, so that a task that ended well does not hide what it may have lost. Used by ``conditions``.

Programs often ignore that a write failed, and with a FUSE mount some failures reach nobody. The node cannot know what a
task wanted to write; it knows that the share did not answer meanwhile.
"""

from __future__ import annotations

from grass.model.reasons import Reason, ReasonCode

_KEPT = 100


class ShareAbsences:
    """Times are steady seconds. One thread calls ``note``, another may call ``during``."""

    def __init__(self) -> None:
        self._well = 0.0
        """When the share was last found well, before the present absence."""
        self._since: float | None = None
        self._past: tuple[tuple[float, float], ...] = ()

    def note(self, now: float, *, away: bool) -> None:
        """Take the result of a look at the share."""
        if away:
            self._since = self._well if self._since is None else self._since
            return
        if self._since is not None:
            self._past = (*self._past[1 - _KEPT :], (self._since, now))
        self._well, self._since = now, None

    def during(self, begun: float, ended: float) -> float:
        """Return for how many seconds the share was away at most between these times."""
        absences = self._past if self._since is None else (*self._past, (self._since, ended))
        return sum(max(0.0, min(until, ended) - max(since, begun)) for since, until in absences)

    def loss(self, begun: float, ended: float) -> Reason | None:
        """Return the reason for a task that ran between these times and ended well; None: it has lost nothing."""
        seconds = self.during(begun, ended)
        if not seconds:
            return None
        message = (
            f"it succeeded, but the share did not answer for up to {seconds:.0f} s while it ran; "
            "what it wrote there then may be missing"
        )
        return Reason(ReasonCode.SHARE, message, {"seconds": round(seconds)})
