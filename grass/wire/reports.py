"""Reports of node-agents, on the stream ``node:<n>:reports``. Written by one node-agent, taken by the master-agent.

The field ``body`` of an entry is one of these; ``kind`` in it says which. The field ``at`` is the node's wall clock
when the report was sent. If it differs from the store's clock by more than 30 s, the master corrects the report's
times.
"""

from __future__ import annotations

from grass.wire.codec import Form
from grass.wire.daemon_end import DaemonEnds
from grass.wire.heartbeat import Heartbeat
from grass.wire.hello import Hello
from grass.wire.offer_report import OfferReport
from grass.wire.task_events import TaskEvents

Report = Hello | Heartbeat | TaskEvents | DaemonEnds | OfferReport

REPORT: Form[Report] = Form(Report)
