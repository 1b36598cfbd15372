"""Every key in redis, once: name, type, who writes it, how long it lives.

All carry the cluster's prefix (``grass:<cluster>:``), so a redis of your own can serve several clusters.
"A" is the master-agent, whose writes are fenced (``AgentStore.commit``); "P" the API servers; "N" one node-agent.

"M" is the monitor, which logs in as A's redis user.

key                      type     writer  content, lifetime
fence                    string   A       number of the lease that may write; grows by one with every takeover
format                   string   A       ``grass.wire.version.FORMAT`` of who wrote all this; one
commit                   string   A       number of the last commit, so that a repeated one does nothing
lease                    string   A       who took the fence last, for people to read (ADR 4)
cursor                   hash     A       stream name → last entry taken
tickets                  stream   P       requests; A removes each entry with the commit that took it
specs                    hash     P, A    job id → specification; removed with the job
job-files                hash     P, A    job id → text of its file, compressed, to be shown; removed with the job
jobs                     hash     P, A    job id → job record; P writes only the first, with the ticket, in one step
jobs-in:<state>:<user>   zset     P, A    jobs in this state, of the user or (empty) of all; removed with the job
live                     hash     P, A    job name → id of its run that has not ended; without one the name is free
names                    hash     P, A    job name → id of the latest run
deleted                  hash     A       job name → id of its newest run, which was deleted while older ones are kept
tasks:<job id>           hash     A       <component>.<index> → task record; a task that never left PENDING has none
operations:<job id>      hash     A       id → operation record; all that go on, and the newest OPERATIONS_KEPT
attempts:<job id>        hash     A       earlier attempts of tasks, up to ATTEMPTS_KEPT; removed with the job
schedules                hash     A       name → schedule record
nodes                    hash     A       name → node record
images                   hash     P       name → digest of the image that its user pushed last, and who; MOST_IMAGES
node:<n>:desired         hash     A       attempt key → entry
node:<n>:launch          hash     A       launch key → template
node:<n>:addresses       hash     A       job id → addresses file
node:<n>:membership      hash     A       launch key → membership; removed with the job
node:<n>:changes         stream   A       changes of the four above; trimmed to CHANGES_KEPT
node:<n>:reports         stream   N       what happened there; removed by A once taken, by N if a newer heartbeat came
node:<n>:checks          stream   A       checks of the node; trimmed to CHECKS_KEPT
node:<n>:usage           stream   N       samples of the machine and its tasks, every 2 s; trimmed to USAGE_KEPT
history:node:<n>         hash     M       <seconds of a point>/<chunk> → its curves (ADR 16); removed with the node
history:job:<job id>     hash     M       the same of its tasks, and their own figures; removed with the job, or if old
history:cluster          hash     M       the same of the whole cluster; one
history:cursor           hash     M       usage stream → last entry taken
history:jobs             hash     M       job id → size of its history; bounded by HISTORY_JOBS_KEPT and …_CHUNKS_KEPT
findings                 hash     M       job id → what rules found about it, and holds now; removed with its end
revoked                  stream   A       nodes that were removed, and when; trimmed to REVOKED_KEPT
wakeups                  stream   N       name of a node that has reports to take; trimmed to WAKEUPS_KEPT (ADR 7)
plans                    stream   A       answers to tickets of kind `plan`; trimmed to PLANS_KEPT
usage                    hash     A       user → decayed use of the cluster, for fair shares
kept-files               hash     A       user → what the user's files in the share take, if quotas limit that
events                   stream   A, P    who did what, and what happened; trimmed to EVENTS_KEPT
notifications            hash     A       id → notification to deliver; removed when it was delivered or given up
ends                     stream   A       job id and record of jobs that ended, for who waits; trimmed to ENDS_KEPT
feed                     stream   A       names of what each commit changed, for the change feed; trimmed to FEED_KEPT
session:<id>             string   P       a client's session: key, user, key id, end (ADR 12); expires
session:<id>:<request>   string   P       a request of a session that was seen; expires after twice as long
write-check              string   P       1; written to see whether the store takes writes; expires in a second
standby                  hash     A       `record`: how far the standby is, if there is one; one
consent                  string   A       1: the witness has noted that the master goes on alone; until it is together
alone                    hash     A, P    PID:NUMBER of those who acknowledge without the standby, until it is back
restored                 hash     –       `record`: times of the backup and of its restore, if this store is from one
cloud                    string   P       who autoscales, until when, and what the machines cost; one
horizon                  string   P       up to when requests without a session may have been accepted; one
shared:<space>:<key>     string   N       a value that tasks of a job share; expires after a week at most. <space>
                                          derives from the job's secret: only nodes with a part of the job know it
queues                   hash     P       name of a work queue → its record; its user removes it, or its job's end
queue:<queue>            hash     P       name → item that is not done, and (empty) a tally; removed with the queue
queue-snapshots:<queue>  hash     P       name of a snapshot → its items; SNAPSHOTS_KEPT; removed with the queue
queue-request:<id>       string   P       answer to a step, for its repetition; expires in REPEATED_SECONDS
queue-writer             string   P       id of the API server that may write queues; one
queue-calls              stream   N       steps of tasks; P removes each with its answer; trimmed to CALLS_KEPT
node:<n>:answers         stream   P       answers to the steps of tasks of this node; trimmed to CALLS_KEPT
join:<digest>            string   P       a join token, by the SHA-256 of its secret: uses left, by whom; expires
join-tokens              hash     P       digests of join tokens; P removes those that have expired
join:name:<node>         string   P       id of the join that goes on under this name; expires in seconds

Channel ``shared:<space>``: keys of the job's values that changed. N publishes and subscribes.
"""

