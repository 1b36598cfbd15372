"""What the runtime needs to start attempts: their launches, their environment, their files. Used by ``NodeAgent``.

It decides nothing about which attempts start (``reconcile`` does), and reports nothing: refusals are values.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable, Iterator, Mapping
from functools import partial
from typing import NamedTuple

from grass.errors import InputError
from grass.model.job import Condition, runtime_of
from grass.model.namespace import refused
from grass.model.reasons import Reason, ReasonCode
from grass.model.runtime import RuntimeName
from grass.node_config import NodeHome
from grass.process_settings import present
from grass.system import clock
from grass.wire.desired import DesiredAttempt
from grass.wire.keys import LaunchKey
from grass.wire.launch import LaunchTemplate
from node.agent import environment, folders
from node.agent.machine import Machine
from node.agent.reconcile import launch_key
from node.membership.service import Service
from node.runtime.protocol import Runtime, Start
from node.runtime.timers import Timers

log = logging.getLogger(__name__)


class PodFiles(NamedTuple):
    """The files that pods of a launch see. ``trouble``: why they are not those that they should see."""

    files: Mapping[str, str]
    trouble: str = ""


class Starts:
    """Gives the runtime what it needs, and starts attempts. ``timers``: of the loop.

    What follows other tasks starts once this node sees in the share what those have written on other nodes."""

    def __init__(self, config: NodeHome, runtime: Runtime, machine: Machine, service: Service, timers: Timers) -> None:
        self._config = config
        self._runtime = runtime
        self._machine = machine
        self._service = service
        self._timers = timers
        self._pods: dict[str, PodFiles] = {}
        """By launch."""
        self._located: dict[str, str] = {}
        """Attempt → address of its pod."""
        self._defined: dict[str, LaunchTemplate] = {}
        """Launches that the runtime has."""
        self._held = False
        self._unseen: set[str] = set()
        """Launches whose tasks may not yet see what they follow."""

    def hold(self, held: bool) -> None:
        """Hold back the attempts that wait in the runtime, and those that are started later; or release them."""
        self._held = held
        for name, template in self._defined.items():
            self.define(name, template)

    def define(self, name: str, template: LaunchTemplate) -> None:
        """Give the runtime a launch, or a newer version of it."""
        launch = environment.launch(self._config, template, self._machine.environment, present())
        if launch.runtime is RuntimeName.KUBERNETES:
            launch = launch._replace(files=self._pod_files(name, template))
        self._runtime.define({name: launch._replace(width=0) if self._held or name in self._unseen else launch})
        self._defined[name] = template

    def _define_first(self, name: str, template: LaunchTemplate) -> None:
        wait = self._machine.seen_after() if name not in self._defined and _follows(template) else 0.0
        if wait:
            self._unseen.add(name)
            self._timers.at(clock.steady() + wait, partial(self._seen, name))
        self.define(name, template)

    def _seen(self, name: str) -> None:
        self._unseen.discard(name)
        if name in self._defined:
            self.define(name, self._defined[name])

    def _pod_files(self, name: str, template: LaunchTemplate) -> Mapping[str, str]:
        """Return the files of its job that a pod sees. Pods keep what they saw last if the files become too large."""
        try:
            self._pods[name] = PodFiles(self._service.pod_files(template))
        except InputError as error:
            files, said = self._pods.get(name, PodFiles({}))
            if not said:
                log.error("job %s: %s", template.job_id, error)
            self._pods[name] = PodFiles(files, str(error))
        return self._pods[name].files

    def located(self, key: str, address: str) -> bool:
        """Take the address of a pod. Return whether it is news."""
        before = self._located.get(key)
        self._located[key] = address
        return before != address

    def gone(self, key: str) -> None:
        self._located.pop(key, None)

    def tell(
        self,
        keys: Iterable[str],
        entries: Mapping[str, DesiredAttempt],
        launches: Mapping[str, LaunchTemplate],
        job_ids: Collection[str] = (),
    ) -> None:
        """Have pods told what has changed for them. ``keys``: attempts that the runtime has. ``job_ids``: jobs whose
        memberships or addresses have changed."""
        changed: dict[str, list[str]] = {}
        for key in keys:
            name = launch_key(key)
            if key in entries and name in launches:
                changed.setdefault(name, []).append(key)
        for name, known in changed.items():
            template = launches[name]
            if template.job_id in job_ids or name not in self._defined:
                self.define(name, template)
            if (pods := self._pods.get(name)) is not None and pods.files:
                self._runtime.start(list(self._told(known, name, template, entries)))

    def _told(
        self, keys: Iterable[str], name: str, template: LaunchTemplate, entries: Mapping[str, DesiredAttempt]
    ) -> Iterator[Start]:
        for key in keys:
            try:
                yield self._in_pod(key, name, entries[key], template)
            except InputError as error:
                log.info("attempt %s: its pod keeps what it was told last: %s", key, error)

    def _in_pod(self, key: str, name: str, entry: DesiredAttempt, template: LaunchTemplate) -> Start:
        if self._pods[name].trouble:
            raise InputError(self._pods[name].trouble)
        if not self._pods[name].files:
            return environment.start(key, name, template, entry, self._machine.visible_gpus)
        added = self._service.pod_additions(key, template, entry, self._located.get(key, ""))
        return environment.start(key, name, template, entry, self._machine.visible_gpus, added)

    def keep(self, names: Iterable[str]) -> None:
        """Forget all launches but these."""
        kept = set(names)
        self.drop([name for name in self._defined if name not in kept])

    def drop(self, names: Iterable[str]) -> None:
        """Forget these launches."""
        gone = [name for name in names if self._defined.pop(name, None)]
        for name in gone:
            self._pods.pop(name, None)
        if gone:
            self._runtime.drop(gone)

    def let_go(self, tasks: Iterable[str]) -> None:
        """Remove what is kept of tasks that do not start here again."""
        self._runtime.let_go(tasks)

    def start(
        self, keys: Iterable[str], entries: Mapping[str, DesiredAttempt], launches: Mapping[str, LaunchTemplate]
    ) -> dict[str, Reason]:
        """Start what can start. Return why the others cannot."""
        starts: list[Start] = []
        fresh: list[str] = []
        refused: dict[str, Reason] = {}
        for key in keys:
            name = launch_key(key)
            prepared = self._prepare(key, name, entries[key], launches[name], fresh)
            if isinstance(prepared, Reason):
                refused[key] = prepared
            else:
                starts.append(prepared)
        if starts:
            self._runtime.start(starts)
        for name in fresh:  # tasks of a job without ports expect the file, too
            job_id = LaunchKey.parse(name).job_id
            self._service.late_files.write(
                job_id, "empty addresses", partial(folders.make_addresses, self._config, job_id)
            )
        return refused

    def _prepare(
        self, key: str, name: str, entry: DesiredAttempt, template: LaunchTemplate, fresh: list[str]
    ) -> Start | Reason:
        """Return what the runtime starts, or why the attempt cannot start. Adds a launch that is new to ``fresh``.

        A failure here ends this attempt alone: other jobs run on this node, too.
        """
        try:
            runtime = runtime_of(template.component, self._config.node.runtimes)
            if runtime not in self._config.node.runtimes:
                message = f"cannot start: node {self._config.node.name} does not offer the runtime {runtime.value}"
                return Reason(ReasonCode.CANNOT_START, message)
            in_pods, share = runtime is RuntimeName.KUBERNETES, bool(self._config.node.claim)
            if in_pods and (why := refused(template.component, share=share)):
                return Reason(ReasonCode.CANNOT_START, f"cannot start in a Kubernetes namespace: {why}")
            if self._defined.get(name) is not template:
                self._define_first(name, template)
                fresh.append(name)
            if entry.ports and (port := self._machine.taken(entry.ports)):
                return Reason(ReasonCode.PORT_TAKEN, f"port {port} of this node is in use by another program")
            if in_pods:
                return self._in_pod(key, name, entry, template)
            # only frameworks look at what the task inherits
            renders = template.component.framework is not None
            shell = environment.of_shell(self._config, template, self._machine.environment) if renders else {}
            added = self._service.additions(key, template, entry, shell)
            return environment.start(key, name, template, entry, self._machine.visible_gpus, added)
        except InputError as error:
            return Reason(ReasonCode.CANNOT_START, f"cannot start: {error}")
        except Exception as error:
            log.exception("attempt %s: cannot start because of an internal error", key)
            said = f"{type(error).__name__}: {error}"
            return Reason(ReasonCode.CANNOT_START, f"cannot start: internal error of the node-agent ({said})")


def _follows(template: LaunchTemplate) -> bool:
    """Return whether its tasks may read what tasks that ended just now have written."""
    return bool(template.awaited) or Condition.SUCCEEDED in template.component.depends_on.values()
