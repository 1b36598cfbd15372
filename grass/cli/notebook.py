"""Define `grass notebook` and `grass tensorboard`: a web program as a job, and its page on this machine.

Loaded by ``main``.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import click

from grass.cli.command import Command
from grass.cli.invocation import Invocation, pass_invocation
from grass.cli.job_open import show_page
from grass.cli.job_text import job_line
from grass.cli.run_options import Written
from grass.cli.values import JOB, Whole
from grass.cli.wait import until_started
from grass.errors import ConflictError, GrassError, NotFoundError, WaitTimeoutError
from grass.model.names import MAX_NAME
from grass.system import entropy

if TYPE_CHECKING:
    from grass.api.client import Client
    from grass.manifest.document import Document

_PART = "page"
_LOOK = 0.5
"""Seconds between looks at whether the page is there."""
_TOKEN = "JUPYTER_TOKEN"  # noqa: S105 (the name of a variable that Jupyter reads)


def _where(command: Callable[..., Any]) -> Callable[..., Any]:
    for option in reversed(
        (
            click.option("--cpu", type=Written("cores", "cpu"), metavar="CORES", help="Cores. [default: 1]"),
            click.option("--memory", type=Written("size", "memory"), metavar="SIZE", help="Memory, such as 8GiB."),
            click.option("--image", metavar="IMAGE", help="Run in a container of this image, which has the program."),
            click.option(
                "--local-port", type=Whole(1, 65535), metavar="N", help="The port here. [default: a free one]"
            ),
            click.option("--no-browser", is_flag=True, help="Print the address, and open no browser."),
        )
    ):
        command = option(command)
    return command


@click.command(cls=Command)
@click.option("--gpu", type=Written("devices", "gpu"), metavar="N", help="GPUs, or a share such as 0.25.")
@_where
@click.option("--name", default="notebook", metavar="NAME", help="The job's name. [default: notebook]")
@click.option("--timeout", type=Written("duration", "duration"), default="12h", metavar="DURATION", show_default=True)
@click.option(
    "--idle",
    type=Written("duration", "duration"),
    default="1h",
    metavar="DURATION",
    show_default=True,
    help="End kernels that computed nothing for so long, and then the job.",
)
@pass_invocation
def notebook(
    invocation: Invocation,
    /,
    name: str,
    timeout: str,
    idle: str,
    local_port: int | None,
    no_browser: bool,
    **wants: Any,
) -> None:
    """Start JupyterLab as a job, and open it in the browser; a second call opens the one that runs.

    Ctrl-C closes the page here; the job goes on until `grass job stop notebook`, its time limit, or until it is idle.
    """
    from grass.manifest.quantities import duration

    client = invocation.client()
    seconds = int(duration(idle))
    command = " ".join(
        (
            _or_say("jupyter-lab", "jupyterlab"),
            'exec jupyter-lab --no-browser --ip=127.0.0.1 --port="$GRASS_PORT_PAGE" --ServerApp.port_retries=0',
            f"--ServerApp.shutdown_no_activity_timeout={seconds} --MappingKernelManager.cull_idle_timeout={seconds}",
            f"--MappingKernelManager.cull_interval={max(1, min(60, seconds))}",
            "--MappingKernelManager.cull_connected=True",
            '$(test "$(id -u)" -ne 0 || echo --allow-root)',  # in containers, and on a machine of root
        )
    )
    job_id = _running(client, name)
    if job_id is None:
        part = {"command": command, "env": {_TOKEN: entropy.password()}, **_part(wants)}
        job_id = _start(invocation, {"name": name, "timeout": timeout, "components": {_PART: part}})
    token = _output(client, job_id, f'printf %s "${_TOKEN}"')
    show_page(invocation, job_id, _PART, 0, local_port=local_port, browser=not no_browser, path=f"lab?token={token}")
    invocation.output.note(f"`grass job stop {name}` ends it")


@click.command(cls=Command)
@click.argument("name", type=JOB)
@_where
@click.option("--timeout", type=Written("duration", "duration"), default="4h", metavar="DURATION", show_default=True)
@pass_invocation
def tensorboard(
    invocation: Invocation, /, name: str, timeout: str, local_port: int | None, no_browser: bool, **wants: Any
) -> None:
    """Show what a job wrote for TensorBoard to its GRASS_OUTPUT, while it runs and afterwards. Ends with Ctrl-C."""
    client = invocation.client()
    view = client.job(name, specification=False)
    board = view.name[: MAX_NAME - len("-board")].rstrip("-._") + "-board"
    command = (
        f"{_or_say('tensorboard', 'tensorboard')} exec tensorboard --host 127.0.0.1 "
        f'--port "$GRASS_PORT_PAGE" --logdir "$GRASS_DATA"/jobs/{shlex.quote(view.id)}'
    )
    job_id = _running(client, board) or _start(
        invocation,
        {"name": board, "timeout": timeout, "components": {_PART: {"command": command, **_part(wants)}}},
    )
    try:
        show_page(invocation, job_id, _PART, 0, local_port=local_port, browser=not no_browser)
    finally:
        with suppress(GrassError):
            client.stop(job_id)


def _or_say(program: str, package: str) -> str:
    """Return shell text that says at once what to install if the program is missing."""
    text = f"{program}: not found; install it where the task runs: pip install {package}"
    return f"command -v {program} >/dev/null || {{ echo '{text}' >&2; exit 127; }};"


def _part(wants: Mapping[str, str | None]) -> Document:
    resources = {key: wants[key] for key in ("cpu", "memory", "gpu") if wants.get(key) is not None}
    image = {"image": wants["image"]} if wants.get("image") else {}
    page = {"ports": [_PART], "web": _PART, "ready": {"port": _PART, "timeout": "5m"}}
    return {**page, **image, **({"resources": resources} if resources else {})}


def _running(client: Client, name: str) -> str | None:
    """Return the id of the active job of that name; None: there is none. Raises ConflictError if it has no page."""
    try:
        job = client.job(name)
    except NotFoundError:
        return None
    if job.state.ended:
        return None
    if job.specification and _PART not in job.specification.components:
        raise ConflictError(f"job {name}: is active, and was not started by this command; use another name")
    return job.id


def _start(invocation: Invocation, document: Document) -> str:
    """Start the job, and wait until its page is there. Raises ConflictError if the job has ended before."""
    client, output = invocation.client(), invocation.output
    job = client.start(document)
    for warning in job.warnings:
        output.warn(warning)
    output.note(f"{job.name}: started as {job.id}")
    until_started(client, output, job.id)
    while True:
        try:
            ended = client.wait(job.id, timeout=_LOOK)
        except WaitTimeoutError:
            if client.tasks(job.id)[0].ready:
                return job.id
        else:
            raise ConflictError(f"{job_line(ended)}; `grass job logs {job.name}` shows its output")


def _output(client: Client, job_id: str, line: str) -> str:
    """Return what a line of the shell prints beside the task."""
    execution = client.execute(job_id, f"{_PART}.0", ["/bin/sh", "-c", line])
    try:
        execution.send(b"", end=True)
        return b"".join(data for stream, data in execution.output() if stream == "stdout").decode()
    finally:
        execution.close()
