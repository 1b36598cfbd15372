"""A whole check of nodes, from the job that holds them to the verdicts. Used by `grass node check`.

The ladder: each node alone, level 0 and level 1 at the same time on all; then pairs, as ``grass.checks.rounds`` chooses
them. What a node does not answer is a finding, never an error of the check.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from typing import TYPE_CHECKING, Protocol

from msgspec import structs

from grass.api.check_session import CheckFailed, CheckSession, program
from grass.backoff import Backoff
from grass.checks.answers import added
from grass.checks.judge import good_alone
from grass.checks.rounds import next_pairs
from grass.checks.slowness import disturbed
from grass.errors import ConflictError, GrassError
from grass.model.lifecycle import TaskState
from grass.system import clock
from grass.system.entropy import password
from grass.wire.checks import (
    Alone,
    HeldNode,
    Level,
    Measurements,
    Pair,
    ProbeAnswer,
    ProbeRequest,
    Problem,
)

if TYPE_CHECKING:
    from grass.api.client import Client
    from grass.wire.checks import CheckedView

LOOK_SECONDS, LOAD_SECONDS, PAIR_SECONDS = 6.0, 40.0, 8.0
"""Seconds after which a node, or a pair, has not answered. Measuring takes at most 3, 15 and 3."""
_STARTS = 60.0
"""Seconds for the tasks to start where nobody waits for nodes with tasks."""
SKEW = 30.0
"""Seconds by which a node's clock may differ before Grass corrects the times of its reports."""


class Asked(Protocol):
    """What measures on a node."""

    def ask(self, request: ProbeRequest, seconds: float) -> ProbeAnswer:
        """Return the answer. Raises CheckFailed."""


def check_nodes(
    client: Client,
    nodes: Sequence[str] = (),
    level: Level = 0,
    *,
    image: str | None = None,
    wait: bool = False,
    progress: Callable[[str], object] = lambda _: None,
) -> CheckedView:
    """Check nodes, and return the verdicts. Raises ConflictError if a node has tasks and ``wait`` is not set."""
    begun, since = client.begin_check(nodes, level, image=image, wait=wait), clock.steady()
    try:
        with _Sessions(client, begun.job, begun.nodes) as sessions:
            _wait_for_tasks(client, begun.job, sessions, None if wait else _STARTS, progress)
            sessions.open_rest()
            measured = measure(begun.nodes, sessions.found, level, lambda: begun.at + clock.steady() - since, progress)
            lost = tuple(Alone(name, problems=(Problem("host", why),)) for name, why in sessions.missing.items())
            whole = structs.replace(measured, alone=(*measured.alone, *lost))
            return client.finish_check(begun.job, level, whole)
    except BaseException:
        with suppress(GrassError):
            client.stop(begun.job, grace=0.0)
        raise


def measure(
    nodes: Sequence[HeldNode],
    sessions: Mapping[str, Asked],
    level: Level,
    wall: Callable[[], float],
    progress: Callable[[str], object] = lambda _: None,
    pair_seconds: float = PAIR_SECONDS,
) -> Measurements:
    """Climb the ladder on the nodes that have a session. ``wall``: the master's clock. ``pair_seconds``: how long each
    step of a pair may take."""
    held = {each.name: each for each in nodes if each.name in sessions}
    with ThreadPoolExecutor(max(1, len(held)), "check") as pool:
        progress(f"level 0 on {len(held)} node(s)")
        alone = list(pool.map(lambda each: _look(each, sessions[each.name], wall), held.values()))
        if level >= 1:
            progress(f"level 1 on {len(held)} node(s)")
            alone = list(pool.map(lambda each: _load(each, sessions[each.node]), alone))
        pairs: list[Pair] = []
        paths = {name: each.path for name, each in held.items()}
        while level == 2 and (chosen := next_pairs(good_alone(alone), paths, pairs, disturbed(alone))):
            progress(f"level 2: {', '.join(f'{a} and {b}' for a, b in chosen)}")
            pairs += pool.map(lambda each: _meet(held[each[0]], held[each[1]], sessions, pair_seconds), chosen)
    return Measurements(tuple(alone), tuple(pairs))


