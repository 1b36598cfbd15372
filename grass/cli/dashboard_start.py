"""What the dashboard's dialog to start a job does: reads a file as `grass job start` does.

Used by ``dashboard``.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from grass.cli import job_plan
from grass.cli.apply import JobDocument, checked
from grass.cli.documents import Source, sources_in
from grass.errors import InputError
from grass.manifest.values import not_text
from grass.model.secrets import REDACTED

if TYPE_CHECKING:
    from grass.api.client import Client
    from grass.wire.job_views import StartedView


class JobFiles:
    """Starts what a user pasted or chose. Relative paths begin in the current folder of `grass dashboard`."""

    def plan(self, client: Client, name: str, text: str) -> dict[str, object]:
        """Return what would happen, as sentences and rows of text; or ``problem``: what is wrong in the file."""
        try:
            source = _source(name, text)
            with source.named():
                plan = client.plan(source.document)
        except InputError as error:
            return {"problem": str(error)}
        return {
            "name": plan.name,
            "head": job_plan.head(plan),
            "rows": job_plan.rows(plan),
            "evictions": job_plan.evicted(plan.evictions) if plan.evictions else "",
            "warnings": [*source.warnings, *plan.warnings],
            "sends": list(source.sends),
            "folder": str(Path.cwd()) if client.on_this_machine else "",
        }

    def start(self, client: Client, name: str, text: str) -> StartedView:
        """Start the job; return its name, id and warnings."""
        source = _source(name, text)
        with source.named():
            return client.start(source.document, cwd=source.folder, env=source.env, file=source.file)


def _source(name: str, text: str) -> Source:
    file = Path(name).name
    if REDACTED in text:
        raise InputError(f"{file or 'job file'}: secrets read {REDACTED}; put them back, or remove them")
    try:
        content = text.encode()
    except UnicodeEncodeError:
        raise InputError(f"{file or 'job file'}: must be UTF-8 text, got {not_text(text)}") from None
    sources = sources_in(content, file or "job file", Path(), file)
    if len(sources) > 1:
        raise InputError(f"{file or 'job file'}: has {len(sources)} documents; start them with `grass job start`")
    [found] = checked(sources, {})
    if not isinstance(found, JobDocument):
        raise InputError(f"{file or 'job file'}: changes a job that runs; apply it with `grass apply`")
    return found.source
