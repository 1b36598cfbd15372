"""`/v1/jobs/{job}/file`: the job file as its user wrote it, without secrets; otherwise one that starts the same job.

Who may not see the values of its variables gets the second kind: in a text, they may be anywhere.

Used by ``handlers``.
"""

from __future__ import annotations

from grass.errors import NotFoundError
from grass.manifest.export.formats import FORMATS
from grass.manifest.secret_text import shown_text
from grass.wire.job_file import unpack
from grass.wire.job_views import JobFileView
from master.api.call import Call
from master.api.job_changes import find_job
from master.api.views import specification


def show_file(call: Call, job: str) -> JobFileView:
    record = find_job(call, job)
    file, values = call.api.store.file(record.id), call.sees_values(record.user)
    if values and file is not None and (text := shown_text(unpack(file))) is not None:
        return JobFileView(file.name or f"{record.name}.yml", text, original=True)
    spec = call.api.store.spec(record.id)
    if spec is None:
        raise NotFoundError(f"job {record.name}: not found; it is being deleted")
    return JobFileView(f"{record.name}.yml", FORMATS["native"](specification(spec, values=values)).text, original=False)
