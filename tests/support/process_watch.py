"""Arguments and environments of all processes of this machine, and so of all hosts of a lab. Needs root."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path


class Seen:
    """What processes had, as `/proc` shows it. A process that lives for milliseconds only may be missed."""

    def __init__(self) -> None:
        self.texts: dict[str, set[bytes]] = {"cmdline": set(), "environ": set()}
        self._stop = threading.Event()

    def finds(self, text: str) -> list[str]:
        """Return the arguments, or environments, in which the text is."""
        wanted = text.encode()
        return sorted(
            f"{kind}: {each.replace(bytes(1), b' ').decode(errors='replace')}"
            for kind, texts in self.texts.items()
            for each in texts
            if wanted in each
        )

    def look(self) -> None:
        while not self._stop.is_set():
            for process in Path("/proc").glob("[0-9]*"):
                for kind, texts in self.texts.items():
                    with suppress(OSError):
                        texts.add((process / kind).read_bytes())
            self._stop.wait(0.002)

    def stop(self) -> None:
        self._stop.set()


@contextmanager
def watched_processes() -> Iterator[Seen]:
    """Look until the end of the block."""
    seen = Seen()
    thread = threading.Thread(target=seen.look, name="process-watch")
    thread.start()
    try:
        yield seen
    finally:
        seen.stop()
        thread.join()
