"""Define the command `grass dashboard`. Loaded by ``main``."""

from __future__ import annotations

import signal
import socket
import webbrowser
from contextlib import suppress

import click

from grass.cli.command import Command
from grass.cli.invocation import Invocation, pass_invocation
from grass.cli.output import Result
from grass.cli.values import DURATION, Whole
from grass.errors import InputError
from grass.system import clock

_SHARED_FOR = 12 * 3600.0


@click.command(cls=Command)
@click.option("--port", type=Whole(0, 65535), default=0, help="Port to listen on. [default: a free one]")
@click.option("--no-browser", is_flag=True, help="Do not open a browser; only print the link.")
@click.option("--share", is_flag=True, help="Serve a read-only page to other machines, for a wall screen.")
@click.option("--address", metavar="NAME", help="With --share: name or IP address of this machine, for browsers.")
@click.option("--for", "seconds", type=DURATION, help="With --share: how long the link works. [default: 12h]")
@pass_invocation
def dashboard(
    invocation: Invocation, port: int, no_browser: bool, share: bool, address: str | None, seconds: float | None
) -> None:
    """Show the cluster on a web page, served from this machine. Ctrl-C ends it.

    The link contains a secret; whoever opens it acts as you. With --share the page is read-only, without logs, and the
    link works for a limited time.
    """
    if not share and (address is not None or seconds is not None):
        raise InputError("--address and --for: only with --share")
    name = invocation.existing_cluster()
    invocation.client().status()  # an error now is clearer than an empty page
    from grass.api.client import Client
    from grass.cli.dashboard_start import JobFiles
    from grass.dashboard.server import DashboardServer
    from grass.files.access import access_to
    from grass.files.browse import SharedFiles

    expires = clock.steady() + (seconds or _SHARED_FOR) if share else None
    shared_at = (address or socket.gethostname()) if share else None
    files = SharedFiles(lambda: access_to(name))
    server = DashboardServer(
        lambda: Client(name), port, files=files, job_files=JobFiles(), address=shared_at, expires=expires
    )
    signal.signal(signal.SIGTERM, signal.default_int_handler)

    def show() -> None:
        invocation.output.record(Result({"url": server.link}, lambda _: [server.link], [server.link]))
        invocation.output.note("Ctrl-C ends the dashboard.")
        if not (no_browser or share):
            webbrowser.open(server.link)

    with suppress(KeyboardInterrupt):
        server.serve(show)
