"""Reads Grass's own job files. ``docs/reference/job-file.md`` explains every key.

Used by this package and ``grass.manifest.foreign``.
"""

from __future__ import annotations

import re
from typing import Any

from grass.manifest import (
    after,
    autoscale,
    containers,
    elastic,
    ending,
    matrix,
    notify,
    placement,
    quantities,
    resource_fields,
    values,
)
from grass.manifest.entries import read_rows
from grass.manifest.fields import Fields, Problems
from grass.manifest.isolation import read_only_data
from grass.manifest.restart import read_restart
from grass.model.amounts import show_memory
from grass.model.job import (
    DEFAULT_GRACE,
    DEFAULT_OUTPUT_LIMIT,
    LEAST_OUTPUT_LIMIT,
    LONGEST_NOTICE,
    MAX_PRIORITY,
    Component,
    Condition,
    Container,
    ExitCodes,
    Job,
    Keep,
    Notice,
    NoticeSignal,
    Ready,
    Replace,
    StopSignal,
)
from grass.model.notify import OnHang

MAX_REPLICAS = 100_000
_REFERENCE = re.compile(r"\$\{?([A-Za-z_][A-Za-z0-9_]*)\}?")
"""What a shell replaces by the value of a variable."""
JOB_KEYS = (
    *("components", "timeout", "priority", "tags", "gang", "place", "together"),
    *("preemptible", "after", "rendezvous", "on_end", "on_hang", "data"),
    *ending.KEYS,
)
"""Keys of a schedule that are also keys of its jobs."""

_LEAVE_AT_ONCE = ("torchrun", "horovod")
UNKNOWN_COMMAND: str | tuple[str, ...] = ""
_NOT_RESOURCES = (
    *(
        "command",
        "replicas",
        "min",
        "max",
        "unit",
        "autoscale",
        "parallelism",
        "ports",
        "depends_on",
        "ready",
        "env",
        "inherit_env",
        "cwd",
        "restart",
        "grace",
        "stop_signal",
        "keep",
        "check",
        "replace",
        "notice",
        "timeout",
        "output",
    ),
    *(
        "image",
        "runtime",
        "container",
        "where",
        "avoid",
        "spread",
        "pack",
        "matrix",
        "from",
        "framework",
        "rendezvous",
        "web",
    ),
)
_NO_COMMAND = "is missing; it says what the tasks run"


def read_job(fields: Fields, warnings: list[str], *, name: str | None = None) -> Job:
    """Return the job in ``fields``. ``name``: given by a schedule; None: the name is in the file."""
    problems = fields.problems
    components, meeting = _read_components(fields, warnings)
    policy, metric = placement.read_place(fields)
    called = fields.require("name", values.name, "") if name is None else name
    waits_for = after.read_after(fields)
    after.refuse_itself(fields, called, waits_for)
    success, how_it_ends = ending.read_ending(fields, warnings, components)
    gang = tuple(dict.fromkeys([*placement.read_gang(fields, tuple(components)), *meeting]))
    after.check_tasks(problems, waits_for, components, bool(gang))
    return Job(
        name=called,
        components=components,
        success=success or tuple(components),
        timeout=fields.read("timeout", quantities.duration, None),
        fail_fast=ending.read_fail_fast(fields, components),
        priority=fields.read("priority", values.whole(0, MAX_PRIORITY), 0),
        tags=read_tags(fields, problems),
        gang=gang,
        policy=policy,
        metric=metric,
        together=fields.read("together", placement.level, None),
        preemptible=fields.read("preemptible", values.truth, False),
        after=waits_for,
        ending=how_it_ends,
        on_end=notify.read_on_end(fields),
        on_hang=fields.read("on_hang", values.one_of(OnHang), OnHang.NOTIFY),
        read_only_data=read_only_data(fields),
    )


def _read_components(fields: Fields, warnings: list[str]) -> tuple[dict[str, Component], list[str]]:
    """Return the components, and the names of those whose tasks start together because they meet, or are named."""
    components: dict[str, Component] = {}
    rendezvous, gang = fields.read("rendezvous", values.truth, False), []
    for name, section in component_sections(fields):
        part = _read_component(name, section, warnings)
        meeting = elastic.read_rendezvous(section, part, of_job=rendezvous)
        if meeting is not None and part.min is None and part.max is None:
            gang.append(name)
        components[name] = meeting or part
        section.done()
    return components, [*gang, *elastic.named_together(components)]


def component_sections(fields: Fields) -> list[tuple[str, Fields]]:
    """Return name and fields of each component. Report missing components and bad names as problems."""
    problems = fields.problems
    section = fields.section("components")
    if section is None:
        if not fields.has("components") and fields.intact:
            problems.add(fields.at("components"), "is missing; a job needs at least one component")
        return []
    found = []
    for name, content in section.entries():
        component = Fields(content, section.at(name), problems, lenient=fields.lenient)
        found.append((section.parsed(section.at(name), values.component_name, name, name), component))
    if not found:
        problems.add(section.path, "must not be empty; a job needs at least one component")
    return found


