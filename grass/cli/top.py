"""Define the command `grass top`: the cluster in the terminal, live. Loaded by ``main``.

A thread follows the change feed, another one reads pages; this module alone reads keys and draws, by curses.
"""

from __future__ import annotations

import curses
import os
import queue
import threading
from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any

import click

from grass.cli import cells, top_screen
from grass.cli.command import Command
from grass.cli.events import event_lines
from grass.cli.invocation import Invocation, pass_invocation
from grass.cli.output import Result
from grass.cli.top_actions import Action, offered, question
from grass.cli.top_pages import Asked, Disks, Page, Pages, Said
from grass.cli.top_state import SORTS, State
from grass.errors import GrassError, InputError
from grass.system import clock

if TYPE_CHECKING:
    from grass.api.client import Client
    from grass.wire.job_views import JobView

    Screen = curses.window
else:
    Screen = Any

KEY_MS = 200
"""Milliseconds to wait for a key before looking for news."""
REFRESH = 2.0
"""Seconds between two reads of the details or logs that are shown."""
DISKS = 15.0
"""Seconds between two looks at the disks of the master."""
_AGAIN = 1.0
_STYLES = {"head": curses.A_BOLD, "selected": curses.A_REVERSE, "dim": curses.A_DIM}


@click.command(cls=Command)
@click.option("--once", is_flag=True, help="Print the overview once and end.")
@click.option("--sort", type=click.Choice(SORTS), default="state", show_default=True, help="Order of the jobs.")
@pass_invocation
def top(invocation: Invocation, once: bool, sort: str) -> None:
    """Show nodes and jobs, live. Keys: q quits, Enter shows a job, l its logs, s sorts, x stops the job."""
    client = invocation.client()
    if once:
        state = State(disks=client.status().disks)
        for piece in client.changes():
            state.apply(piece)
            if state.complete:
                break
        jobs = state.sorted_jobs(sort)
        data = {"time": state.time, "counts": state.counts, "nodes": list(state.nodes.values()), "jobs": jobs}
        lines = partial(top_screen.everything, state, sort=sort)
        invocation.output.show(Result(data, lambda width: lines(width), [job.id for job in jobs]))
        return
    if not (os.isatty(0) and os.isatty(1)):
        raise InputError("grass top needs a terminal; use `grass top --once` in scripts")
    status = client.status()  # an error is said before the screen is taken over
    curses.set_escdelay(25)
    try:
        curses.wrapper(lambda screen: Top(screen, client, sort, status.user, status.role).run())
    except curses.error as error:
        raise InputError(f"grass top cannot use this terminal ({error}); use `grass top --once`") from error


def _follow(client: Client, pieces: queue.SimpleQueue[Any]) -> None:
    """Put the pieces of the feed, and the text of errors, into the queue. Never ends."""
    while True:
        try:
            for piece in client.changes():
                pieces.put(piece)
        except GrassError as error:
            pieces.put(str(error))
        clock.sleep(_AGAIN)


