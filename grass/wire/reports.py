"""Reports of node-agents, on the stream ``node:<n>:reports``. Written by one node-agent, taken by the master-agent.

The field ``body`` of an entry is one of these; ``kind`` in it says which. The field ``at`` is the node's wall clock
when it was sent. If that is more than 30 s from the store's clock, the master corrects the times in the report.
"""

from __future__ import annotations

from grass.wire.codec import Form
from grass.wire.heartbeat import Heartbeat
from grass.wire.hello import Hello
from grass.wire.task_events import TaskEvents

Report = Hello | Heartbeat | TaskEvents

REPORT: Form[Report] = Form(Report)