from __future__ import annotations

CHANGES_KEPT = 2_000
EVENTS_KEPT = 100_000
CHECKS_KEPT = 50
WAKEUPS_KEPT = 10_000
REVOKED_KEPT = 1_000
"""Removed nodes whose certificates other nodes refuse. Each is needed for two days, until the certificate expires."""
ENDS_KEPT = 256
FEED_KEPT = 1_000
"""An entry is a few names, at most those of the tasks that one commit may change."""
ENDED_AT_MOST = 16_384
"""Characters of a record among the ends. To ask for a longer one takes no time beside what else is done with it."""
USAGE_KEPT = 60
"""Samples: two minutes. The monitor keeps what is older, in packed form."""
HISTORY_JOBS_KEPT = 1_000
"""Jobs whose histories are kept."""
HISTORY_CHUNKS_KEPT = 100_000
"""Chunks in the histories of all jobs, of at most 1.5 KiB: 300 to 600 bytes as a rule."""
PLANS_KEPT = 256
"""More than can be waited for at once."""
OPERATIONS_KEPT = 50
"""Ended operations of one job."""
CALLS_KEPT = 10_000
SNAPSHOTS_KEPT = 8
"""Snapshots of one queue."""
REPEATED_SECONDS = 120
MOST_IMAGES = 10_000
SESSION_SECONDS = 3600
RECORD = "record"
"""The only field of ``restored``, a hash because nodes may read those, and of ``standby``."""


