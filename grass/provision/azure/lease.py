"""The lease of who starts and stops nodes by themselves: the master, or one `grass autoscale` on a user's machine.

The API server keeps it. It is kept alive by a thread, as making machines takes minutes. Used by ``autoscaler``.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass

from grass.errors import GrassError
from grass.wire.cloud import CloudView

SECONDS = 90.0
_EVERY = 20.0

Tell = Callable[[str, float, str], CloudView]
"""With the holder, the seconds and the problem, as ``Client.tell_cloud``."""


@dataclass
class Lease:
    """The lease as one process wants it.

    ``holder``: its name. ``problem``: why it could not act when it tried last.
    """

    holder: str
    tell: Tell
    problem: str = ""

    def taken_by(self) -> str:
        """Take or keep the lease. Return who has it; empty: this process. Raises GrassError: the API is away."""
        view = self.tell(self.holder, SECONDS, self.problem)
        return "" if view.holder == self.holder else view.holder

    @contextmanager
    def kept(self) -> Iterator[None]:
        """Keep the lease meanwhile. If the API is away for longer than it lasts, what goes on here still ends."""
        ended = threading.Event()

        def keep() -> None:
            while not ended.wait(_EVERY):
                with suppress(GrassError):
                    self.tell(self.holder, SECONDS, self.problem)

        thread = threading.Thread(target=keep, name="lease", daemon=True)
        thread.start()
        try:
            yield
        finally:
            ended.set()
            thread.join()

    def give_back(self) -> None:
        with suppress(GrassError):
            self.tell(self.holder, 0.0, self.problem)