def _look(node: HeldNode, session: Asked, wall: Callable[[], float]) -> Alone:
    before = wall()
    request = ProbeRequest("look", node.address, node.gpus, not node.busy)
    try:
        answer = session.ask(request, LOOK_SECONDS)
    except CheckFailed as error:
        return Alone(node.name, problems=(Problem("host", f"level 0: {error}"[:500]),))
    found = added(Alone(node.name), answer)
    early, late = answer.clock - wall(), before - answer.clock
    off = max(early, late)
    if answer.clock and off > 1:
        text = f"its clock is {off:.0f} s {'ahead' if early > late else 'behind'}"
        found = structs.replace(found, problems=(*found.problems, Problem("host", text, grave=off > SKEW)))
    return found


def _load(before: Alone, session: Asked) -> Alone:
    try:
        return added(before, session.ask(ProbeRequest("load"), LOAD_SECONDS))
    except CheckFailed as error:
        return structs.replace(before, problems=(*before.problems, Problem("host", f"level 1: {error}"[:500])))


def _meet(a: HeldNode, b: HeldNode, sessions: Mapping[str, Asked], seconds: float) -> Pair:
    token = password()
    try:
        server = sessions[a.name].ask(ProbeRequest("serve", a.address, token=token, seconds=seconds), LOOK_SECONDS)
        request = ProbeRequest("meet", b.address, peer=a.address, port=server.port, token=token, seconds=seconds)
        answer = sessions[b.name].ask(request, LOOK_SECONDS + 3 * seconds)
    except CheckFailed as error:
        return Pair(a.name, b.name, error=str(error)[:500])
    if answer.error or not isinstance(answer.times, tuple):
        return Pair(a.name, b.name, error=answer.error[:500] or "measured nothing")
    return Pair(a.name, b.name, answer.times)


def _wait_for_tasks(
    client: Client, job: str, sessions: _Sessions, seconds: float | None, progress: Callable[[str], object]
) -> None:
    """Wait until the tasks that hold the nodes run, or failed to start. Start the program beside each that runs: its
    task ends without. Raises ConflictError with the reason."""
    until, said = None if seconds is None else clock.steady() + seconds, ""
    backoff = Backoff(0.1, 2.0)
    while True:
        tasks = client.tasks(job)
        states = [each.state for each in tasks]
        if TaskState.SUCCEEDED in states or TaskState.STOPPED in states:  # the node is not at fault
            raise ConflictError(
                f"check {job}: a task ended that held a node, before all nodes were free; begin a new check, perhaps "
                "of fewer nodes"
            )
        sessions.open(each.task for each in tasks if each.state is TaskState.RUNNING)
        if all(state is TaskState.RUNNING or state.ended for state in states):
            return
        view = client.job(job, specification=False)
        why = next((part.reason.message for part in view.components.values() if part.reason), "")
        why = why or (view.reason.message if view.reason else "")
        if view.state.ended or (until is not None and clock.steady() > until):
            raise ConflictError(f"check {job}: its nodes were not free ({why}); `--wait` waits for them")
        if why and why != said:
            progress(f"waits: {why}")
            said = why
        clock.sleep(backoff.next())


class _Sessions:
    """The program on each node. ``found``: sessions by node; ``missing``: node → why it has none. Complete once
    ``open_rest`` has returned."""

    def __init__(self, client: Client, job: str, nodes: Sequence[HeldNode]) -> None:
        self.found: dict[str, CheckSession] = {}
        self.missing: dict[str, str] = {}
        self._client, self._job = client, job
        self._left = {each.task: each for each in nodes}
        self._pool = ThreadPoolExecutor(max(1, len(nodes)), "check")
        self._opening: list[Future[None]] = []

    def __enter__(self) -> _Sessions:
        return self

    def __exit__(self, *_: object) -> None:
        self._pool.shutdown(cancel_futures=True)
        for session in self.found.values():
            session.close()

    def open(self, tasks: Iterable[str]) -> None:
        """Begin to start the program beside those of the tasks where it was not started yet."""
        nodes = [self._left.pop(task) for task in tasks if task in self._left]
        self._opening += [self._pool.submit(self._open, each) for each in nodes]

    def open_rest(self) -> None:
        """Start it also beside the tasks that do not run, which says why it cannot be started, and wait for all."""
        self.open([*self._left])
        for each in self._opening:
            each.result()

    def _open(self, node: HeldNode) -> None:
        try:
            self.found[node.name] = CheckSession(self._client.execute(self._job, node.task, program()))
        except GrassError as error:
            self.missing[node.name] = str(error)[:500]
