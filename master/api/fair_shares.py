"""`/v1/shares`: fair shares: who has how much of the cluster, and who is served next.

The order is that of the planner (``master/planning``): priority, then the user's share, then submission. Used by
``handlers``.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from grass.errors import UndecodableError, UnreachableError
from grass.model.lifecycle import JobState, NodeState
from grass.model.policy import FILES, SPACE, ClusterPolicy
from grass.store.job_index import BEGUN, EVERYBODY, WAITING
from grass.system import clock
from grass.wire.api_figures import KEPT_ANSWER, KeptQuestion
from grass.wire.codec import encode
from grass.wire.job_record import ComponentRecord, JobRecord
from grass.wire.usage_record import UsageRecord
from grass.wire.user_views import FairSharesView, QueuedView, UserFairShare
from master.api.call import Api, Call
from master.api.metrics import ask_monitor

MOST = 2_000
"""Active jobs that are counted, the newest."""
QUEUE = 50
"""Waiting jobs that are shown, those served first."""
PATIENCE, _PAUSE = 3.0, 0.1
"""Seconds that a measurement of the share may take before the last figures are shown, and between two looks at it."""
_GONE = (NodeState.LEFT, NodeState.LOST, NodeState.JOINING, NodeState.STOPPED)


def show_fair_shares(call: Call) -> FairSharesView:
    store = call.api.store
    active = store.runs(store.job_index.newest([BEGUN, WAITING], EVERYBODY, MOST, None))
    past = decayed(store.usage(), clock.steady(), clock.boot_id(), call.api.config.master.usage_half_life)
    shares = _fair_shares(
        _allocated(call, active, kept_now(call.api)), _whole(call), past, active, call.api.config.master
    )
    by_user = {share.user: share for share in shares}
    waiting = [record for record in active if record.state is JobState.QUEUED]
    order = sorted(waiting, key=lambda record: (-record.priority, _counted(by_user[record.user]), record.submitted))
    queue = tuple(_queued(call, record, by_user[record.user]) for record in order[:QUEUE])
    return FairSharesView(tuple(shares), queue)


def decayed(records: Mapping[str, UsageRecord], now: float, boot: str, half_life: float) -> dict[str, float]:
    """Return the present use of each user. Moments of an earlier boot cannot be compared, and count as now."""
    ages = {user: max(0.0, now - record.at) if record.boot == boot else 0.0 for user, record in records.items()}
    return {user: record.value * 0.5 ** (ages[user] / half_life) for user, record in records.items()}


def _whole(call: Call) -> Counter[str]:
    whole: Counter[str] = Counter()
    for node in call.api.store.nodes():
        if node.state not in _GONE:
            whole.update(node.resources.amounts())
    return whole


def kept_now(api: Api) -> Mapping[str, Mapping[str, int]]:
    """Return what users with such a quota keep in the share, measured now if that takes ``PATIENCE`` at most."""
    policy = api.config.master
    if not any({SPACE, FILES} & quota.keys() for quota in (*policy.quotas.values(), policy.default_quota)):
        return {}
    since = clock.steady()
    try:
        while True:
            answer = KEPT_ANSWER.decode(ask_monitor(api, encode(KeptQuestion())))
            waited = clock.steady() - since
            if (answer.age is not None and answer.age <= waited) or waited > PATIENCE:
                return answer.users
            clock.sleep(_PAUSE)
    except (UnreachableError, UndecodableError):  # the monitor starts; the master-agent has its last figures
        return api.store.kept_files()


def _allocated(
    call: Call, active: Sequence[JobRecord], kept_files: Mapping[str, Mapping[str, int]]
) -> dict[str, Counter[str]]:
    """Return what tasks on nodes have, by user, and what they keep in the share, if a quota limits it."""
    found: dict[str, Counter[str]] = {}
    for record in active:
        counts = {name: _allocated_tasks(part) for name, part in record.components.items()}
        spec = call.api.store.spec(record.id) if any(counts.values()) else None
        for name, component in spec.components.items() if spec else ():
            amounts = found.setdefault(record.user, Counter())
            for resource, amount in component.resources.amounts().items():
                amounts[resource] += amount * counts.get(name, 0)
    for user, kept in kept_files.items():
        found.setdefault(user, Counter()).update(kept)
    return found


def _allocated_tasks(part: ComponentRecord) -> int:
    """Return how many tasks have resources: not those that wait on a node behind equal ones, and no lost ones."""
    on_node = sum(number for state, number in part.counts.items() if state.on_node)
    return on_node if part.allocated is None else min(on_node, part.allocated)


def _fair_shares(
    allocated: Mapping[str, Counter[str]],
    whole: Counter[str],
    past: Mapping[str, float],
    active: Iterable[JobRecord],
    policy: ClusterPolicy,
) -> list[UserFairShare]:
    """Return the users, whose turn is first; at the same share in order of their names."""
    jobs = [(record.user, record.state is JobState.QUEUED) for record in active]
    running, waiting = (Counter(user for user, queued in jobs if queued is wanted) for wanted in (False, True))
    all_past = sum(past.values())
    users = []
    for user in {*allocated, *past, *running, *waiting}:
        amounts = allocated.get(user, Counter())
        now = max((amount / whole[name] for name, amount in amounts.items() if whole[name] > 0), default=0.0)
        part = past.get(user, 0.0) / all_past if all_past > 0 else 0.0
        hours, quota = past.get(user, 0.0) / 3600, policy.quotas.get(user, policy.default_quota)
        users.append(UserFairShare(user, now, part, hours, running[user], waiting[user], dict(amounts), dict(quota)))
    return sorted(users, key=lambda share: (_counted(share), share.user))


def _counted(share: UserFairShare) -> float:
    return share.past + share.share


def _queued(call: Call, record: JobRecord, share: UserFairShare) -> QueuedView:
    why = f"priority {record.priority}; {record.user} has {share.share:.0%} now, and had {share.past:.0%} recently"
    if record.held:
        why = f"held by {record.held}"
    job = record.id if call.sees(record.user) else None
    return QueuedView(job, record.user, record.priority, record.submitted, why)
