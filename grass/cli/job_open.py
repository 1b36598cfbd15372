"""Define `grass job open`: show the web page of a task on this machine. Loaded by ``job``; used by ``notebook``."""

from __future__ import annotations

import os
import webbrowser

import click

from grass.cli.command import Command
from grass.cli.invocation import Invocation, pass_invocation
from grass.cli.output import Result
from grass.cli.values import JOB, PART, Part, Whole
from grass.errors import InputError


@click.command("open", cls=Command)
@click.argument("name", type=JOB)
@click.argument("part", type=PART, required=False, metavar="[COMPONENT[.INDEX]]")
@click.option("--port", metavar="NAME", help="The port of the task. [default: the one of its page (`web`)]")
@click.option("--local-port", type=Whole(1, 65535), metavar="N", help="The port here. [default: a free one]")
@click.option("--browser", is_flag=True, help="Open the page in a browser.")
@pass_invocation
def open_page(
    invocation: Invocation, name: str, part: Part | None, port: str | None, local_port: int | None, browser: bool
) -> None:
    """Forward the web page of a task to this machine. Ends with Ctrl-C, or when the task ends.

    Prints the address. The data goes through the encrypted API; no port of the nodes is opened. Works for any protocol
    over TCP, not only for pages.
    """
    component, index = (None, None) if part is None else (part.component, part.index)
    show_page(invocation, name, component, index, port=port, local_port=local_port, browser=browser)


def show_page(
    invocation: Invocation,
    name: str,
    component: str | None,
    index: int | None,
    *,
    port: str | None = None,
    local_port: int | None = None,
    browser: bool = False,
    path: str = "",
) -> None:
    """Forward a page until Ctrl-C, or until its task ends. ``path``: what follows the address."""
    try:
        forwarding = invocation.client().forward(name, component, index, port=port, local_port=local_port or 0)
    except OSError as error:
        reason = os.strerror(error.errno).lower() if error.errno else str(error)
        if local_port is None:
            raise InputError(f"no port of this machine can be opened: {reason}") from error
        raise InputError(f"--local-port {local_port}: {reason}; choose another") from error
    output, url = invocation.output, forwarding.url + path
    try:
        page = {"url": url, "task": forwarding.task, "node": forwarding.node, "port": forwarding.port}
        output.record(Result(page, lambda _: [url], [url]))
        output.note(f"port {forwarding.port} of {forwarding.task} on {forwarding.node}; Ctrl-C ends it")
        if browser and not webbrowser.open(url):
            output.warn("no browser was found; open the address yourself")
        forwarding.serve()
        output.note(f"{forwarding.task} has ended")
    except KeyboardInterrupt:
        output.note("closed")
    finally:
        forwarding.close()
