"""Define the command `grass doctor`. Loaded by ``main``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from functools import partial
from typing import TYPE_CHECKING

import click

from grass.cli.command import Command
from grass.cli.exits import Exit
from grass.cli.invocation import Invocation, pass_invocation
from grass.cli.output import Result
from grass.cli.table import paragraph
from grass.system import environment

if TYPE_CHECKING:
    from grass.provision.provisioner import Finding


@click.command(cls=Command)
@pass_invocation
def doctor(invocation: Invocation) -> Exit:
    """Check whether this machine has what a cluster needs. Exit code 1 if something is missing."""
    from grass.provision.doctor import doctor as examine

    findings = examine(environment.grass_home())
    wire = [asdict(finding) for finding in findings]
    failed = [finding.name for finding in findings if not finding.ok]
    invocation.output.show(Result(wire, partial(finding_lines, findings), failed))
    return Exit.JOB_FAILED if failed else Exit.OK


def finding_lines(findings: Sequence[Finding], width: int | None) -> list[str]:
    lines = []
    for finding in findings:
        mark = "✓" if finding.ok else "✗"
        lines += [f"{mark} {line}" for line in paragraph(f"{finding.name}: {finding.message}", width and width - 2)]
        if not finding.ok and finding.fix:
            lines += paragraph(finding.fix, width, indent=4)
    return lines