def _read_component(name: str, fields: Fields, warnings: list[str]) -> Component:
    ports, env = _read_ports(fields), _read_env(fields, warnings)
    combinations, rows = matrix.read_matrix(fields, env), read_rows(fields, env)
    runtime, image, container = containers.read(fields, warnings)
    resources, gpu = resource_fields.read_task(fields, _NOT_RESOURCES)
    output_limit, output_file = _read_output(fields)
    command = fields.require("command", values.command, UNKNOWN_COMMAND, _NO_COMMAND)
    sizes = elastic.read_sizes(fields, combinations, rows.count)
    framework = elastic.read_framework(fields)
    return Component(
        name=name,
        command=command,
        replicas=sizes.replicas,
        min=sizes.least,
        max=sizes.most,
        unit=sizes.unit,
        autoscale=autoscale.read_autoscale(fields, sizes, framework),
        parallelism=fields.read("parallelism", values.whole(1, MAX_REPLICAS), None),
        resources=resources,
        gpu=gpu,
        ports=ports,
        depends_on=_read_depends_on(fields),
        ready=_read_ready(fields, ports),
        env=env,
        cwd=fields.read("cwd", values.text, None),
        restart=read_restart(fields, warnings, resources.memory),
        exit_codes=fields.read("exit_codes", values.one_of(ExitCodes), ExitCodes.SPECIAL),
        grace=fields.read("grace", quantities.duration_or_zero, DEFAULT_GRACE),
        stop_signal=fields.read("stop_signal", _stop_signal, StopSignal.TERM),
        notice=_read_notice(fields),
        timeout=fields.read("timeout", quantities.duration, None),
        output_limit=output_limit,
        output_file=output_file,
        check=_read_check(fields),
        replace=_read_replace(fields, combinations, rows.count),
        keep=_read_keep(fields, resources.memory, container),
        matrix=combinations,
        entries=rows.entries,
        columns=rows.columns,
        where=placement.read_where(fields),
        avoid=placement.read_avoid(fields),
        spread=fields.read("spread", placement.level, None),
        pack=fields.read("pack", placement.level, None),
        runtime=runtime,
        image=image,
        container=container,
        framework=framework,
        web=_read_web(fields, ports),
    )


def _read_web(fields: Fields, ports: tuple[str, ...]) -> str | None:
    web = fields.read("web", values.port_name, None)
    if web is not None and web not in ports:
        known = f"it has {', '.join(ports)}" if ports else "it has none"
        fields.problems.add(fields.at("web"), f"unknown port `{web}`; {known}")
    return web


def _read_check(fields: Fields) -> int | None:
    """Read ``before``, or ``{before: LEVEL}``."""
    if isinstance(fields.raw("check"), str):
        return fields.read("check", _before, None)
    section = fields.section("check")
    if section is None:
        return None
    level = section.require("before", values.whole(0, 1), 0, "is missing; it says at which level nodes are checked")
    section.done()
    return level


def _read_replace(fields: Fields, combinations: dict[str, tuple[str, ...]], rows: int) -> Replace | None:
    found = fields.read("replace", values.one_of(Replace), None)
    if found is not None and (combinations or rows):
        key = "matrix" if combinations else "from"
        fields.problems.add(fields.at("replace"), f"cannot be combined with `{key}`, whose tasks have different work")
    return found


def _before(value: Any) -> int:
    if value != "before":
        raise values.Wrong(f"must be `before`, or a mapping such as {{before: 1}}; got {value!r}")
    return 0


def _stop_signal(value: Any) -> StopSignal:
    if value in ("KILL", "STOP"):
        raise values.Wrong(f"no task can catch {value}; use {', '.join(StopSignal)}, or `grace: 0` to kill at once")
    return values.one_of(StopSignal)(value)


def _read_keep(fields: Fields, memory: int, container: Container) -> Keep | None:
    keep = fields.read("keep", values.one_of(Keep), None)
    if keep is not None and not memory:
        fields.problems.add(fields.at("keep"), "needs `resources.memory`, which is the most that is kept")
    if keep is not None and container.shm is not None:
        why = "cannot be combined with `container.shm`: /dev/shm is limited by `resources.memory` then"
        fields.problems.add(fields.at("keep"), f"{why}; leave out `container.shm`")
    return keep