class Keys:
    """The names above under one prefix."""

    def __init__(self, prefix: str) -> None:
        self.prefix = prefix
        self.fence = prefix + "fence"
        self.commit = prefix + "commit"
        self.format = prefix + "format"
        self.lease = prefix + "lease"
        self.cursor = prefix + "cursor"
        self.tickets = prefix + "tickets"
        self.specs = prefix + "specs"
        self.job_files = prefix + "job-files"
        self.jobs = prefix + "jobs"
        self.live = prefix + "live"
        self.names = prefix + "names"
        self.deleted = prefix + "deleted"
        self.schedules = prefix + "schedules"
        self.nodes = prefix + "nodes"
        self.events = prefix + "events"
        self.ends = prefix + "ends"
        self.notifications = prefix + "notifications"
        self.feed = prefix + "feed"
        self.wakeups = prefix + "wakeups"
        self.revoked = prefix + "revoked"
        self.usage = prefix + "usage"
        self.kept_files = prefix + "kept-files"
        self.horizon = prefix + "horizon"
        self.write_check = prefix + "write-check"
        self.plans = prefix + "plans"
        self.restored = prefix + "restored"
        self.standby = prefix + "standby"
        self.cloud = prefix + "cloud"
        self.alone = prefix + "alone"
        self.consent = prefix + "consent"
        self.images = prefix + "images"
        self.join_tokens = prefix + "join-tokens"
        self.cluster_history = prefix + "history:cluster"
        self.findings = prefix + "findings"
        self.history_cursor = prefix + "history:cursor"
        self.history_jobs = prefix + "history:jobs"
        self.queues = prefix + "queues"
        self.queue_writer = prefix + "queue-writer"
        self.queue_calls = prefix + "queue-calls"

    def jobs_in(self, state: str, user: str) -> str:
        """Return the key of the sorted set of jobs in a state. ``user``: empty for all."""
        return f"{self.prefix}jobs-in:{state}:{user}"

    def tasks(self, job_id: str) -> str:
        return f"{self.prefix}tasks:{job_id}"

    def operations(self, job_id: str) -> str:
        return f"{self.prefix}operations:{job_id}"

    def attempts(self, job_id: str) -> str:
        return f"{self.prefix}attempts:{job_id}"

    def desired(self, node: str) -> str:
        return f"{self.prefix}node:{node}:desired"

    def launch(self, node: str) -> str:
        return f"{self.prefix}node:{node}:launch"

    def addresses(self, node: str) -> str:
        return f"{self.prefix}node:{node}:addresses"

    def membership(self, node: str) -> str:
        return f"{self.prefix}node:{node}:membership"

    def changes(self, node: str) -> str:
        return f"{self.prefix}node:{node}:changes"

    def reports(self, node: str) -> str:
        return f"{self.prefix}node:{node}:reports"

    def checks(self, node: str) -> str:
        return f"{self.prefix}node:{node}:checks"

    def node_usage(self, node: str) -> str:
        return f"{self.prefix}node:{node}:usage"

    def node_history(self, node: str) -> str:
        return f"{self.prefix}history:node:{node}"

    def job_history(self, job_id: str) -> str:
        return f"{self.prefix}history:job:{job_id}"

    def of_node(self, node: str) -> list[str]:
        """All that is kept for one node, besides its record."""
        state = (self.desired, self.launch, self.addresses, self.membership)
        streams = (self.changes, self.reports, self.checks, self.node_usage, self.answers)
        return [key(node) for key in (*state, *streams, self.node_history)]

    def answers(self, node: str) -> str:
        return f"{self.prefix}node:{node}:answers"

    def queue(self, name: str) -> str:
        return f"{self.prefix}queue:{name}"

    def queue_snapshots(self, name: str) -> str:
        return f"{self.prefix}queue-snapshots:{name}"

    def queue_request(self, request_id: str) -> str:
        return f"{self.prefix}queue-request:{request_id}"

    def shared(self, space: str, key: str) -> str:
        return f"{self.shared_channel(space)}:{key}"

    def shared_channel(self, space: str) -> str:
        return f"{self.prefix}shared:{space}"

    def join(self, digest: str) -> str:
        return f"{self.prefix}join:{digest}"

    def joining(self, node: str) -> str:
        return self.join(f"name:{node}")

    def session(self, session: str) -> str:
        return f"{self.prefix}session:{session}"

    def session_request(self, session: str, request_id: str) -> str:
        return f"{self.session(session)}:{request_id}"