class Top:
    """One run on a terminal. ``_shown``: what is on the screen: overview, details, logs or events.

    ``_confirming``: the action, and the job as it was, that wait for a ``y``. ``_said``: shown until the next key.
    """

    def __init__(self, screen: Screen, client: Client, sort: str, user: str, role: str) -> None:
        self._screen = screen
        self._client = client
        self._user, self._role = user, role
        self._state = State()
        self._news: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self._pages = Pages(client, self._news)
        self._sort, self._reverse = sort, False
        self._selected: str | None = None
        self._shown = "overview"
        self._content: list[str] = []
        self._asked: Asked | None = None
        self._read_at = self._disks_at = float("-inf")
        self._top = 0
        self._confirming: tuple[Action, JobView] | None = None
        self._said = ""
        self._colours: dict[str, int] = dict(_STYLES)

    def run(self) -> None:
        with suppress(curses.error):  # some terminals cannot hide the cursor or show colours
            curses.curs_set(0)
            curses.use_default_colors()
            for number, (style, colour) in enumerate((("bad", curses.COLOR_RED), ("good", curses.COLOR_GREEN)), 1):
                curses.init_pair(number, colour, -1)
                self._colours[style] = curses.color_pair(number)
        self._screen.timeout(KEY_MS)
        threading.Thread(target=_follow, args=(self._client, self._news), name="feed", daemon=True).start()
        drawn: list[top_screen.Line] = []
        going_on = True
        while going_on:
            while not self._news.empty():
                self._take(self._news.get())
            self._select()
            lines = self._lines()
            if lines != drawn:
                drawn = lines
                self._draw(lines)
            key = self._screen.getch()
            if key == curses.KEY_RESIZE:
                drawn = []
            elif key != -1:
                going_on = self._on_key(key)

    def _take(self, news: Any) -> None:
        match news:
            case Page() if news.asked == self._asked:
                self._show_page(news.lines)
            case Page():
                pass  # another page is on the screen
            case Said():
                self._said, self._read_at = news.text, float("-inf")
            case Disks():
                self._state.disks = news.of
            case str():
                self._state.trouble = news
            case _:
                self._state.apply(news)

    def _select(self) -> None:
        if self._selected not in self._state.jobs and self._state.complete and self._shown == "overview":
            jobs = self._jobs()
            self._selected = jobs[0].id if jobs else None

    def _jobs(self) -> Sequence[JobView]:
        return self._state.sorted_jobs(self._sort, self._reverse)

    def _offered(self) -> list[Action]:
        return offered(self._state.jobs.get(self._selected or ""), self._user, self._role)

    def _lines(self) -> list[top_screen.Line]:
        height, width = self._screen.getmaxyx()
        foot = self._foot()
        if clock.steady() - self._disks_at >= DISKS:
            self._disks_at = clock.steady()
            self._pages.look_at_disks()
        if self._shown == "overview":
            return top_screen.overview(self._state, width, height, self._selected, self._sort, self._reverse, foot)
        if self._shown == "events":
            at_end = self._top >= len(self._content) - (height - 2)
            self._content = [line for event in self._state.events for line in event_lines(event, None)]
            self._top = len(self._content) if at_end else self._top
        else:
            self._ask(width)
        self._top = max(0, min(self._top, len(self._content) - (height - 2)))
        title = f"{self._shown} of {self._selected}" if self._shown != "events" else "events"
        return top_screen.page(title, self._content, width, height, self._top, foot)

    def _foot(self) -> top_screen.Line:
        if self._confirming is not None:
            return top_screen.Line(cells.clean(question(*self._confirming)), "selected")
        if self._said:
            return top_screen.Line(cells.clean(self._said), "selected")
        keys = top_screen.KEYS if self._shown == "overview" else top_screen.PAGE_KEYS
        actions = (f"{action.key} {action.verb}" for action in self._offered())
        return top_screen.Line("  ".join([keys, *actions]), "dim")

    def _ask(self, width: int) -> None:
        """Have the page read again, if it is old and not being read."""
        if self._asked is None and clock.steady() - self._read_at >= REFRESH:
            self._asked = Asked(self._shown, self._selected or "", width)
            self._pages.ask(self._asked)

    def _show_page(self, lines: list[str]) -> None:
        height, _ = self._screen.getmaxyx()
        at_end = self._top >= len(self._content) - (height - 2)
        if self._shown == "logs" and (not self._content or at_end):
            self._top = len(lines)
        self._content, self._asked, self._read_at = lines, None, clock.steady()

    def _draw(self, lines: Sequence[top_screen.Line]) -> None:
        self._screen.erase()
        width = self._screen.getmaxyx()[1]
        for row, line in enumerate(lines):
            with suppress(curses.error):  # the last cell of a screen cannot be written
                text = line.text.ljust(width - 1) if line.style == "selected" else line.text
                self._screen.addnstr(row, 0, text, width, self._colours.get(line.style, 0))
        self._screen.refresh()

    def _on_key(self, key: int) -> bool:
        """Act on the key. Return whether to go on."""
        self._said = ""
        if self._confirming is not None:
            if key in (ord("y"), ord("Y")):
                self._pages.act(*self._confirming)
            self._confirming = None
            return True
        action = next((each for each in self._offered() if ord(each.key) == key), None)
        if action is not None:
            self._confirming = (action, self._state.jobs[self._selected or ""])
            return True
        return self._on_view_key(key)

    def _on_view_key(self, key: int) -> bool:  # noqa: C901 (one flat case per key)
        match key:
            case 113:  # q
                return False
            case 27 | 8 | 127 | curses.KEY_BACKSPACE | curses.KEY_LEFT:
                self._show("overview")
            case curses.KEY_UP | 107:  # k
                self._move(-1)
            case curses.KEY_DOWN | 106:  # j
                self._move(1)
            case curses.KEY_PPAGE:
                self._move(-10)
            case curses.KEY_NPAGE:
                self._move(10)
            case 10 | 13 | curses.KEY_ENTER | curses.KEY_RIGHT if self._selected is not None:
                self._show("details")
            case 108 if self._selected is not None:  # l
                self._show("logs")
            case 101:  # e
                self._show("events")
            case 115:  # s
                self._sort = SORTS[(SORTS.index(self._sort) + 1) % len(SORTS)]
            case 114:  # r
                self._reverse = not self._reverse
        return True

    def _show(self, what: str) -> None:
        self._shown, self._content, self._top = what, [], 0
        self._asked, self._read_at = None, float("-inf")

    def _move(self, by: int) -> None:
        if self._shown != "overview":
            self._top += by
            return
        ids = [job.id for job in self._jobs()]
        if ids:
            at = ids.index(self._selected) if self._selected in ids else 0
            self._selected = ids[max(0, min(len(ids) - 1, at + by))]