def _read_output(fields: Fields) -> tuple[int, str | None]:
    """Return the limit, and the pattern of files. ``output_names`` checks the pattern."""
    with fields.within("output") as section:
        limit = section.read("limit", quantities.memory, DEFAULT_OUTPUT_LIMIT)
        if limit < LEAST_OUTPUT_LIMIT:
            section.problems.add(section.at("limit"), f"must be at least {show_memory(LEAST_OUTPUT_LIMIT)}")
        file = section.read("file", values.text, None)
    return limit, file


def _read_ports(fields: Fields) -> tuple[str, ...]:
    ports: dict[str, str] = {}
    for path, item in fields.items("ports"):
        port = fields.parsed(path, values.port_name, item, "")
        variable = "GRASS_PORT_" + port.upper().replace("-", "_")
        if port and variable in ports:
            same = (
                "is named twice"
                if ports[variable] == port
                else f"is {variable} in the environment, as `{ports[variable]}`"
            )
            fields.problems.add(path, f"the port `{port}` {same}")
        elif port:
            ports[variable] = port
    return tuple(ports.values())


def _read_depends_on(fields: Fields) -> dict[str, Condition]:
    if isinstance(fields.raw("depends_on"), (list, tuple)):
        names = [fields.parsed(path, values.component_name, item, "") for path, item in fields.items("depends_on")]
        return {name: Condition.RUNNING for name in names if name}
    condition = values.one_of(Condition)
    return {
        name: fields.parsed(path, condition, content, Condition.RUNNING)
        for path, name, content in fields.named("depends_on")
    }


def _read_ready(fields: Fields, ports: tuple[str, ...]) -> Ready | None:
    section = fields.section("ready")
    if section is None:
        return None
    checks = [check for check in ("port", "command", "log") if section.has(check)]
    if len(checks) != 1:
        found = f"got {', '.join(checks)}" if checks else "got none"
        section.problems.add(section.path, f"must have exactly one of port, command, log; {found}")
    ready = Ready(
        port=section.read("port", values.port_name, None),
        command=section.read("command", values.command, None),
        log=section.read("log", values.pattern, None),
        timeout=section.read("timeout", quantities.duration, None),
    )
    if ready.port is not None and ready.port not in ports:
        known = f"it has {', '.join(ports)}" if ports else "it has none"
        section.problems.add(section.at("port"), f"unknown port `{ready.port}`; {known}")
    section.done()
    return ready


def _read_notice(fields: Fields) -> Notice | None:
    section = fields.section("notice")
    if section is None:
        return None
    notice = Notice(
        seconds=section.read("for", quantities.duration, 60.0),
        signal=section.read("signal", values.one_of(NoticeSignal), None),
        command=section.read("command", values.command, None),
    )
    if notice.seconds > LONGEST_NOTICE:
        section.problems.add(section.at("for"), f"must be at most {LONGEST_NOTICE / 3600:g}h")
    framework = fields.raw("framework")
    framework = framework.get("name") if isinstance(framework, dict) else framework
    if framework in _LEAVE_AT_ONCE:
        why = f"cannot be combined with {framework}, whose workers are stopped as soon as the membership changes"
        section.problems.add(section.path, f"{why}; let them save often")
    section.done()
    return notice


def _read_env(fields: Fields, warnings: list[str]) -> dict[str, str]:
    env: dict[str, str] = {}
    for path, name, content in fields.named("env"):
        if fields.parsed(path, values.variable_name, name, ""):
            env[name] = fields.parsed(path, values.scalar_text, content, "")
            if used := _unreplaced(name, env[name]):
                warnings.append(
                    f"{path}: has {used} as it is written, because no shell reads it; set {name} in the command, or "
                    f"with `--env {name}=…`, which your shell reads"
                )
    _check_inherited(fields, env)
    return env


def _unreplaced(name: str, value: str) -> str:
    """Return what a shell would replace in the value of a variable, and whoever wrote it expects to be replaced."""
    found = _REFERENCE.finditer(value)
    return next((each[0] for each in found if each[1] in (name, "HOME") or each[1].startswith("GRASS_")), "")


def _check_inherited(fields: Fields, env: dict[str, str]) -> None:
    """Check ``inherit_env``. The client has put the values into ``env`` (``grass.manifest.shell``)."""
    for path, item in fields.items("inherit_env"):
        name = fields.parsed(path, values.inherited_name, item, "")
        if name and name not in env:
            fields.problems.add(path, f"has no value under `env`; the client must send the value of {name}")


def read_tags(fields: Fields, problems: Problems) -> dict[str, str]:
    tags: dict[str, str] = {}
    for path, name, content in fields.named("tags"):
        if not name.strip() or len(name) > 255:
            problems.add(fields.at("tags"), "a tag's name must have 1 to 255 characters")
        tag = fields.parsed(path, values.scalar_text, name, "")
        tags[tag] = fields.parsed(path, values.scalar_text, content, "")
    return tags
