"""Every key in redis, once: name, type, who writes it, how long it lives.

All carry the cluster's prefix (``grass:<cluster>:``), so a redis of your own can serve several clusters.
"A" is the master-agent, whose writes are fenced (``AgentStore.commit``); "P" the API servers; "N" one node-agent.

key                      type     writer  content, lifetime
fence                    string   A       number of the lease that may write; grows by one with every takeover
commit                   string   A       number of the last commit, so that a repeated one does nothing
lease                    string   A       who took the fence last, for people to read (ADR 4)
cursor                   hash     A       stream name → last entry taken
tickets                  stream   P       requests; A removes each entry with the commit that took it
specs                    hash     P, A    job id → specification; removed with the job
jobs                     hash     P, A    job id → job record; P writes only the first, with the ticket, in one step
jobs-in:<state>:<user>   zset     P, A    jobs in this state, of the user or (empty) of all; removed with the job
live                     hash     P, A    job name → id of its run that has not ended; without one the name is free
names                    hash     P, A    job name → id of the latest run
tasks:<job id>           hash     A       <component>.<index> → task record; a task that never left PENDING has none
schedules                hash     A       name → schedule record
nodes                    hash     A       name → node record
node:<n>:desired         hash     A       attempt key → entry
node:<n>:launch          hash     A       launch key → template
node:<n>:addresses       hash     A       job id → addresses file
node:<n>:changes         stream   A       changes of the three above; trimmed to CHANGES_KEPT
node:<n>:reports         stream   N       what happened there; removed by A once taken, by N if a newer heartbeat came
wakeups                  stream   N       name of a node that has reports to take; trimmed to WAKEUPS_KEPT (ADR 7)
plans                    stream   A       answers to tickets of kind `plan`; trimmed to PLANS_KEPT
usage                    hash     A       user → decayed use of the cluster, for fair shares
events                   stream   A, P    who did what, and what happened; trimmed to EVENTS_KEPT
ends                     stream   A       job id and record of jobs that ended, for who waits; trimmed to ENDS_KEPT
session:<id>             string   P       a client's session: key, user, key id, end (ADR 12); expires
session:<id>:<request>   string   P       a request of a session that was seen; expires after twice as long
write-check              string   P       1; written to see whether the store takes writes; expires in a second
horizon                  string   P       up to when requests without a session may have been accepted; one
join:<digest>            string   P       a join token, by the SHA-256 of its secret: uses left, by whom; expires
join:name:<node>         string   P       id of the join that goes on under this name; expires in seconds
"""

from __future__ import annotations

CHANGES_KEPT = 2_000
EVENTS_KEPT = 100_000
WAKEUPS_KEPT = 10_000
ENDS_KEPT = 256
ENDED_AT_MOST = 16_384
"""Characters of a record among the ends. To ask for a longer one takes no time beside what else is done with it."""
PLANS_KEPT = 256
"""More than can be waited for at once."""
SESSION_SECONDS = 3600


class Keys:
    """The names above under one prefix."""

    def __init__(self, prefix: str) -> None:
        self.prefix = prefix
        self.fence = prefix + "fence"
        self.commit = prefix + "commit"
        self.lease = prefix + "lease"
        self.cursor = prefix + "cursor"
        self.tickets = prefix + "tickets"
        self.specs = prefix + "specs"
        self.jobs = prefix + "jobs"
        self.live = prefix + "live"
        self.names = prefix + "names"
        self.schedules = prefix + "schedules"
        self.nodes = prefix + "nodes"
        self.events = prefix + "events"
        self.ends = prefix + "ends"
        self.wakeups = prefix + "wakeups"
        self.usage = prefix + "usage"
        self.horizon = prefix + "horizon"
        self.write_check = prefix + "write-check"
        self.plans = prefix + "plans"

    def jobs_in(self, state: str, user: str) -> str:
        """``user``: empty for all."""
        return f"{self.prefix}jobs-in:{state}:{user}"

    def tasks(self, job_id: str) -> str:
        return f"{self.prefix}tasks:{job_id}"

    def desired(self, node: str) -> str:
        return f"{self.prefix}node:{node}:desired"

    def launch(self, node: str) -> str:
        return f"{self.prefix}node:{node}:launch"

    def addresses(self, node: str) -> str:
        return f"{self.prefix}node:{node}:addresses"

    def changes(self, node: str) -> str:
        return f"{self.prefix}node:{node}:changes"

    def reports(self, node: str) -> str:
        return f"{self.prefix}node:{node}:reports"

    def of_node(self, node: str) -> list[str]:
        """All that is kept for one node, besides its record."""
        return [key(node) for key in (self.desired, self.launch, self.addresses, self.changes, self.reports)]

    def join(self, digest: str) -> str:
        return f"{self.prefix}join:{digest}"

    def joining(self, node: str) -> str:
        return self.join(f"name:{node}")

    def session(self, session: str) -> str:
        return f"{self.prefix}session:{session}"

    def session_request(self, session: str, request_id: str) -> str:
        return f"{self.session(session)}:{request_id}"
